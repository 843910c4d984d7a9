"""Writing so that what was there before survives any failure.

``write_atomic`` is temporary file, fsync, rename, fsync of the directory.  Every ``OSError`` leaves as a
``StoreError`` of one line.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gitsession import seam
from gitsession.errors import StoreError
from gitsession.home import home_of

TEMPORARY = ".tmp"
_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def default_home() -> Path:
    """Where this process keeps its sessions."""
    return Path(home_of())


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` by a file (mode 0600) holding ``data``; on ``StoreError`` its old bytes are still there.

    The caller keeps other writers of ``path`` away.  A kill may leave ``<name>.tmp`` beside it.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    with explained("write", path):
        try:
            seam.reach("file.write")
            descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                write_all(descriptor, data)
                seam.reach("file.fsync")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            seam.reach("file.replace")
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync_directory(path.parent)


def open_private(path: Path, flags: int) -> int:
    """A binary descriptor that child programs do not inherit; a new file gets mode 0600."""
    return os.open(path, flags | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``, however little the system takes at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync_directory(directory: Path) -> None:
    """Make the names in ``directory`` durable (Windows has no such call and does it by itself)."""
    if os.name == "nt":
        return
    seam.reach("file.sync-dir")
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_dir(path: Path) -> Path:
    """``path`` as a directory; made with mode 0700 when it is missing."""
    if not path.is_dir():
        with explained("make the directory", path):
            if not path.parent.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            sync_directory(path.parent)
    return path


def obstacle(directory: Path) -> Path | None:
    """What keeps this process from making files in ``directory``, which need not be there yet; nothing is tried."""
    nearest = next(place for place in (directory, *directory.parents) if os.path.lexists(place))
    return None if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK) else nearest


@contextmanager
def explained(action: str, path: Path, but: tuple[type[OSError], ...] = ()) -> Iterator[None]:
    """Turn an ``OSError`` (``but`` for these) into ``StoreError``: ``cannot <action> <path>: <why>`` and what to do."""
    try:
        yield
    except but:
        raise
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreError(f"cannot {action} {path}: {why}", hint=_advice(error.errno, action, path)) from error


def _advice(number: int | None, action: str, path: Path) -> str | None:
    if number in _FULL:
        return "free some space and repeat the command; what was saved before is intact"
    if number in _FORBIDDEN and action == "read":
        return f"make {path} readable"
    if number in _FORBIDDEN:
        elsewhere = ", or set PINABLE_HOME to a directory that is" if path.is_relative_to(default_home()) else ""
        return f"make {path.parent} writable{elsewhere}"
    return None
