"""Every backend that is built, under the one suite of checks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from backends.agents import command_job, quick_backend
from backends.conformance import CHECKS, SCENARIOS, Subject
from backends.model_server import Fault, ModelServer, call, say, step
from backends.workspaces import MemoryWorkspace

from gitsession.backends import NAMES, load
from gitsession.backends.base import Job
from gitsession.backends.claude import ClaudeBackend
from gitsession.errors import NotYet

AGENTS = {
    "speaks": """
        echo ::phase::analysis::Analyzing 3 files...
        echo hello
        echo '::tokens::in=10,out=5'
        echo ::done::Identified 15 functions
        echo ::checkpoint::Saved analysis results
        """,
    "fails": "echo broken >&2; exit 7",
    "waits": "echo ready; exec sleep 60",
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
        step(say("late"), faults=(Fault(how="silence", seconds=60),)),
    ],
    "stubborn": [
        step(
            say("Looking around\nready"),
            call("run_command", command="trap '' INT TERM; while :; do sleep 0.05; done"),
        )
    ],
}


@pytest.fixture(autouse=True)
def api(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """A server that plays the scenario that a task names."""
    if "what_is_missing" in request.node.name and "claude" in request.node.name:
        monkeypatch.setitem(sys.modules, "anthropic", None)
    with ModelServer(SCRIPTS) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0123456789")
        yield


def claude_scenario(scenario: str, place: Path) -> Job:
    job = command_job(place, task=scenario, workspace=MemoryWorkspace(), allow_commands=True)
    return replace(job, command=("a", "program")) if scenario == "impossible" else job


SUBJECTS = [
    Subject("command", quick_backend, command_scenario),
    Subject("claude", lambda: ClaudeBackend(stop_grace=0.3), claude_scenario),
]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_conformance(check: Callable[[Subject, Path], None], subject: Subject, tmp_path: Path) -> None:
    check(subject, tmp_path)


def test_every_built_backend_takes_part() -> None:
    """A backend that ``load`` gives is a subject above; the others say that they are not there yet."""
    assert set(AGENTS) | {"missing", "impossible"} == set(SCENARIOS)
    for name in NAMES:
        if name in {subject.name for subject in SUBJECTS}:
            assert load(name).name == name
        else:
            with pytest.raises(NotYet):
                load(name)
