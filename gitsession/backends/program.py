"""Running a program for a backend, and attending to it until it has ended, one way or another.

The program runs in the session's worktree, in a session and process group of its own.  What it prints goes to a
``Listener``, which makes events of it and has the last word on how the work went.  A program that is to stop is
interrupted, terminated, killed, with time between them; a run that failed or was stopped leaves no process behind: they
are found by the session's mark in their environment, and by parentage (``gitsession.backends.processes``).  After a
success, processes that the program started on purpose live on; what they print later is not waited for.
"""

from __future__ import annotations

import errno
import os
import queue
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

from gitsession.backends.base import Done, Event, Failed, Stream, Tick
from gitsession.backends.directives import Text
from gitsession.backends.processes import descendants_of, ending, finish, marked
from gitsession.secrets import without_secrets

if TYPE_CHECKING:
    from psutil import Process

_TICK: Final = 0.05
_CHUNK: Final = 64 * 1024
_CHUNKS_AHEAD: Final = 64
_PIPE: Final = 1024 * 1024  # no pipe holds more, unless its reader asked for it
_TAIL: Final = 4096
_REASON: Final = 200
_AFTER_KILL: Final = 5.0
REPOSITORY_VARIABLES: Final = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
"""Variables that would point a program's git at another repository or index; they are set inside a git hook."""
# Windows has no signals: its branches follow its documentation and have not been run.
if sys.platform == "win32":
    _INTERRUPT, _TERMINATE, _KILL = signal.CTRL_BREAK_EVENT, signal.SIGTERM, signal.SIGTERM
    _GROUP: Final[dict[str, Any]] = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
else:
    _INTERRUPT, _TERMINATE, _KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
    _GROUP: Final[dict[str, Any]] = {"start_new_session": True}
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True)
class Program:
    """What is to be started: ``command`` begins with the program's absolute path, ``environment`` is all of it."""

    command: tuple[str, ...]
    environment: dict[str, str]
    directory: Path
    given: bytes = b""
    """What it can read from its standard input."""

    @property
    def name(self) -> str:
        return Path(self.command[0]).name


class Listener(Protocol):
    """Makes events of what one run of a program prints on its standard output."""

    def feed(self, data: bytes) -> Iterator[Event]:
        """The next piece, wherever it is cut."""

    def end(self, *, interrupted: bool) -> Iterator[Event]:
        """Nothing more comes."""

    @property
    def failed(self) -> bool:
        """The program has said that the work failed, whatever its exit status is."""

    def verdict(self, status: int, why: str) -> Done | Failed:
        """How the work went, of a program that ended by itself; ``why`` is its exit status in words, with the last it
        printed on its standard error.  Of a negative ``status`` the positive number is that of a signal."""


class ProgramBackend:
    """What the backends that run a program have in common; all times are in seconds."""

    def __init__(self, *, stop_grace: float = 5.0, terminate_grace: float = 3.0, pipe_grace: float = 1.0) -> None:
        """An interrupted program is terminated after ``stop_grace`` and killed ``terminate_grace`` later; output that
        somebody still holds open is read for ``pipe_grace`` after the program has ended."""
        self.stop_grace = stop_grace
        self.terminate_grace = terminate_grace
        self.pipe_grace = pipe_grace
        self.stopping = False
        self.killed = False
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def stop(self) -> None:
        # No more than this: a signal handler may interrupt anything, and only ``attended`` knows whether the process
        # number is still the program's.
        self.stopping = True

    def kill(self) -> None:
        self.stopping = True
        if (process := self._process) is not None and process.poll() is None:
            self.killed = True
            _signal_group(process, _KILL)

    @contextmanager
    def attended(self, session_id: str, program: Program, listener: Listener) -> Iterator[Iterator[Event]]:
        """The events of one run of ``program``, the last of them ``Done`` or ``Failed``; left early, it is killed."""
        if self.stopping:
            yield iter([Failed("interrupted before it began", "interrupted")])
            return
        try:
            self._process = process = _start(program)
        except OSError as error:
            yield iter([Failed(_start_failure(program, error), "exit")])
            return
        attendance = _Attendance(self, session_id, program.name, process, listener)
        try:
            yield attendance.events()
        finally:
            attendance.close()


class _Attendance:
    """Everything about one running program."""

    def __init__(
        self,
        backend: ProgramBackend,
        session_id: str,
        name: str,
        process: subprocess.Popen[bytes],
        listener: Listener,
    ) -> None:
        self._backend = backend
        self._session_id = session_id
        self._name = name
        self._process = process
        self._pipes = _Pipes(process)
        self._listener = listener
        self._noise = Text("stderr")
        self._noise_tail = b""
        self._tick_at = 0.0
        self._heard = False
        """Something has come since the last ``Tick``."""
        self._last_signal: int | None = None
        self._descendants: list[Process] = []
        self._over = False

    def events(self) -> Iterator[Event]:
        yield from self._attend()
        self._pipes.program_ended()
        interrupted = self._last_signal is not None or self._backend.killed
        if interrupted or self._process.returncode != 0:
            yield from self._end_the_rest()
            yield from self._drain()
        else:
            yield from self._drain()
            if self._listener.failed:
                yield from self._end_the_rest()
        yield from self._listener.end(interrupted=interrupted)
        yield from self._noise.end()
        self._over = True
        yield Failed(self._how_interrupted(), "interrupted") if interrupted else self._verdict()

    def close(self) -> None:
        """Leave nothing behind, also when nobody wants the rest of the events."""
        self._pipes.close()
        if self._over:
            return
        if self._process.poll() is None:
            self._descendants += descendants_of(self._process.pid)
            _signal_group(self._process, _KILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_AFTER_KILL)
        finish(ending(self._session_id, self._descendants, wait=0.0))

    def _attend(self) -> Iterator[Event]:
        """Until the program has ended, by itself or because it was made to."""
        ladder: Iterator[bool] | None = None
        while self._process.poll() is None:
            if self._backend.stopping and ladder is None:
                # Parentage is lost once the program has ended.
                self._descendants = descendants_of(self._process.pid)
                ladder = self._ladder()
            if ladder is not None and not next(ladder, False):
                return
            yield from self._step()

    def _ladder(self) -> Iterator[bool]:
        """Interrupt, terminate, kill, with time between them; one look at the clock each time it is asked."""
        for number, patience in (
            (_INTERRUPT, self._backend.stop_grace),
            (_TERMINATE, self._backend.terminate_grace),
            (_KILL, _AFTER_KILL),
        ):
            self._last_signal = number
            _signal_group(self._process, number)
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline:
                yield True

    def _end_the_rest(self) -> Iterator[Event]:
        """Processes that the program has left; meanwhile their output is still read."""
        for _ in ending(self._session_id, self._descendants, wait=self._backend.terminate_grace):
            yield from self._step()

    def _drain(self) -> Iterator[Event]:
        """The rest of the output: all of the program's own, but no endless wait for who else holds the pipes."""
        deadline = time.monotonic() + self._backend.pipe_grace
        while self._pipes.open and (time.monotonic() < deadline or self._pipes.waiting):
            yield from self._step()

    def _step(self) -> Iterator[Event]:
        """What comes within a moment; a ``Tick`` if that is nothing, or if the last one is a moment ago."""
        got = self._pipes.get(_TICK)
        if got is not None:
            self._heard = True
            stream, data = got
            if stream == "stdout":
                yield from self._listener.feed(data)
            else:
                self._noise_tail = (self._noise_tail + data)[-_TAIL:]
                yield from self._noise.feed(data)
        now = time.monotonic()
        if got is None or now >= self._tick_at:
            self._tick_at = now + _TICK
            heard, self._heard = self._heard, False
            yield Tick(heard=heard)

    def _verdict(self) -> Done | Failed:
        status = self._process.returncode
        how = f"exited with status {status}" if status >= 0 else f"was killed by {_signal_name(-status)}"
        words = _last_line(self._noise_tail)
        verdict = self._listener.verdict(status, f"{self._name} {how}" + (f": {words}" if words else ""))
        if isinstance(verdict, Failed):
            return replace(verdict, reason=without_secrets(verdict.reason))
        summary = [text for text in (verdict.summary, self._still_running()) if text]
        return replace(verdict, summary="; ".join(summary) or None)

    def _how_interrupted(self) -> str:
        if self._process.returncode is None:
            return f"interrupted, but {self._name} cannot be ended and still runs (process {self._process.pid})"
        if self._backend.killed or self._last_signal == _KILL:
            return f"interrupted; {self._name} had to be killed"
        return "interrupted"

    def _still_running(self) -> str | None:
        """Names whoever holds the output of a program that has ended well."""
        if not self._pipes.open:
            return None
        holders = [f"{process.name} (process {process.pid})" for process in marked(self._session_id)]
        return "still running: " + ", ".join(holders) if holders else None


class _Pipes:
    """Both output streams, each read by a thread of its own into one bounded queue."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.open = 0
        self._process = process
        self._queue: queue.Queue[tuple[Stream, bytes]] = queue.Queue(_CHUNKS_AHEAD)
        self._ended = False
        self._unwanted = False
        self._busy: set[str] = set()
        self._watched: list[IO[bytes]] = []
        streams: tuple[tuple[Stream, Any], ...] = (("stdout", process.stdout), ("stderr", process.stderr))
        for name, pipe in streams:
            self.open += 1
            self._watched.append(pipe)
            threading.Thread(target=self._read, args=(name, pipe), name=f"agent-{name}", daemon=True).start()

    @property
    def waiting(self) -> bool:
        """Whether something is on its way: in a pipe, in a thread's hand, in the queue; asked in that order, it cannot
        slip through."""
        return any(readable(pipe, 0) for pipe in tuple(self._watched)) or bool(self._busy) or not self._queue.empty()

    def get(self, patience: float) -> tuple[Stream, bytes] | None:
        """The next piece; ``None`` when there is none within ``patience`` seconds, or a stream has ended."""
        if not self.open:
            self._wait_for_program(patience)
            return None
        try:
            stream, data = self._queue.get(timeout=patience)
        except queue.Empty:
            return None
        if not data:
            self.open -= 1
            return None
        return stream, data

    def program_ended(self) -> None:
        """From here on, what the program itself has written is in the pipes: no more than they hold is read."""
        self._ended = True

    def close(self) -> None:
        """Let the threads end; one whose pipe somebody else holds stays until that one writes or ends."""
        self._unwanted = True
        with suppress(queue.Empty):
            while True:
                self._queue.get_nowait()

    def _wait_for_program(self, patience: float) -> None:
        if self._process.returncode is not None:
            time.sleep(patience)
        else:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)

    def _read(self, name: Stream, pipe: IO[bytes]) -> None:
        left = _PIPE
        with pipe:
            while left > 0 and not self._unwanted:
                readable(pipe, None)
                # What is read by then was on its way beside all that the pipe held.
                ended = self._ended
                self._busy.add(name)
                data = pipe.read(_CHUNK)
                if not data:
                    break
                self._queue.put((name, data))
                self._busy.discard(name)
                if ended:
                    left -= len(data)
            self._watched.remove(pipe)
        self._queue.put((name, b""))
        self._busy.discard(name)


def readable(pipe: IO[bytes], patience: int | None) -> bool:
    """Whether a read would not wait, as soon as that is so or after ``patience`` milliseconds."""
    if sys.platform == "win32":
        return False  # nothing tells there: what is still in a thread's hand is waited for by ``pipe_grace``
    try:
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        return bool(poll.poll(patience))
    except ValueError:  # closed meanwhile
        return False


def _start(program: Program) -> subprocess.Popen[bytes]:
    try:
        return _spawn(program, program.command)
    except OSError as error:
        if error.errno != errno.ENOEXEC or sys.platform == "win32":
            raise
        # A script without a first line that names its interpreter is the shell's, as for execvp(3).
        return _spawn(program, ("/bin/sh", *program.command))


def _spawn(program: Program, command: tuple[str, ...], pipesize: int = _PIPE) -> subprocess.Popen[bytes]:
    """The pipes hold as much as they can: some programs do not wait at their end until their last words are read."""
    try:
        with _interruptible(), _as_input(program.given) as given:
            return subprocess.Popen(
                command,
                cwd=program.directory,
                env=program.environment,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pipesize=pipesize,
                **_GROUP,
            )
    except PermissionError as error:
        if error.errno != errno.EPERM or pipesize < 0:
            raise
        return _spawn(program, command, -1)  # the user has too many such pipes


@contextmanager
def _as_input(data: bytes) -> Iterator[IO[bytes] | int]:
    """``data`` as a standard input that ends; a pipe would need somebody to fill it."""
    if not data:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file


@contextmanager
def _interruptible() -> Iterator[None]:
    """Within it a program starts with SIGINT at its default, also if we are a job in the background.

    A shell starts such a job with SIGINT ignored, which programs inherit; one that is handled is at its default in a
    new program.  Only the main thread may change it.
    """
    deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not deaf or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _start_failure(program: Program, error: OSError) -> str:
    """Why the program could not be started; the system's words alone would send a person looking in the wrong place."""
    words = error.strerror
    if isinstance(error, FileNotFoundError):
        here = program.directory.is_dir()
        words = f"{'the interpreter named in its first line' if here else program.directory} is not there"
    return f"{program.name} could not be started: {words}"


def _last_line(tail: bytes) -> str:
    """The last line with anything to see, without escape sequences, cut to a readable length."""
    lines = re.split(r"[\r\n]+", tail.decode("utf-8", "replace"))
    seen = [text for line in lines if (text := _ESCAPE.sub("", line).strip())]
    if not seen:
        return ""
    return seen[-1] if len(seen[-1]) <= _REASON else seen[-1][:_REASON] + "…"
