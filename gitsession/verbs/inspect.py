"""What a person wants to know of one session."""

from __future__ import annotations

from dataclasses import dataclass

from gitsession.errors import GitSessionError
from gitsession.lifecycle import Doc
from gitsession.model import Session
from gitsession.store.sessions import SessionStore
from gitsession.verbs.checkpoint import repository_of
from gitsession.verbs.linking import Found, Linker
from gitsession.verbs.totals import times


@dataclass(frozen=True)
class Inspection:
    """``changed`` is net since the base; ``remaining`` are the files of the task that no checkpoint changed.

    ``commits`` hold the session's work; empty as well when its repository cannot be asked.
    """

    session: Session
    alive: bool
    changed: list[Doc]
    remaining: list[str]
    active_seconds: float
    paused_seconds: float
    commits: list[Found]


def inspect(store: SessionStore, session_id: str) -> Inspection:
    """Read one session, and ask its repository for commits."""
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
        commits=_commits(doc),
    )


def _commits(doc: Doc) -> list[Found]:
    if not doc.get("base"):
        return []
    try:
        return Linker(repository_of(doc)).commits(doc["id"])
    except GitSessionError:
        return []
