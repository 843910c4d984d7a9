"""Read the paths that may have changed: what each of them is to a tree."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gitsession.errors import RepositoryError
from gitsession.git import oddities, trees
from gitsession.git.filters import Filters
from gitsession.git.indexes import Index, Indexes, in_users_index
from gitsession.git.objects import Objects, SizeChanged
from gitsession.git.repo import Repo
from gitsession.git.scan import NESTED, Scan
from gitsession.git.trees import EXECUTABLE, FILE, GITLINK, LINK, TREE, Entry

# To write an index anew takes time by its size.  What is read again by every scan until then, and grows with each, may
# take as long (measured at 100,000 files: 100 ms against 0.09 ms a file).
_HEAL_FILES: Final = 200
_INDEX_BYTES: Final = 20_000  # of an index, for each file more than these
_HEAL_BYTES: Final = 1024 * 1024
_TRIES: Final = 3
_UNSTABLE: Final = "changed while read"
_OPEN: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
# Not one file's trouble.
_FATAL: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class _LeftOut(Exception):
    """This path (or ``path``, above it) cannot be captured."""

    def __init__(self, reason: str, path: bytes | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


class _Changed(Exception):
    """The file is being written or replaced."""


@dataclass
class Taking:
    """One capture in the making, on top of the tree ``start``.

    ``entries`` is what stands at each path that was looked at, None for nothing; ``left_out`` has reasons.
    """

    repo: Repo
    objects: Objects
    filters: Filters
    start: str
    max_file_size: int
    found: Scan | None = None
    entries: dict[bytes, Entry | None] = field(default_factory=dict)
    left_out: dict[bytes, str] = field(default_factory=dict)
    bytes_read: int = 0

    def __post_init__(self) -> None:
        self._root = os.fsencode(self.repo.worktree)
        # By path: the files' own bytes where the entry may be another blob, and their state when they were read.
        self._own: dict[bytes, Entry] = {}
        self._status: dict[bytes, os.stat_result] = {}
        self._unclean: dict[bytes, bool] = {}
        self._not_for_index: set[bytes] = set()
        if self.found is not None:
            self.left_out.update(self.found.left_out)

    def take(self, candidates: Iterable[bytes]) -> None:
        """Read every candidate."""
        again = sorted(candidates)
        for _ in range(_TRIES):
            for path in again:
                self._take_one(path)
            again = [*self._clean(), *self._contradictions()]
            if not again:
                return
        for path in again:
            self._leave_out(path, _UNSTABLE)

    def beside(self, before: Mapping[bytes, Entry]) -> dict[bytes, Entry]:
        """What the new tree does not say of the files' bytes, given what the newest checkpoint's did not."""
        beside = dict(before)
        for path, entry in self.entries.items():
            own, known = self._own.get(path, entry), beside.pop(path, None)
            # What was kept once stays listed, so that a scan knows where git's view of a file is not enough.
            if own is not None and entry is not None and (known is not None or own.oid != entry.oid):
                beside[path] = known if known is not None and known.oid == own.oid else own
        return beside

    def empty_dirs(self, before: set[bytes]) -> set[bytes]:
        """The directories without anything in them; after known paths, those known before and those on the way."""
        if self.found is not None:
            return self.found.empty_dirs
        possible = set(before)
        for path, entry in self.entries.items():
            if entry is None:
                possible.update((path, *trees.parents(path)))
        return {path for path in possible if self._is_empty(path)}

    def heal(self, indexes: Indexes) -> None:
        """If much was read, see to it that the next scan need not read it again."""
        if self.found is None or not self._is_much(self.found.index):
            return
        seen = {
            path: entry
            for path, entry in self.entries.items()
            if path not in self._not_for_index and (entry is None or entry.mode != GITLINK)
        }
        indexes.heal(self.objects, self.found.index, seen, self._unchanged)

    def _is_much(self, index: Index) -> bool:
        size = 0
        with suppress(FileNotFoundError):  # another process tidied it away
            size = index.path.stat().st_size
        return len(self.entries) > max(_HEAL_FILES, size // _INDEX_BYTES) or self.bytes_read > max(_HEAL_BYTES, size)

    def _unchanged(self) -> bool:
        """Whether the files for which git may store something else are still as they were read."""
        return all(self._same_on_disk(path) for path in self._own.keys() & self._status.keys())

    # One path

    def _take_one(self, path: bytes) -> None:
        self.entries.pop(path, None)
        try:
            self.entries[path] = self._look(path)
        except _LeftOut as left_out:
            self._leave_out(left_out.path or path, left_out.reason)

    def _leave_out(self, path: bytes, reason: str) -> None:
        self.entries.pop(path, None)
        self.left_out[path] = reason

    def _look(self, path: bytes) -> Entry | None:
        """What stands at ``path``."""
        if not trees.storable(path):
            raise _LeftOut("git does not store a file of this name")
        try:
            for parent in reversed([*trees.parents(path)]):
                if not self._passes(parent):
                    return self._absent(path)
            for _ in range(_TRIES):
                with suppress(_Changed):
                    return self._read(path)
        except OSError as error:
            if error.errno in _FATAL:
                raise
            raise _LeftOut(f"unreadable: {error.strerror or error}") from error
        raise _LeftOut(_UNSTABLE)

    def _passes(self, directory: bytes) -> bool:
        """Whether what is below ``directory`` belongs to the working tree; takes note of a submodule there."""
        try:
            status = os.lstat(self._place(directory))
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not stat.S_ISDIR(status.st_mode):
            return False
        if not os.path.lexists(self._place(directory + b"/.git")):
            return True
        recorded = self._recorded(directory)
        if recorded is not None and recorded.mode == GITLINK:
            if directory not in self.entries:
                self._take_one(directory)
            return False
        if self._is_nested(directory):
            raise _LeftOut(NESTED, directory)
        return True

    def _read(self, path: bytes) -> Entry | None:
        try:
            status = os.lstat(self._place(path))
        except (FileNotFoundError, NotADirectoryError):
            return self._absent(path)
        if stat.S_ISDIR(status.st_mode):
            return self._directory(path)
        if stat.S_ISLNK(status.st_mode):
            return Entry(LINK, self.objects.add("blob", self._target(path)))
        reason = oddities.special(status.st_mode)
        if reason is not None:
            raise _LeftOut(reason)
        if status.st_size > self.max_file_size and not self._is_tracked(path):
            size, limit = _megabytes(status.st_size), _megabytes(self.max_file_size)
            raise _LeftOut(f"too large ({size}, capture.max_file_size is {limit})")
        return self._file(path)

    def _absent(self, path: bytes) -> Entry | None:
        """Nothing, but for a file that a sparse checkout leaves away: that is what the index says it is."""
        if self.found is None or not self.filters.sparse or path in self.found.differing:
            return None
        if any(self._is_in_the_way(parent) for parent in trees.parents(path)):
            return None
        self._not_for_index.add(path)
        entry = trees.lookup(self.objects, self.found.index.tree, path)
        return entry if entry is not None and entry.mode != TREE else None

    def _target(self, path: bytes) -> bytes:
        try:
            return os.readlink(self._place(path))  # noqa: PTH115 - the bytes
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINVAL):
                raise _Changed from error
            raise

    def _file(self, path: bytes) -> Entry:
        try:
            fd = os.open(self._place(path), _OPEN)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
                raise _Changed from error
            raise
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise _Changed
            filtered = self.filters.may_apply(path)
            has_crlf = filtered and _has_crlf(fd)
            os.lseek(fd, 0, os.SEEK_SET)
            held = self.found.held.get(path) if self.found is not None else None
            oid = self.objects.add_file(fd, status.st_size, held and held.oid)
            entry = Entry(self._mode(path, status.st_mode), oid)
            if _state(os.fstat(fd)) != _state(status):
                raise _Changed
        except SizeChanged as error:
            raise _Changed from error
        finally:
            os.close(fd)
        self.bytes_read += status.st_size
        if filtered:
            self._own[path], self._status[path], self._unclean[path] = entry, status, has_crlf
        return entry

    def _mode(self, path: bytes, mode: int) -> int:
        """Git's mode for a file of this ``st_mode``, where the file system can tell."""
        if self.filters.executable_bits and self.filters.links:
            return EXECUTABLE if mode & stat.S_IXUSR else FILE
        before = trees.lookup(self.objects, self.start, path)
        if before is not None and before.mode == LINK and not self.filters.links:
            return LINK
        if self.filters.executable_bits:
            return EXECUTABLE if mode & stat.S_IXUSR else FILE
        return EXECUTABLE if before is not None and before.mode == EXECUTABLE else FILE

    def _clean(self) -> list[bytes]:
        """Replace what was just read by what git stores of it; the paths that changed meanwhile."""
        unclean = {path: has_crlf for path, has_crlf in self._unclean.items() if path in self.entries}
        self._unclean.clear()
        deep = self.filters.deep(unclean)
        wanted = {path for path, has_crlf in unclean.items() if has_crlf or path in deep}
        if not wanted:
            return []
        cleaned = self.filters.clean(wanted)
        # A file that git could not convert stands in the tree as it is.
        self._not_for_index.update(wanted - cleaned.keys())
        for path, oid in cleaned.items():
            self.entries[path] = Entry(self._own[path].mode, oid)
        return [path for path in cleaned if not self._same_on_disk(path)]

    def _contradictions(self) -> list[bytes]:
        """Files that cannot be there, as there are files below them: one was put in the other's place meanwhile."""
        standing = {path for path, entry in self.entries.items() if entry is not None}
        return [path for path in {up for path in standing for up in trees.parents(path)} if path in standing]

    # What is a directory here, and whose

    def _directory(self, path: bytes) -> Entry | None:
        """A directory is nothing to a tree, unless it is a submodule."""
        recorded = self._recorded(path)
        if recorded is not None and recorded.mode == GITLINK:
            return self._submodule(path, recorded)
        if self._is_nested(path):
            self.left_out[path] = NESTED
        return None

    def _submodule(self, path: bytes, pointer: Entry) -> Entry | None:
        if not os.path.lexists(self._place(path + b"/.git")):
            # Not checked out; with something in it, it is a directory like any other by now.
            return pointer if self._is_empty(path) else None
        try:
            place = Path(os.fsdecode(self._place(path)))
            module = Repo.discover(place)
            if not module.worktree.samefile(place):
                raise _LeftOut("unreadable submodule: its .git is no repository")
            head = module.head().oid
            dirty = module.git("status", "--porcelain", "-z", "--untracked-files=normal") != b""
        except RepositoryError as error:
            raise _LeftOut(f"unreadable submodule: {error}") from error
        if dirty:
            self.left_out[path] = "submodule has uncommitted changes"
        return Entry(GITLINK, head) if head is not None else pointer

    def _recorded(self, path: bytes) -> Entry | None:
        """What the index has at ``path``, where it was looked at, else what the newest checkpoint has."""
        known = trees.lookup(self.objects, self.found.index.tree, path) if self.found is not None else None
        return known or trees.lookup(self.objects, self.start, path)

    def _is_nested(self, directory: bytes) -> bool:
        """Whether a directory is somebody else's repository: one of which no file was ever captured."""
        for tree in {self.start, self.found.index.tree if self.found is not None else self.start}:
            entry = trees.lookup(self.objects, tree, directory)
            if entry is not None and entry.mode == TREE:
                return False
        return _is_repository(self._place(directory))

    def _is_tracked(self, path: bytes) -> bool:
        entry = trees.lookup(self.objects, self.start, path)
        return (entry is not None and entry.mode != TREE) or in_users_index(self.repo, path)

    # The disk

    def _place(self, path: bytes) -> bytes:
        return self._root + b"/" + path

    def _same_on_disk(self, path: bytes) -> bool:
        try:
            return _state(os.lstat(self._place(path))) == _state(self._status[path])
        except OSError:
            return False

    def _is_in_the_way(self, directory: bytes) -> bool:
        """Whether something that is no directory stands there."""
        try:
            return not stat.S_ISDIR(os.lstat(self._place(directory)).st_mode)
        except OSError:
            return False

    def _is_empty(self, directory: bytes) -> bool:
        try:
            if not stat.S_ISDIR(os.lstat(self._place(directory)).st_mode):
                return False
            with os.scandir(self._place(directory)) as entries:
                return not any(entries)
        except OSError:
            return False


def _state(status: os.stat_result) -> tuple[int, ...]:
    """What changes when somebody writes to a file or puts another one in its place."""
    return status.st_ino, status.st_dev, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _has_crlf(fd: int) -> bool:
    last = b""
    while chunk := os.read(fd, 1024 * 1024):
        if b"\r\n" in last + chunk:
            return True
        last = chunk[-1:]
    return False


def _is_repository(directory: bytes) -> bool:
    """Whether git takes a directory for a repository."""
    place = Path(os.fsdecode(directory), ".git")
    with suppress(OSError):
        place = place.parent / os.fsdecode(place.read_bytes().removeprefix(b"gitdir:").strip())
    return (place / "HEAD").exists()


def _megabytes(size: int) -> str:
    for unit, factor in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if size >= factor:
            return f"{-(-size // factor)} {unit}"
    return f"{size} bytes"
