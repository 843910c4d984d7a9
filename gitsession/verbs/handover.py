"""What one session hands over to the next: its conclusions, decisions, changes and findings, bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from gitsession import conversation, lifecycle
from gitsession.errors import UsageError
from gitsession.lifecycle import Doc
from gitsession.store.sessions import SessionStore

SESSION_LIMIT: Final = 8_000  # characters of one session
_LISTED: Final = 100


def hand_over(store: SessionStore, sessions: Sequence[str]) -> list[Doc]:
    """``{session, text}`` of each of ``sessions`` (ids, beginnings of ids, or ``latest``).

    ``SessionNotFound`` and ``SessionCorrupted`` as they are; ``UsageError`` for one that has not ended its run.
    """
    found: list[Doc] = []
    for name in sessions:
        session_id = store.resolve(name)
        if session_id in [one["session"] for one in found]:
            continue
        doc = store.read(session_id)
        if doc["status"] not in (lifecycle.PAUSED, lifecycle.COMPLETED) and not _died(store, doc):
            raise UsageError(
                f"session {session_id} is {doc['status']}: it has nothing to hand over yet",
                hint="wait until it is completed or paused",
            )
        found.append({"session": session_id, "text": summary(doc)})
    return found


def summary(doc: Doc) -> str:
    """What a session knows that another one can use, with its source named."""
    ended = f"{doc['status']} {doc['updated_at']}"
    text = "\n".join([f"Session {doc['id']} ({ended}), task: {_line(doc['task'])}", *parts(doc)])
    if len(text) > SESSION_LIMIT:
        text = text[:SESSION_LIMIT] + f"\n[cut: {len(text) - SESSION_LIMIT} more characters]"
    return text


def joined(handed_over: Iterable[Doc]) -> str | None:
    """All of it as one text, ``None`` if there is nothing."""
    return "\n\n".join(one["text"] for one in handed_over) or None


def parts(doc: Doc) -> Iterator[str]:
    """What was found, decided and changed, and what the agent said at the end, line by line."""
    found = list(conclusions(doc))
    for phase, given in found:
        yield f"Result of the {phase}: {given.get('summary', '')}"
        if given.get("details"):
            yield str(given["details"])
        decisions = given.get("decisions")
        if isinstance(decisions, list) and decisions:
            yield "Decisions:"
            yield from (f"- {decision}" for decision in decisions)
    if not found:
        yield "Checkpoints:"
        yield from (f"- {one['index']}: {_line(one['description'])}" for one in doc["checkpoints"][-_LISTED:])
    if said := next((run["said"] for run in reversed(doc.get("runs") or []) if run.get("said")), None):
        yield "The agent's last words:"
        yield str(said)
    yield from _listed("Changes", [f"{one['status']} {one['path']}" for one in _changes(doc)])
    yield from _listed(
        "Findings of its review",
        [
            f"{one['severity']} {one['file']}:{one['line']}: {_line(one['message'])}"
            for one in doc.get("findings") or []
        ],
    )


def conclusions(doc: Doc) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the model said at the end of each phase."""
    phase = None
    history = doc.get("context", {}).get("conversation_history") or []
    for message in history:
        phase, before = message.get("phase", phase), phase
        if message["role"] == "user" or before is None:
            continue
        for block in message["content"]:
            if block.get("type") == "tool_use" and block.get("name") == "finish_phase":
                yield str(phase), block["input"]
        if message.get("stop_reason") == "end_turn" and (text := conversation.text_of(message)):
            yield str(phase), {"summary": text}


def _changes(doc: Doc) -> list[Doc]:
    return [one for one in doc.get("context", {}).get("accumulated_changes") or [] if isinstance(one, dict)]


def _listed(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield f"{title}:"
        yield from (f"- {item}" for item in items[:_LISTED])
        if len(items) > _LISTED:
            yield f"- … and {len(items) - _LISTED} more"


def _line(text: str) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= 300 else line[:300] + "…"


def _died(store: SessionStore, doc: Doc) -> bool:
    """Whether it says that it runs, and nobody runs it."""
    return doc["status"] == lifecycle.RUNNING and store.owner(doc["id"]) is None
