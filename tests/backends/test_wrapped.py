"""What the agents' programs have in common, with an agent that is none of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agents.player import Player, path_with
from backends.agents import PATIENT, command_job

from gitsession.backends.base import Bound, Capabilities, Done, Event, Failed, Job, Native, Notice, Output, Tick
from gitsession.backends.jsonlines import Line
from gitsession.backends.processes import MARK
from gitsession.backends.wrapped import Call, WrappedBackend
from gitsession.errors import BackendMissing, UsageError

NATIVE = Native("native-1", Path("/somewhere"), version="1.0.0")
OUTER = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "AI_AGENT", "CODEX_THREAD_ID", "GEMINI_CLI", "OPENCODE", "GIT_DIR")


@dataclass
class Reader:
    """Says that the work went as the line's ``end`` says; ``lost``: the agent does not know its session."""

    end: str = "done"

    def heard(self, line: Line) -> Iterator[Event]:
        self.end = str(line.get("end", self.end))
        if "session" in line:
            yield Bound(Native(line["session"], Path("/somewhere"), version=line.get("version")))
        if "says" in line:
            yield Output(line["says"])

    def verdict(self, status: int, why: str) -> Done | Failed | None:
        return {"done": Done(said=why), "lost": None}.get(self.end, Failed(why, "exit"))


@dataclass
class Dialect:
    """An agent called ``some-agent`` whose program is ``agent``."""

    name: str = "some-agent"
    program: str = "agent"
    package: str = "npm install -g agent"
    known: str = r"1\.\d+\.\d+"
    capabilities: Capabilities = field(default_factory=lambda: Capabilities(takes_command=False, takes_model=True))

    def refuse(self, job: Job) -> None:
        if job.arguments:
            raise UsageError("no arguments", hint="leave them out")

    def call(self, job: Job) -> Call:
        on = ("--resume", job.native.id) if job.native else ()
        return Call(("--json", *on), f"{job.task}; {job.briefing}", job.worktree, {"AGENT_SETTING": "yes"})

    def reader(self, job: Job) -> Reader:
        return Reader()


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Player:
    monkeypatch.setenv("PATH", path_with(tmp_path))
    return Player(tmp_path, "agent", "1.2.3")


def backend() -> WrappedBackend:
    return WrappedBackend(Dialect(), stop_grace=0.3, terminate_grace=0.3, pipe_grace=0.3)


def run(place: Path, worker: WrappedBackend | None = None, **facts: Any) -> list[Event]:
    worker = worker or backend()
    job = command_job(place, **{"task": "the task", **facts})
    worker.validate(job)
    return [event for event in worker.run(job) if not isinstance(event, Tick)]


def test_it_is_called_as_its_dialect_says_and_reads_the_prompt(
    player: Player, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in OUTER:
        monkeypatch.setenv(name, "outer")
    monkeypatch.setenv("SOME_API_KEY", "the key")
    player.act(['{"says": "hello"}'])
    assert run(tmp_path) == [Output("hello"), Done(said="agent exited with status 0")]
    [call] = player.calls
    assert call["argv"] == ["--json"]
    assert call["given"] == "the task; None"
    environment = call["env"]
    assert environment[MARK] == command_job(tmp_path).session_id
    assert (environment["AGENT_SETTING"], environment["SOME_API_KEY"]) == ("yes", "the key")
    assert not set(OUTER) & environment.keys()


def test_what_it_cannot_do_is_refused_before_it_begins(player: Player, tmp_path: Path) -> None:
    player.act([])
    with pytest.raises(UsageError, match="no task given"):
        run(tmp_path, task=" \n")
    with pytest.raises(UsageError, match="no arguments"):
        run(tmp_path, arguments=("x",))
    assert not player.calls


def test_a_program_that_is_not_there_is_named_with_how_to_get_it(tmp_path: Path, player: Player) -> None:
    player.act([])
    player.program.unlink()
    with pytest.raises(BackendMissing) as caught:
        run(tmp_path)
    assert str(caught.value) == "agent: not found"
    assert caught.value.hint == "install it: npm install -g agent"
    job = command_job(tmp_path)
    assert list(backend().run(job)) == [Failed("agent: not found", "exit")], "it may go away meanwhile"


def test_a_version_it_was_not_tried_with_is_warned_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path_with(tmp_path))
    Player(tmp_path, "agent", "2.0.0").act(['{"session": "native-1"}'])
    warning = Notice("agent 2.0.0 is not a version this was tried with")
    assert run(tmp_path)[0] == warning
    assert warning in run(tmp_path, native=NATIVE), "the version is another one than before"
    known = Native("native-1", Path("/somewhere"), version="2.0.0")
    assert warning not in run(tmp_path, native=known)


def test_the_agents_own_session_is_told_with_the_installed_version(player: Player, tmp_path: Path) -> None:
    player.act(['{"session": "native-1"}', '{"session": "native-1", "version": "1.2.4"}'])
    bound = [event.native.version for event in run(tmp_path) if isinstance(event, Bound)]
    assert bound == ["1.2.3", "1.2.4"]


def test_a_session_that_the_agent_has_lost_is_begun_anew_with_what_was_done(player: Player, tmp_path: Path) -> None:
    player.act(['{"end": "lost"}'], status=1, stderr="no such session\n").act(['{"says": "hello"}'])
    events = run(tmp_path, native=NATIVE, rewind=True, briefing="half of it")
    assert [event for event in events if not (isinstance(event, Output) and event.stream == "stderr")] == [
        Notice("some-agent cannot go on with its session native-1; it begins anew, told what was done so far"),
        Output("hello"),
        Done(said="agent exited with status 0"),
    ]
    assert [call["argv"] for call in player.calls] == [["--json", "--resume", "native-1"], ["--json"]]
    assert player.calls[1]["given"] == "the task; half of it"


def test_only_a_session_can_be_lost(player: Player, tmp_path: Path) -> None:
    player.act(['{"end": "lost"}'], status=1)
    assert run(tmp_path)[-1] == Failed("agent exited with status 1", "exit")
    assert len(player.calls) == 1


def test_another_failure_is_not_tried_again(player: Player, tmp_path: Path) -> None:
    player.act(['{"end": "failed"}'], status=1)
    assert run(tmp_path, native=NATIVE)[-1] == Failed("agent exited with status 1", "exit")
    assert len(player.calls) == 1


def test_a_run_that_was_stopped_is_not_begun_anew(player: Player, tmp_path: Path) -> None:
    player.act(['{"end": "lost", "says": "ready"}'], stays=True)
    worker = WrappedBackend(Dialect(), stop_grace=PATIENT)
    job = command_job(tmp_path, native=NATIVE)
    events = []
    for event in worker.run(job):
        events.append(event)
        if event == Output("ready"):
            worker.stop()
    assert events[-1] == Failed("interrupted", "interrupted")
    assert len(player.calls) == 1


def test_nothing_is_begun_when_all_may_be_spent_already(player: Player, tmp_path: Path) -> None:
    player.act([])
    assert run(tmp_path, max_cost=0.0) == [Failed("the limit of --max-cost is reached", "limit")]
    assert not player.calls


def test_words_that_are_no_json_are_shown(player: Player, tmp_path: Path) -> None:
    player.act(["please log in first"], status=1, stderr="not logged in\n")
    events = run(tmp_path)
    assert Output("please log in first\n") in events
    assert Output("not logged in\n", "stderr") in events
