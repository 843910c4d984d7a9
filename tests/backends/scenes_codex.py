"""What Codex's program says in the scenarios of ``conformance``, played by a stand-in; and lines to make more of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agents.player import Player

VERSION = "0.171.0"
THREAD = "01a22850-0662-7761-90b8-9cf852cc0bb5"


def line(type: str, **more: Any) -> str:
    """One line of the stream."""
    return json.dumps({"type": type, **more})


def begins(thread: str = THREAD) -> list[str]:
    return [line("thread.started", thread_id=thread), line("turn.started")]


def item(number: int, type: str, *, event: str = "item.completed", **more: Any) -> str:
    return line(event, item={"id": f"item_{number}", "type": type, **more})


def says(number: int, text: str) -> str:
    return item(number, "agent_message", text=text)


def runs(number: int, command: str, status: str = "completed") -> list[str]:
    facts = {"command": f"/bin/bash -lc '{command}'", "aggregated_output": ""}
    begun = item(number, "command_execution", event="item.started", exit_code=None, status="in_progress", **facts)
    return [begun, item(number, "command_execution", exit_code=0, status=status, **facts)]


def edits(number: int, *paths: str | Path, status: str = "completed") -> list[str]:
    changes = [{"path": str(path), "kind": "update"} for path in paths]
    return [
        item(number, "file_change", event="item.started", changes=changes, status="in_progress"),
        item(number, "file_change", changes=changes, status=status),
    ]


def sums(input: int, output: int, *, cached: int = 0, written: int = 0) -> dict[str, int]:
    """Tokens as Codex tells them: ``input`` includes the two others."""
    return {
        "input_tokens": input,
        "cached_input_tokens": cached,
        "cache_write_input_tokens": written,
        "output_tokens": output,
        "reasoning_output_tokens": 0,
    }


def completed(input: int = 10, output: int = 5, **more: int) -> str:
    return line("turn.completed", usage=sums(input, output, **more))


def failed(message: str) -> list[str]:
    return [line("error", message=message), line("turn.failed", error={"message": message})]


def play(scenario: str, place: Path) -> None:
    """Put a ``codex`` into ``place`` that plays a scenario of ``conformance.SCENARIOS``."""
    player = Player(place, "codex", VERSION)
    ready = [*begins(), says(1, "ready")]
    match scenario:
        case "speaks":
            player.act([*begins(), says(1, "hello"), *edits(2, place / "a.txt"), completed(10, 5)])
        case "fails":
            player.act([*begins(), *failed('{"error": {"message": "scripted"}}')], status=1)
        case "waits":
            player.act(ready, stays=True)
        case "stubborn":
            player.act(ready, stubborn=True)
        case _:
            raise AssertionError(scenario)
