"""Real agents that a person uses as ever, with our hooks in their settings, against a scripted model.

Three prompts, five edits, a file that a shell command writes, and a kill in the middle of a command: afterwards the
session has what the files say.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from agents import installed
from agents.places import PATIENCE
from agents.wire_responses import Responses, patch, shell
from backends.model_server import ModelServer, Step, call, say, step, wait_for
from feeding import only_session, problems, steps
from support import GitRepo, run_cli

from gitsession import SessionStore

pytestmark = [pytest.mark.agents, pytest.mark.timeout(installed.TEST_TIMEOUT)]
LONG = 600  # seconds that a command would take if nobody killed the agent


def needs(agent: str) -> Path:
    """The real program; the test is skipped without it."""
    found = installed.program(agent)
    if found is None:
        pytest.skip(f"{agent} is not installed here: python tests/agents/installed.py")
    return found


def enable(agent: str, repo: GitRepo) -> None:
    done = run_cli("pinable-agents", "enable", "--agent", agent, cwd=repo.path)
    assert done.returncode == 0, done.stderr
    repo.write(".gitignore", ".claude/\n.codex/\nstarted\n")
    repo.commit("Ignore the settings")


def run(command: Sequence[str | Path], cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
    )


def killed_in_its_command(command: Sequence[str | Path], repo: GitRepo, env: dict[str, str]) -> None:
    """Run an agent until its command has begun, and end it, and all that it started, as the system would."""
    process = subprocess.Popen(
        command,
        cwd=repo.path,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(lambda: repo.at("started").exists() or process.poll() is not None, PATIENCE)
        assert process.poll() is None, "it ended before its command began"
        owners = [SessionStore().owner(known) for known in SessionStore().ids()]
        assert [owner is not None and owner.tracked is not None for owner in owners] == [True]
        for pid in {owner.pid for owner in owners if owner is not None and owner.pid is not None}:
            os.kill(pid, signal.SIGKILL)
    finally:
        if repo.at("started").exists():
            os.kill(int(repo.at("started").read_text()), signal.SIGKILL)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=PATIENCE)


def in_the_ref(repo: GitRepo, session_id: str) -> dict[bytes, str]:
    """The files' blobs, by what the session's newest checkpoint says."""
    return {path: oid for path, (_, oid) in repo.tree(f"refs/pinable/{session_id}").items()}


def on_disk(repo: GitRepo) -> dict[bytes, str]:
    names = [path for path in repo.git("ls-files", "-co", "--exclude-standard").splitlines() if repo.at(path).exists()]
    return {path.encode(): repo.git("hash-object", "--no-filters", path) for path in names}


def hang(repo: GitRepo) -> str:
    """A command that goes on until it is killed, and does not if it is asked for once more: an agent that is killed
    may not have noted that it asked."""
    started = repo.at("started")
    return f"[ -e {started} ] || {{ echo $$ > {started}.new && mv {started}.new {started} && exec sleep {LONG}; }}"


@pytest.mark.slow
def test_claude_code_as_ever(repo: GitRepo, seal: Path) -> None:
    claude = needs("claude-code")
    enable("claude-code", repo)

    def write(name: str, text: str) -> Step:
        return step(call("Write", file_path=str(repo.at(name)), content=text))

    script = [
        write("one.txt", "1\n"),
        write("two.txt", "2\n"),
        step(say("Two files are there.")),
        write("three.txt", "3\n"),
        write("four.txt", "4\n"),
        step(call("Bash", command="printf 'shell\\n' > shell.txt", description="write")),
        step(call("Bash", command=hang(repo), description="wait")),
        write("five.txt", "5\n"),
        step(say("All done.")),
    ]
    with ModelServer(script) as model:
        env = installed.environment(
            seal,
            ANTHROPIC_BASE_URL=model.url,
            ANTHROPIC_API_KEY="dummy",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            GIT_CONFIG_GLOBAL=os.environ["GIT_CONFIG_GLOBAL"],
        )
        allowed = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"]
        first = run([claude, "-p", "first prompt", *allowed], repo.path, env)
        assert first.returncode == 0, first.stdout + first.stderr
        doc = only_session()
        assert (doc["status"], doc["task"]) == ("paused", "first prompt")
        native = doc["agents"][-1]["id"]
        repo.write("mine.txt", "by hand, between two prompts\n")
        killed_in_its_command([claude, "-p", "second prompt", "--resume", native, *allowed], repo, env)
        assert only_session()["status"] == "running"
        assert "paused" in run_cli("pinable-agents", "session", "list").stdout
        third = run([claude, "-p", "third prompt", "--resume", native, *allowed], repo.path, env)
        assert third.returncode == 0, third.stdout + third.stderr
        doc = only_session()
        # The same session goes on without a person, in the same conversation.
        wrapped = run_cli("codeagent-wrapper", "--session-id", doc["id"], cwd=repo.path, env=env)
        assert wrapped.returncode == 0, wrapped.stdout + wrapped.stderr
        assert "first prompt" in json.dumps(model.requests[-1]["messages"])
        after = only_session()
        assert (after["status"], len(after["agents"]), steps(after)) == ("completed", 1, steps(doc))
    assert problems() == []
    assert [(trigger, files) for trigger, files, _ in steps(doc)] == [
        ("agent", ["one.txt"]),
        ("agent", ["two.txt"]),
        ("found", ["mine.txt"]),
        ("agent", ["three.txt"]),
        ("agent", ["four.txt"]),
        ("agent", ["shell.txt"]),
        ("agent", ["five.txt"]),
    ]
    calls = [call for trigger, _, call in steps(doc) if trigger == "agent"]
    assert len({*calls}) == 6
    assert None not in calls
    assert (doc["status"], len(doc["runs"])) == ("paused", 3)
    assert doc["runs"][1]["end"].startswith("the agent ended without a word")
    assert Path(doc["agents"][-1]["transcript"]).exists()
    assert doc["agents"][-1]["version"] == installed.PINNED["claude-code"][2]
    # Its record may lag behind its hooks, but not by much.
    assert any(one["agent"]["at"] for one in doc["checkpoints"])
    entries, _ = SessionStore().journal(doc["id"]).read()
    prompts = [entry["text"] for entry in entries if entry["event"] == "prompted"]
    assert prompts == ["first prompt", "second prompt", "third prompt"]
    assert in_the_ref(repo, doc["id"]) == on_disk(repo)


@pytest.mark.slow
def test_codex_as_ever(repo: GitRepo, seal: Path) -> None:
    codex = needs("codex")
    enable("codex", repo)

    def write(name: str, text: str) -> Step:
        return step(patch(f"*** Add File: {name}", f"+{text}"))

    script = [
        write("one.txt", "1"),
        write("two.txt", "2"),
        step(say("Two files are there.")),
        write("three.txt", "3"),
        write("four.txt", "4"),
        step(shell("printf 'shell\\n' > shell.txt")),
        step(shell(hang(repo))),
        write("five.txt", "5"),
        step(say("All done.")),
    ]
    with ModelServer(script, Responses()) as model:
        (seal / ".codex").mkdir()
        (seal / ".codex" / "config.toml").write_text(
            'model = "fake-model"\nmodel_provider = "here"\n'
            f'[model_providers.here]\nname = "here"\nbase_url = "{model.url}/v1"\nenv_key = "HERE_KEY"\n'
            'wire_api = "responses"\n'
            f'[projects.{json.dumps(str(repo.path))}]\ntrust_level = "trusted"\n'
        )
        env = installed.environment(seal, HERE_KEY="dummy", GIT_CONFIG_GLOBAL=os.environ["GIT_CONFIG_GLOBAL"])
        trusted = ["--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox"]
        first = run([codex, "exec", *trusted, "first prompt"], repo.path, env)
        assert first.returncode == 0, first.stdout + first.stderr
        doc = only_session()
        assert (doc["status"], doc["task"]) == ("paused", "first prompt")
        native = doc["agents"][-1]["id"]
        repo.write("mine.txt", "by hand, between two prompts\n")
        killed_in_its_command([codex, "exec", *trusted, "resume", native, "second prompt"], repo, env)
        assert only_session()["status"] == "running"
        assert "paused" in run_cli("pinable-agents", "session", "list").stdout
        third = run([codex, "exec", *trusted, "resume", native, "third prompt"], repo.path, env)
        assert third.returncode == 0, third.stdout + third.stderr
    doc = only_session()
    assert problems() == []
    assert [(trigger, files) for trigger, files, _ in steps(doc)] == [
        ("agent", ["one.txt"]),
        ("agent", ["two.txt"]),
        ("found", ["mine.txt"]),
        ("agent", ["three.txt"]),
        ("agent", ["four.txt"]),
        ("agent", ["shell.txt"]),
        ("agent", ["five.txt"]),
    ]
    assert (doc["status"], len(doc["runs"])) == ("paused", 3)
    assert in_the_ref(repo, doc["id"]) == on_disk(repo)
