"""What every backend is: something that works on a job and tells what happens.

A backend object serves one run.  ``validate`` is asked before a session exists and writes nothing.  ``run``
is an iterator of events; it yields something at least every tenth of a second while the work goes on, never raises
for what the work does, and its last event, and only its last, is ``Done`` or ``Failed``.  When the iterator is
closed early the work is killed.  ``stop`` and ``kill`` may be called from another thread or a signal handler, at
any time, even before ``run``.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gitsession.conversation import Message

Stream = Literal["stdout", "stderr"]
FailureKind = Literal["exit", "network", "limit", "interrupted", "denied", "refused", "internal"]
"""``refused``: the same request cannot work, a person has to change something first (a key, a model's name).
``denied``: the agent wanted to do what it may not, and ended without it."""


@dataclass(frozen=True)
class Capabilities:
    """What a request may ask of the backend."""

    takes_command: bool
    """A program and its arguments, given after ``--``."""
    takes_model: bool
    """A model's name."""
    limits_turns: bool = False
    """A limit on the model's replies."""
    limits_cost: bool = False
    """A limit on what the model costs."""
    takes_leave: bool = False
    """Leave to run commands; without it the agent may read and edit files only."""
    keeps_conversation: bool = False
    """The agent itself keeps what was said, in sessions of its own (``Native``)."""
    rewinds: bool = False
    """To go on from an earlier place of its conversation."""
    takes_arguments: bool = False
    """Arguments of the agent's own program, given after ``--``."""
    default_model: str | None = None
    """The model that is taken when none is asked for."""


@dataclass(frozen=True)
class Native:
    """The agent's own session, by which the agent finds what was said: its id is the agent's to give."""

    id: str
    directory: Path
    """Where the agent ran; some find a session only from there."""
    version: str | None = None
    model: str | None = None
    transcript: str | None = None
    """The agent's own record of the session, where it tells of it."""
    at: str | None = None
    """How far its conversation has come, where the agent can go back to such a place."""
    counted: dict[str, int] | None = None
    """Its own sums of tokens that were told as ``Usage``, of an agent that sums up all that its session ever spent."""


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
    phases_completed: tuple[str, ...] = ()
    history: Sequence[Message] = ()
    """The conversation of former runs (``gitsession.conversation``)."""
    context: str | None = None
    """What other sessions hand over; every backend passes it on."""
    news: tuple[str, ...] = ()
    """What happened to the files since the former run, in sentences."""
    allow_commands: bool = False
    max_turns: int | None = None
    max_cost: float | None = None
    """What a backend that ``Capabilities`` say so holds itself: US dollars of this run."""
    arguments: tuple[str, ...] = ()
    """For the agent's own program."""
    native: Native | None = None
    """The agent's own session that is to go on; ``None`` if another agent worked last, or none."""
    rewind: bool = False
    """The conversation is to go on from ``native.at``: what was said after it is not to be known."""
    briefing: str | None = None
    """What was done so far, for an agent that does not know."""
    workspace: Workspace | None = None
    """The files, for a backend that reads them in this process."""


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
    cache_write: int = 0
    """Tokens that went into the model's cache; not in ``input``."""
    cache_read: int = 0
    """Tokens that came from the model's cache; not in ``input``."""
    model: str | None = None
    """Whose price to look up when the cost is not known."""
    run_cost_usd: float | None = None
    """What the run has cost until now by the agent's word, in place of what was reckoned for its parts."""


@dataclass(frozen=True)
class CheckpointHint:
    """The work has come to a point worth keeping; ``description`` is one line.

    Without ``always`` only if files changed; of one ``call`` (an id of the backend's) there is one checkpoint.  It is
    of all files, but where other calls may be at work on some: then ``only`` of these, as the agent names them.
    """

    description: str
    always: bool = True
    call: str | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bound:
    """The agent works in this session of its own, or has come further in it: checkpoints that follow belong there."""

    native: Native
    briefed: bool = False
    """The session is a new one: its agent was told ``Job.briefing``."""


@dataclass(frozen=True)
class Tick:
    """Time passes; ``heard``: the work gave a sign of life that is no event."""

    heard: bool = False


@dataclass(frozen=True)
class Done:
    """The work is finished; ``summary`` is for a person, ``said`` the agent's own last words."""

    summary: str | None = None
    said: str | None = None


@dataclass(frozen=True)
class Failed:
    """The work has ended unfinished; ``reason`` is one line for a person, ``said`` the agent's own last words."""

    reason: str
    kind: FailureKind
    said: str | None = None


@dataclass(frozen=True)
class Notice:
    """Something a person should see: a retry, a limit; one line."""

    text: str


@dataclass(frozen=True)
class Prompt:
    """Our own words to the model; they may begin a phase, and tell the task."""

    text: str
    phase: str | None = None
    task: str | None = None


@dataclass(frozen=True)
class Turn:
    """The model is about to be asked for a reply; answered with the reason, if there is one, not to."""

    model: str


@dataclass(frozen=True)
class Reply:
    """A complete reply of the model: it is durable when ``run`` goes on, and is never asked for again."""

    message: Message
    usage: Usage


@dataclass(frozen=True)
class ToolStarted:
    """A command begins: if nothing is heard of it any more, its outcome is unknown."""

    call: str
    text: str


@dataclass(frozen=True)
class ToolResult:
    """What a tool call came to, as the model is told; it may begin a phase."""

    call: str
    text: str
    error: bool = False
    phase: str | None = None


@dataclass(frozen=True)
class FileEdit:
    """What one file is to become.  ``data`` is all of it, ``None`` to delete it; ``path`` is a repository path.

    ``expected`` is what has to be there for it: an object id of its bytes, ``None`` for nothing.  ``executable`` is
    for a new file; one that is there keeps its mode.
    """

    path: bytes
    data: bytes | None
    expected: str | None
    executable: bool = False


@dataclass(frozen=True)
class Edit:
    """Change files, exactly once; answered with an ``EditOutcome``.

    When it is done ``told`` is what a person is told, ``result`` what the model is.  ``what`` describes the checkpoint
    that is taken then, unless (``more``) another edit of the same step follows.
    """

    call: str
    changes: tuple[FileEdit, ...]
    told: str
    result: str
    what: str
    more: bool = False


@dataclass(frozen=True)
class EditOutcome:
    """``reason`` says why an edit was not made; ``None``: it was."""

    reason: str | None = None


@dataclass(frozen=True)
class ReviewWanted:
    """What the session changed is to be reviewed; answered with a text that shows it."""


@dataclass(frozen=True)
class Finding:
    """One remark of a review.  ``line`` counts from 1; ``quote`` is text that stands in the file there."""

    file: str
    line: int
    severity: str
    message: str
    quote: str


@dataclass(frozen=True)
class Findings:
    """What a review found; answered with ``FindingsChecked``."""

    call: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class FindingsChecked:
    """The findings whose quotes stand where they say, and why each of the others was dropped."""

    kept: tuple[Finding, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class Compacted:
    """The results of these calls were shortened, because the conversation had become too long for the model."""

    calls: tuple[str, ...]


Conversing = Prompt | Turn | Reply | ToolStarted | ToolResult | Edit | ReviewWanted | Findings | Compacted
"""The events of a backend that holds a conversation itself."""
Event = Phase | Output | Usage | CheckpointHint | Bound | Tick | Notice | Done | Failed | Conversing
Answer = int | str | EditOutcome | FindingsChecked | None
"""What ``run`` is sent for an event: after a ``CheckpointHint`` the number of its checkpoint, after the events that say
so what they say, else ``None``."""


class FileProblem(Exception):
    """A file cannot be given to the model, or taken from it; the text says why, in words for the model."""


@dataclass(frozen=True)
class FileSeen:
    """A file as it was read: its bytes, their object id, and whether it may be executed."""

    data: bytes
    oid: str
    executable: bool


class Workspace(Protocol):
    """The working tree for a model: nothing outside of it, nothing of git's, no link is followed."""

    def files(self) -> list[bytes]:
        """The files that git would see: tracked, and untracked but not ignored; sorted."""

    def read(self, path: bytes, limit: int) -> FileSeen | None:
        """A file, ``None`` if there is none; ``FileProblem`` if it is no file, or has more than ``limit`` bytes."""

    def search(self, pattern: str, below: bytes, ignore_case: bool, limit: int) -> bytes:
        """Lines ``path:line:text`` that match an extended regular expression, at most ``limit`` bytes of them."""


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

    def run(self, job: Job) -> Generator[Event, Answer, None]:
        """Work on the job."""

    def stop(self) -> None:
        """Ask the work to end, then insist; ``run`` ends with ``Failed`` of kind ``interrupted``."""

    def kill(self) -> None:
        """End the work at once."""
