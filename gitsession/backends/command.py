"""The ``command`` backend: any program is an agent.

The program runs in the session's worktree, in a session and process group of its own, with nothing on its standard
input and the user's environment, in which it finds

    PINABLE_SESSION_ID          the session's id
    PINABLE_TASK                the task's text
    PINABLE_FILES               the files the task is about, relative to the worktree, one a line; may be empty
    PINABLE_PHASE               the phase a former run was in; may be empty
    PINABLE_RESUME              the number of the checkpoint to go on from; not set on a fresh start
    PINABLE_RESUME_DESCRIPTION  that checkpoint's description; not set on a fresh start
    PINABLE_MODEL               the model asked for; not set when none was
    PINABLE_CONTEXT             a file with what other sessions hand over, UTF-8; not set when there is nothing
    PINABLE_ACK                 a named pipe that tells of checkpoints taken (``gitsession.backends.acknowledge``)

Variables that would point its git at another repository or index (they are set inside a git hook) are taken out: the
agent works on the repository that its directory is in.  How it may speak is told in ``gitsession.backends.directives``.

Exit status 0 without an ``::error::`` is success, anything else is a failure with the reason.  A run that failed or
was stopped leaves no process behind.  After a success, processes that the program started on purpose live on; those
that still hold its output are named in ``Done.summary``, and what they print later is not waited for.
"""

from __future__ import annotations

import errno
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from gitsession.backends.acknowledge import Acknowledgements
from gitsession.backends.base import Answer, Capabilities, Done, Event, Failed, Job, Stream, Tick
from gitsession.backends.contexts import context_file
from gitsession.backends.directives import Speech, Text
from gitsession.backends.processes import MARK, descendants_of, ending, finish, marked
from gitsession.errors import BackendMissing, UsageError
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
_MAX_VARIABLE: Final = 128 * 1024 - 1  # Linux takes no more for one variable, its name included
_REPOSITORY_VARIABLES: Final = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
_RESUME_VARIABLES: Final = ("PINABLE_RESUME", "PINABLE_RESUME_DESCRIPTION")
# Windows has no signals: its branches follow its documentation and have not been run.
if sys.platform == "win32":
    _INTERRUPT, _TERMINATE, _KILL = signal.CTRL_BREAK_EVENT, signal.SIGTERM, signal.SIGTERM
    _GROUP: Final[dict[str, Any]] = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
else:
    _INTERRUPT, _TERMINATE, _KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
    _GROUP: Final[dict[str, Any]] = {"start_new_session": True}
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x1f\x7f-\x9f]+")


class CommandBackend:
    """Runs one program; all times are in seconds."""

    name = "command"
    capabilities = Capabilities(takes_command=True, takes_model=True)

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

    def validate(self, job: Job) -> None:
        if not job.command or not job.command[0]:
            raise UsageError("no program given", hint="say what to run after a --, for example: -- ./agent.sh")
        for name, value in _variables(job).items():
            size = len(name) + 1 + len(os.fsencode(value))
            if size > _MAX_VARIABLE:
                raise UsageError(
                    f"{name} would be {size // 1024} KB, and a program's environment takes 128 KB",
                    hint="give a shorter --task or fewer --files",
                )
            if "\0" in value:
                raise UsageError(f"{name} cannot hold a NUL character")
        if any("\n" in file for file in job.files):
            raise UsageError("PINABLE_FILES cannot list a name with a newline in it")
        _find_program(job)

    def run(self, job: Job) -> Generator[Event, Answer, None]:
        if self.stopping:
            yield Failed("interrupted before it began", "interrupted")
            return
        with closing(Acknowledgements()) as acknowledgements, context_file(job.context) as context:
            try:
                self._process = process = _start(job, acknowledgements.path, context)
            except BackendMissing as error:
                yield Failed(str(error), "exit")
                return
            except OSError as error:
                yield Failed(_start_failure(job, error), "exit")
                return
            with closing(_Attendance(self, job, process)) as attendance:
                for event in attendance.events():
                    index = yield event
                    if isinstance(index, int):
                        acknowledgements.tell(index)

    def stop(self) -> None:
        # No more than this: a signal handler may interrupt anything, and only ``run`` knows whether the process number
        # is still the program's.
        self.stopping = True

    def kill(self) -> None:
        self.stopping = True
        if (process := self._process) is not None and process.poll() is None:
            self.killed = True
            _signal_group(process, _KILL)


class _Attendance:
    """Everything about one running program."""

    def __init__(self, backend: CommandBackend, job: Job, process: subprocess.Popen[bytes]) -> None:
        self._backend = backend
        self._job = job
        self._process = process
        self._pipes = _Pipes(process)
        self._speech = Speech(job.phase)
        self._noise = Text("stderr")
        self._noise_tail = b""
        self._tick_at = 0.0
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
            if self._speech.error is not None:
                yield from self._end_the_rest()
        yield from self._speech.end()
        yield from self._noise.end()
        if interrupted:
            yield from self._speech.give_up_error()
        self._over = True
        if interrupted:
            yield Failed(self._how_interrupted(), "interrupted")
        elif (reason := self._why_failed()) is not None:
            yield Failed(without_secrets(reason), "exit")
        else:
            yield Done(self._still_running())

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
        finish(ending(self._job.session_id, self._descendants, wait=0.0))

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
        for _ in ending(self._job.session_id, self._descendants, wait=self._backend.terminate_grace):
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
            stream, data = got
            if stream == "stdout":
                yield from self._speech.feed(data)
            else:
                self._noise_tail = (self._noise_tail + data)[-_TAIL:]
                yield from self._noise.feed(data)
        now = time.monotonic()
        if got is None or now >= self._tick_at:
            self._tick_at = now + _TICK
            yield Tick()

    def _how_interrupted(self) -> str:
        name = _short_name(self._job)
        if self._process.returncode is None:
            return f"interrupted, but {name} cannot be ended and still runs (process {self._process.pid})"
        if self._backend.killed or self._last_signal == _KILL:
            return f"interrupted; {name} had to be killed"
        return "interrupted"

    def _why_failed(self) -> str | None:
        if self._speech.error is not None:
            return self._speech.error
        status = self._process.returncode
        if status == 0:
            return None
        how = f"exited with status {status}" if status > 0 else f"was killed by {_signal_name(-status)}"
        words = _last_line(self._noise_tail)
        return f"{_short_name(self._job)} {how}" + (f": {words}" if words else "")

    def _still_running(self) -> str | None:
        """Names whoever holds the output of a program that has ended well."""
        if not self._pipes.open:
            return None
        holders = [f"{process.name} (process {process.pid})" for process in marked(self._job.session_id)]
        return "still running: " + ", ".join(holders) if holders else None


class _Pipes:
    """Both output streams, each read by a thread of its own into one bounded queue."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.open = 0
        self._process = process
        self._queue: queue.Queue[tuple[Stream, bytes]] = queue.Queue(_CHUNKS_AHEAD)
        self._ended = False
        self._unwanted = False
        for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            self.open += 1
            threading.Thread(target=self._read, args=(name, pipe), name=f"agent-{name}", daemon=True).start()

    @property
    def waiting(self) -> bool:
        return not self._queue.empty()

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
            while left > 0 and not self._unwanted and (data := pipe.read(_CHUNK)):
                self._queue.put((name, data))
                if self._ended:
                    left -= len(data)
        self._queue.put((name, b""))


def _start(job: Job, ack: Path | None, context: Path | None) -> subprocess.Popen[bytes]:
    program = _find_program(job)
    environment = _environment(job, {"PINABLE_ACK": ack, "PINABLE_CONTEXT": context})
    try:
        return _spawn([program, *job.command[1:]], job, environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC or sys.platform == "win32":
            raise
        # A script without a first line that names its interpreter is the shell's, as for execvp(3).
        return _spawn(["/bin/sh", program, *job.command[1:]], job, environment)


def _spawn(command: list[str], job: Job, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with _interruptible():
        return subprocess.Popen(
            command,
            cwd=job.worktree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            **_GROUP,
        )


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


def _environment(job: Job, files: Mapping[str, Path | None]) -> dict[str, str]:
    variables = _variables(job) | {name: str(path) for name, path in files.items() if path is not None}
    ours = (*variables, *files, *_RESUME_VARIABLES, "PINABLE_MODEL", *_REPOSITORY_VARIABLES)
    return {name: value for name, value in os.environ.items() if name not in ours} | variables


def _variables(job: Job) -> dict[str, str]:
    variables = {
        MARK: job.session_id,
        "PINABLE_TASK": job.task,
        "PINABLE_FILES": "\n".join(job.files),
        "PINABLE_PHASE": job.phase or "",
    }
    if job.resume is not None:
        variables.update(zip(_RESUME_VARIABLES, (str(job.resume), job.resume_description or ""), strict=True))
    if job.model is not None:
        variables["PINABLE_MODEL"] = job.model
    return variables


def _find_program(job: Job) -> str:
    """The program's absolute path, ``BackendMissing`` if it cannot be run: by path if it has a slash, else on PATH."""
    given = job.command[0]
    if "/" not in given and os.sep not in given:
        found = shutil.which(given)
        if found is None:
            raise BackendMissing(
                f"{given}: not found", hint=f"install it, or, if it is a file in this directory, write ./{given}"
            )
        return str(Path(found).absolute())
    path = job.worktree / given
    if not path.exists():
        raise BackendMissing(f"{given}: not found", hint="check the path of the program after the --")
    if path.is_dir():
        raise BackendMissing(f"{given}: is a directory", hint="name the program itself after the --")
    if not os.access(path, os.X_OK):
        raise BackendMissing(f"{given}: not executable", hint=f"chmod +x {shlex.quote(given)}")
    return str(path)


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.send_signal(number)
        else:
            os.killpg(process.pid, number)


def _short_name(job: Job) -> str:
    return Path(job.command[0]).name


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _start_failure(job: Job, error: OSError) -> str:
    """Why the program could not be started; the system's words alone would send a person looking in the wrong place."""
    words = error.strerror
    if isinstance(error, FileNotFoundError):
        missing = "the interpreter named in its first line" if job.worktree.is_dir() else str(job.worktree)
        words = f"{missing} is not there"
    return f"{_short_name(job)} could not be started: {words}"


def _last_line(tail: bytes) -> str:
    """The last line with anything to see, without escape sequences, cut to a readable length."""
    lines = re.split(r"[\r\n]+", tail.decode("utf-8", "replace"))
    seen = [text for line in lines if (text := _ESCAPE.sub("", line).strip())]
    if not seen:
        return ""
    return seen[-1] if len(seen[-1]) <= _REASON else seen[-1][:_REASON] + "…"
