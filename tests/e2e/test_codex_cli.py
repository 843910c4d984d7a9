"""The real Codex under ``codeagent-wrapper``, against a server on loopback that plays a script.

Skipped where it is not installed (``agents/installed.py``); what it said is replayed in every run
(``backends/test_codex.py``).
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents import installed
from agents.places import KEY, PATIENCE, TASK, WAITS, Place
from agents.wire_responses import Responses, patch, shell
from backends.model_server import Fault, ModelServer, Step, say, step, wait_for
from support import GitRepo

from gitsession.backends.processes import MARK
from gitsession.store import natives

ONE_REPLY = 6034
"""Tokens of a reply of the server's, those of the cache included."""
CONFIG = """\
model = "scripted-model"
model_provider = "scripted"
check_for_update_on_startup = false

[sandbox_workspace_write]
exclude_slash_tmp = true

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""
pytestmark = installed.needed("codex")


class Codex(Place):
    """A place for Codex."""

    def __init__(self, repo: GitRepo, home: Path) -> None:
        super().__init__("codex", Responses(), repo, home, settle)

    def play(self, *script: Step) -> ModelServer:
        return self.serve(script)

    def conversation(self) -> str:
        """The last request's input as JSON."""
        assert self.server is not None
        return json.dumps(self.server.requests[-1]["input"], ensure_ascii=False)

    def at(self, revision: str) -> str:
        """A file of a checkpoint, counted back from the newest: ``~1:a.txt``."""
        return self.repo.git("show", f"refs/pinable/one{revision}")


def settle(home: Path, url: str) -> dict[str, str]:
    """Codex takes no server from its environment."""
    config = home / ".codex" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    config.write_text(CONFIG.format(url=url))
    return {"SCRIPTED_KEY": KEY, "CODEX_THREAD_ID": "outer"}


@pytest.fixture
def place(repo: GitRepo, seal: Path) -> Iterator[Codex]:
    made = Codex(repo, seal)
    yield made
    made.close()


def assert_private(place: Codex) -> None:
    """The key is nowhere in what we keep, and nobody else can read any of it."""
    kept = [place.store, *place.store.rglob("*")]
    assert not any(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) for path in kept)
    assert not any(KEY in path.read_text("utf-8", "replace") for path in kept if path.is_file())
    assert KEY.encode() not in place.repo.git_bytes("cat-file", "--batch-all-objects", "--batch")


ADDER = "*** Update File: src/util.py\n@@\n-    return a + b\n+    return b + a"


def test_it_creates_edits_and_runs_commands(place: Codex) -> None:
    command = "ps -eo args > ps.txt; env | grep -v ^SCRIPTED > env.txt; echo two >> a.txt; false"
    place.play(
        step(say("I look first."), patch("*** Add File: a.txt\n+one", ADDER)),
        step(shell(command), after=1),
        step(shell("cat src/util.py >/dev/null"), after=2),
        step(say("All is well.")),
    )
    before = place.repo.user_state()
    done = place.begin("--allow-commands", "--", "-c", 'model_reasoning_effort="high"')
    assert done.returncode == 0, done.stderr
    assert "Model metadata for `scripted-model` not found" in done.stderr
    assert done.stdout.split("\nSession completed: one\n")[0].splitlines() == [
        "Session created: one",
        "I look first.",
        "[edit] a.txt, src/util.py",
        "[Checkpoint 0] Saved edit: a.txt, src/util.py",
        f"[shell] {command}",
        f"[Checkpoint 1] Saved shell: {command}",
        "[shell] cat src/util.py >/dev/null",
        "All is well.",
    ]
    assert place.repo.user_state() == before
    assert place.at("~1:a.txt") == "one"
    assert "b + a" in place.at("~1:src/util.py")
    assert place.at(":a.txt") == "one\ntwo"

    doc = place.read()
    [agent] = doc["agents"]
    facts = (agent["agent"], agent["version"], agent["model"], agent["directory"])
    assert facts == ("codex", "0.171.0", "scripted-model", str(place.repo.path))
    assert Path(agent["transcript"]).is_file()
    assert agent["counted"]["output_tokens"] == 4 * 34
    assert natives.find(place.store, "codex", agent["id"]) == "one"
    assert doc["cost"]["total_tokens"] == 4 * ONE_REPLY
    assert doc["runs"][-1]["said"] == "All is well."
    assert place.server is not None
    assert place.server.requests[0]["reasoning"]["effort"] == "high"

    environment = (place.repo.path / "env.txt").read_text()
    assert f"{MARK}=one\n" in environment
    assert "=outer\n" not in environment
    arguments = (place.repo.path / "ps.txt").read_text()
    codexes = [text for text in arguments.splitlines() if "exec --json" in text]
    assert codexes
    assert not any(TASK in text or KEY in text for text in codexes)
    assert_private(place)


def test_what_it_may_not_do_is_no_success_and_goes_on_with_leave(place: Codex, tmp_path: Path) -> None:
    """What it refuses by itself it says on its standard error only; temporary files are in the sandbox by default."""
    outside = tmp_path.parent / f"{tmp_path.name}-outside.txt"
    server = place.play(
        step(shell("echo inside > a.txt")),
        step(patch(f"*** Add File: {outside}\n+one")),
        step(say("I could not.")),
        step(patch(f"*** Add File: {outside}\n+one")),
        step(say("Now I could.")),
    )
    denied = place.begin()
    assert denied.returncode == 3, denied.stderr
    reason = place.read()["pause_reason"]
    assert reason.startswith("Codex was not allowed what it wanted (patch rejected: writing outside of the project")
    assert reason.endswith("; --allow-commands takes its sandbox away")
    assert place.at(":a.txt") == "inside"
    assert not outside.exists()
    elsewhere = place.home / "elsewhere"
    elsewhere.mkdir()
    done = place.run("--session-id", "one", "--allow-commands", "--model", "other-model", cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert "resuming with `other-model`" in done.stderr
    assert server.requests[-1]["model"] == "other-model"
    assert outside.read_text() == "one\n"
    outside.unlink()
    assert server.steps == [0, 1, 2, 3, 4]
    assert "I could not." in place.conversation()
    assert "The run was interrupted. Go on with the task" in place.conversation()
    [agent] = place.read()["agents"]
    assert agent["model"] == "other-model"
    assert place.read()["cost"]["total_tokens"] == 5 * ONE_REPLY, "what was counted before is not counted again"


FAULTS: list[tuple[int | str, int, str]] = [
    (401, 1, "the API refused the request: unexpected status 401 Unauthorized: scripted"),
    (400, 1, "the API refused the request: scripted"),
    (429, 3, "the API's limit is reached: exceeded retry limit, last status: 429 Too Many Requests"),
    (500, 3, "CONNECTION ERROR: We’re currently experiencing high demand"),
    ("end", 3, "CONNECTION ERROR: stream disconnected before completion"),
    ("error", 3, "CONNECTION ERROR: Selected model is at capacity."),
]


def test_failures_of_the_api_are_no_success_and_can_be_gone_on_from(place: Codex) -> None:
    edit, end = step(shell("echo one > a.txt")), step(say("Done."))
    server = place.play(edit, end)
    for fault, status, reason in FAULTS:
        server.forget()
        broken = Fault(status=fault) if isinstance(fault, int) else Fault(how=fault, message="server_is_overloaded")
        server.scripts[""] = [edit, Step(end.blocks, faults=(broken,) * 8)]
        failed = place.begin()
        assert failed.returncode == status, (fault, failed.stdout, failed.stderr)
        assert reason in failed.stderr + failed.stdout
        assert KEY not in failed.stderr + failed.stdout
        assert place.read()["status"] == "paused"
        assert place.read()["cost"]["total_tokens"] == ONE_REPLY, "what the first turn had spent until it failed"
    server.scripts[""] = [edit, end]
    again = place.run("--session-id", "one")
    assert again.returncode == 0, again.stderr
    assert place.at(":a.txt") == "one"
    assert server.steps[-1] == 1, "what it did it knows, and does not do again"
    assert len(place.read()["agents"]) == 1
    assert place.read()["cost"]["total_tokens"] == 2 * ONE_REPLY


def test_a_cut_stream_is_asked_for_again_by_codex_itself(place: Codex) -> None:
    place.play(step(say("I begin."), shell("echo one > a.txt"), faults=(Fault(how="reset"),)), step(say("Done.")))
    done = place.begin()
    assert done.returncode == 0, done.stderr
    assert "Reconnecting... 1/1" in done.stderr
    assert place.at(":a.txt") == "one"
    assert place.read()["cost"]["total_tokens"] == 2 * ONE_REPLY


def waiting() -> list[Step]:
    """An edit, and a command that does not come to an end."""
    return [
        step(patch("*** Add File: a.txt\n+one")),
        step(shell(WAITS)),
        step(say("Done.")),
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_it_is_interrupted_with_all_it_started_and_goes_on(place: Codex, number: signal.Signals) -> None:
    place.play(*waiting())
    process = place.start()
    place.wait_for_its_command()
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "Session paused: one" in out
    assert not place.processes()
    assert place.read()["cost"]["total_tokens"] == 2 * ONE_REPLY
    again = place.run("--session-id", "one")
    assert again.returncode == 0, again.stderr
    assert "A a.txt" in place.conversation(), "it knows what it did"
    assert not (place.repo.path / "late.txt").exists()
    assert len(place.read()["agents"]) == 1
    assert place.read()["cost"]["total_tokens"] == 3 * ONE_REPLY


def test_it_is_interrupted_in_the_middle_of_a_reply(place: Codex) -> None:
    server = place.play(step(say("I begin."), faults=(Fault(how="stall", seconds=600),)), step(say("Done.")))
    process = place.start()
    wait_for(lambda: server.requests, PATIENCE)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    again = place.run("--session-id", "one")
    assert again.returncode == 0, again.stderr
    assert len(place.read()["agents"]) == 1


def test_a_killed_wrapper_loses_nothing_and_leaves_nothing(place: Codex) -> None:
    """Codex works on without it, as the only writer of its session, until the session is gone on with."""
    place.play(*waiting())
    process = place.start()
    place.wait_for_its_command()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    left = place.processes()
    assert any(process.name() == "codex" for process in left)
    [launcher] = [process for process in left if process.name() == "node"]
    launcher.kill()
    again = place.run("--session-id", "one")
    assert again.returncode == 0, again.stderr
    assert not place.processes()
    assert not (place.repo.path / "late.txt").exists()
    assert "A a.txt" in place.conversation()
    doc = place.read()
    assert len(doc["agents"]) == 1
    assert doc["checkpoints"][0]["call"] == f"{doc['agents'][0]['id']}/0/item_1"
    # Codex adds a reply to its sums when the tools it called have ended: it may never have come to it.
    assert doc["cost"]["total_tokens"] in (2 * ONE_REPLY, 3 * ONE_REPLY)


def test_a_session_that_codex_has_lost_begins_anew_with_what_was_done(place: Codex) -> None:
    broken = (Fault(status=400),) * 2
    server = place.play(step(patch("*** Add File: a.txt\n+one")), step(say("?"), faults=broken))
    assert place.begin().returncode == 1
    for record in (place.home / ".codex" / "sessions").rglob("*.jsonl"):
        record.unlink()
    server.forget()
    server.scripts[""] = [step(say("Done."))]
    again = place.run("--session-id", "one")
    assert again.returncode == 0, again.stderr
    assert "cannot go on with its session" in again.stderr
    assert "added a.txt" in place.conversation()
    assert len(place.read()["agents"]) == 2
    assert place.read()["cost"]["total_tokens"] == 2 * ONE_REPLY


def test_it_takes_over_from_another_backend_with_what_was_done(place: Codex) -> None:
    place.play(step(shell("echo two >> a.txt")), step(say("Done.")))
    first = place.run("--task", TASK, "--session-id", "one", "--", "sh", "-c", "echo one > a.txt; exit 7")
    assert first.returncode == 3, first.stderr
    done = place.run("--session-id", "one", "--backend", "codex")
    assert done.returncode == 0, done.stderr
    known = place.conversation()
    assert TASK in known
    assert "added a.txt" in known
    assert place.at(":a.txt") == "one\ntwo"
    assert place.read()["backend"] == "codex"


def test_a_long_prompt_arrives_whole(place: Codex) -> None:
    place.play(step(say("Read.")))
    text = "".join(f"{number} über alles\n" for number in range(18_000))
    assert len(text.encode()) > 300_000
    file = place.home / "task.txt"
    file.write_text(text)
    done = place.run("--backend", "codex", "--task-file", str(file), "--session-id", "one")
    assert done.returncode == 0, done.stderr
    assert json.dumps(text.strip(), ensure_ascii=False)[1:-1] in place.conversation()


def test_going_back_begins_anew_and_says_so(place: Codex) -> None:
    """It can go on from where its conversation is, but not from where it was."""
    server = place.play(
        *(step(say(f"Step {number}."), shell(f"echo old > {number}.txt"), after=number) for number in range(3)),
        step(say("?"), faults=(Fault(status=400),), after=3),
    )
    assert place.begin().returncode == 1
    server.scripts[""] = [step(shell("echo new > 1.txt")), step(say("Better."))]
    back = place.run("--session-id", "one", "--restore-checkpoint", "0")
    assert back.returncode == 0, back.stderr
    told = "codex cannot go back in its conversation: it begins anew, told what was done by checkpoint 0"
    assert told in back.stderr
    known = place.conversation()
    assert "0.txt" in known
    assert "Step 0." not in known
    assert "2.txt" not in known
    assert (place.repo.path / "0.txt").read_text() == "old\n"
    assert (place.repo.path / "1.txt").read_text() == "new\n"
    assert not (place.repo.path / "2.txt").exists()
    assert len(place.read()["agents"]) == 2
    assert place.read()["cost"]["total_tokens"] == 5 * ONE_REPLY


def test_without_a_network_the_watchdog_ends_its_waiting(place: Codex) -> None:
    """It says that it waits again and again, with growing pauses: the second time after five seconds."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        place.address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        done = place.begin("--idle-timeout", "20s")
    assert done.returncode == 3, done.stderr
    assert len(re.findall("waiting for network", done.stderr)) == 1
    assert "nothing was heard of codex for the time of --idle-timeout" in done.stderr + done.stdout
    assert place.read()["status"] == "paused"
