"""Every backend that is built, under the one suite of checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from backends.agents import command_job, quick_backend
from backends.conformance import CHECKS, SCENARIOS, Subject

from gitsession.backends import NAMES, load
from gitsession.backends.base import Job
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


SUBJECTS = [Subject("command", quick_backend, command_scenario)]


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
