"""``session log``: a journal entry a line; ``--json`` gives the entries themselves, one object a line."""

from __future__ import annotations

import sys
from typing import Any

from gitsession.cli.render.out import columns, write, write_json
from gitsession.cli.render.text import clip, one_line
from gitsession.cli.render.units import date_time

_EVENT_CELLS = len("pause_requested")
_COMMON = ("seq", "at", "event")


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
    match entry["event"]:
        case "created":
            return one_line(entry["session"]["task"])
        case "status":
            return str(entry["to"]) + (f": {one_line(entry['reason'])}" if entry.get("reason") else "")
        case "phase":
            return one_line(entry["phase"]) + (" done" if entry.get("done") else "")
        case "checkpoint":
            record = entry["record"]
            return f'[{record["index"]}] "{one_line(record["description"])}" ({one_line(str(record.get("trigger")))})'
        case "base":
            return str(entry["base"].get("commit"))
        case "usage":
            return _tokens(entry)
        case "head":
            move = entry["move"]
            return one_line(f"{move['what']} {move['branch'] or move['to'][:7]} (from {str(move['from'])[:7]})")
        case "reply":
            calls = [block["name"] for block in entry["message"]["content"] if block.get("type") == "tool_use"]
            return one_line(f"{_tokens(entry['usage'])}; {', '.join(calls) or 'words'}")
        case "edit_intent":
            return one_line(", ".join(change["path"] for change in entry["edit"]["changes"]))
    return one_line(", ".join(f"{name} {value}" for name, value in entry.items() if name not in _COMMON))


def _tokens(usage: dict[str, Any]) -> str:
    return f"{usage['input']:,} tokens in, {usage['output']:,} tokens out"
