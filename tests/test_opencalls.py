"""In whose command a git hook runs: that of the agent above it, if it has one open."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsession import living, opencalls


def process(pid: int) -> living.Process:
    facts = living._facts(pid)
    assert facts is not None
    return facts.process


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen(["sleep", "60"])
    yield running
    running.kill()
    running.wait()


def test_the_agent_above_with_a_command_open(tmp_path: Path) -> None:
    assert opencalls.around(tmp_path) is None
    opencalls.note(tmp_path, "mine", process(os.getppid()))
    assert opencalls.around(tmp_path) == "mine"
    opencalls.forget(tmp_path, "mine")
    opencalls.forget(tmp_path, "mine")
    assert opencalls.around(tmp_path) is None


def test_an_agent_elsewhere_has_nothing_to_do_with_it(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    opencalls.note(tmp_path, "other", process(sleeper.pid))
    assert opencalls.around(tmp_path) is None
    opencalls.note(tmp_path, "mine", process(os.getppid()))
    assert opencalls.around(tmp_path) == "mine"


def test_of_two_sessions_of_one_process_neither_is_it(tmp_path: Path) -> None:
    for session in ("one", "two"):
        opencalls.note(tmp_path, session, process(os.getppid()))
    assert opencalls.around(tmp_path) is None


@pytest.mark.parametrize("data", ["", "x y\n", "1 2 3\n", f"{os.getppid()} another\n"])
def test_what_an_agent_that_was_killed_left_is_removed(tmp_path: Path, data: str) -> None:
    opencalls.note(tmp_path, "mine", process(os.getppid()))
    left = tmp_path / "pinable" / "open" / "mine"
    left.write_text(data)
    assert opencalls.around(tmp_path) is None
    assert not left.exists()
