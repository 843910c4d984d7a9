"""Git's object database: reading, and writing so that what a ref will name is on the disk first.

New objects are collected and written by ``flush``: a few as loose files, more as one pack, each synchronized before
``flush`` returns.  An object that is there already is not written again, but made safe: its file gets a new
time, so that a running ``git gc`` does not take it for garbage, and is synchronized, because git itself does not do
that by default.

Reading is libgit2's where it opens the repository, else (SHA-256, reftable) one ``git cat-file`` that stays open.
Writing is our own everywhere.
"""

from __future__ import annotations

import errno
import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final

from gitsession import seam
from gitsession.errors import CaptureError, RepositoryError
from gitsession.git.consolidation import hold, note
from gitsession.git.packs import LEVEL, Packs, deflate, write_pack
from gitsession.git.readers import Reader, open_reader
from gitsession.git.repo import Repo
from gitsession.git.trees import Unpacked

LARGE: Final = 8 * 1024 * 1024  # bytes; a larger file is never held in memory
FEW: Final = 10  # objects that are still written one by one
_SPILL: Final = 64 * 1024 * 1024  # bytes of pending objects; more are written at once
_CHUNK: Final = 1024 * 1024
_TRIES: Final = 20  # to put an object into a directory that others remove


class SizeChanged(Exception):
    """A file did not hold as many bytes as it was said to: somebody is writing it."""


class Objects:
    """The objects of ``repo``.  As a context manager it closes what it has open."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self._directory = repo.common_dir / "objects"
        self._id_size = hashlib.new(repo.object_format, usedforsecurity=False).digest_size
        self.unpacked = Unpacked()
        self._reader: Reader | None = None
        self._pending: dict[str, tuple[str, bytes]] = {}
        self._pending_size = 0
        self._found: dict[str, Path] = {}  # objects of this batch that were there already, and in which file
        self._streamed: set[str] = set()  # objects of this batch that were written at once
        self._unsynced_directories: set[Path] = set()
        self._keeps: set[Path] = set()  # what holds the packs that we wrote
        self._packs = Packs(self._directory / "pack", self._id_size)

    def __enter__(self) -> Objects:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the reader's process; what was not flushed is dropped, what was is the garbage collector's to judge."""
        if self._reader is not None:
            self._reader.close()
        self._clear()
        self.unpacked.forget()
        self.release()

    def release(self) -> None:
        """A ref leads to all that was flushed: nothing else need keep it from a ``git repack`` any longer."""
        while self._keeps:
            self._keeps.pop().unlink(missing_ok=True)

    def read(self, oid: str) -> tuple[str, bytes]:
        """Kind (``blob``, ``tree``, ``commit``, ``tag``) and bytes; ``RepositoryError`` if there is no such object."""
        if oid in self._pending:
            return self._pending[oid]
        found = self._reading().read(oid)
        if found is None:
            raise RepositoryError(f"object {oid} is missing or damaged", hint="see 'git fsck'")
        return found

    def has(self, oid: str) -> bool:
        """Whether the object can be read, pending ones included."""
        return oid in self._pending or self._reading().has(oid)

    def add(self, kind: str, data: bytes, held: str | None = None) -> str:
        """Put an object into the batch; its id.  A blob that is there already is not written again; with the one that a
        checkpoint ``held`` nothing is done at all.

        Trees and commits are: they are small and nearly always new, and looking costs more (a failing ``stat`` among
        400 loose objects took 47 µs).
        """
        digest = self._digest(kind, len(data))
        digest.update(data)
        oid = digest.hexdigest()
        if oid not in self._pending and oid != held and not (kind == "blob" and self._keep(oid)):
            self._pending[oid] = (kind, data)
            self._pending_size += len(data)
            if self._pending_size > _SPILL:
                self.flush()
        return oid

    def add_file(self, fd: int, size: int, held: str | None = None) -> str:
        """Put the ``size`` bytes that follow in the open file ``fd`` into the batch as a blob; its id (see ``add``).

        ``SizeChanged`` if there are fewer or more; an ``OSError`` is one of reading ``fd``.  A file over ``LARGE`` is
        written at once, in little memory.
        """
        if size > LARGE:
            return self._stream(fd, size)
        return self.add("blob", b"".join(_chunks(fd, size)), held)

    def flush(self) -> None:
        """Write the batch; afterwards it is on the disk, with what was there already.

        If it was a pack, git keeps that until ``release``.
        ``CaptureError`` when that fails (the disk is full, say); the batch is kept.
        """
        with _capturing():
            if len(self._pending) > FEW:
                self._write_pack()
            else:
                self._write_loose(self._pending)
            self._sync_found()
            seam.reach("object.sync-dir")
            self._sync_directories()
        self._clear()

    def _clear(self) -> None:
        self._pending.clear()
        self._pending_size = 0
        self._found.clear()
        self._streamed.clear()
        self._unsynced_directories.clear()

    def _digest(self, kind: str, size: int) -> hashlib._Hash:
        return hashlib.new(self.repo.object_format, _header(kind, size), usedforsecurity=False)

    def _reading(self) -> Reader:
        if self._reader is None:
            self._reader = open_reader(self.repo)
        return self._reader

    # What is there already

    def _keep(self, oid: str) -> bool:
        """Whether the object is in this repository, not only in an alternate, and will stay (see the module)."""
        if oid in self._found:
            return True
        if not self._pending:
            self._packs.look()
        for place in (self._loose_path(oid), *self._packs.holding(bytes.fromhex(oid))):
            # Not ours to touch, or repacked since: then it is written anew.
            with suppress(OSError):
                if place.stat().st_size > 0:  # a power failure can leave an empty file
                    os.utime(place)
                    self._found[oid] = place
                    return True
        return False

    def _sync_found(self) -> None:
        for place in set(self._found.values()):
            try:
                sync(place)
                sync(place.parent)
            except FileNotFoundError:
                # A 'git gc' beside us has moved it into another pack, which git synchronizes.
                if not all(self._reading().has(oid) for oid, path in self._found.items() if path == place):
                    raise

    def _sync_directories(self) -> None:
        gone = False
        for directory in self._unsynced_directories:
            try:
                sync(directory)
            except FileNotFoundError:
                gone = True
        if gone:
            self._write_lost()

    def _write_lost(self) -> None:
        """A ``git gc`` beside us removed a directory, having packed its objects or thrown them away: then once more."""
        lost = {oid: found for oid, found in self._pending.items() if not self._reading().has(oid)}
        self._write_loose(lost)
        (self._directory / "pack").mkdir(exist_ok=True)
        for directory in (self._directory, self._directory / "pack", *{self._loose_path(oid).parent for oid in lost}):
            sync(directory)
        for oid in self._streamed:
            if not self._reading().has(oid):
                raise FileNotFoundError(errno.ENOENT, f"a 'git gc' took object {oid} away")

    # Writing

    def _loose_path(self, oid: str) -> Path:
        return self._directory.joinpath(oid[:2], oid[2:])

    @contextmanager
    def _written(self, path: Path, what: str) -> Iterator[BinaryIO]:
        """A new read-only file, on the disk when the block ends."""
        with _capturing():
            seam.reach(f"{what}.write")
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(fd, "wb") as file:
            yield file
            with _capturing():
                path.chmod(0o444 & self._directory.stat().st_mode)
                file.flush()
                seam.reach(f"{what}.sync")
                os.fsync(fd)

    def _write_loose(self, objects: Mapping[str, tuple[str, bytes]]) -> None:
        for oid, (kind, data) in objects.items():
            with _temporary(self._directory, "obj") as path:
                with self._written(path, "obj") as file:
                    file.write(deflate(_header(kind, len(data)) + data))
                self._move_in(path, oid)

    def _move_in(self, path: Path, oid: str) -> None:
        """Give a loose object its place, in a directory that has the permissions of ``objects``."""
        place = self._loose_path(oid)
        seam.reach("obj.rename")
        for attempt in range(_TRIES):
            try:
                path.replace(place)
                break
            except FileNotFoundError:  # the directory, which a 'git gc' may remove as long as it is empty
                if attempt == _TRIES - 1 or not path.exists():
                    raise
                with suppress(FileNotFoundError):
                    place.parent.mkdir(exist_ok=True)
                    place.parent.chmod(self._directory.stat().st_mode & 0o7777)
                self._unsynced_directories.add(self._directory)
        self._unsynced_directories.add(place.parent)

    def _write_pack(self) -> None:
        directory = self._directory / "pack"
        directory.mkdir(exist_ok=True)
        self._unsynced_directories.add(directory)
        objects = ((oid, kind, data) for oid, (kind, data) in self._pending.items())
        with _temporary(directory, "pack") as pack, _temporary(directory, "idx") as index:
            with self._written(pack, "pack") as file:
                index_bytes = write_pack(file, objects, len(self._pending), self.repo.object_format)
            with self._written(index, "idx") as file:
                file.write(index_bytes)
            name = f"pack-{index_bytes[-2 * self._id_size : -self._id_size].hex()}"
            note(self.repo, name)
            keep = hold(directory, name)
            if keep is not None:
                self._keeps.add(keep)
            seam.reach("pack.rename")
            pack.replace(directory / f"{name}.pack")
            # Readers look for indexes, so the index comes last.
            seam.reach("idx.rename")
            index.replace(directory / f"{name}.idx")

    def _stream(self, fd: int, size: int) -> str:
        """Write a large file's blob while it is read."""
        digest = self._digest("blob", size)
        stream = zlib.compressobj(LEVEL)
        with _temporary(self._directory, "obj") as path:
            with self._written(path, "obj") as file:
                with _capturing():
                    file.write(stream.compress(_header("blob", size)))
                for chunk in _chunks(fd, size):
                    digest.update(chunk)
                    with _capturing():
                        file.write(stream.compress(chunk))
                with _capturing():
                    file.write(stream.flush())
            oid = digest.hexdigest()
            with _capturing():
                if self._keep(oid):
                    path.unlink()
                else:
                    self._move_in(path, oid)
                    self._streamed.add(oid)
        return oid


@contextmanager
def _temporary(directory: Path, what: str) -> Iterator[Path]:
    """A name for a new file, that ``git gc`` clears away if we cannot; gone when the block fails."""
    path = directory / f"tmp_{what}_{os.urandom(8).hex()}"
    try:
        yield path
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _header(kind: str, size: int) -> bytes:
    return f"{kind} {size}\0".encode()


def _chunks(fd: int, size: int) -> Iterator[bytes]:
    """The ``size`` bytes that follow in ``fd``, ``SizeChanged`` if there are fewer or more."""
    left = size
    while left:
        chunk = os.read(fd, min(left, _CHUNK))
        if not chunk:
            raise SizeChanged(f"{left} of {size} bytes are missing")
        yield chunk
        left -= len(chunk)
    if os.read(fd, 1):
        raise SizeChanged(f"more than {size} bytes")


def sync(path: Path) -> None:
    """Bring a file or a directory to the disk."""
    if os.name == "nt" and path.is_dir():  # Windows has no such thing
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _capturing() -> Iterator[None]:
    """Turn a failure to write objects into ``CaptureError``."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise CaptureError(
            f"cannot write git objects: {reason}", hint="nothing was recorded; the files stay as they are"
        ) from error
