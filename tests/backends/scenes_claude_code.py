"""What Claude Code says in the scenarios of ``conformance``, played by a stand-in; and lines to make more of."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from agents.player import Player

VERSION = "2.1.197"
SESSION = "0b7f1c8e-5a52-4a64-9a0e-6f2f4f6d3c11"


def line(type: str, **more: Any) -> str:
    """One line of the stream."""
    facts = {"session_id": SESSION, "uuid": str(uuid.uuid4()), "parent_tool_use_id": None} | more
    return json.dumps({"type": type, **facts})


def init(directory: Path, session: str = SESSION, **more: Any) -> str:
    facts = {
        "cwd": str(directory),
        "model": "claude-opus-4-8[1m]",
        "claude_code_version": VERSION,
        "session_id": session,
    }
    return line("system", subtype="init", **(facts | more))


def reply(
    *blocks: dict[str, Any], message: str = "msg_1", usage: dict[str, int] | None = None, **more: Any
) -> list[str]:
    """A reply of the model's as it is streamed: begun, each block of it, complete with its tokens."""
    tokens = {"input_tokens": 0, "output_tokens": 0} | (usage or {})
    begun = {"id": message, "model": "claude-opus-4-8", "content": [], "usage": tokens | {"output_tokens": 1}}
    return [
        line("stream_event", event={"type": "message_start", "message": begun}),
        *(line("assistant", message=begun | {"content": [block]}, **more) for block in blocks),
        line("stream_event", event={"type": "message_delta", "usage": {"output_tokens": tokens["output_tokens"]}}),
        line("stream_event", event={"type": "message_stop"}),
    ]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool(call: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def tool_result(call: str, words: str = "done", **more: Any) -> str:
    return line("user", message={"content": [{"type": "tool_result", "tool_use_id": call, "content": words} | more]})


def result(words: str = "All done", **more: Any) -> str:
    facts = {
        "subtype": "success",
        "is_error": False,
        "result": words,
        "stop_reason": "end_turn",
        "terminal_reason": "completed",
        "permission_denials": [],
        "modelUsage": {},
        "usage": {},
        "total_cost_usd": 0.0,
    }
    return line("result", **(facts | more))


def play(scenario: str, place: Path) -> None:
    """Put a ``claude`` into ``place`` that plays a scenario of ``conformance.SCENARIOS``."""
    player = Player(place, "claude", VERSION)
    ready = [init(place), *reply(text("ready"))]
    match scenario:
        case "speaks":
            tokens = {"input_tokens": 10, "output_tokens": 5}
            writes = tool("toolu_1", "Write", file_path=str(place / "a.txt"))
            counted = {"claude-opus-4-8[1m]": {"inputTokens": 10, "outputTokens": 5, "costUSD": 0.001}}
            spoken = [*reply(text("hello"), writes, usage=tokens), tool_result("toolu_1")]
            player.act([init(place), *spoken, result(modelUsage=counted, total_cost_usd=0.001)])
        case "fails":
            player.act([init(place), result("API Error: 400 scripted", is_error=True, api_error_status=400)], status=1)
        case "waits":
            player.act(ready, stays=True)
        case "stubborn":
            player.act(ready, stubborn=True)
        case _:
            raise AssertionError(scenario)
