"""One session, worked on by the real Claude Code, then by the real Codex, then by Claude Code again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from agents import installed
from agents.wire_responses import Responses, shell
from backends.model_server import Fault, ModelServer, call, say, step
from support import GitRepo, program

from gitsession.store.sessions import SessionStore

KEY = "sk-test-0123456789abcdef"
CONFIG = """\
model = "scripted-model"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""
pytestmark = installed.needed("claude-code", "codex")


def test_each_is_told_what_the_other_one_did(repo: GitRepo, seal: Path) -> None:
    write = call("Write", file_path=str(repo.path / "a.txt"), content="by claude\n")
    first_steps = [step(say("I write a.txt."), write), step(say("b.txt is still to do."))]
    failing = step(say("never said"), faults=(Fault(status=400),) * 9)
    with (
        ModelServer(first_steps) as claude,
        ModelServer([step(shell("echo by codex > b.txt")), failing], Responses()) as codex,
    ):
        (seal / ".codex").mkdir()
        (seal / ".codex" / "config.toml").write_text(CONFIG.format(url=codex.url))
        environment = installed.environment(
            seal,
            ANTHROPIC_BASE_URL=claude.url,
            ANTHROPIC_API_KEY=KEY,
            SCRIPTED_KEY=KEY,
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            GIT_CONFIG_GLOBAL=os.environ["GIT_CONFIG_GLOBAL"],
        )

        def run(*flags: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [program("codeagent-wrapper"), "--session-id", "one", *flags],
                cwd=repo.path,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=240,
            )

        first = run("--backend", "claude-code", "--task", "Write the files", "--model", "opus", "--max-turns", "1")
        assert first.returncode == 3, first.stdout
        second = run("--backend", "codex")
        assert second.returncode == 1, second.stdout
        assert "codex takes over from claude-code" in second.stderr
        asked = json.dumps(codex.requests[0]["input"])
        assert "Write the files" in asked
        assert "- added a.txt" in asked
        assert codex.requests[0]["model"] == "scripted-model", "and not the other agent's"

        claude.scripts[""] = [step(say("All is written."))]
        third = run("--backend", "claude-code")
        assert third.returncode == 0, third.stdout
        asked = json.dumps(claude.requests[-1]["messages"])
        assert "- added a.txt" in asked
        assert "- added b.txt" in asked
        assert "I write a.txt." not in asked, "that conversation ended before the other agent worked"
    doc = SessionStore(seal / ".pinable-agents").read("one")
    assert [agent["agent"] for agent in doc["agents"]] == ["claude-code", "codex", "claude-code"]
    assert [checkpoint["agent"]["agent"] for checkpoint in doc["checkpoints"]] == ["claude-code", "codex"]
    assert repo.git("show", "refs/pinable/one:b.txt") == "by codex"
