"""What every backend is: something that works on a job and tells what happens.

A backend object serves one run.  ``validate`` is asked before a session exists and writes nothing.  ``run``
is an iterator of events; it yields something at least every tenth of a second while the work goes on, never raises
for what the work does, and its last event, and only its last, is ``Done`` or ``Failed``.  When the iterator is
closed early the work is killed.  ``stop`` and ``kill`` may be called from another thread or a signal handler, at
any time, even before ``run``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Stream = Literal["stdout", "stderr"]
FailureKind = Literal["exit", "network", "limit", "interrupted", "internal"]


@dataclass(frozen=True)
class Capabilities:
    """What a request may ask of the backend."""

    takes_command: bool
    """A program and its arguments, given after ``--``."""
    takes_model: bool
    """A model's name."""


@dataclass(frozen=True)
class Job:
    """What is to be done, and where a former run left it."""

    session_id: str
    task: str
    files: tuple[str, ...]
    """What the task is about: repository paths (``gitsession.paths``), relative to the worktree."""
    phase: str | None
    """The phase a former run was in."""
    resume: int | None
    """The checkpoint the run goes on from; ``None`` when it starts from the base."""
    resume_description: str | None
    worktree: Path
    model: str | None = None
    command: tuple[str, ...] = ()
    """Program and arguments; a program given by path is absolute, or else relative to the worktree."""


@dataclass(frozen=True)
class Phase:
    """A step of a phase begins, or with ``done`` has ended; ``text`` says which and may be empty.

    A phase goes on until another name is told.
    """

    name: str
    text: str = ""
    done: bool = False


@dataclass(frozen=True)
class Output:
    """One line with its newline, or a piece of one, as printed; the texts of one stream, joined, are that stream."""

    text: str
    stream: Stream = "stdout"


@dataclass(frozen=True)
class Usage:
    """Tokens spent since the last ``Usage``, and what they cost if that is known."""

    input: int
    output: int
    cost_usd: float | None = None


@dataclass(frozen=True)
class CheckpointHint:
    """The work has come to a point worth keeping; ``description`` is one line."""

    description: str


@dataclass(frozen=True)
class Tick:
    """Nothing new: time passes."""


@dataclass(frozen=True)
class Done:
    """The work is finished; ``summary`` is for a person."""

    summary: str | None = None


@dataclass(frozen=True)
class Failed:
    """The work has ended unfinished; ``reason`` is one line for a person."""

    reason: str
    kind: FailureKind


Event = Phase | Output | Usage | CheckpointHint | Tick | Done | Failed


class Backend(Protocol):
    """See the module's docstring for the rules between these."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def pid(self) -> int | None:
        """The process that works on the job, while there is one."""

    def validate(self, job: Job) -> None:
        """``BackendMissing`` or ``UsageError`` if the job cannot be run here."""

    def run(self, job: Job) -> Iterator[Event]:
        """Work on the job."""

    def stop(self) -> None:
        """Ask the work to end, then insist; ``run`` ends with ``Failed`` of kind ``interrupted``."""

    def kill(self) -> None:
        """End the work at once."""
