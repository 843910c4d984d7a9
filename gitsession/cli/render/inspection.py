"""``session inspect``: one session as a person wants to see it; ``--json``: one object::

{"session": the whole record (see ``gitsession.model``), "alive", "changed": [{"path", "status"}],
 "remaining": [path], "active_seconds", "paused_seconds", "commits": [as in ``session commits --json``]}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gitsession.cli.render import checkpoints, origins
from gitsession.cli.render.listing import state
from gitsession.cli.render.out import write
from gitsession.cli.render.table import aligned
from gitsession.cli.render.text import one_line, safe_text
from gitsession.cli.render.units import count, date_time, duration, money

if TYPE_CHECKING:
    from gitsession.lifecycle import Doc
    from gitsession.model import Session
    from gitsession.verbs.inspect import Inspection

_SIGNS = {
    "added": ("+", "(new)"),
    "modified": ("~", "(modified)"),
    "type": ("~", "(type changed)"),
    "deleted": ("-", "(deleted)"),
}
_ENDS = {"paused": "Paused", "completed": "Ended"}
_LABEL_CELLS = len("Created:  ")
_SHOWN = 50  # paths; --verbose shows all


def draw(found: Inspection, *, verbose: bool) -> None:
    """The source layout; ``verbose`` adds what else the record knows."""
    session = found.session
    limit = None if verbose else _SHOWN
    parts = [
        _head(session, found.alive),
        _section("Checkpoints", checkpoints.short_lines(session.checkpoints, session.created_at) or ["(none)"]),
        _section("Files changed so far", _cut(_changes(found.changed), limit)),
        _section("Remaining work", _cut(_remaining(found.remaining), limit)),
        _section("Commits", origins.short_lines(found.commits)),
    ]
    if verbose:
        parts += [_section(title, aligned(pairs)) for title, pairs in _details(found)]
    write("\n\n".join("\n".join(lines) for lines in parts if lines))


def _head(session: Session, alive: bool) -> list[str]:
    backend = f"{session.backend} ({session.model})" if session.model else session.backend
    pairs = [
        ("ID", session.id),
        ("Status", state(session.status, alive)),
        ("Backend", backend),
        ("Task", session.task),
        ("Created", date_time(session.created_at)),
    ]
    if session.status in _ENDS:
        ended = session.runs[-1].ended_at if session.runs else None
        pairs.append((_ENDS[session.status], date_time(ended or session.updated_at)))
    if (session.model_extra or {}).get("restoring"):
        pairs.append(("Restore", "begun and not finished; the next restore, undo, checkpoint or run finishes it"))
    return [f"{label + ': ':{_LABEL_CELLS}}{one_line(value)}" for label, value in pairs]


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _changes(changed: Sequence[Doc]) -> list[tuple[str, str]]:
    """``+ src/new.go  (new)``: new files, then modified ones, then deleted ones."""
    order = list(_SIGNS)
    ranked = sorted(changed, key=lambda change: (order.index(change["status"]), change["path"]))
    signed = [(*_SIGNS[change["status"]], safe_text(change["path"])) for change in ranked]
    return [(f"{sign} {path}", word) for sign, word, path in signed]


def _remaining(paths: Sequence[str]) -> list[tuple[str, str]]:
    return [(f"- {safe_text(path)}", "(not started)") for path in paths]


def _cut(pairs: Sequence[tuple[str, str]], limit: int | None) -> list[str]:
    """No more than ``limit`` lines, and a word about the rest."""
    shown = aligned(pairs[:limit])
    rest = len(pairs) - len(shown)
    return [*shown, f"… and {rest:,} more (--verbose shows them)"] if rest else shown


def _details(found: Inspection) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    session = found.session
    yield (
        "Progress",
        [
            ("phase", one_line(session.current_phase or "-")),
            ("phases completed", one_line(", ".join(session.phases_completed) or "-")),
            ("runs", str(len(session.runs))),
            ("time", f"{duration(found.active_seconds)} at work, {duration(found.paused_seconds)} paused"),
            ("paused because", one_line(session.pause_reason or "-")),
        ],
    )
    yield (
        "Cost",
        [
            ("tokens", checkpoints.tokens(session.checkpoints, (session.cost.model_extra or {}).get("pending"))),
            ("estimated", money(session.cost.estimated_cost_usd)),
        ],
    )
    context = session.context
    yield (
        "Context",
        [
            ("conversation", count(len(context.conversation_history), "message")),
            ("changes", count(len(context.accumulated_changes), "file")),
            ("branch", one_line(context.working_branch or "-")),
        ],
    )
    yield "Metadata", [(name, _value(value)) for name, value in session.metadata.model_dump().items()]
    if session.repository:
        yield "Repository", [(name, _value(value)) for name, value in session.repository.model_dump().items()]
    if session.command:
        yield "Command", [("program", one_line(session.command[0])), ("arguments", _value(session.command[1:]))]
    if agents := (session.model_extra or {}).get("agents"):
        yield "Agents' own sessions", [(one_line(str(one["agent"])), _agent(one)) for one in agents]
    skipped = {item.path: item.reason for one in session.checkpoints for item in one.skipped}
    if skipped:
        yield "Left out of checkpoints", [(safe_text(path), one_line(reason)) for path, reason in skipped.items()]


def _agent(agent: Doc) -> str:
    known = (agent.get("id"), agent.get("version"), agent.get("model"))
    return one_line(", ".join(str(value) for value in known if value))


def _value(value: Any) -> str:
    return "-" if value is None else one_line(str(value))


def as_object(found: Inspection) -> dict[str, Any]:
    """The documented JSON object."""
    return {
        "session": found.session.model_dump(mode="json"),
        "alive": found.alive,
        "changed": found.changed,
        "remaining": found.remaining,
        "active_seconds": found.active_seconds,
        "paused_seconds": found.paused_seconds,
        "commits": [origins.found_as_object(one) for one in found.commits],
    }
