"""Sums over all runs of a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from gitsession.lifecycle import Doc
from gitsession.verbs.events import Totals


def times(doc: Doc) -> tuple[float, float]:
    """Seconds the session ran, and seconds it lay paused between its runs."""
    runs = doc.get("runs", [])
    active = paused = 0.0
    before: float | None = None
    for run in runs:
        start = moment(run["started_at"])
        end = moment(run["ended_at"] or doc["updated_at"])
        active += max(0.0, end - start)
        if before is not None:
            paused += max(0.0, start - before)
        before = end
    return active, paused


def moment(text: str) -> float:
    """Unix seconds of a time as session files write it."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def totals_of(doc: Doc, changes: Iterable[Mapping[str, Any]]) -> Totals:
    """The totals of a session whose net changes since its base are ``changes`` ({path, status})."""
    active, paused = times(doc)
    statuses = [change["status"] for change in changes]
    used = [checkpoint["tokens_used"] for checkpoint in doc["checkpoints"]] + [doc["cost"].get("pending", {})]
    return Totals(
        active_seconds=active,
        paused_seconds=paused,
        cost_usd=doc["cost"].get("estimated_cost_usd"),
        input_tokens=sum(part.get("input", 0) for part in used),
        output_tokens=sum(part.get("output", 0) for part in used),
        created=statuses.count("added"),
        modified=statuses.count("modified") + statuses.count("type"),
        deleted=statuses.count("deleted"),
    )
