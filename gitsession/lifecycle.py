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

from gitsession import conversation
from gitsession.errors import IllegalTransition

CREATED: Final = "created"
RUNNING: Final = "running"
PAUSED: Final = "paused"
COMPLETED: Final = "completed"
SCHEMA_VERSION: Final = 1
MAX_LISTED_CHANGES: Final = 1000
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


class NetChanges(list[Any]):
    """A list of ``{path, status}``, one a path, net since the base, in no order of note.

    It knows where each path is, so that a checkpoint costs what it changes however long the list has become.
    Items of another shape are kept.
    """

    def __init__(self, items: list[Any]) -> None:
        super().__init__(items)
        self._places = {item["path"]: place for place, item in enumerate(self) if _has_path(item)}

    def add(self, path: str, status: str) -> None:
        """Follow what is known of ``path`` by one more change."""
        place = self._places.get(path)
        if place is None:
            self._places[path] = len(self)
            self.append({"path": path, "status": status})
            return
        before = self[place]["status"]
        if before == "added" and status == "deleted":
            self._forget(path)
        elif before != "added":
            back = before == "deleted" and status == "added"
            self[place] = {**self[place], "status": "modified" if back else status}

    def _forget(self, path: str) -> None:
        """Take ``path`` out; the last item takes its place."""
        place, last = self._places.pop(path), self.pop()
        if place < len(self):
            self[place] = last
            if _has_path(last):
                self._places[last["path"]] = place


def _has_path(item: Any) -> bool:
    return isinstance(item, dict) and "path" in item and "status" in item


def transition(current: str, target: str) -> str:
    """``target`` if the session may go there from ``current``, else ``IllegalTransition``."""
    if (current, target) in _LEGAL:
        return target
    why = _WHY_NOT.get(current, f"its state {current!r} is unknown")
    raise IllegalTransition(f"the session cannot become {target}: {why}")


def fold(doc: Doc, entry: Entry) -> None:
    """Apply one journal entry to ``doc`` in place; entries it has seen (by ``seq``) change nothing.

    ``IllegalTransition`` leaves ``doc`` as it was.

    Unknown events are kept in the journal and change only ``updated_at``: they may come from a newer version.
    """
    folded = doc.setdefault("journal", {"seq": 0, "offset": 0})
    if entry["seq"] <= folded["seq"]:
        return
    effect = _EFFECTS.get(entry["event"])
    if effect is not None:
        effect(doc, entry)
    folded["seq"] = entry["seq"]
    doc["updated_at"] = entry["at"]


def newest(doc: Doc) -> Doc:
    """The newest checkpoint's record, or the base's; both have ``commit``, ``tree``, ``meta`` and ``empty_dirs``."""
    checkpoints = doc.get("checkpoints")
    record: Doc = checkpoints[-1] if checkpoints else doc["base"]
    return record


def _status(doc: Doc, entry: Entry) -> None:
    """``status``: ``to``; ``reason`` and ``ended_at`` of a pause; ``run``, the facts of a run that begins; ``said``,
    the agent's last words in the one that ends."""
    doc["status"] = transition(doc["status"], entry["to"])
    runs = doc.setdefault("runs", [])
    if entry["to"] == RUNNING:
        doc["pause_reason"] = None
        runs.append({"started_at": entry["at"], "ended_at": None, **entry.get("run", {})})
        if doc["metadata"].get("start_time") is None:
            doc["metadata"]["start_time"] = entry["at"]
        if "branch" in runs[-1]:
            doc.setdefault("context", {})["working_branch"] = runs[-1]["branch"]
        return
    if doc.get("tracked"):
        doc["tracked"] = None
    if entry["to"] == PAUSED:
        doc["pause_reason"] = entry.get("reason")
    if runs and "said" in entry:
        runs[-1]["said"] = entry["said"]
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
    said = {**conversation.mark(_history(doc)), "phases": len(doc.get("phases_completed", []))}
    checkpoints.append({**record, "said": said})
    if doc.get("unsaved"):
        doc["unsaved"] = None
    doc["cost"]["pending"] = {"input": 0, "output": 0}
    context = doc.setdefault("context", {})
    net = context.get("accumulated_changes")
    if not isinstance(net, NetChanges):
        net = context["accumulated_changes"] = NetChanges(net or [])
    for change in record.get("changes", []):
        net.add(change["path"], change["status"])


def _usage(doc: Doc, entry: Entry) -> None:
    """``usage``: tokens spent (``input``, ``output``) and, if known, ``cost_usd``; that may be the price of as many
    tokens of earlier entries as ``priced`` says, too, or mend what was reckoned for them."""
    cost = doc["cost"]
    pending = cost.setdefault("pending", {"input": 0, "output": 0})
    pending["input"] += entry["input"]
    pending["output"] += entry["output"]
    spent, price = pending.get("cost_usd", 0.0), entry.get("cost_usd")
    pending["cost_usd"] = None if spent is None or price is None else round(spent + price, 9)
    tokens = entry["input"] + entry["output"]
    cost["total_tokens"] = cost.get("total_tokens", 0) + tokens
    if price is None:
        cost["unpriced_tokens"] = cost.get("unpriced_tokens", 0) + tokens
    else:
        cost["priced_usd"] = round(cost.get("priced_usd", 0.0) + price, 9)
        if "priced" in entry:
            cost["unpriced_tokens"] -= entry["priced"]
    # One unpriced token makes the total unknown: a sum that leaves something out would be a lie.
    known = not cost.get("unpriced_tokens") and "priced_usd" in cost
    cost["estimated_cost_usd"] = cost["priced_usd"] if known else None


def _prompt(doc: Doc, entry: Entry) -> None:
    """``prompt``: ``text`` that a model is told by us; it may tell the ``task`` and begin a ``phase``."""
    conversation.add_prompt(_history(doc), entry["text"], entry.get("phase"), entry.get("task"))
    _turn_to(doc, entry.get("phase"))


def _reply(doc: Doc, entry: Entry) -> None:
    """``reply``: a model's complete ``message``, and its ``usage`` as in the entry of that name."""
    conversation.add_reply(_history(doc), entry["message"])
    _usage(doc, entry["usage"])


def _tool_started(doc: Doc, entry: Entry) -> None:
    """``tool_started``: the command of ``call`` begins."""
    conversation.add_started(_history(doc), entry["call"])


def _tool_result(doc: Doc, entry: Entry) -> None:
    """``tool_result``: ``text`` answers ``call``; ``error``; it may begin a ``phase``."""
    text, error, phase = entry["text"], bool(entry.get("error")), entry.get("phase")
    conversation.add_result(_history(doc), entry["call"], text, error=error, phase=phase)
    _turn_to(doc, phase)


def _compacted(doc: Doc, entry: Entry) -> None:
    """``compacted``: the results of ``calls`` were shortened."""
    conversation.compact(_history(doc), entry["calls"])


def _edit_intent(doc: Doc, entry: Entry) -> None:
    """``edit_intent``: ``edit`` is about to be made (``gitsession.verbs.edits``)."""
    doc["pending_edit"] = entry["edit"]


def _edit_done(doc: Doc, entry: Entry) -> None:
    """``edit_done``: the edit of ``call`` is on disk; ``text`` is what the model is told.

    ``unsaved`` {what, paths}: it is in no checkpoint yet, because it is one of several that make a step.
    """
    doc["pending_edit"] = None
    if entry.get("unsaved"):
        before = (doc.get("unsaved") or {}).get("paths", [])
        doc["unsaved"] = {**entry["unsaved"], "paths": [*before, *entry["unsaved"]["paths"]]}
    conversation.add_result(_history(doc), entry["call"], entry["text"])


def _edit_dropped(doc: Doc, entry: Entry) -> None:
    """``edit_dropped``: the edit of ``call`` was not made and will not be; ``text``, if any, tells the model."""
    doc["pending_edit"] = None
    if entry.get("text"):
        conversation.add_result(_history(doc), entry["call"], entry["text"], error=True)


def _findings(doc: Doc, entry: Entry) -> None:
    """``findings``: what a review found, and how many of its findings were ``dropped``."""
    doc["findings"] = entry["findings"]
    doc["findings_dropped"] = entry["dropped"]


def _history(doc: Doc) -> conversation.History:
    history: conversation.History = doc.setdefault("context", {}).setdefault("conversation_history", [])
    return history


def _turn_to(doc: Doc, phase: str | None) -> None:
    """End the phase it is in and begin ``phase``, if that is another one."""
    current = doc.get("current_phase")
    if phase is None or phase == current:
        return
    completed = doc.setdefault("phases_completed", [])
    if current is not None and current not in completed:
        completed.append(current)
    if phase != conversation.FINISHED:
        doc["current_phase"] = phase


def _base(doc: Doc, entry: Entry) -> None:
    """``base``: the commit that holds the files as they were before the first change."""
    doc["base"] = entry["base"]


def _settings(doc: Doc, entry: Entry) -> None:
    """``settings``: a resume that goes on with another backend, model, command or list of files."""
    doc.update(entry["values"])


def _restore_planned(doc: Doc, entry: Entry) -> None:
    """``restore_planned``: ``plan``, all that is needed to finish the restore after a kill."""
    doc["restoring"] = entry["plan"]


def _restore_done(doc: Doc, _entry: Entry) -> None:
    """``restore_done``: the files are what the plan wanted, or ``left`` says which are not.

    An edit that a killed run had begun is not made any more: it was for other files.
    """
    doc["restoring"] = None
    if pending := doc.get("pending_edit"):
        doc["pending_edit"] = None
        conversation.add_result(_history(doc), pending["call"], conversation.NOT_DONE, error=True)


def _rewound(doc: Doc, entry: Entry) -> None:
    """``rewound``: the conversation goes back to checkpoint ``to``; what was said since is set aside."""
    record = doc["checkpoints"][entry["to"]]
    doc["rewound"] = {"to": entry["to"], "agent": record.get("agent")}
    said = record.get("said")
    if said is None:
        return
    context = doc["context"]
    back, since = conversation.rewind(_history(doc), said, record.get("call"))
    context["conversation_history"] = back
    if since:
        context.setdefault("set_aside", []).append({"at": entry["at"], "to": entry["to"], "messages": since})
    doc["phases_completed"] = doc.get("phases_completed", [])[: said["phases"]]
    doc["current_phase"] = record.get("phase")
    _turn_to(doc, conversation.phase_of(back))
    for key in ("findings", "findings_dropped"):
        doc.pop(key, None)


def _agent(doc: Doc, entry: Entry) -> None:
    """``agent``: the agent's own session that works from here on; what is known of it takes the place of before."""
    agent = entry["agent"]
    name = (agent["agent"], agent["id"])
    others = [one for one in doc.get("agents", []) if (one["agent"], one["id"]) != name]
    doc["agents"] = [*others, {**agent, "at": entry["at"]}]
    doc["rewound"] = None


def _tracked(doc: Doc, entry: Entry) -> None:
    """``tracked``: an agent's hooks feed the session from here on, or tell what the agent is about."""
    doc["tracked"] = entry["tracked"]


def _head(doc: Doc, entry: Entry) -> None:
    """``head``: HEAD's ``move`` {serial, at, what: checkout|merge|squash, from, to, branch}; the last 100 are kept."""
    doc["head_moves"] = [*doc.get("head_moves", []), entry["move"]][-100:]
    doc["head_seen"] = entry["move"]["serial"]


def _repaired(doc: Doc, entry: Entry) -> None:
    """``repaired``: ``session``, the whole record as recovery put it together, takes the place of what was."""
    place = doc["journal"]
    doc.clear()
    doc.update(entry["session"])
    doc["journal"] = place


_EFFECTS: Final = {
    "status": _status,
    "phase": _phase,
    "checkpoint": _checkpoint,
    "usage": _usage,
    "prompt": _prompt,
    "reply": _reply,
    "tool_started": _tool_started,
    "tool_result": _tool_result,
    "compacted": _compacted,
    "edit_intent": _edit_intent,
    "edit_done": _edit_done,
    "edit_dropped": _edit_dropped,
    "findings": _findings,
    "base": _base,
    "settings": _settings,
    "restore_planned": _restore_planned,
    "restore_done": _restore_done,
    "rewound": _rewound,
    "agent": _agent,
    "tracked": _tracked,
    "head": _head,
    "repaired": _repaired,
}
