"""``agents`` as it is typed and as it answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from support import GitRepo, run_cli


def test_table_and_json(repo: GitRepo, tmp_path: Path) -> None:
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("git", "sh"):
        (directory / name).symlink_to(str(shutil.which(name)))
    program = directory / "claude"
    program.write_text('#!/bin/sh\necho "99.1.2 (Claude Code)"\n')
    program.chmod(0o755)
    env = {"PATH": str(directory), "ANTHROPIC_API_KEY": "secret"}
    assert run_cli("pinable-agents", "enable", cwd=repo.path, env=env).returncode == 0
    done = run_cli("pinable-agents", "agents", cwd=repo.path, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    header, claude, *others = done.stdout.splitlines()
    assert header.split() == ["AGENT", "VERSION", "LOGIN", "HOOKS", "PROGRAM"]
    where = f"$ANTHROPIC_API_KEY  .claude/settings.local.json  {program}"
    assert claude == f"claude-code  99.1.2 (untried)  {where}"
    assert [line.split()[0] for line in others] == ["codex", "gemini", "opencode"]
    assert "codex: not found" in others[0]
    assert "secret" not in done.stdout
    found = json.loads(run_cli("pinable-agents", "agents", "--json", cwd=tmp_path, env=env).stdout)
    assert found[0] == {
        "name": "claude-code",
        "title": "Claude Code",
        "program": "claude",
        "path": str(program),
        "version": "99.1.2",
        "known": False,
        "login": "$ANTHROPIC_API_KEY",
        "hooks": None,
    }
