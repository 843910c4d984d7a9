"""``enable``, ``disable`` and ``status`` as they are typed and as they answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import GitRepo, run_cli


@pytest.fixture(autouse=True)
def only_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with git and a shell, and no agent."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("git", "sh", "env"):
        (directory / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(directory))
    return directory


def pinable(repo: GitRepo, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_cli("pinable-agents", *arguments, cwd=repo.path)


def test_on_and_off(repo: GitRepo) -> None:
    repo.write(".git/info/exclude", ".claude/\n.opencode/\n")
    before = repo.snapshot(), repo.user_state()
    done = pinable(repo, "enable", "--agent", "claude-code", "--agent", "opencode")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Claude Code: enabled in .claude/settings.local.json",
        "  claude is not installed here",
        "opencode: enabled in .opencode/plugins/gitsession.js",
        "  opencode is not installed here",
    ]
    done = pinable(repo, "enable", "--agent", "opencode", "--local")
    assert done.stdout.splitlines()[0] == "opencode: enabled already in .opencode/plugins/gitsession.js"
    done = pinable(repo, "status")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "AGENT        STATE  WHERE",
        "claude-code  runs   .claude/settings.local.json",
        "codex        off    -",
        "gemini       off    -",
        "opencode     runs   .opencode/plugins/gitsession.js",
    ]
    done = pinable(repo, "disable")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "Claude Code: disabled in .claude/settings.local.json",
        "Codex: was not enabled",
        "Gemini CLI: was not enabled",
        "opencode: disabled in .opencode/plugins/gitsession.js",
    ]
    assert (repo.snapshot(), repo.user_state()) == before
    assert pinable(repo, "status").returncode == 1


def test_as_json(repo: GitRepo) -> None:
    (done,) = json.loads(pinable(repo, "enable", "--agent", "codex", "--json").stdout)
    assert done.keys() == {"agent", "state", "files", "detail", "notes"}
    assert (done["agent"], done["state"], done["files"]) == ("codex", "enabled", [".codex/hooks.json"])
    found = {one["agent"]: one for one in json.loads(pinable(repo, "status", "--json").stdout)}
    assert found["codex"] == {
        "agent": "codex",
        "state": "runs",
        "files": [".codex/hooks.json"],
        "trusted": None,
        "detail": None,
        "failure": None,
    }
    (done,) = json.loads(pinable(repo, "disable", "--agent", "codex", "--json").stdout)
    assert done["state"] == "disabled"


def test_no_agent_here(repo: GitRepo) -> None:
    done = pinable(repo, "enable")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "pinable-agents: no agent is installed: none of claude, codex, gemini, opencode is found on PATH",
        "hint: install one, or name it: --agent claude-code writes its settings all the same",
    ]


def test_a_person_has_to_see_to_it(repo: GitRepo) -> None:
    repo.write(".claude/settings.local.json", '{\n  "model": "opus",\n}\n')
    done = pinable(repo, "enable", "--agent", "claude-code", "--agent", "codex")
    assert done.returncode == 4
    assert done.stdout.splitlines()[0] == (
        "Claude Code: not changed: .claude/settings.local.json, line 2, column 18: a comma has nothing after it "
        "(Claude Code has to be able to read it)"
    )
    assert "Codex: enabled in .codex/hooks.json" in done.stdout


def test_shared_and_local(repo: GitRepo) -> None:
    done = pinable(repo, "enable", "--agent", "claude-code", "--shared")
    assert "commit .claude/settings.json: it works for everybody who has pinable-hook on PATH" in done.stdout
    assert pinable(repo, "enable", "--local", "--shared").returncode == 2
    assert "was not enabled" in pinable(repo, "disable", "--agent", "claude-code", "--local").stdout
    assert "disabled in .claude/settings.json" in pinable(repo, "disable", "--agent", "claude-code", "--shared").stdout
    assert pinable(repo, "enable", "--agent", "aider").returncode == 2


@pytest.mark.parametrize("arguments", [["enable", "--agent", "codex"], ["status"], ["disable"], ["agents"]])
def test_they_load_no_engine(repo: GitRepo, arguments: list[str]) -> None:
    pinable(repo, "enable", "--agent", "claude-code")
    code = (
        "import sys\nfrom gitsession.cli.boundary import pinable_agents\n"
        "sys.argv = ['pinable-agents', *sys.argv[1:]]\nassert pinable_agents() == 0\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code, *arguments], cwd=repo.path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert "click" in loaded
    assert loaded & {"anthropic", "pydantic", "pydantic_core", "pygit2", "rich", "watchfiles"} == set()


def test_outside_of_a_repository(tmp_path: Path) -> None:
    for command in (["enable", "--agent", "codex"], ["disable"], ["status"]):
        done = run_cli("pinable-agents", *command, cwd=tmp_path, env={"GIT_CEILING_DIRECTORIES": os.fspath(tmp_path)})
        assert (done.returncode, done.stdout) == (1, "")
        assert "git repository" in done.stderr
