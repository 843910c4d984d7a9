"""What Gemini CLI says in the scenarios of ``conformance``, played by a stand-in; and lines to make more of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agents.player import Player

VERSION = "0.61.0"
SESSION = "5e61238f-5bce-472c-9cfd-884c2143f59d"


def line(type: str, **more: Any) -> str:
    """One line of the stream."""
    return json.dumps({"type": type, "timestamp": "2026-11-29T12:21:31.101Z", **more})


def init(session: str = SESSION) -> str:
    return line("init", session_id=session, model="gemini-2.5-flash")


def text(words: str) -> str:
    return line("message", role="assistant", content=words, delta=True)


def tool(call: str, name: str, **given: Any) -> str:
    return line("tool_use", tool_name=name, tool_id=call, parameters=given)


def tool_result(call: str, error: str | None = None) -> str:
    if error is None:
        return line("tool_result", tool_id=call, status="success")
    return line("tool_result", tool_id=call, status="error", error={"type": error, "message": "no"})


def warning(message: str, severity: str = "error") -> str:
    return line("error", severity=severity, message=message)


def stats(given: int = 0, output: int = 0, cached: int = 0, thoughts: int = 0) -> dict[str, Any]:
    counts = {
        "total_tokens": given + cached + output + thoughts,
        "input_tokens": given + cached,
        "output_tokens": output,
        "cached": cached,
        "input": given,
    }
    return {**counts, "duration_ms": 1, "tool_calls": 0, "models": {"gemini-2.5-flash": counts}}


def result(status: str = "success", error: str | None = None, **counts: int) -> str:
    more = {"error": {"type": "unknown", "message": error}} if error is not None else {}
    return line("result", status=status, stats=stats(**counts), **more)


def play(scenario: str, place: Path) -> None:
    """Put a ``gemini`` into ``place`` that plays a scenario of ``conformance.SCENARIOS``."""
    player = Player(place, "gemini", VERSION)
    match scenario:
        case "speaks":
            writes = [tool("w1", "write_file", file_path=str(place / "a.txt")), tool_result("w1")]
            player.act([init(), text("hel"), text("lo"), *writes, text("Done."), result(given=10, output=5)])
        case "fails":
            player.act([init(), result("error", "[API Error: fetch failed]")], status=1)
        case "waits":
            player.act([init(), text("ready\n")], stays=True)
        case "stubborn":
            player.act([init(), text("ready\n")], stubborn=True)
        case _:
            raise AssertionError(scenario)
