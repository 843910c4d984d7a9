"""What opencode says in the scenarios of ``conformance``, played by a stand-in; and lines to make more of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agents.player import Player

VERSION = "1.18.33"
SESSION = "ses_dd8bbff2fffe5AJqC1yOAqK7Is"


def line(type: str, session: str = SESSION, **more: Any) -> str:
    """One line of the stream."""
    return json.dumps({"type": type, "timestamp": 1795955100181, "sessionID": session, **more})


def part(type: str, kind: str, session: str = SESSION, **more: Any) -> str:
    facts = {"id": "prt_2274409f2001ZBInlRcFK8AP6O", "sessionID": session, "type": kind}
    return line(type, session, part=facts | more)


def begin(session: str = SESSION) -> str:
    return part("step_start", "step-start", session)


def text(words: str) -> str:
    return part("text", "text", text=words)


def tool(name: str, part_id: str = "prt_1", error: str | None = None, **given: Any) -> str:
    state: dict[str, Any] = {"status": "completed", "input": given, "output": "done"}
    if error is not None:
        state = {"status": "error", "input": given, "error": error}
    return part("tool_use", "tool", id=part_id, tool=name, callID="call_1", state=state)


def finish(
    reason: str = "stop", given: int = 0, output: int = 0, reasoning: int = 0, cached: int = 0, cost: float = 0
) -> str:
    tokens = {"input": given, "output": output, "reasoning": reasoning, "cache": {"write": 0, "read": cached}}
    return part("step_finish", "step-finish", reason=reason, tokens=tokens, cost=cost)


def error(name: str, message: str, status: int | None = None) -> str:
    data = {"message": message} | ({"statusCode": status} if status is not None else {})
    return line("error", error={"name": name, "data": data})


def play(scenario: str, place: Path) -> None:
    """Put an ``opencode`` into ``place`` that plays a scenario of ``conformance.SCENARIOS``."""
    player = Player(place, "opencode", VERSION)
    match scenario:
        case "speaks":
            writes = [begin(), tool("write", filePath=str(place / "a.txt")), finish("tool-calls", given=6, output=3)]
            player.act([*writes, begin(), text("hello"), finish(given=4, output=2)])
        case "fails":
            player.act([error("APIError", "scripted", 401)], status=1)
        case "waits":
            player.act([begin(), text("ready")], stays=True)
        case "stubborn":
            player.act([begin(), text("ready")], stubborn=True)
        case _:
            raise AssertionError(scenario)
