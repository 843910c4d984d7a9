"""What is told of the agents, and that nothing private is opened for it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from support import GitRepo

from gitsession.backends import versions
from gitsession.verbs import agenthooks
from gitsession.verbs.agents import Installed, survey

CREDENTIALS = {
    "claude-code": ".claude/.credentials.json",
    "codex": ".codex/auth.json",
    "gemini": ".gemini/oauth_creds.json",
    "opencode": ".xdg-data/opencode/auth.json",
}
PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini", "opencode": "opencode"}
OTHERS = ("CODEX_HOME", "GEMINI_CLI_HOME", "GOOGLE_GENAI_USE_VERTEXAI")


@pytest.fixture(autouse=True)
def bin_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("git", "sh", "sleep"):
        (directory / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(directory))
    for name in OTHERS:
        monkeypatch.delenv(name, raising=False)
    return directory


def install(directory: Path, agent: str, script: str) -> Path:
    path = directory / PROGRAMS[agent]
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def found(start: Path) -> dict[str, Installed]:
    return {one.name: one for one in survey(start)}


def test_none(tmp_path: Path) -> None:
    assert list(found(tmp_path)) == list(PROGRAMS)
    for one in found(tmp_path).values():
        assert (one.path, one.version, one.known, one.login, one.hooks) == (None, None, None, None, None)


def test_versions(tmp_path: Path, bin_directory: Path) -> None:
    path = install(bin_directory, "claude-code", 'echo "2.1.197 (Claude Code)"')
    install(bin_directory, "codex", 'echo "codex-cli 99.0.0"')
    install(bin_directory, "gemini", "exit 1")
    there = found(tmp_path)
    assert (there["claude-code"].path, there["claude-code"].version, there["claude-code"].known) == (
        str(path),
        "2.1.197",
        True,
    )
    assert (there["codex"].version, there["codex"].known) == ("99.0.0", False)
    assert (there["gemini"].path is None, there["gemini"].version, there["gemini"].known) == (False, None, None)


def test_all_are_asked_at_once(tmp_path: Path, bin_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answers when all have been asked."""
    monkeypatch.setattr(versions, "TIMEOUT", 60)
    there = " && ".join(f"[ -e {tmp_path}/{program} ]" for program in PROGRAMS.values())
    for agent, program in PROGRAMS.items():
        wait = f"echo > {tmp_path}/{program}; until {there}; do sleep 0.02; done"
        install(bin_directory, agent, f"{wait}; echo 1.2.3")
    assert {one.version for one in survey(tmp_path)} == {"1.2.3"}


def test_a_login_is_told_by_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {agent: Path.home() / name for agent, name in CREDENTIALS.items()}
    for place in places.values():
        place.parent.mkdir(parents=True)
        place.write_text("secret")
    opened: set[str] = set()
    watching = [True]  # such a hook cannot be taken away

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if watching[0] and event == "open" and isinstance(arguments[0], str | os.PathLike):
            opened.add(os.fspath(arguments[0]))

    sys.addaudithook(watch)
    there = found(tmp_path)
    (tmp_path / "proof").touch()
    watching[0] = False
    assert {agent: one.login for agent, one in there.items()} == {agent: str(place) for agent, place in places.items()}
    assert str(tmp_path / "proof") in opened
    assert not opened & set(map(str, places.values()))
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    there = found(tmp_path)
    assert (there["gemini"].login, there["opencode"].login) == ("$GEMINI_API_KEY", "$GEMINI_API_KEY")
    assert "secret" not in repr(there)


def test_agents_homes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, agent, name in [
        ("CLAUDE_CONFIG_DIR", "claude-code", ".credentials.json"),
        ("CODEX_HOME", "codex", "auth.json"),
    ]:
        place = tmp_path / agent / name
        place.parent.mkdir()
        place.touch()
        monkeypatch.setenv(variable, str(place.parent))
        assert found(tmp_path)[agent].login == str(place)


def test_hooks_here(repo: GitRepo) -> None:
    agenthooks.enable(repo.path, ["codex"])
    there = found(repo.path)
    assert (there["codex"].hooks, there["gemini"].hooks) == ((".codex/hooks.json",), ())
