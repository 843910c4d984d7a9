"""The working tree, looked at and written to without ever following a link.

Every path is walked from the worktree's root one directory at a time, each opened relative to the one above and never
through a link (``openat`` with ``O_NOFOLLOW``).  So a directory that is swapped for a link while we work cannot lead a
write out of the repository: the walk fails, or it goes on in the directory that was there.  Where the system has no
``dir_fd`` the same walk is made with ``lstat`` and whole paths.

A file is written beside its place under a name of ours, synced, and renamed over it; what stands there is old or new,
never half.  Names of ours are ``.gitsession-<token>-<number>``, so that what a kill left can be found again, and is not
taken for the user's.
"""

# pathlib knows neither bytes nor dir_fd.
# ruff: noqa: PTH116, PTH118, PTH208

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gitsession import seam
from gitsession.errors import RepositoryError
from gitsession.git.temporaries import prefix
from gitsession.git.trees import EXECUTABLE, FILE, LINK, TREE, storable

OTHER: Final = 0
"""The ``mode`` of what git has no mode for: a FIFO, a socket, a device."""

_HAVE_DIR_FD = os.open in os.supports_dir_fd
_OPEN_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_OPEN_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
# To sync a file takes no right to write to it, which a read-only one does not give; but on Windows.
_OPEN_TO_SYNC = os.O_RDWR if os.name == "nt" else _OPEN_FILE
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_CHUNK = 1024 * 1024
CHANGED: Final = "changed while the restore ran"
_BATCH_FILES = 512
_BATCH_BYTES = 64 * 1024 * 1024
# From here on one sync of the file system costs less than one of each file (measured: 5,000 files 0.6 s against 1.8 s).
_SYNC_ALL_FROM = 32


class Obstructed(Exception):
    """A component of a path is no directory; ``path`` is that component's path."""

    def __init__(self, path: bytes) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True)
class Found:
    """What stands at a path: ``mode`` as git has it (``TREE`` for a directory; ``OTHER``), and its stat data."""

    mode: int
    status: os.stat_result

    @property
    def signature(self) -> tuple[int, ...]:
        """Changes when somebody writes to, replaces or re-modes what stands there.

        Not when a hard link to it comes or goes, as the change time would: that may be our own doing.
        """
        facts = self.status
        return facts.st_ino, facts.st_dev, facts.st_mode, facts.st_size, facts.st_mtime_ns


class _Directory:
    """An open directory: a descriptor where the system has ``dir_fd``, its path elsewhere."""

    def __init__(self, path: bytes, fd: int | None) -> None:
        self._path = path
        self.fd = fd

    @classmethod
    def open(cls, path: bytes) -> _Directory:
        return cls(path, os.open(path, _OPEN_DIRECTORY) if _HAVE_DIR_FD else None)

    def at(self, name: bytes) -> bytes:
        """``name`` as the calls that take ``dir_fd=self.fd`` want it."""
        return name if self.fd is not None else os.path.join(self._path, name)

    def child(self, name: bytes) -> _Directory:
        """The directory ``name`` in this one; ``NotADirectoryError`` for anything else, a link to one included."""
        path = os.path.join(self._path, name)
        if self.fd is None:
            if not stat.S_ISDIR(self.lstat(name).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
            return _Directory(path, None)
        try:
            return _Directory(path, os.open(name, _OPEN_DIRECTORY, dir_fd=self.fd))
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise NotADirectoryError(errno.ENOTDIR, "a link", path) from None
            raise

    def lstat(self, name: bytes) -> os.stat_result:
        return os.stat(self.at(name), dir_fd=self.fd, follow_symlinks=False)

    def names(self) -> list[bytes]:
        return [os.fsencode(name) for name in os.listdir(self.fd if self.fd is not None else self._path)]

    def sync(self) -> None:
        if self.fd is not None:
            os.fsync(self.fd)

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


@dataclass(frozen=True)
class _Staged:
    """A file written beside its place; ``before`` is what stood there (``None``: nothing)."""

    path: bytes
    temporary: bytes
    before: Found | None


class Worktree:
    """The files below ``root``.  Paths are repository paths; a path is absent when a parent of it is a link.

    ``token`` (8 to 12 hex digits where anything is written) goes into the names of temporary files.
    ``executable_bits`` is git's ``core.fileMode``.
    """

    def __init__(self, root: Path, token: str, *, object_format: str = "sha1", executable_bits: bool = True) -> None:
        self._place = root
        self._token = token
        self._object_format = object_format
        self._root = _Directory.open(os.fsencode(root))
        self._prefix = prefix(token)
        self._new_hash = getattr(hashlib, object_format)
        self._executable_bits = executable_bits
        self._made = 0
        self._parent: tuple[bytes, _Directory] | None = None
        self._staged: list[_Staged] = []
        self._staged_bytes = 0
        self._unsynced: set[bytes] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for file in self._staged:
            self._discard(file)
        self._forget_parent()
        self._root.close()

    def another(self, number: int) -> Worktree:
        """One for another thread; ``number`` keeps its temporary names apart."""
        return Worktree(
            self._place,
            f"{self._token}-{number}",
            object_format=self._object_format,
            executable_bits=self._executable_bits,
        )

    # -- looking -----------------------------------------------------------------------------------------

    def look(self, path: bytes) -> Found | None:
        """What stands at ``path``; ``None`` for nothing.  ``Obstructed`` if a parent is there and no directory."""
        try:
            status = self._directory(_dirname(path)).lstat(_basename(path))
        except FileNotFoundError:
            return None
        return Found(_mode_of(status), status)

    def holds(self, path: bytes, mode: int, oid: str) -> bool:
        """Whether exactly this file or link, by git's mode and the id of its bytes, stands at ``path``."""
        found = self.look(path)
        return found is not None and self.same_mode(found.mode, mode) and self.blob_id(path, found) == oid

    def same_mode(self, a: int, b: int) -> bool:
        """Whether two modes agree as far as this file system can tell."""
        return a == b or (not self._executable_bits and stat.S_ISREG(a) and stat.S_ISREG(b))

    def blob_id(self, path: bytes, found: Found) -> str | None:
        """The object id of a file's bytes or of a link's target; ``None`` for what has none."""
        directory, name = self._directory(_dirname(path)), _basename(path)
        if found.mode == LINK:
            target = os.fsencode(os.readlink(directory.at(name), dir_fd=directory.fd))
            return self._hash(len(target), [target])
        if not stat.S_ISREG(found.mode):
            return None
        fd = os.open(directory.at(name), _OPEN_FILE, dir_fd=directory.fd)
        try:
            # A file that changes its length meanwhile gets an id that fits nothing, which is the answer wanted.
            return self._hash(os.fstat(fd).st_size, iter(lambda: os.read(fd, _CHUNK), b""))
        finally:
            os.close(fd)

    def read(self, path: bytes) -> tuple[bytes, str]:
        """All bytes of a regular file, and their object id."""
        directory = self._directory(_dirname(path))
        fd = os.open(directory.at(_basename(path)), _OPEN_FILE, dir_fd=directory.fd)
        with open(fd, "rb", buffering=0) as file:
            data = file.readall()
        return data, self._hash(len(data), [data])

    def target(self, path: bytes) -> bytes:
        """Where a symbolic link points."""
        directory = self._directory(_dirname(path))
        return os.fsencode(os.readlink(directory.at(_basename(path)), dir_fd=directory.fd))

    def below(self, path: bytes) -> Iterator[bytes]:
        """Everything below a directory that is no directory; of a nested repository only its ``.git``."""
        pending = self._inside(path)
        while pending:
            inner = pending.pop()
            found = self.look(inner)
            if found is not None and found.mode == TREE and _basename(inner) != b".git":
                pending += self._inside(inner)
            elif found is not None:
                yield inner

    def hollow(self, path: bytes) -> Iterator[bytes]:
        """The directories at and below a directory that have nothing in them; a nested repository's are its own."""
        names = self._directory(path).names()
        if not names:
            yield path
        for name in sorted(names):
            if name != b".git" and self.is_directory(_join(path, name)):
                yield from self.hollow(_join(path, name))

    def is_empty(self, path: bytes) -> bool:
        """Whether a directory without anything in it stands at ``path``."""
        with suppress(OSError, Obstructed):
            return not self._directory(path).names()
        return False

    def is_directory(self, path: bytes) -> bool:
        """Whether a directory stands at ``path``."""
        with suppress(OSError, Obstructed):
            found = self.look(path)
            return found is not None and found.mode == TREE
        return False

    # -- writing -----------------------------------------------------------------------------------------

    def stage(self, path: bytes, data: Iterable[bytes], mode: int, before: Found | None) -> None:
        """Write a file beside ``path``; ``place`` puts it there.  Missing parents are made.

        Permission bits are those of the file that stands there, else what the umask leaves; of ``mode`` only
        whether it may be executed counts.
        """
        _check(path)
        directory = self._directory(_dirname(path), make=True)
        temporary = self._temporary_name()
        kept = stat.S_IMODE(before.status.st_mode) if before and stat.S_ISREG(before.mode) else None
        fresh = 0o777 if mode == EXECUTABLE else 0o666
        seam.reach("restore.write")
        fd = os.open(directory.at(temporary), _CREATE, fresh if kept is None else 0o600, dir_fd=directory.fd)
        staged = _Staged(path, temporary, before)
        try:
            for chunk in data:
                self._staged_bytes += _write(fd, chunk)
            if kept is not None and _HAVE_DIR_FD:
                os.fchmod(fd, _executable(kept) if mode == EXECUTABLE else kept & ~0o111)
        except BaseException:
            self._discard(staged)
            raise
        finally:
            os.close(fd)
        self._staged.append(staged)

    @property
    def batch_full(self) -> bool:
        """Whether enough is staged to be put in its place."""
        return len(self._staged) >= _BATCH_FILES or self._staged_bytes >= _BATCH_BYTES

    def place(self) -> list[tuple[bytes, str]]:
        """Sync what is staged and rename it into place; what could not be placed, with the reason.

        A path at which something else stands by now is left alone.
        """
        staged, self._staged, self._staged_bytes = self._staged, [], 0
        self._sync_files(staged)
        left = []
        for file in staged:
            seam.reach("restore.replace")
            try:
                reason = self._rename(file)
            except (OSError, Obstructed) as error:
                reason = reason_of(error)
            if reason is not None:
                left.append((file.path, reason))
                self._discard(file)
        return left

    def place_link(self, path: bytes, target: bytes, before: Found | None) -> str | None:
        """Put a symbolic link at ``path``; the reason if that could not be done."""
        _check(path)
        directory = self._directory(_dirname(path), make=True)
        staged = _Staged(path, self._temporary_name(), before)
        seam.reach("restore.link")
        os.symlink(os.fsdecode(target), os.fsdecode(directory.at(staged.temporary)), dir_fd=directory.fd)
        reason = self._rename(staged)
        if reason is not None:
            self._discard(staged)
        return reason

    def set_executable(self, path: bytes, executable: bool) -> None:
        """Change only whether a file may be executed; its bytes and times stay."""
        if not _HAVE_DIR_FD:
            return
        directory = self._directory(_dirname(path))
        seam.reach("restore.chmod")
        fd = os.open(_basename(path), _OPEN_FILE, dir_fd=directory.fd)
        try:
            bits = stat.S_IMODE(os.fstat(fd).st_mode)
            os.fchmod(fd, _executable(bits) if executable else bits & ~0o111)
        finally:
            os.close(fd)

    def remove(self, path: bytes, before: Found) -> str | None:
        """Remove the file or link that was found at ``path``; the reason if something else stands there by now.

        It is moved aside and looked at once more: what somebody saved until then is put back, not removed.
        """
        _check(path)
        now = self.look(path)
        if now is None or now.signature != before.signature:
            return None if now is None else CHANGED
        directory, aside = self._directory(_dirname(path)), self._temporary_name()
        here, there = directory.at(_basename(path)), directory.at(aside)
        seam.reach("restore.remove")
        os.rename(here, there, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
        self._unsynced.add(_dirname(path))
        status = directory.lstat(aside)
        changed = Found(_mode_of(status), status).signature != before.signature
        seam.reach("restore.unlink")
        if changed and self.look(path) is None:
            os.rename(there, here, src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
        else:
            os.unlink(there, dir_fd=directory.fd)
        return CHANGED if changed else None

    def make_directory(self, path: bytes) -> None:
        """Make a directory and its parents; fine if it is there."""
        _check(path)
        seam.reach("restore.mkdir")
        self._directory(path, make=True)

    def remove_directory(self, path: bytes) -> bool:
        """Remove a directory if it is there, empty, and not the one this process stands in; whether it is gone."""
        try:
            directory = self._directory(_dirname(path))
            status = directory.lstat(_basename(path))
            with suppress(OSError):
                if os.path.samestat(status, os.stat(".")):
                    return False
            self._forget_parent()
            seam.reach("restore.rmdir")
            directory = self._directory(_dirname(path))
            os.rmdir(directory.at(_basename(path)), dir_fd=directory.fd)
        except FileNotFoundError:
            return True
        except (OSError, Obstructed):
            return False
        self._unsynced.add(_dirname(path))
        return True

    def remove_empty(self, path: bytes) -> None:
        """Remove a directory that holds nothing but directories; where something else is in it, it stays."""
        directories = [path]
        for directory in directories:
            for inner in self._inside(directory):
                found = self.look(inner)
                if found is not None and found.mode == TREE:
                    directories.append(inner)
        for directory in reversed(directories):
            self.remove_directory(directory)

    def sync(self) -> None:
        """Make names that came, went or moved durable."""
        self._forget_parent()
        unsynced, self._unsynced = self._unsynced, set()
        seam.reach("restore.sync")
        if len(unsynced) >= _SYNC_ALL_FROM and _sync_all():
            return
        for path in unsynced:
            with suppress(FileNotFoundError, Obstructed):
                self._directory(path).sync()

    def sweep(self, directories: Iterable[bytes]) -> None:
        """Remove what a killed restore of the same token left in these directories, where we may."""
        for path in directories:
            with suppress(FileNotFoundError, PermissionError, Obstructed):
                directory = self._directory(path)
                for name in directory.names():
                    if name.startswith(self._prefix):
                        os.unlink(directory.at(name), dir_fd=directory.fd)

    # -- inside ------------------------------------------------------------------------------------------

    def _directory(self, path: bytes, *, make: bool = False) -> _Directory:
        """The open directory ``path`` (``b""``: the root), kept open until another one is asked for."""
        if not path:
            return self._root
        if self._parent is not None and self._parent[0] == path:
            return self._parent[1]
        self._forget_parent()
        current = self._root
        done = 0
        try:
            for name in path.split(b"/"):
                done += len(name) + 1
                inner = self._step(current, name, path[: done - 1], make)
                if current is not self._root:
                    current.close()
                current = inner
        except BaseException:
            if current is not self._root:
                current.close()
            raise
        self._parent = path, current
        return current

    def _inside(self, path: bytes) -> list[bytes]:
        """The paths directly in a directory, the last first."""
        return [_join(path, name) for name in sorted(self._directory(path).names(), reverse=True)]

    def _step(self, directory: _Directory, name: bytes, path: bytes, make: bool) -> _Directory:
        if make:
            with suppress(FileExistsError):
                os.mkdir(directory.at(name), dir_fd=directory.fd)
                self._unsynced.add(_dirname(path))
        try:
            return directory.child(name)
        except NotADirectoryError:
            raise Obstructed(path) from None

    def _forget_parent(self) -> None:
        if self._parent is not None:
            self._parent[1].close()
            self._parent = None

    def _temporary_name(self) -> bytes:
        self._made += 1
        return b"%s%d" % (self._prefix, self._made)

    def _sync_files(self, staged: list[_Staged]) -> None:
        seam.reach("restore.fsync")
        if len(staged) >= _SYNC_ALL_FROM and _sync_all():
            return
        for file in staged:
            with suppress(FileNotFoundError, Obstructed):
                directory = self._directory(_dirname(file.path))
                fd = os.open(directory.at(file.temporary), _OPEN_TO_SYNC, dir_fd=directory.fd)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)

    def _rename(self, file: _Staged) -> str | None:
        """Put a staged file in its place, or the reason why not."""
        now = self.look(file.path)
        if (now and now.signature) != (file.before and file.before.signature):
            return CHANGED
        directory, name = self._directory(_dirname(file.path)), _basename(file.path)
        os.replace(directory.at(file.temporary), directory.at(name), src_dir_fd=directory.fd, dst_dir_fd=directory.fd)
        self._unsynced.add(_dirname(file.path))
        return None

    def _discard(self, file: _Staged) -> None:
        with suppress(OSError, Obstructed):
            directory = self._directory(_dirname(file.path))
            os.unlink(directory.at(file.temporary), dir_fd=directory.fd)

    def _hash(self, size: int, chunks: Iterable[bytes]) -> str:
        digest = self._new_hash(b"blob %d\0" % size)
        for chunk in chunks:
            digest.update(chunk)
        name: str = digest.hexdigest()
        return name


def reason_of(error: OSError | Obstructed) -> str:
    """Why a path could not be handled, in words."""
    if isinstance(error, Obstructed):
        return "a parent is no directory"
    return error.strerror or str(error)


def _write(fd: int, data: bytes) -> int:
    """Write all of ``data``; how much that is."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])
    return len(data)


def _mode_of(status: os.stat_result) -> int:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return EXECUTABLE if mode & stat.S_IXUSR else FILE
    if stat.S_ISLNK(mode):
        return LINK
    return TREE if stat.S_ISDIR(mode) else OTHER


def _executable(bits: int) -> int:
    """Permission bits with execution allowed to whom reading is."""
    return bits | (bits & 0o444) >> 2


def _sync_all() -> bool:
    """Sync every file system, where that waits until it is done."""
    if sys.platform != "linux":
        return False
    os.sync()
    return True


def _check(path: bytes) -> None:
    """No tree of ours holds such a path; one that was made by hand must not get anywhere."""
    if not storable(path):
        raise RepositoryError(f"the checkpoint holds a path that must not be written: {path!r}")


def _dirname(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _basename(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _join(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name
