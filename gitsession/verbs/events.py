"""What a run tells whoever watches it: the command line draws these, programs get them as JSON."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SessionCreated:
    session_id: str


@dataclass(frozen=True)
class Resuming:
    """A run goes on; ``index`` is null when there is no checkpoint yet and it starts from the base."""

    session_id: str
    index: int | None
    description: str | None


@dataclass(frozen=True)
class Warned:
    """Something the user should know that does not stop the run."""

    text: str


@dataclass(frozen=True)
class PhaseChanged:
    """A step of a phase begins (``done`` false) or has ended with a result (``done`` true)."""

    name: str
    text: str
    done: bool


@dataclass(frozen=True)
class AgentOutput:
    """What the agent printed: a line with its newline, or a piece of one; ``stream`` is stdout or stderr."""

    text: str
    stream: str


@dataclass(frozen=True)
class CheckpointSaved:
    index: int
    description: str
    files_changed: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...]
    trigger: str


@dataclass(frozen=True)
class BackendError:
    """What went wrong in the backend, in full: drawn as it is."""

    text: str


@dataclass(frozen=True)
class Totals:
    """Sums over all runs of the session; ``cost_usd`` is null when any part of it is unknown."""

    active_seconds: float
    paused_seconds: float
    cost_usd: float | None
    input_tokens: int
    output_tokens: int
    created: int
    modified: int
    deleted: int


@dataclass(frozen=True)
class Outcome:
    """How a run ended; ``exit_status`` is the program's."""

    session_id: str
    status: str
    exit_status: int
    reason: str | None
    index: int | None
    totals: Totals


@dataclass(frozen=True)
class Ended:
    outcome: Outcome


RunEvent = SessionCreated | Resuming | Warned | PhaseChanged | AgentOutput | CheckpointSaved | BackendError | Ended
