"""The hook that agents start for each event: real events, real repositories, through the real entry."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from feeding import COMMAND, Claude, hook, only_session, problems, recorded, start_hook, steps
from support import GitRepo, run_cli

from gitsession import SessionStore
from gitsession.agenthook import PATIENCE
from gitsession.store import natives


@pytest.fixture
def claude(repo: GitRepo) -> Claude:
    return Claude(repo.path)


# What real agents sent


def test_a_run_of_claude_code_as_it_was_recorded(repo: GitRepo) -> None:
    before = repo.user_state()
    for event in recorded("claude", repo.path):
        if event["hook_event_name"] == "PostToolUse":
            repo.write("a.txt", "aaa\n")
        hook("claude-code", event)
    doc = only_session()
    assert (doc["status"], doc["pause_reason"]) == ("paused", "claude-code ended (other)")
    assert (doc["backend"], doc["task"], doc["tracked"]) == ("claude-code", "do it", None)
    assert steps(doc) == [("agent", ["a.txt"], "toolu_80c06a30e578494d92a1dd09")]
    assert doc["checkpoints"][0]["capture"] == "paths"
    (agent,) = doc["agents"]
    assert (agent["agent"], agent["id"]) == ("claude-code", "714e6579-6ab7-4715-b517-47e92d99433c")
    assert agent["directory"] == str(repo.path)
    assert agent["transcript"].endswith("714e6579-6ab7-4715-b517-47e92d99433c.jsonl")
    assert repo.tree(f"refs/pinable/{doc['id']}").keys() - repo.tree("HEAD").keys() == {b"a.txt"}
    assert repo.user_state() == before
    SessionStore().load(doc["id"])  # fits the model


def test_codex_carries_out_a_patch_and_tells_only_that_it_will(repo: GitRepo) -> None:
    for event in recorded("codex", repo.path):
        hook("codex", event)
        if "apply_patch" in str(event.get("tool_input")):
            repo.write("b.txt", "bbb\n")
    doc = only_session()
    assert (doc["backend"], doc["model"], doc["status"]) == ("codex", "fake-model", "paused")
    assert steps(doc) == [("agent", ["b.txt"], "call_1113b2ba81c6")]
    assert doc["checkpoints"][0]["capture"] == "paths"


def test_a_run_of_gemini_cli_as_it_was_recorded(repo: GitRepo) -> None:
    for event in recorded("gemini", repo.path):
        if event["hook_event_name"] == "AfterTool" and event["tool_name"] == "write_file":
            repo.write("b.txt", "bbb\n")
        hook("gemini", event)
    doc = only_session()
    assert (doc["backend"], doc["task"], doc["status"]) == ("gemini", "do it", "paused")
    ((trigger, files, call),) = steps(doc)
    assert (trigger, files) == ("agent", ["b.txt"])
    assert call is not None
    assert call.startswith("call_")


def test_the_plugin_of_opencode_speaks_of_it_in_the_same_form(repo: GitRepo) -> None:
    def event(name: str, session: str = "ses_1", **fields: Any) -> dict[str, Any]:
        return {"hook_event_name": name, "session_id": session, "cwd": str(repo.path), **fields}

    hook("opencode", event("session.created"))
    hook("opencode", event("chat.message", prompt="write it", model="gpt-x"))
    hook("opencode", event("session.created", "ses_2", parent_id="ses_1"))
    hook("opencode", event("chat.message", "ses_2", prompt="the agent's own words"))
    written = {"tool_name": "write", "tool_input": {"filePath": str(repo.path / "b.txt")}, "tool_use_id": "call_1"}
    hook("opencode", event("tool.execute.before", "ses_2", **written))
    repo.write("b.txt", "bbb\n")
    hook("opencode", event("tool.execute.after", "ses_2", **written))
    hook("opencode", event("session.idle", "ses_2"))
    hook("opencode", event("session.deleted", "ses_2"))
    assert only_session()["tracked"]["turn"] is True
    hook("opencode", event("session.idle"))
    doc = only_session()
    assert (doc["task"], doc["status"]) == ("write it", "running")
    assert [one["id"] for one in doc["agents"]] == ["ses_1"]
    assert steps(doc) == [("agent", ["b.txt"], "call_1")]
    hook("opencode", event("session.deleted"))
    assert only_session()["status"] == "completed"


# When it does nothing


def test_outside_of_a_repository_nothing_is_even_made(tmp_path: Path, pinable_home: Path) -> None:
    for event in (Claude(tmp_path).start(), Claude(tmp_path).prompt("do it"), Claude(tmp_path).wrote("toolu_1", "a")):
        hook("claude-code", event)
    assert not pinable_home.exists()


def test_a_home_directory_that_is_a_repository_is_left_alone(seal: Path, pinable_home: Path) -> None:
    GitRepo.init(seal)
    hook("claude-code", Claude(seal).start())
    assert not (pinable_home / "sessions").exists()


def test_where_the_sessions_are_inside_the_working_tree_it_says_why_not(repo: GitRepo, claude: Claude) -> None:
    (repo.path / "kept").mkdir()
    hook("claude-code", claude.start(), {"PINABLE_HOME": str(repo.path / "kept")}, ok=False)
    logged = (repo.path / "kept" / "agent-hooks.log").read_text()
    assert "is inside the working tree" in logged
    assert not (repo.path / "kept" / "sessions").exists()


def test_a_misspelt_setting_does_not_keep_work_from_being_recorded(
    repo: GitRepo, claude: Claude, pinable_home: Path
) -> None:
    pinable_home.mkdir()
    (pinable_home / "config.toml").write_text('[sesion]\nauto_cleanup_days = 0\n[capture]\nexclude = ["*.log"]\n')
    repo.write("left.log", "is excluded\n")
    hook("claude-code", claude.start(), {"PINABLE_CAPTURE__MAX": "1"})
    hook("claude-code", claude.prompt("do it"))
    repo.write("a.txt", "a\n")
    hook("claude-code", claude.wrote("toolu_1", "a.txt"))
    hook("claude-code", claude.event("Stop"))
    assert [files for _, files, _ in steps(only_session())] == [["a.txt"]]


def test_in_a_run_of_ours_it_does_nothing(claude: Claude, pinable_home: Path) -> None:
    hook("claude-code", claude.start(), {"PINABLE_SESSION_ID": "sess_1740480000_a3f7b2c1"})
    assert not pinable_home.exists()


@pytest.mark.parametrize(("agent", "name"), [("claude-code", "Notification"), ("cursor", "SessionStart"), ("", "Stop")])
def test_unwanted_events_and_unknown_agents(claude: Claude, pinable_home: Path, agent: str, name: str) -> None:
    hook(agent, claude.event(name))
    assert not pinable_home.exists()


def test_a_dry_call_only_answers(repo: GitRepo, pinable_home: Path) -> None:
    done = subprocess.run([*COMMAND, "codex"], env={**os.environ, "PINABLE_HOOK_CHECK": "1"}, capture_output=True)
    assert done.returncode == 0
    assert done.stdout.startswith(b"pinable agent hook runs: codex ")
    assert not pinable_home.exists()


def test_the_console_program_is_the_same_entry(claude: Claude) -> None:
    done = run_cli("pinable-hook", "claude-code", input=json.dumps(claude.start()))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert only_session()["status"] == "running"


# Hostile events

HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"Bearer sk-ant-0123456789 {",
    "not UTF-8": b'{"hook_event_name": "\xff\xfe"}',
    "a list": b"[1, 2]",
    "a number": b"7",
    "deep": b"[" * 100_000,
    "no event": b"{}",
    "an event that is a list": b'{"hook_event_name": ["Stop"], "session_id": "x"}',
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_event_is_passed_over(data: bytes, pinable_home: Path) -> None:
    pinable_home.mkdir()
    hook("claude-code", data, ok=False)
    assert all(problem in ("the event is not JSON", "the event is no JSON object") for problem in problems()), (
        problems()
    )
    assert "sk-ant" not in (pinable_home / "agent-hooks.log").read_text() if problems() else True


def test_an_event_of_many_megabytes(repo: GitRepo, claude: Claude) -> None:
    repo.write("big.txt", "x" * 1000)
    hook("claude-code", {**claude.wrote("toolu_1", "big.txt"), "tool_response": {"originalFile": "y" * 20_000_000}})
    assert only_session()["base"] is not None


@pytest.mark.parametrize(
    "field", ["session_id", "cwd", "prompt", "tool_name", "tool_input", "tool_use_id", "transcript_path", "model"]
)
@pytest.mark.parametrize("value", [7, {"a": 1}, "\0", "\ud800", "../../../../etc/passwd"], ids=repr)
def test_fields_of_the_wrong_kind_do_no_harm(repo: GitRepo, claude: Claude, field: str, value: object) -> None:
    from gitsession.agentevents import wanted
    from gitsession.config import Settings
    from gitsession.verbs.tracked import Event
    from gitsession.verbs.tracking import feed

    store = SessionStore()
    for event in (
        claude.start(),
        claude.prompt("x"),
        claude.before("t1"),
        claude.wrote("t2", "README.md"),
        claude.end(),
    ):
        which = wanted("claude-code", event["hook_event_name"])
        assert which is not None
        said = json.loads(json.dumps({**event, field: value}))
        feed(store, Event("claude-code", which.kind, which.event, said), Settings())
    for session_id in store.ids():
        store.load(session_id)


def test_paths_that_lead_out_are_ignored(repo: GitRepo, claude: Claude, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    (repo.path / "way-out").symlink_to(tmp_path / "outside")
    hook("claude-code", claude.start())
    repo.write("README.md", "changed\n")
    for path in ("../outside/secret.txt", "way-out/secret.txt", ".git/config", "a\0b", "x" * 5000, "/", "."):
        hook("claude-code", claude.after("toolu_1", "Write", file_path=path))
    assert steps(only_session()) == []


def test_a_link_is_written_through(repo: GitRepo, claude: Claude) -> None:
    (repo.path / "link.txt").symlink_to("README.md")
    hook("claude-code", claude.start())
    repo.write("README.md", "by way of the link\n")
    hook("claude-code", claude.wrote("toolu_1", "link.txt"))
    assert steps(only_session()) == [("agent", ["README.md"], "toolu_1")]


def test_nothing_of_the_person_or_the_agent_is_in_the_log(repo: GitRepo, claude: Claude) -> None:
    hook("claude-code", claude.start())
    agents = SessionStore().home / "agents"
    shutil.rmtree(agents)
    agents.write_text("in the way")
    hook("claude-code", claude.prompt("the password is hunter2"), ok=False)
    hook("claude-code", claude.prompt("the password is hunter2"), ok=False)
    log = SessionStore().home / "agent-hooks.log"
    assert "cannot read" in log.read_text()
    assert "hunter2" not in log.read_text()
    assert len(problems()) == 1, "the same again is not noted again"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


# Many at once


def test_ten_events_at_once_lose_nothing(repo: GitRepo, claude: Claude) -> None:
    hook("claude-code", claude.start())
    for number in range(10):
        repo.write(f"file{number}.txt", f"{number}\n")
    running = [start_hook("claude-code", claude.wrote(f"toolu_{number}", f"file{number}.txt")) for number in range(10)]
    assert [process.wait(timeout=60) for process in running] == [0] * 10
    for process in running:
        process.communicate()
    doc = only_session()
    assert problems() == []
    assert sorted(steps(doc)) == sorted(("agent", [f"file{number}.txt"], f"toolu_{number}") for number in range(10))
    assert {f"file{number}.txt".encode() for number in range(10)} <= repo.tree(f"refs/pinable/{doc['id']}").keys()
    verified = run_cli("pinable-agents", "doctor")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_first_events_that_come_at_once_make_one_session(repo: GitRepo, claude: Claude) -> None:
    running = [start_hook("claude-code", claude.wrote(f"toolu_{number}", "README.md")) for number in range(6)]
    for process in running:
        assert process.communicate(timeout=60) == (b"", b"")
    doc = only_session()
    assert problems() == []
    assert doc["status"] == "running"
    assert natives.find(SessionStore().home, "claude-code", claude.session) == doc["id"]


# Life and death of the agent

AGENT = """
import json, subprocess, sys
for line in sys.stdin:
    done = subprocess.run({command!r} + ["claude-code"], input=line.encode())
    print(done.returncode, flush=True)
"""


class Living:
    """A process that starts hooks as an agent does."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", AGENT.format(command=list(COMMAND))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, event: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(event) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "0\n"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self) -> None:
        self.process.communicate(timeout=60)


def test_while_the_agent_lives_its_session_runs_and_is_nobody_elses(repo: GitRepo, claude: Claude) -> None:
    agent = Living()
    try:
        agent.send(claude.start())
        agent.send(claude.prompt("do it"))
        doc = only_session()
        owner = SessionStore().owner(doc["id"])
        assert owner is not None
        assert (owner.pid, owner.tracked) == (agent.process.pid, "claude-code")
        listed = json.loads(run_cli("pinable-agents", "session", "list", "--json").stdout)
        assert [(one["id"], one["status"]) for one in listed] == [(doc["id"], "running")]
        refused = run_cli(
            "codeagent-wrapper", "--session-id", doc["id"], "--backend", "command", "--", "true", cwd=repo.path
        )
        assert refused.returncode == 4
        assert f"claude-code (process {agent.process.pid})" in refused.stderr
        asked = run_cli("pinable-agents", "session", "pause", doc["id"])
        assert asked.returncode == 4
        assert "claude-code" in asked.stderr
        assert "end it there" in asked.stderr
        assert run_cli("pinable-agents", "session", "delete", doc["id"]).returncode == 4
    finally:
        agent.close()


def test_when_the_agent_is_killed_the_next_command_pauses_its_session(repo: GitRepo, claude: Claude) -> None:
    agent = Living()
    agent.send(claude.start())
    agent.send(claude.prompt("do it"))
    agent.kill()
    assert only_session()["status"] == "running"
    listed = run_cli("pinable-agents", "session", "list")
    assert "paused" in listed.stdout
    doc = only_session()
    assert doc["status"] == "paused"
    assert doc["pause_reason"].startswith("the agent ended without a word")
    assert SessionStore().unended() == []


def test_a_killed_agent_that_goes_on_begins_another_run_of_the_same_session(repo: GitRepo, claude: Claude) -> None:
    agent = Living()
    agent.send(claude.start())
    agent.send(claude.prompt("do it"))
    agent.kill()
    again = Living()
    try:
        repo.write("mine.txt", "by hand, meanwhile\n")
        again.send(claude.start("resume"))
        doc = only_session()
        assert (doc["status"], len(doc["runs"])) == ("running", 2)
        assert doc["runs"][0]["end"].startswith("the agent ended without a word")
        assert steps(doc) == [("found", ["mine.txt"], None)]
    finally:
        again.close()


def test_what_a_person_left_is_not_run_on_with_all_others(repo: GitRepo, claude: Claude) -> None:
    for event in (claude.start(), claude.prompt("do it"), claude.end()):
        hook("claude-code", event)
    done = run_cli("pinable-agents", "session", "recover", "--all", cwd=repo.path)
    assert (done.returncode, done.stdout) == (0, "Found no recoverable sessions\n")
    doc = only_session()
    assert f"{doc['id']}: left alone" in done.stderr
    assert (doc["status"], len(doc["runs"])) == ("paused", 1)


def test_files_are_put_back_while_the_agent_waits_for_the_person(repo: GitRepo, claude: Claude) -> None:
    restore = ("pinable-agents", "session", "restore", "latest", "0", "--yes")
    for event in (claude.start(), claude.prompt("do it")):
        hook("claude-code", event)
    for call, text in (("1", "one"), ("2", "two")):
        repo.write("a.txt", text)
        hook("claude-code", claude.wrote(call, "a.txt"))
    refused = run_cli(*restore, cwd=repo.path)
    assert (refused.returncode, repo.at("a.txt").read_text()) == (4, "two"), "it is at work"
    hook("claude-code", claude.stop())
    owner = SessionStore().owner(only_session()["id"])
    done = run_cli(*restore, cwd=repo.path)
    assert (done.returncode, repo.at("a.txt").read_text()) == (0, "one"), done.stderr
    assert "claude-code is open, and does not know of it" in done.stdout + done.stderr
    assert SessionStore().owner(only_session()["id"]) == owner, "the session is the agent's as before"
    for event in (claude.prompt("again"), claude.stop()):
        hook("claude-code", event)
    assert only_session()["status"] == "running"
    assert len(only_session()["runs"]) == 1


def test_it_gives_up_before_the_agent_does(repo: GitRepo, claude: Claude, tmp_path: Path) -> None:
    hook("codex", claude.start())
    hook("codex", claude.prompt("do it"))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "git"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    hook("codex", claude.end(), {"PATH": path, PATIENCE: ""}, ok=False)
    assert problems() == ["it took too long, and was given up"]
    assert only_session()["status"] == "running"
    hook("codex", claude.end(), ok=False)
    assert only_session()["status"] == "paused"


def test_ctrl_c_is_meant_for_the_agent(repo: GitRepo, claude: Claude, tmp_path: Path) -> None:
    hook("claude-code", claude.start())
    git = shutil.which("git")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "git"
    program.write_text(f'#!/bin/sh\nkill -INT $PPID\nexec {git} "$@"\n')
    program.chmod(0o755)
    repo.write("README.md", "changed\n")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    hook("claude-code", claude.wrote("toolu_1", "README.md"), {"PATH": path})
    assert steps(only_session()) == [("agent", ["README.md"], "toolu_1")]


# What it loads


def test_it_loads_none_of_the_heavy_packages(repo: GitRepo, claude: Claude) -> None:
    hook("claude-code", claude.start())
    repo.write("src/app.py", "print(1)\n")
    for event in (
        claude.prompt("x"),
        claude.before("t1"),
        claude.after("t1"),
        claude.wrote("t2", "README.md"),
        claude.stop(),
    ):
        done = subprocess.run(
            [sys.executable, "-I", "-X", "importtime", "-m", "gitsession.agenthook", "claude-code"],
            input=json.dumps(event).encode(),
            capture_output=True,
        )
        loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.decode().splitlines()}
        assert "gitsession" in loaded
        heavy = {
            "pygit2",
            "click",
            "pydantic",
            "pydantic_core",
            "rich",
            "anthropic",
            "psutil",
            "filelock",
            "tomllib",
            "inspect",
        }
        assert loaded & heavy == set()
    assert [trigger for trigger, *_ in steps(only_session())] == ["found"]
