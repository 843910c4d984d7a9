"""Row: what an event of an agent's hooks costs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import ENV, Result, alternate, git, report


def tracking(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """each event of a tracked agent, whole process; against ``git status``, warm"""
    git(repo, "restore", ".")
    git(repo, "update-index", "-q", "--refresh")
    names = git(repo, "ls-files").splitlines()
    env = ENV | {"PINABLE_HOME": str(home)}

    def event(name: str, **fields: Any) -> bytes:
        said = {"session_id": f"in-{repo.name}", "cwd": str(repo), "hook_event_name": name, **fields}
        return json.dumps(said).encode()

    def send(data: bytes) -> float:
        command = [sys.executable, "-I", "-m", "gitsession.agenthook", "claude-code"]
        start = time.perf_counter()
        subprocess.run(command, input=data, env=env, check=True)
        return time.perf_counter() - start

    def status(_number: int) -> float:
        start = time.perf_counter()
        subprocess.run(["git", "status"], cwd=repo, env=ENV, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start

    def write(number: int, turn: str) -> Path:
        path = repo / names[number * 41 % len(names)]
        path.write_text(f"{turn} {number} {time.time_ns()}\n" * 100)
        return path

    def edit(name: str, *, change: bool) -> Callable[[int], float]:
        def once(number: int) -> float:
            path = write(number, name) if change else repo / names[number * 41 % len(names)]
            given = {"file_path": str(path), "content": ""}
            return send(event(name, tool_name="Write", tool_input=given, tool_use_id=f"{name}-{time.time_ns()}"))

        return once

    def shell(number: int) -> float:
        call = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": f"shell-{time.time_ns()}"}
        send(event("PreToolUse", **call))
        write(number, "shell")
        return send(event("PostToolUse", **call))

    send(event("SessionStart", source="startup"))
    send(event("UserPromptSubmit", prompt="bench"))
    sides: dict[str, Callable[[int], float]] = {
        "before an edit": edit("PreToolUse", change=False),
        "an edit": edit("PostToolUse", change=True),
        "a shell command": shell,
        "end of a turn": lambda _: send(event("Stop")),
    }
    results = {name: report(*alternate(max(rounds, 15), ours, status)) for name, ours in sides.items()}
    send(event("SessionEnd", reason="other"))
    problems = home / "agent-hooks.log"
    assert not problems.exists(), problems.read_text()
    git(repo, "restore", ".")
    return results
