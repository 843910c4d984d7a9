"""Settings files as they stand in a working tree: read, replaced and removed without a trace.

What somebody else's tool may be reading at the moment is replaced in one step, and keeps its mode and owner.  A link
is followed as far as it stays in the working tree; one that leads out of it is a person's own arrangement (or somebody
else's trap), and refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gitsession.errors import ConflictError, RepositoryError
from gitsession.store.files import open_private, sync_directory, write_all

_MARK = b"\xef\xbb\xbf"  # a byte order mark
_LARGEST = 4 * 1024 * 1024  # bytes


@dataclass(frozen=True)
class Content:
    """A file's text, without the mark it may begin with; ``text`` is None if there is no file."""

    text: str | None
    mark: bool = False

    @property
    def data(self) -> bytes:
        assert self.text is not None  # noqa: S101 - asked of what is written
        return (_MARK if self.mark else b"") + self.text.encode()


def real_place(worktree: Path, relative: str) -> Path:
    """Where the file is that ``relative`` names, links followed; ``ConflictError`` if that is somewhere else."""
    place = worktree / relative
    real = Path(os.path.realpath(place))
    if not real.is_relative_to(os.path.realpath(worktree)):
        raise ConflictError(f"{relative} leads out of the working tree, to {real}: it was not changed")
    if place.is_symlink() and not real.exists():
        raise ConflictError(f"{relative} is a link to {real}, which is not there: it was not changed")
    if real.exists() and not real.is_file():
        raise ConflictError(f"{relative} is no file: it was not changed")
    return real


def read(place: Path) -> Content:
    """``ConflictError`` for what is not text in UTF-8."""
    with _attempt("read", place):
        try:
            with place.open("rb") as file:
                data = file.read(_LARGEST + 1)
        except FileNotFoundError:
            return Content(None)
    if len(data) > _LARGEST:
        raise ConflictError(f"{place} is larger than settings are: it was not changed")
    mark = data.startswith(_MARK)
    try:
        return Content(data[len(_MARK) * mark :].decode(), mark)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConflictError(f"{place}, line {line}: it is no text in UTF-8: it was not changed") from None


def missing_directories(worktree: Path, place: Path) -> list[str]:
    """The directories that have to be made for the file, as paths in the working tree, upper first."""
    missing = [one for one in place.parents if not one.exists()]
    return [os.path.relpath(one, os.path.realpath(worktree)) for one in reversed(missing)]


def write(place: Path, content: Content, known: Content) -> None:
    """Replace the file that was read as ``known``, or make it.

    ``RepositoryError`` if it cannot be, ``ConflictError`` if somebody else wrote it meanwhile, as agents do themselves;
    either way what was there is there still.
    """
    temporary = place.with_name(f"{place.name}.pinable-{os.getpid()}")
    with _attempt("write", place):
        place.parent.mkdir(parents=True, exist_ok=True)
        before = place.stat() if known.text is not None else None
        if before is not None and not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        temporary.unlink(missing_ok=True)
        try:
            descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                write_all(descriptor, content.data)
                _like(descriptor, before)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if read(place) != known:
                raise ConflictError(f"{place} was changed at the same moment", hint="repeat the command")
            temporary.replace(place)
        except (OSError, ConflictError):
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(place.parent)


def remove(place: Path) -> None:
    with _attempt("remove", place):
        place.unlink()


def remove_directories(worktree: Path, directories: Iterable[str]) -> None:
    """Remove them as far as they are empty."""
    for directory in sorted(directories, key=len, reverse=True):
        with suppress(OSError):
            (worktree / directory).rmdir()


@contextmanager
def _attempt(action: str, place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RepositoryError(
            f"cannot {action} {place}: {error.strerror}", hint="make it writable, or free some space"
        ) from error


def _like(descriptor: int, before: os.stat_result | None) -> None:
    """The mode and owner of the file before; of a new one those that any new file gets."""
    if before is None:
        mask = os.umask(0o077)
        os.umask(mask)
        os.fchmod(descriptor, 0o666 & ~mask)
        return
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
    with suppress(PermissionError):  # only root gives a file away
        os.fchown(descriptor, before.st_uid, before.st_gid)
