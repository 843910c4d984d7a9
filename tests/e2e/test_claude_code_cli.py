"""The real Claude Code under ``codeagent-wrapper``, against a server on loopback that plays a script.

Skipped where it is not installed (``agents/installed.py``); what it said is replayed in every run
(``backends/test_claude_code.py``).
"""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import installed
from agents.places import KEY, PATIENCE, TASK, WAITS, Place
from backends.model_server import Fault, Messages, ModelServer, Step, call, say, step, wait_for
from support import GitRepo

from gitsession.backends.processes import MARK
from gitsession.store import natives

OUTER = {"CLAUDECODE": "1", "CLAUDE_CODE_CHILD_SESSION": "1", "CLAUDE_CODE_SESSION_ID": "outer", "AI_AGENT": "outer"}
pytestmark = installed.needed("claude-code")


class Claude(Place):
    """A place for Claude Code."""

    def __init__(self, repo: GitRepo, home: Path) -> None:
        super().__init__("claude-code", Messages(), repo, home, settle)

    def play(self, *script: Step) -> ModelServer:
        return self.serve(script)

    def conversation(self, request: int = -1) -> str:
        """A request's messages as JSON."""
        assert self.server is not None
        return json.dumps(self.server.requests[request]["messages"], ensure_ascii=False)


def settle(_home: Path, url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        **OUTER,
    }


@pytest.fixture
def place(repo: GitRepo, seal: Path) -> Iterator[Claude]:
    made = Claude(repo, seal)
    yield made
    made.close()


def edits(place: Claude) -> list[Step]:
    """Three edits, one of them by a command that fails."""
    command = "ps -eo args > ps.txt; env > env.txt; echo two >> a.txt; false"
    old, new = "return a + b", "return b + a"
    return [
        step(say("I look first."), call("Write", file_path=place.path("a.txt"), content="one\n")),
        step(call("Read", file_path=place.path("src/util.py")), after=1),
        step(call("Edit", file_path=place.path("src/util.py"), old_string=old, new_string=new)),
        step(call("Bash", command=command, description="Append"), after=2),
        step(say("All is well.")),
    ]


def test_it_creates_edits_and_runs_commands(place: Claude) -> None:
    place.play(*edits(place))
    before = place.repo.user_state()
    done = place.begin("--allow-commands", "--", "--append-system-prompt", "Be brief.")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[: lines.index("Session completed: one")] == [
        "Session created: one",
        "I look first.",
        "[Write] a.txt",
        "[Checkpoint 0] Saved Write: a.txt",
        "[Read] src/util.py",
        "[Edit] src/util.py",
        "[Checkpoint 1] Saved Edit: src/util.py",
        "[Bash] Append",
        "[Checkpoint 2] Saved Bash: Append",
        "All is well.",
        "",
    ]
    assert place.repo.user_state() == before
    tip = "refs/pinable/one"
    assert place.repo.git("show", f"{tip}:a.txt") == "one\ntwo"
    assert place.repo.git("show", f"{tip}~1:a.txt") == "one"
    assert "b + a" in place.repo.git("show", f"{tip}~1:src/util.py")
    assert "a + b" in place.repo.git("show", f"{tip}~2:src/util.py")

    doc = place.read()
    [agent] = doc["agents"]
    assert (agent["agent"], agent["version"], agent["directory"]) == ("claude-code", "2.1.197", str(place.repo.path))
    assert agent["model"].startswith("claude-")
    assert Path(agent["transcript"]).is_file()
    assert natives.find(place.store, "claude-code", agent["id"]) == "one"
    assert doc["cost"]["total_tokens"] == 5 * 6034
    assert doc["cost"]["estimated_cost_usd"] > 0
    first = doc["checkpoints"][0]["tokens_used"]
    assert first["input"] in (0, 6000), "a tool may be quicker than the end of the reply that calls it"
    assert doc["runs"][-1]["said"] == "All is well."

    environment = (place.repo.path / "env.txt").read_text()
    assert f"{MARK}=one\n" in environment
    assert "=outer\n" not in environment
    arguments = (place.repo.path / "ps.txt").read_text()
    assert "stream-json" in arguments
    assert KEY not in arguments
    claudes = [line for line in arguments.splitlines() if "stream-json" in line]
    assert not any(TASK in line for line in claudes), "the wrapper's own arguments are the user's"
    assert_private(place)


def assert_private(place: Claude) -> None:
    """The key is nowhere in what we keep, and nobody else can read any of it."""
    assert all(
        not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) for path in [place.store, *place.store.rglob("*")]
    )
    assert not any(KEY in path.read_text("utf-8", "replace") for path in place.store.rglob("*") if path.is_file())
    objects = place.repo.git_bytes("cat-file", "--batch-all-objects", "--batch")
    assert objects.count(KEY.encode()) == (place.repo.path / "env.txt").read_bytes().count(KEY.encode())


def test_what_it_may_not_do_is_no_success_and_goes_on_with_leave(place: Claude) -> None:
    server = place.play(
        step(call("Bash", command="make > made.txt 2>&1", description="Build")),
        step(say("I could not build.")),
        step(call("Bash", command="echo made > made.txt", description="Build")),
        step(say("Built.")),
    )
    denied = place.begin()
    assert denied.returncode == 3
    reason = "Claude Code was not allowed to use Bash; --allow-commands allows it"
    assert reason in denied.stdout
    assert (place.read()["status"], place.read()["pause_reason"]) == ("paused", reason)
    model = place.read()["agents"][0]["model"]
    elsewhere = place.home / "elsewhere"
    elsewhere.mkdir()
    done = place.run("--session-id", "one", "--allow-commands", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert server.steps == [0, 1, 2, 3]
    assert "I could not build." in place.conversation()
    assert "The run was interrupted. Go on with the task" in place.conversation()
    assert place.repo.git("show", "refs/pinable/one:made.txt") == "made"
    doc = place.read()
    assert [agent["model"] for agent in doc["agents"]] == [model]
    assert doc["cost"]["total_tokens"] == 4 * 6034


FAULTS = [
    (401, 1, "Failed to authenticate. API Error: 401 scripted"),
    (529, 3, "API Error: 529 scripted."),
    (500, 3, "API Error: 500 scripted."),
    ("end", 3, "the model's reply broke off"),
    ("error", 3, "API Error: Overloaded"),
]


def test_failures_of_the_api_are_no_success_and_can_be_gone_on_from(place: Claude) -> None:
    write = call("Write", file_path=place.path("a.txt"), content="one\n")
    server = place.play()
    for number, (fault, status, reason) in enumerate(FAULTS):
        broken = Fault(status=fault) if isinstance(fault, int) else Fault(how=fault, message="overloaded_error")
        server.forget()
        server.scripts[""] = [step(say("I begin."), write, faults=(broken,) * 2)] * 9
        failed = place.run("--session-id", "one") if number else place.begin()
        assert failed.returncode == status, failed.stdout
        assert reason in failed.stdout
        assert place.read()["pause_reason"].startswith(reason)
    server.scripts[""] = [step(write)] * (server.steps[-1] + 2) + [step(say("Done."))]
    again = place.run("--session-id", "one")
    assert again.returncode == 0, again.stderr
    assert place.repo.git("show", "refs/pinable/one:a.txt") == "one"
    assert len(place.read()["agents"]) == 1


def test_a_stream_that_is_cut_before_it_said_anything_is_asked_for_again_by_claude_itself(place: Claude) -> None:
    write = call("Write", file_path=place.path("a.txt"), content="one\n")
    place.play(step(write, faults=(Fault(how="reset"),)), step(say("Done.")))
    done = place.begin()
    assert done.returncode == 0, done.stderr
    assert place.repo.git("show", "refs/pinable/one:a.txt") == "one"
    assert place.read()["cost"]["total_tokens"] == 2 * 6034


def test_limits_end_the_run(place: Claude) -> None:
    server = place.play(*edits(place))
    turns = place.begin("--max-turns", "1")
    assert turns.returncode == 3
    assert "the limit of replies (--max-turns) is reached" in turns.stdout
    cost = place.run("--session-id", "one", "--max-cost", "0.02")
    assert cost.returncode == 3
    assert "the limit of --max-cost is reached" in cost.stdout
    spent = place.read()["cost"]
    assert spent["total_tokens"] == len(server.requests) * 6034
    assert spent["estimated_cost_usd"] == pytest.approx(len(server.requests) * 0.01385)
    count = len(server.requests)
    assert place.run("--session-id", "one", "--max-cost", "0.02").returncode == 3
    assert len(server.requests) == count, "nothing is asked for when all is spent"


def waiting(place: Claude) -> list[Step]:
    """An edit, and a command that does not come to an end."""
    return [
        step(call("Write", file_path=place.path("a.txt"), content="one\n")),
        step(call("Bash", command=WAITS, description="Wait")),
        step(say("Done.")),
        step(say("Done.")),
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_it_is_interrupted_with_all_it_started_and_goes_on(place: Claude, number: signal.Signals) -> None:
    server = place.play(*waiting(place))
    process = place.start("--allow-commands")
    place.wait_for_its_command()
    # The command may begin before the reply that calls it has ended.
    wait_for(lambda: place.read()["cost"]["total_tokens"] == 2 * 6034, PATIENCE)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "Session paused: one" in out
    assert not place.processes()
    assert place.read()["cost"]["total_tokens"] == 2 * 6034
    server.scripts[""] = [step(say("Done."))]
    again = place.run("--session-id", "one")
    assert again.returncode == 0, again.stderr
    assert "a.txt" in place.conversation()
    assert not (place.repo.path / "late.txt").exists()
    assert len(place.read()["agents"]) == 1


def test_it_is_interrupted_in_the_middle_of_a_reply(place: Claude) -> None:
    stalled = Fault(how="stall", seconds=600)
    server = place.play(step(say("I begin."), call("Read", file_path=place.path("README.md")), faults=(stalled,)))
    process = place.start()
    wait_for(lambda: server.requests, PATIENCE)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["Session created: one\n", "I begin.\n"]
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    server.scripts[""] = [step(say("Done."))]
    again = place.run("--session-id", "one")
    assert again.returncode == 0, again.stderr
    assert len(place.read()["agents"]) == 1


def test_a_killed_wrapper_loses_nothing_and_leaves_nothing(place: Claude) -> None:
    server = place.play(*waiting(place))
    process = place.start("--allow-commands")
    place.wait_for_its_command()
    wait_for(lambda: place.read()["cost"]["total_tokens"] == 2 * 6034, PATIENCE)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    again = place.run("--session-id", "one")
    assert again.returncode == 0, again.stderr
    assert not place.processes()
    assert not (place.repo.path / "late.txt").exists()
    assert server.steps[:2] == [0, 1]
    assert "File created successfully" in place.conversation()
    doc = place.read()
    assert len(doc["agents"]) == 1
    assert doc["cost"]["total_tokens"] == len(server.requests) * 6034, "what the killed run had spent is not lost"
    assert doc["checkpoints"][0]["call"] == "toolu_0_0"


def test_a_session_that_claude_has_lost_begins_anew_with_what_was_done(place: Claude) -> None:
    server = place.play(step(call("Write", file_path=place.path("a.txt"), content="one\n")), step(say("Half done.")))
    assert place.begin("--max-turns", "1").returncode == 3
    for record in (place.home / ".claude" / "projects").rglob("*.jsonl"):
        record.unlink()
    server.forget()
    server.scripts[""] = [step(say("Done."))]
    again = place.run("--session-id", "one")
    assert again.returncode == 0, again.stderr
    assert "cannot go on with its session" in again.stderr
    assert "added a.txt" in place.conversation()
    assert len(place.read()["agents"]) == 2


def test_a_long_prompt_arrives_whole(place: Claude) -> None:
    server = place.play(step(say("Read.")))
    text = "".join(f"{number} über alles\n" for number in range(18_000))
    assert len(text.encode()) > 300_000
    file = place.home / "task.txt"
    file.write_text(text)
    done = place.run("--backend", "claude-code", "--task-file", str(file), "--session-id", "one")
    assert done.returncode == 0, done.stderr
    assert json.dumps(text.strip(), ensure_ascii=False)[1:-1] in place.conversation()
    assert len(server.requests) == 1


def test_going_back_takes_files_and_conversation_along(place: Claude) -> None:
    def write(number: int, content: str, after: int = 0) -> Step:
        block = call("Write", file_path=place.path(f"{number}.txt"), content=content)
        return step(say(f"Step {number}."), {**block, "id": f"toolu_{content}_{number}"}, after=after)

    server = place.play(*(write(number, "old", after=number) for number in range(3)), step(say("End."), after=3))
    assert place.begin("--max-turns", "3").returncode == 3
    [before] = place.read()["agents"]
    server.scripts[""] = [step(say("?")), write(1, "new"), step(say("Better."))]
    back = place.run("--session-id", "one", "--restore-checkpoint", "0", "--max-turns", "1")
    assert back.returncode == 3, back.stderr
    assert "claude-code goes on from its conversation as it was at checkpoint 0" in back.stderr
    known = place.conversation()
    assert "Step 0." in known
    assert "Step 1." not in known
    assert "The files and this conversation were put back to here." in known
    assert (place.repo.path / "1.txt").read_text() == "new"
    assert not (place.repo.path / "2.txt").exists()
    forked = place.read()["agents"]
    assert forked[0]["id"] == before["id"]
    assert len(forked) == 2
    done = place.run("--session-id", "one")
    assert done.returncode == 0, done.stderr
    assert "Step 1." in place.conversation()
    assert "Step 2." not in place.conversation()
    assert len(place.read()["agents"]) == 2
