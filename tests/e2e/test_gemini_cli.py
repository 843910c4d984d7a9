"""The real Gemini CLI under ``codeagent-wrapper``, against a server on loopback that plays a script.

Skipped where it is not installed (``agents/installed.py``); what it said is replayed in every run
(``backends/test_gemini.py``).
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import installed
from agents.places import KEY, PATIENCE, TASK, WAITS, Place
from agents.wire_gemini import GenerateContent
from backends.model_server import Fault, Step, call, say, step
from support import GitRepo

from gitsession.store import natives

pytestmark = installed.needed("gemini")
MODEL = ("--model", "gemini-2.5-flash")
TOKENS = 5234  # of a reply: 1200 in, 4000 from the cache, 34 out
ANEW = "An earlier run began this task"


def settle(home: Path, url: str) -> dict[str, str]:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"maxAttempts": 1}}
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY}


@pytest.fixture
def place(repo: GitRepo, seal: Path) -> Iterator[Place]:
    made = Place("gemini", GenerateContent(), repo, seal, settle)
    yield made
    made.close()


def test_it_creates_edits_and_runs_commands(place: Place) -> None:
    command = "ps -eo args > .git/ps.txt; env > .git/env.txt; echo two >> a.txt; false"
    old, new = "return a + b", "return b + a"
    place.serve(
        [
            step(say("I look first."), call("write_file", file_path="a.txt", content="one\n")),
            step(call("read_file", file_path=place.path("src/util.py")), after=1),
            step(call("replace", file_path="src/util.py", old_string=old, new_string=new, instruction="Swap")),
            step(call("run_shell_command", command=command, description="Append"), after=2),
            step(say("All is "), say("well.")),
        ]
    )
    before = place.repo.user_state()
    done = place.begin("--allow-commands", *MODEL, "--", "--include-directories", str(place.home / "tmp"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[: lines.index("Session completed: one")] == [
        "Session created: one",
        "I look first.",
        "[write_file] a.txt",
        "[Checkpoint 0] Saved write_file: a.txt",
        "[read_file] src/util.py",
        "[replace] src/util.py",
        "[Checkpoint 1] Saved replace: src/util.py",
        "[run_shell_command] Append",
        "[Checkpoint 2] Saved run_shell_command: Append",
        "All is well.",
        "",
    ]
    git = place.repo.git_dir
    listing, environment = (git / "ps.txt").read_text(), (git / "env.txt").read_text()
    (git / "ps.txt").unlink()
    (git / "env.txt").unlink()
    assert place.repo.user_state() == before
    tip = "refs/pinable/one"
    assert place.repo.git("show", f"{tip}:a.txt") == "one\ntwo"
    assert place.repo.git("show", f"{tip}~1:a.txt") == "one"
    assert "b + a" in place.repo.git("show", f"{tip}~1:src/util.py")
    assert "a + b" in place.repo.git("show", f"{tip}~2:src/util.py")

    doc = place.read()
    [agent] = doc["agents"]
    assert (agent["agent"], agent["version"], agent["model"]) == ("gemini", "0.61.0", "gemini-2.5-flash")
    assert agent["directory"] == str(place.repo.path)
    assert Path(agent["transcript"]).is_file()
    assert natives.find(place.store, "gemini", agent["id"]) == "one"
    assert doc["cost"]["total_tokens"] == 5 * TOKENS
    assert doc["runs"][-1]["said"] == "All is well."
    assert "PINABLE_SESSION_ID=one\n" in environment
    place.assert_nobody_else_sees(listing, "stream-json")
    place.assert_private()


def test_what_it_may_not_do_is_no_success_and_it_can_go_back_with_leave(place: Place) -> None:
    """It cannot go back in its conversation: it is told what was done until then."""
    write = call("run_shell_command", command="echo made > made.txt", description="Build")
    server = place.serve(
        {
            ANEW: [step(write), step(say("Built."))],
            "": [
                step(call("write_file", file_path="a.txt", content="one\n")),
                step(call("write_file", file_path="a.txt", content="two\n"), after=1),
                step(write),
                step(say("I could not build.")),
            ],
        }
    )
    denied = place.begin(*MODEL)
    assert denied.returncode == 3
    reason = "Gemini CLI was not allowed what it wanted (run_shell_command: Build); --allow-commands allows it"
    assert reason in denied.stdout
    doc = place.read()
    assert (doc["status"], doc["pause_reason"]) == ("paused", reason)
    assert (place.repo.path / "a.txt").read_text() == "two\n"
    done = place.go_on("--restore-checkpoint", "0", "--allow-commands")
    assert done.returncode == 0, done.stderr
    assert "gemini cannot go back in its conversation: it begins anew" in done.stderr
    assert server.steps == [0, 1, 2, 3, 0, 1]
    assert (place.repo.path / "a.txt").read_text() == "one\n"
    assert (place.repo.path / "made.txt").read_text() == "made\n"
    assert len(place.read()["agents"]) == 2
    assert place.read()["cost"]["total_tokens"] == 6 * TOKENS


FAULTS = [
    (Fault(status=401), 1, "the API refused the request: scripted"),
    (Fault(status=500), 3, "CONNECTION ERROR: scripted"),
    (Fault(how="end"), 3, "CONNECTION ERROR: Model stream ended without a finish reason."),
    (Fault(how="reset"), 3, "CONNECTION ERROR: terminated"),
]


def test_failures_of_the_api_are_no_success_and_can_be_gone_on_from(place: Place) -> None:
    """Gemini CLI keeps no session without a reply, so the task, here of 300 KB, is told anew."""
    task = "".join(f"{number} über alles\n" for number in range(18_000)).strip()
    assert len(task.encode()) > 300_000
    (place.home / "task.txt").write_text(task)
    given = ("--backend", "gemini", *MODEL, "--task-file", str(place.home / "task.txt"))
    server = place.serve([step(say("x"), faults=tuple(fault for fault, _, _ in FAULTS))])
    for number, (_, status, reason) in enumerate(FAULTS):
        failed = place.run(*given, "--session-id", f"fault-{number}")
        assert failed.returncode == status, failed.stdout
        assert reason in failed.stdout
        assert place.read(f"fault-{number}")["pause_reason"] == reason
    again = place.run("--session-id", "fault-0")
    assert again.returncode == 0, again.stderr
    assert "begins anew" in again.stderr
    for request in (0, -1):
        assert json.dumps(task, ensure_ascii=False)[1:-1] in place.told(request)
    assert len(server.requests) == len(FAULTS) + 1
    reports = list((place.home / "tmp").glob("gemini-client-error-*.json"))
    assert reports
    assert not any(report.stat().st_mode & 0o077 for report in reports), "they have the task in them"


def waiting() -> list[Step]:
    """An edit, and a command that does not come to an end."""
    return [
        step(call("write_file", file_path="a.txt", content="one\n")),
        step(call("run_shell_command", command=WAITS)),
        step(say("Late.")),
    ]


def test_it_is_interrupted_with_all_it_started(place: Place) -> None:
    """And goes on, anew: the API refuses that Gemini CLI tells the results of its tool calls twice."""
    place.serve({ANEW: [step(say("Done."))], "": waiting()})
    process = place.start("--allow-commands", *MODEL)
    place.wait_for_its_command()
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "Session paused: one" in out
    assert not place.processes()
    assert place.read()["cost"]["total_tokens"] == 2 * TOKENS
    again = place.go_on()
    assert again.returncode == 0, again.stderr
    assert "the API refuses the conversation as Gemini CLI recorded it" in again.stderr
    assert "a.txt" in place.told()
    assert not (place.repo.path / "late.txt").exists()
    assert len(place.read()["agents"]) == 2


def test_a_killed_wrapper_loses_nothing_and_leaves_nothing(place: Place) -> None:
    place.serve({ANEW: [step(say("Done."))], "": waiting()})
    process = place.start("--allow-commands", *MODEL)
    place.wait_for_its_command()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    again = place.go_on()
    assert again.returncode == 0, again.stderr
    assert not place.processes()
    assert not (place.repo.path / "late.txt").exists()
    doc = place.read()
    assert doc["checkpoints"][0]["description"] == "write_file: a.txt"
    assert "added a.txt" in place.told()


def test_it_is_ended_in_the_middle_of_a_reply_and_goes_on_in_its_session(place: Place) -> None:
    server = place.serve([step(say("I begin.\n"), faults=(Fault(how="stall", seconds=600),)), step(say("Done."))])
    process = place.start(*MODEL)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["Session created: one\n", "I begin.\n"]
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    again = place.go_on()
    assert again.returncode == 0, again.stderr
    assert TASK in place.told()
    assert len(server.requests) == 2
    assert len(place.read()["agents"]) == 1
