"""Agents that are programs of their own: Claude Code, Codex, Gemini CLI, opencode, each run headless under a session.

What they have in common is here: the program is found on PATH and started in the worktree (or where its own session is
found from) with the prompt on its standard input, where it shows in no list of processes; it tells what it does in JSON
lines.  What differs is a ``Dialect``: how to call it, and a ``Reader`` of what it says.

The agents' variables that tell a nested run of the same agent of the outer one are not passed on: a session of ours may
be started from within such an agent, and is none of its business.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from gitsession.backends.base import Answer, Bound, Capabilities, Done, Event, Failed, Job, Notice, Output, Tick
from gitsession.backends.jsonlines import JsonLines, Line
from gitsession.backends.processes import mark
from gitsession.backends.program import REPOSITORY_VARIABLES, Program, ProgramBackend
from gitsession.backends.versions import version_of
from gitsession.errors import BackendMissing, UsageError

# A record, which can come from elsewhere, names the model: it must not be taken for an option.
_MODEL: Final = re.compile(r"[^-\s\x00-\x1f][^\x00-\x1f]*")
_OUTER: Final = (
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_EFFORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PROJECT_DIR",
    "CODEX_THREAD_ID",
    "GEMINI_CLI",
    "GEMINI_CLI_NO_RELAUNCH",
    "OPENCODE",
    "OPENCODE_PID",
)


@dataclass(frozen=True)
class Call:
    """How the agent's program is called for a job: arguments, what it reads, variables of the environment."""

    arguments: tuple[str, ...]
    prompt: str
    directory: Path
    variables: dict[str, str] = field(default_factory=dict)


class Reader(Protocol):
    """Understands what one run of an agent says."""

    def heard(self, line: Line) -> Iterator[Event]:
        """The events of one JSON object; an unknown one is none."""

    def verdict(self, status: int, why: str) -> Done | Failed | None:
        """How the work went (see ``program.Listener``); ``None`` if the agent cannot go on with its session."""


@runtime_checkable
class Attentive(Protocol):
    """A ``Reader`` of an agent that says things beside its JSON lines."""

    @property
    def waiting(self) -> bool:
        """What it prints now is no sign of life, but that it waits."""

    def overheard(self, text: str) -> None:
        """The next piece of its standard error, wherever it is cut."""

    def ended(self) -> Iterator[Event]:
        """What is known now that the agent has ended, however it did."""


class Dialect(Protocol):
    """What is particular to one agent."""

    @property
    def name(self) -> str: ...

    @property
    def program(self) -> str:
        """The program's name on PATH."""

    @property
    def package(self) -> str:
        """How to get it: a line for a shell."""

    @property
    def known(self) -> str:
        """A regular expression of the versions it was tried with."""

    @property
    def capabilities(self) -> Capabilities: ...

    def refuse(self, job: Job) -> None:
        """``UsageError`` if the job cannot be done by this agent."""

    def call(self, job: Job) -> Call: ...

    def reader(self, job: Job) -> Reader: ...


class WrappedBackend(ProgramBackend):
    """Runs an agent's own program; see ``ProgramBackend`` for the waits."""

    def __init__(self, dialect: Dialect, **waits: float) -> None:
        super().__init__(**waits)
        self._dialect = dialect
        self._version: str | None = None

    @property
    def name(self) -> str:
        return self._dialect.name

    @property
    def capabilities(self) -> Capabilities:
        return self._dialect.capabilities

    def validate(self, job: Job) -> None:
        if not job.task.strip():
            raise UsageError("no task given", hint="say what to do with --task TEXT")
        if job.model is not None and not _MODEL.fullmatch(job.model):
            raise UsageError(f"{job.model!r} cannot be a model's name", hint="see --model")
        self._dialect.refuse(job)
        self._version = version_of(self._find())

    def run(self, job: Job) -> Generator[Event, Answer, None]:
        if job.max_cost is not None and job.max_cost <= 0:
            yield Failed("the limit of --max-cost is reached", "limit")
            return
        try:
            program = self._find()
        except BackendMissing as error:
            yield Failed(str(error), "exit")
            return
        yield from self._warn_of_version(job)
        if (yield from self._once(job, program)) or job.native is None:
            return
        yield Notice(
            f"{self.name} cannot go on with its session {job.native.id}; it begins anew, told what was done so far"
        )
        yield from self._once(replace(job, native=None, rewind=False), program)

    def _once(self, job: Job, program: str) -> Generator[Event, Answer, bool]:
        """One run of the program; ``False`` if it ended because it cannot go on with its own session."""
        call = self._dialect.call(job)
        started = Program((program, *call.arguments), _environment(job, call), call.directory, call.prompt.encode())
        reader = self._dialect.reader(job)
        listener = _Hearing(reader)
        with self.attended(job.session_id, started, listener) as events:
            for event in events:
                if isinstance(event, Failed) and listener.lost and job.native is not None:
                    return False
                for told in _attended(reader, event):
                    if isinstance(told, Bound):
                        native = replace(told.native, version=told.native.version or self._version)
                        anew = job.native is None and job.briefing is not None
                        told = Bound(native, briefed=told.briefed or anew)
                    yield told
        return True

    def _warn_of_version(self, job: Job) -> Iterator[Event]:
        """Once for a version that this was not tried with: what it says may be misunderstood."""
        before = job.native.version if job.native else None
        if self._version is None or self._version == before or re.fullmatch(self._dialect.known, self._version):
            return
        yield Notice(f"{self._dialect.program} {self._version} is not a version this was tried with")

    def _find(self) -> str:
        found = shutil.which(self._dialect.program)
        if found is None:
            raise BackendMissing(f"{self._dialect.program}: not found", hint=f"install it: {self._dialect.package}")
        return str(Path(found).absolute())


class _Hearing(JsonLines):
    """A ``Reader`` as a ``program.Listener``."""

    failed = False
    lost = False

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader.heard)
        self._reader = reader

    def verdict(self, status: int, why: str) -> Done | Failed:
        verdict = self._reader.verdict(status, why)
        if verdict is None:
            self.lost = True
            return Failed(why, "exit")
        return verdict


def _attended(reader: Reader, event: Event) -> Iterator[Event]:
    """The event as it is told of an ``Attentive`` reader's agent, after what comes with it."""
    if isinstance(reader, Attentive):
        match event:
            case Output(text, "stderr"):
                reader.overheard(text)
            case Tick() if reader.waiting:
                event = Tick()
            case Done() | Failed():
                yield from reader.ended()
    yield event


def _environment(job: Job, call: Call) -> dict[str, str]:
    without = (*REPOSITORY_VARIABLES, *_OUTER)
    ours = {name: value for name, value in os.environ.items() if name not in without}
    return {**ours, **mark(job.session_id), **call.variables}
