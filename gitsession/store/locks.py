"""Locks between processes: whose turn it is to write a session, and whether one is held.

A locked file is never unlinked: two processes could then hold "the" lock, on two files.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.errors import SessionBusy
from gitsession.store.files import explained, open_private

if TYPE_CHECKING:
    from filelock import BaseFileLock

POLL = 0.01  # seconds between two attempts
_TURN = 10.0  # seconds a writer waits for its turn


@contextmanager
def mutex(directory: Path, session_id: str) -> Iterator[None]:
    """Hold ``<id>.mutex`` for a write; ``SessionBusy`` when others hold it for ten seconds.

    Ids that differ only in case share it: they must not both exist.  It does not nest.
    """
    with _held(directory / f"{session_id.lower()}.mutex", _TURN) as ours:
        if not ours:
            raise SessionBusy(
                f"another process has been writing session {session_id} for more than {_TURN:.0f} s",
                hint="repeat the command when it is done",
            )
        yield


def file_lock(path: Path) -> BaseFileLock:
    """A lock for a process's life."""
    # Imported here because it takes 40 ms, and most commands do without.
    from filelock import FileLock

    return FileLock(path, mode=0o600, thread_local=False)


def take(lock: BaseFileLock, seconds: float) -> bool:
    """Take ``lock``, waiting up to ``seconds``; False if others keep it."""
    from filelock import Timeout

    with explained("lock", Path(lock.lock_file)):
        try:
            lock.acquire(timeout=seconds, poll_interval=POLL)
        except Timeout:
            return False
    return True


@contextmanager
def at_once(path: Path) -> Iterator[bool]:
    """Hold the lock of this file for the block, if nobody else does now; whether we do."""
    with _held(path, 0) as ours:
        yield ours


if sys.platform == "win32":

    @contextmanager
    def _held(path: Path, seconds: float) -> Iterator[bool]:
        lock = file_lock(path)
        ours = take(lock, seconds)
        try:
            yield ours
        finally:
            lock.release()

    def is_locked(path: Path) -> bool:
        """Whether some process holds the lock of this file."""
        if not path.exists():
            return False
        with _held(path, 0) as ours:
            return not ours

else:
    import fcntl

    @contextmanager
    def _held(path: Path, seconds: float) -> Iterator[bool]:
        """Lock ``path`` as filelock does, at a twentieth of its cost: every checkpoint takes this lock."""
        with explained("lock", path):
            descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            yield _wait(descriptor, path, seconds)
        finally:
            os.close(descriptor)

    def _wait(descriptor: int, path: Path, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while True:
            with explained("lock", path):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
                except BlockingIOError:
                    if time.monotonic() > until:
                        return False
            time.sleep(POLL)

    def is_locked(path: Path) -> bool:
        """Whether some process holds the lock of this file; if the system cannot tell, it does."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would be waited for
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            # Shared, so that two processes that ask do not take each other for an owner.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False
