"""What is told of agents is one harmless line each, and nothing of it is lost."""

from __future__ import annotations

import pytest

from gitsession.cli.render import agents as render
from gitsession.verbs.agenthooks import AgentStatus, Change
from gitsession.verbs.agents import Installed


def test_changes() -> None:
    done = [
        Change("claude-code", "enabled", ("a\x1b", "b"), notes=("first\nnote", "second")),
        Change("codex", "refused", ("x",), "x, line 3:\x1b[31m wrong"),
        Change("gemini", "off", ()),
    ]
    assert list(render.changes(done)) == [
        "Claude Code: enabled in a^[, b",
        "  first note",
        "  second",
        "Codex: not changed: x, line 3:^[[31m wrong",
        "Gemini CLI: was not enabled",
    ]


def test_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    long = "Codex skips them until you trust them; start codex here, and it asks"
    failure = {"at": "2026-02-25T10:00:00Z", "agent": "gemini", "event": "AfterTool", "problem": "disk\x07 full"}
    found = [
        AgentStatus("codex", "skipped", (".codex/hooks.json",), False, long),
        AgentStatus("gemini", "runs", (".gemini/settings.json",), failure=failure),
    ]
    assert list(render.status(found)) == [
        "AGENT   STATE    WHERE",
        "codex   skipped  .codex/hooks.json",
        "gemini  runs     .gemini/settings.json",
        f"codex: {long}",
        "gemini: last failure 2026-02-25 10:00:00, AfterTool: disk^G full",
    ]


def test_installed() -> None:
    def one(name: str, **facts: object) -> Installed:
        none = dict.fromkeys(("path", "version", "known", "login", "hooks"))
        return Installed(**{"name": name, "title": name, "program": name, **none, **facts})  # type: ignore[arg-type]

    lines = render.installed(
        [
            one("codex", path="/bin/codex", version="1.0.0", known=True, login="~/x", hooks=("a", "b")),
            one("gemini", path="/bin/gemini", hooks=()),
            one("opencode"),
        ]
    )
    assert lines == [
        "AGENT     VERSION  LOGIN    HOOKS  PROGRAM",
        "codex     1.0.0    ~/x      a, b   /bin/codex",
        "gemini    unknown  no sign  off    /bin/gemini",
        "opencode  -        no sign  -      opencode: not found",
    ]
