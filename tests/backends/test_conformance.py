"""Every backend that is built, under the one suite of checks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from agents.player import path_with
from backends.agents import command_job, quick_backend
from backends.conformance import CHECKS, SCENARIOS, Subject
from backends.model_server import Fault, ModelServer, call, say, step
from backends.workspaces import MemoryWorkspace

from gitsession.backends import NAMES, load
from gitsession.backends.base import Job
from gitsession.backends.claude import ClaudeBackend
from gitsession.backends.wrapped import WrappedBackend

AGENTS = {
    "speaks": """
        echo ::phase::analysis::Analyzing 3 files...
        echo hello
        echo '::tokens::in=10,out=5'
        echo ::done::Identified 15 functions
        echo ::checkpoint::Saved analysis results
        """,
    "fails": "echo broken >&2; exit 7",
    "waits": "echo ready; exec sleep 600",
    "stubborn": "trap '' INT TERM; echo ready; while :; do sleep 0.05; done",
}


def command_scenario(scenario: str, place: Path) -> Job:
    if scenario == "missing":
        return command_job(place, command=(str(place / "nowhere"),))
    if scenario == "impossible":
        return command_job(place, command=())
    return command_job(place, AGENTS[scenario])


NOTHING = {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
SCRIPTS = {
    "speaks": [
        step(
            say("hello"),
            call("finish_phase", summary="Identified 15 functions"),
            usage=NOTHING | {"input_tokens": 10, "output_tokens": 5},
        ),
        step(say("All done"), usage=NOTHING),
    ],
    "fails": [step(say(""), faults=(Fault(status=400, message="scripted"),))],
    "waits": [
        step(say("Looking around\nready"), call("list_files")),
        step(say("late"), faults=(Fault(how="silence", seconds=600),)),
    ],
    "stubborn": [
        step(
            say("Looking around\nready"),
            call("run_command", command="trap '' INT TERM; while :; do sleep 0.05; done"),
        )
    ],
}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """A server that plays the scenario that a task names; programs in the test's own directory are found first."""
    if "what_is_missing" in request.node.name and "claude" in request.node.name:
        monkeypatch.setitem(sys.modules, "anthropic", None)
    with ModelServer(SCRIPTS) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0123456789")
        missing = "what_is_missing" in request.node.name
        monkeypatch.setenv("PATH", str(tmp_path) if missing else path_with(tmp_path))
        yield


def claude_scenario(scenario: str, place: Path) -> Job:
    job = command_job(place, task=scenario, workspace=MemoryWorkspace(), allow_commands=True)
    return replace(job, command=("a", "program")) if scenario == "impossible" else job


def quick_wrapped(name: str) -> WrappedBackend:
    dialect = import_module(f"gitsession.backends.{name.replace('-', '_')}").Dialect()
    return WrappedBackend(dialect, stop_grace=0.3, terminate_grace=0.3, pipe_grace=0.3)


def played(name: str, scenario: str, place: Path) -> Job:
    """A job for a program that plays what the real one says (``backends/scenes_<name>.py``)."""
    scenes = import_module(f"backends.scenes_{name.replace('-', '_')}")
    if scenario == "impossible":
        return command_job(place, command=("a", "program"), task=" ")
    if scenario != "missing":
        scenes.play(scenario, place)
    return command_job(place, task="the task")


SUBJECTS = [
    Subject("command", quick_backend, command_scenario),
    Subject("claude", lambda: ClaudeBackend(stop_grace=0.3, timeout=600), claude_scenario),
    *(
        Subject(name, partial(quick_wrapped, name), partial(played, name), phases=False)
        for name in ("claude-code", "codex", "gemini", "opencode")
    ),
]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_conformance(check: Callable[[Subject, Path], None], subject: Subject, tmp_path: Path) -> None:
    check(subject, tmp_path)


def test_every_backend_takes_part() -> None:
    assert set(AGENTS) | {"missing", "impossible"} == set(SCENARIOS)
    assert [subject.name for subject in SUBJECTS] == list(NAMES)
    for name in NAMES:
        assert load(name).name == name
