"""What may happen to a session, and what each journal entry does to its record.

Two pure functions.  ``transition`` is the table of states; ``fold`` is how the plain dictionary that a
session file holds (see ``gitsession.model``) changes with one journal entry.  The session file is a snapshot
of that fold: reading one is loading the snapshot and folding what the journal holds beyond it.

States::

    created ──► running ──► completed
                 ▲   │
                 │   ▼
                paused

A run is the time between entering and leaving ``running``.  ``created -> paused`` does not exist: a session
that never ran has nothing to resume from but its start, and starts.
"""

from __future__ import annotations

from typing import Any, Final

from gitsession.errors import IllegalTransition

CREATED: Final = "created"
RUNNING: Final = "running"
PAUSED: Final = "paused"
COMPLETED: Final = "completed"
STATES: Final = (CREATED, RUNNING, PAUSED, COMPLETED)

_LEGAL: Final = {(CREATED, RUNNING), (RUNNING, PAUSED), (RUNNING, COMPLETED), (PAUSED, RUNNING)}
_WHY_NOT: Final = {
    COMPLETED: "it is completed, and a completed session does not change",
    PAUSED: "it is paused: it has to be resumed first",
    CREATED: "it has not run yet",
    RUNNING: "it is running already",
}

Doc = dict[str, Any]
Entry = dict[str, Any]


def transition(current: str, target: str) -> str:
    """``target`` if the session may go there from ``current``, else ``IllegalTransition``."""
    if (current, target) in _LEGAL:
        return target
    why = _WHY_NOT.get(current, f"its state {current!r} is unknown")
    raise IllegalTransition(f"the session cannot become {target}: {why}")


def fold(doc: Doc, entry: Entry) -> None:
    """Apply one journal entry to ``doc`` in place; entries it has seen (by ``seq``) change nothing.

    Unknown events are kept in the journal and change only ``updated_at``: they may come from a newer version.
    """
    folded = doc.setdefault("journal", {"seq": 0, "offset": 0})
    if entry["seq"] <= folded["seq"]:
        return
    folded["seq"] = entry["seq"]
    doc["updated_at"] = entry["at"]
    effect = _EFFECTS.get(entry["event"])
    if effect is not None:
        effect(doc, entry)


def _status(doc: Doc, entry: Entry) -> None:
    """``status``: ``to``, ``reason`` (why it paused), ``run`` (facts of a run that begins)."""
    doc["status"] = transition(doc["status"], entry["to"])
    runs = doc.setdefault("runs", [])
    if entry["to"] == RUNNING:
        doc["pause_reason"] = None
        runs.append({"started_at": entry["at"], "ended_at": None, **entry.get("run", {})})
        doc["metadata"].setdefault("start_time", None)
        if doc["metadata"]["start_time"] is None:
            doc["metadata"]["start_time"] = entry["at"]
        return
    if entry["to"] == PAUSED:
        doc["pause_reason"] = entry.get("reason")
    if runs and runs[-1]["ended_at"] is None:
        # A run that died is closed late, at the moment it was last seen alive.
        runs[-1]["ended_at"] = entry.get("ended_at") or entry["at"]
        runs[-1]["end"] = entry.get("reason") or entry["to"]


def _phase(doc: Doc, entry: Entry) -> None:
    """``phase``: ``phase`` begins, or with ``done`` is completed."""
    name = entry["phase"]
    doc["current_phase"] = name
    completed = doc.setdefault("phases_completed", [])
    if entry.get("done") and name not in completed:
        completed.append(name)


def _checkpoint(doc: Doc, entry: Entry) -> None:
    """``checkpoint``: ``record`` is the next checkpoint, or the same one told again."""
    record = entry["record"]
    checkpoints = doc.setdefault("checkpoints", [])
    if record["index"] < len(checkpoints):
        return
    checkpoints.append(record)
    doc["cost"]["pending"] = {"input": 0, "output": 0}
    context = doc.setdefault("context", {})
    context["accumulated_changes"] = accumulate(context.get("accumulated_changes", []), record.get("changes", []))


def _usage(doc: Doc, entry: Entry) -> None:
    """``usage``: tokens spent (``input``, ``output``) and, if known, ``cost_usd``."""
    cost = doc["cost"]
    pending = cost.setdefault("pending", {"input": 0, "output": 0})
    pending["input"] += entry["input"]
    pending["output"] += entry["output"]
    tokens = entry["input"] + entry["output"]
    cost["total_tokens"] = cost.get("total_tokens", 0) + tokens
    price = entry.get("cost_usd")
    if price is None:
        cost["unpriced_tokens"] = cost.get("unpriced_tokens", 0) + tokens
    else:
        cost["priced_usd"] = round(cost.get("priced_usd", 0.0) + price, 9)
    # One unpriced token makes the total unknown: a sum that leaves something out would be a lie.
    known = not cost.get("unpriced_tokens") and "priced_usd" in cost
    cost["estimated_cost_usd"] = cost["priced_usd"] if known else None


def _base(doc: Doc, entry: Entry) -> None:
    """``base``: the commit that holds the files as they were before the first change."""
    doc["base"] = entry["base"]


def _settings(doc: Doc, entry: Entry) -> None:
    """``settings``: a resume that goes on with another backend, model, command or list of files."""
    doc.update(entry["values"])


_EFFECTS: Final = {
    "status": _status,
    "phase": _phase,
    "checkpoint": _checkpoint,
    "usage": _usage,
    "base": _base,
    "settings": _settings,
}


def accumulate(so_far: list[Doc], changes: list[Doc]) -> list[Doc]:
    """Net changes since the base: what was known, followed by one more checkpoint's."""
    net = {change["path"]: change["status"] for change in so_far}
    for change in changes:
        path, status = change["path"], change["status"]
        before = net.get(path)
        if before == "added" and status == "deleted":
            del net[path]
        elif before == "added":
            net[path] = "added"
        elif before == "deleted" and status == "added":
            net[path] = "modified"
        else:
            net[path] = status
    return [{"path": path, "status": status} for path, status in net.items()]
