"""The real opencode under ``codeagent-wrapper``, against a server on loopback that plays a script.

Skipped where it is not installed (``agents/installed.py``); what it said is replayed in every run
(``backends/test_opencode.py``).
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
from agents.wire_chat import ChatCompletions
from backends.model_server import Fault, Step, call, say, step, wait_for
from support import GitRepo

from gitsession.store import natives

pytestmark = installed.needed("opencode")
MODEL = ("--model", "scripted/scripted-model")
TOKENS = 5234  # of a reply: 1200 in, 4000 from the cache, 34 out
PRICE = 0.00885  # US dollars of a reply, at the price that is settled below
ANEW = "An earlier run began this task"


def settle(home: Path, url: str) -> dict[str, str]:
    model = {
        "name": "Scripted",
        "limit": {"context": 200_000, "output": 8_000},
        "cost": {"input": 3.0, "output": 15.0, "cache_read": 1.185, "cache_write": 3.75},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "{env:SCRIPTED_API_KEY}"},
        "models": {"scripted-model": model},
    }
    directory = home / ".config" / "opencode"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "opencode.json").write_text(json.dumps({"provider": {"scripted": provider}, "autoupdate": False}))
    return {"SCRIPTED_API_KEY": KEY, "OPENCODE_DISABLE_MODELS_FETCH": "1"}


@pytest.fixture
def place(repo: GitRepo, seal: Path) -> Iterator[Place]:
    made = Place("opencode", ChatCompletions(), repo, seal, settle)
    yield made
    made.close()


def shell(command: str, what: str = "Run it") -> dict[str, object]:
    return call("bash", command=command, description=what)


def test_it_creates_edits_and_runs_commands(place: Place) -> None:
    command = "ps -eo args > .git/ps.txt; env > .git/env.txt; pwd > .git/pwd.txt; echo two >> a.txt; false"
    old, new = "return a + b", "return b + a"
    place.serve(
        [
            step(say("I look first."), call("write", filePath=place.path("a.txt"), content="one\n")),
            step(call("read", filePath=place.path("src/util.py")), after=1),
            step(call("edit", filePath=place.path("src/util.py"), oldString=old, newString=new)),
            step(shell(command, "Append"), after=2),
            step(say("All is "), say("well.")),
        ]
    )
    before = place.repo.user_state()
    done = place.begin("--allow-commands", *MODEL, "--", "--title", "A title")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[: lines.index("Session completed: one")] == [
        "Session created: one",
        "I look first.",
        "[write] a.txt",
        "[Checkpoint 0] Saved write: a.txt",
        "[read] src/util.py",
        "[edit] src/util.py",
        "[Checkpoint 1] Saved edit: src/util.py",
        "[bash] Append",
        "[Checkpoint 2] Saved bash: Append",
        "All is well.",
        "",
    ]
    git = place.repo.git_dir
    listing, environment, directory = ((git / f"{name}.txt").read_text() for name in ("ps", "env", "pwd"))
    for name in ("ps", "env", "pwd"):
        (git / f"{name}.txt").unlink()
    (git / "opencode").unlink(missing_ok=True)  # opencode's own, the project's id
    assert place.repo.user_state() == before
    tip = "refs/pinable/one"
    assert place.repo.git("show", f"{tip}:a.txt") == "one\ntwo"
    assert place.repo.git("show", f"{tip}~1:a.txt") == "one"
    assert "b + a" in place.repo.git("show", f"{tip}~1:src/util.py")
    assert "a + b" in place.repo.git("show", f"{tip}~2:src/util.py")

    doc = place.read()
    [agent] = doc["agents"]
    assert (agent["agent"], agent["version"], agent["model"]) == ("opencode", "1.18.33", MODEL[1])
    assert agent["directory"] == directory.strip() == str(place.repo.path)
    assert natives.find(place.store, "opencode", agent["id"]) == "one"
    assert doc["cost"]["total_tokens"] == 5 * TOKENS
    assert doc["cost"]["estimated_cost_usd"] == pytest.approx(5 * PRICE)
    assert doc["runs"][-1]["said"] == "All is well."
    assert "PINABLE_SESSION_ID=one\n" in environment
    place.assert_nobody_else_sees(listing, "--format json")
    place.assert_private()


def test_what_it_may_not_do_is_no_success_and_it_can_go_on_with_leave(place: Place) -> None:
    """In its own session, from wherever that is asked for; and back, told what was done until then."""
    server = place.serve(
        {
            ANEW: [step(say("Checked."))],
            "": [
                step(call("write", filePath=place.path("a.txt"), content="one\n")),
                step(shell("make > made.txt", "Build"), after=1),
                step(call("write", filePath=place.path("a.txt"), content="two\n")),
                step(say("I could not build.")),
                step(shell("echo made > made.txt", "Build"), faults=(Fault(status=401),)),
            ],
        }
    )
    denied = place.begin(*MODEL)
    assert denied.returncode == 3
    reason = "opencode was not allowed what it wanted (bash Build); --allow-commands allows it"
    assert reason in denied.stdout
    doc = place.read()
    assert (doc["status"], doc["pause_reason"]) == ("paused", reason)
    assert (place.repo.path / "a.txt").read_text() == "two\n", "it went on as well as it could"
    failed = place.go_on("--allow-commands")
    assert failed.returncode == 1, failed.stdout
    assert place.read()["pause_reason"] == "the API refused the request: scripted"
    assert "I could not build." in place.told()
    assert "The run was interrupted. Go on with the task" in place.told()
    assert len(place.read()["agents"]) == 1
    back = place.go_on("--restore-checkpoint", "0")
    assert back.returncode == 0, back.stderr
    assert "opencode cannot go back in its conversation: it begins anew" in back.stderr
    assert server.steps == [0, 1, 2, 3, 4, 0]
    assert (place.repo.path / "a.txt").read_text() == "one\n"
    assert place.read()["cost"]["total_tokens"] == 5 * TOKENS


FAULTS = [
    ((Fault(status=500),) * 6, 3, "CONNECTION ERROR: scripted"),
    ((Fault(how="garbage"),), 3, "CONNECTION ERROR: JSON parsing failed"),
]


def test_failures_of_the_api_are_no_success_and_can_be_gone_on_from(place: Place) -> None:
    """In the session that was given a task of 300 KB.  A stream that is cut is asked for again by opencode itself."""
    task = "".join(f"{number} über alles\n" for number in range(18_000)).strip()
    assert len(task.encode()) > 300_000
    (place.home / "task.txt").write_text(task)
    given = ("--backend", "opencode", *MODEL, "--task-file", str(place.home / "task.txt"))
    server = place.serve([step(say("x"))])
    for number, (faults, status, reason) in enumerate(FAULTS):
        server.forget()
        server.scripts[""] = [step(say("x"), faults=faults)] * 9
        failed = place.run("--session-id", "one", *(() if number else given))
        assert failed.returncode == status, failed.stdout
        assert reason in failed.stdout
        assert place.read()["pause_reason"].startswith(reason)
    server.scripts[""] = [step(say("Done."), faults=(Fault(how="reset"),))] * 9
    again = place.go_on()
    assert again.returncode == 0, again.stderr
    assert json.dumps(task, ensure_ascii=False)[1:-1] in place.told()
    assert len(place.read()["agents"]) == 1


def waiting(place: Place) -> list[Step]:
    """An edit, a command that does not come to an end, and what is said of that."""
    return [
        step(call("write", filePath=place.path("a.txt"), content="one\n")),
        step(shell(WAITS, "Wait")),
        step(say("Done.")),
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_it_is_ended_with_all_it_started_and_goes_on(place: Place, number: signal.Signals) -> None:
    place.serve(waiting(place))
    process = place.start("--allow-commands", *MODEL)
    place.wait_for_its_command()
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE)
    if number != signal.SIGKILL:
        assert process.returncode == 130, err
        assert "Session paused: one" in out
        assert not place.processes()
        assert place.read()["cost"]["total_tokens"] == TOKENS
    again = place.go_on()
    assert again.returncode == 0, again.stderr
    assert not place.processes()
    assert not (place.repo.path / "late.txt").exists()
    assert "Wrote file successfully" in place.told()
    doc = place.read()
    assert doc["checkpoints"][0]["description"] == "write: a.txt"
    assert len(doc["agents"]) == 1


def test_it_is_ended_in_the_middle_of_a_reply_and_goes_on_in_its_session(place: Place) -> None:
    server = place.serve([step(say("I begin."), faults=(Fault(how="stall", seconds=600),)), step(say("Done."))])
    process = place.start(*MODEL)
    wait_for(lambda: server.requests, PATIENCE)
    wait_for(lambda: "agents" in place.read(), PATIENCE)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    again = place.go_on()
    assert again.returncode == 0, again.stderr
    assert TASK in place.told()
    assert len(place.read()["agents"]) == 1
