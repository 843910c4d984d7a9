"""``session log``: a journal entry a line; ``--json`` gives the entries themselves, one object a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Final

from gitsession.cli.render.out import columns, write, write_json
from gitsession.cli.render.text import clip, one_line
from gitsession.cli.render.units import count, date_time

_EVENT_CELLS = len("pause_requested")
_COMMON = ("seq", "at", "event")
_SHOWN = 5  # of many paths or fields
_VALUE_CELLS, _ENTRY_CELLS = 60, 240  # of one field, of all that is said of an entry


def draw(entry: dict[str, Any], *, as_json: bool) -> None:
    """One entry, at once."""
    if as_json:
        write_json(entry, indent=None)
    else:
        event = one_line(str(entry["event"]))
        line = f"{date_time(entry['at'])}  {event:{_EVENT_CELLS}}  {_words(entry)}".rstrip()
        room = columns()
        write(line if room is None else clip(line, room))
    sys.stdout.flush()


def _words(entry: dict[str, Any]) -> str:
    tell = _WORDS.get(entry["event"])
    try:
        if tell is not None:
            return tell(entry)
    except (LookupError, TypeError, ValueError, AttributeError):  # of another version, or made up by somebody
        pass
    return _anything({name: value for name, value in entry.items() if name not in _COMMON})


def _status(entry: dict[str, Any]) -> str:
    return str(entry["to"]) + (f": {one_line(entry['reason'])}" if entry.get("reason") else "")


def _phase(entry: dict[str, Any]) -> str:
    return one_line(entry["phase"]) + (" done" if entry.get("done") else "")


def _checkpoint(entry: dict[str, Any]) -> str:
    record = entry["record"]
    return f'[{record["index"]}] "{one_line(record["description"])}" ({one_line(str(record.get("trigger")))})'


def _head(entry: dict[str, Any]) -> str:
    move = entry["move"]
    return one_line(f"{move['what']} {move['branch'] or move['to'][:7]} (from {str(move['from'])[:7]})")


def _reply(entry: dict[str, Any]) -> str:
    calls = [block["name"] for block in entry["message"]["content"] if block.get("type") == "tool_use"]
    return one_line(f"{_tokens(entry['usage'])}; {', '.join(calls) or 'words'}")


def _edit_intent(entry: dict[str, Any]) -> str:
    return _some([change["path"] for change in entry["edit"]["changes"]])


def _edit_dropped(entry: dict[str, Any]) -> str:
    why = entry.get("reason") or entry.get("text")
    return f"not made: {_short(why)}" if why else "not made"


def _restore_planned(entry: dict[str, Any]) -> str:
    plan = entry["plan"]
    only = f", only {_some(plan['paths'])}" if plan.get("paths") else ""
    return f"to {_place(plan['target'])}{only}; {_place(plan['safety'])} has what was before"


def _restore_done(entry: dict[str, Any]) -> str:
    left = [f"{file['path']} ({file['reason']})" for file in entry.get("left") or []]
    return f"as {_place(entry['checkpoint'])}" + (f"; left as they are: {_some(left)}" if left else "")


def _prompt(entry: dict[str, Any]) -> str:
    return (f"[{_short(entry['phase'])}] " if entry.get("phase") else "") + _short(entry["text"])


def _findings(entry: dict[str, Any]) -> str:
    dropped = f", {entry['dropped']} more dropped" if entry.get("dropped") else ""
    return f"{count(len(entry['findings']), 'finding')}{dropped}"


def _text(entry: dict[str, Any]) -> str:
    return ("failed: " if entry.get("error") else "") + _short(entry["text"])


def _tokens(usage: dict[str, Any]) -> str:
    return f"{usage['input']:,} tokens in, {usage['output']:,} tokens out"


def _tracked(entry: dict[str, Any]) -> str:
    tracked = entry["tracked"]
    calls = [call["tool"] for call in tracked["calls"]]
    doing = f"runs {_some(calls)}" if calls else "works" if tracked["turn"] else "waits"
    return one_line(f"{tracked['agent']} {doing}")


_WORDS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "created": lambda entry: one_line(entry["session"]["task"]),
    "status": _status,
    "phase": _phase,
    "checkpoint": _checkpoint,
    "base": lambda entry: one_line(str(entry["base"].get("commit"))),
    "usage": _tokens,
    "head": _head,
    "prompt": _prompt,
    "reply": _reply,
    "tool_started": _text,
    "tool_result": _text,
    "compacted": lambda entry: f"{count(len(entry['calls']), 'result')} shortened",
    "findings": _findings,
    "edit_intent": _edit_intent,
    "edit_done": _text,
    "edit_dropped": _edit_dropped,
    "restore_planned": _restore_planned,
    "restore_done": _restore_done,
    "rewound": lambda entry: f"the conversation is back at {_place(entry['to'])}",
    "agent": lambda entry: _agent(entry["agent"]),
    "briefed": lambda entry: f"told what was done so far, in {len(entry['text']):,} characters",
    "settings": lambda entry: _anything(entry["values"]),
    "repaired": lambda entry: f"written anew from {_short(entry['source'])}; wrong was: {_some(entry['found'])}",
    "prompted": lambda entry: _short(entry["text"]),
    "tracked": _tracked,
    "pause_requested": lambda entry: f"by process {int(entry['pid'])}",
}


def _agent(agent: dict[str, Any]) -> str:
    known = [agent.get("version"), f"with {agent['model']}" if agent.get("model") else None]
    return one_line(" ".join([agent["agent"], *filter(None, known)]) + f", its session {agent['id']}")


def _place(index: int | None) -> str:
    return "the base" if index is None else f"checkpoint {int(index)}"


def _some(items: list[str]) -> str:
    """The first of many."""
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return _short(", ".join(items[:_SHOWN])) + more


def _anything(fields: dict[str, Any]) -> str:
    """Fields of any kind, none of them long: text as it is, everything else as JSON."""
    parts = [
        f"{name} {clip(value if isinstance(value, str) else _json(value), _VALUE_CELLS)}"
        for name, value in list(fields.items())[:_SHOWN]
    ]
    return _short(", ".join(parts)) + (f" and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else "")


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply)"


def _short(text: str) -> str:
    return clip(one_line(text[:_ENTRY_CELLS]), _ENTRY_CELLS - 1)
