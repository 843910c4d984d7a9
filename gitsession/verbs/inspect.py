"""What a person wants to know of one session."""

from __future__ import annotations

from dataclasses import dataclass

from gitsession.lifecycle import Doc
from gitsession.model import Session
from gitsession.store.sessions import SessionStore
from gitsession.verbs.totals import times


@dataclass(frozen=True)
class Inspection:
    """``changed`` is net since the base; ``remaining`` are the files of the task that no checkpoint changed."""

    session: Session
    alive: bool
    changed: list[Doc]
    remaining: list[str]
    active_seconds: float
    paused_seconds: float


def inspect(store: SessionStore, session_id: str) -> Inspection:
    """Read one session; git is not asked."""
    doc = store.read(session_id)
    session = store.load(session_id)
    changed = doc["context"].get("accumulated_changes", [])
    touched = {change["path"] for change in changed}
    active, paused = times(doc)
    return Inspection(
        session=session,
        alive=store.owner(session_id) is not None,
        changed=changed,
        remaining=[] if session.status == "completed" else [name for name in session.files if name not in touched],
        active_seconds=active,
        paused_seconds=paused,
    )
