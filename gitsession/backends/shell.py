"""A shell command that the model asked for: bounded in time and output, without the user's keys, and leaving nothing.

It runs as ``sh -c`` in the worktree, in a session and process group of its own, with an empty standard input, and the
session's mark in its environment (``gitsession.backends.processes``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitsession.backends.processes import descendants_of, ending, mark
from gitsession.backends.program import REPOSITORY_VARIABLES, readable
from gitsession.secrets import clean_environment, guard_memory

OUTPUT_LIMIT: Final = 30_000  # bytes that are kept of what it prints: half from the start, half from the end
_TICK: Final = 0.05
_PIPE_GRACE: Final = 0.5
_REST: Final = 10.0  # seconds for what is in the pipe, also of somebody who has left the group and prints without end
_GRACE: Final = 3.0
_CHUNK: Final = 64 * 1024
_SHELL: Final = ["cmd", "/c"] if sys.platform == "win32" else ["/bin/sh", "-c"]
_GROUP: Final[dict[str, Any]] = {} if sys.platform == "win32" else {"start_new_session": True}


@dataclass
class StopRequest:
    """Asked to end, or to end at once; what is asked to end has ``grace`` seconds for it."""

    asked: bool = False
    at_once: bool = False
    grace: float = 5.0


class Command:
    """One command; after ``run``, ``status`` is the shell's (``None``: it was ended) and ``text`` is for the model."""

    def __init__(self, command: str, worktree: Path, session_id: str, seconds: float) -> None:
        self.status: int | None = None
        self.text = ""
        self._command = command
        self._worktree = worktree
        self._session_id = session_id
        self._seconds = seconds

    def run(self, stop: StopRequest) -> Generator[None, None, None]:
        """Run it, yielding every moment, until it has ended, its time is up, or ``stop``."""
        try:
            process = self._start()
        except OSError as error:
            self.text = f"[it could not be started: {error.strerror}]"
            return
        output = _Output(process)
        try:
            ended_because = yield from self._attend(process, output, stop)
            left = _group_lives(process)
            if ended_because or left:
                yield from self._end(process, stop)
            output.close(_PIPE_GRACE)
        finally:
            if process.poll() is None:
                _kill(process)
        self.status = None if ended_because else process.returncode
        how = ended_because or f"exit status {self.status}"
        note = "; processes it had left behind were ended" if left and not ended_because else ""
        self.text = "\n".join(part for part in (output.text(), f"[{how}{note}]") if part)

    def _start(self) -> subprocess.Popen[bytes]:
        guard_memory()
        return subprocess.Popen(
            [*_SHELL, self._command],
            cwd=self._worktree,
            env=_environment(self._session_id),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            **_GROUP,
        )

    def _attend(
        self, process: subprocess.Popen[bytes], output: _Output, stop: StopRequest
    ) -> Generator[None, None, str | None]:
        """Wait for its end; why it has to be ended, if it has."""
        deadline = time.monotonic() + self._seconds
        while process.poll() is None:
            output.wait(_TICK)
            yield
            if stop.asked:
                return "it was interrupted"
            if time.monotonic() >= deadline:
                return f"it was ended after {self._seconds:g} seconds"
        return None

    def _end(self, process: subprocess.Popen[bytes], stop: StopRequest) -> Generator[None, None, None]:
        """End it, and what it started."""
        known = descendants_of(process.pid)
        grace = min(stop.grace, _GRACE)
        for _ in ending(self._session_id, known, wait=grace):
            yield
            if stop.at_once:
                for _ in ending(self._session_id, known, wait=0.0):
                    yield
                break


class _Output:
    """What the command prints, read by a thread; the middle of much is forgotten."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._head = b""
        self._tail = b""
        self._total = 0
        self._busy = False
        self._done = threading.Event()
        threading.Thread(target=self._read, name="command-output", daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Until it has ended, or for a moment."""
        if self._done.is_set():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        else:
            self._done.wait(seconds)

    def close(self, grace: float) -> None:
        """Wait for the rest; somebody else may hold the pipe for ever, but what is in it is still read."""
        self._done.wait(grace)
        until = time.monotonic() + _REST
        # Asked in this order, nothing slips through from the pipe into the thread's hand.
        while not self._done.is_set() and (self._waiting() or self._busy) and time.monotonic() < until:
            self._done.wait(_TICK)

    def _waiting(self) -> bool:
        return self._process.stdout is not None and readable(self._process.stdout, 0)

    def text(self) -> str:
        half = OUTPUT_LIMIT // 2
        left_out = self._total - len(self._head) - len(self._tail[-half:])
        parts = [self._head, b"\n[%d bytes left out]\n" % left_out if left_out > 0 else b"", self._tail[-half:]]
        return b"".join(parts).decode("utf-8", "replace").rstrip("\n")

    def _read(self) -> None:
        half = OUTPUT_LIMIT // 2
        pipe = self._process.stdout
        with suppress(OSError, ValueError):
            while pipe is not None:
                readable(pipe, None)
                self._busy = True
                if not (data := pipe.read(_CHUNK)):
                    break
                self._total += len(data)
                room = half - len(self._head)
                self._head += data[:room]
                self._tail = (self._tail + data[max(room, 0) :])[-half:]
                self._busy = False
        if pipe is not None:
            pipe.close()
        self._done.set()


def _environment(session_id: str) -> dict[str, str]:
    clean = {name: value for name, value in clean_environment().items() if name not in REPOSITORY_VARIABLES}
    return clean | mark(session_id) | {"TERM": "dumb"}


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    """Whether the command has left processes in its group."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Nothing may live on when nobody waits any more."""
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
