"""Events of agents' hooks, as the agents send them, through the real entry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitsession import SessionStore

RECORDED = Path(__file__).parent / "data" / "hook_inputs.json"
THERE = "/home/dev/project"
COMMAND = (sys.executable, "-I", "-m", "gitsession.agenthook")
IN_TURN = "from gitsession.store import locks; locks._TURN = 60; from gitsession.agenthook import main; main()"
Event = dict[str, Any]


def recorded(agent: str, worktree: Path) -> list[Event]:
    """What a real agent (``claude``, ``codex``, ``gemini``) sent in one run, as if it had worked in ``worktree``."""
    found = json.loads(RECORDED.read_text().replace(THERE, str(worktree)))
    return [one["stdin"] for key, runs in found.items() if key.startswith(f"{agent}_") for one in runs]


def hook(
    agent: str, event: Event | bytes, env: Mapping[str, str] | None = None, *, ok: bool = True
) -> subprocess.CompletedProcess[bytes]:
    """One event through the entry, which must succeed in silence (``ok``: and without a problem to be noted)."""
    data = event if isinstance(event, bytes) else json.dumps(event).encode()
    done = subprocess.run(
        [*COMMAND, agent], input=data, env={**os.environ, **(env or {})}, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    if ok:
        assert problems() == []
    return done


def start_hook(agent: str, event: Event) -> subprocess.Popen[bytes]:
    """The same, without waiting; one of many, it may take a minute for its turn."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", IN_TURN, agent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(event).encode())
    process.stdin.close()
    process.stdin = None
    return process


def problems() -> list[str]:
    """What was noted as having gone wrong."""
    from gitsession.store import hooklog

    return [entry["problem"] for entry in hooklog.read(SessionStore().home)]


class Claude:
    """A Claude Code of which only the events are real."""

    def __init__(self, worktree: Path, session: str = "714e6579-6ab7-4715-b517-47e92d99433c") -> None:
        self.worktree = worktree
        self.session = session

    def event(self, name: str, **fields: Any) -> Event:
        return {
            "session_id": self.session,
            "transcript_path": f"/home/dev/.claude/projects/-home-dev-project/{self.session}.jsonl",
            "cwd": str(self.worktree),
            "hook_event_name": name,
            **fields,
        }

    def start(self, source: str = "startup") -> Event:
        return self.event("SessionStart", source=source)

    def prompt(self, text: str) -> Event:
        return self.event("UserPromptSubmit", prompt=text)

    def before(self, call: str, tool: str = "Bash", **given: Any) -> Event:
        return self.event("PreToolUse", tool_name=tool, tool_input=given or {"command": "make"}, tool_use_id=call)

    def after(self, call: str, tool: str = "Bash", name: str = "PostToolUse", **given: Any) -> Event:
        return self.event(name, tool_name=tool, tool_input=given or {"command": "make"}, tool_use_id=call)

    def wrote(self, call: str, path: str) -> Event:
        return self.after(call, "Write", file_path=str(self.worktree / path), content="x")

    def stop(self) -> Event:
        return self.event("Stop", stop_hook_active=False, last_assistant_message="Done.")

    def end(self, reason: str = "other") -> Event:
        return self.event("SessionEnd", reason=reason)


def only_session() -> dict[str, Any]:
    """The record of the one session there is."""
    store = SessionStore()
    (session_id,) = store.ids()
    return store.read(session_id)


def steps(doc: Mapping[str, Any]) -> list[tuple[str, list[str], str | None]]:
    """Of each checkpoint: its trigger, the files that changed, the call it belongs to."""
    return [(one["trigger"], one["files_changed"], one.get("call")) for one in doc["checkpoints"]]
