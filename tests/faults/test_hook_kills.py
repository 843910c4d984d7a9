"""A hook that is killed at any point: the next event finds a whole session, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from feeding import Claude, only_session, steps
from support import GitRepo
from verbs.test_tracking import tell

from gitsession import SessionStore, seam
from gitsession.verbs import early


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def unhook() -> Iterator[None]:
    yield
    seam.hook = None


def killed_at(number: int, what: list[str]) -> None:
    """Let the ``number``-th point that is reached be the last one; ``what`` is told which that is."""
    reached = 0

    def hook(point: str) -> None:
        nonlocal reached
        reached += 1
        if reached == number:
            what.append(point)
            raise Killed

    seam.hook = hook


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_at_every_point_of_the_first_event_and_of_a_tools(tmp_path: Path, stride: int) -> None:
    """Begin, edit and run a command; each time the hook dies a step later, and the agent goes on regardless."""
    points: list[str] = []
    for number in range(1, 200, stride):
        repo = GitRepo.init(tmp_path / f"repo{number}")
        repo.write("README.md", "one\n")
        repo.commit("Start")
        claude = Claude(repo.path, f"native-{number}")
        what: list[str] = []
        killed_at(number, what)
        for event, path in (
            (claude.prompt("do it"), None),
            (claude.wrote("toolu_1", "README.md"), "README.md"),
            (claude.before("toolu_2"), None),
            (claude.after("toolu_2"), "made.txt"),
        ):
            if path is not None:
                repo.write(path, f"{path}\n")
            try:
                tell(event)
            except Killed:
                early._asked.clear()
                seam.hook = None
        if not what:
            break
        points += what
        seam.hook = None
        session_id = tell(claude.stop())
        assert session_id is not None
        doc = SessionStore().read(session_id)
        held = repo.tree(f"refs/pinable/{session_id}").keys()
        assert {b"README.md", b"made.txt"} <= held, points[-1]
        assert repo.git("show", f"refs/pinable/{session_id}:README.md") == "README.md", points[-1]
        assert (doc["status"], doc["checkpoints"][-1]["commit"]) == (
            "running",
            repo.git("rev-parse", f"refs/pinable/{session_id}"),
        )
        tell(claude.end())
        SessionStore().load(session_id)
    else:
        pytest.fail("it never came to an end")
    assert len(points) * stride > 50
    if stride == 1:
        assert {"journal.append", "ref.update", "file.replace", "obj.write"} <= {*points}


def test_at_every_point_of_the_end(tmp_path: Path) -> None:
    for number in range(1, 60):
        repo = GitRepo.init(tmp_path / f"repo{number}")
        repo.commit("Start")
        claude = Claude(repo.path, f"native-{number}")
        session_id = str(tell(claude.prompt("do it")))
        tell(claude.stop())
        repo.write("late.txt", "x\n")
        what: list[str] = []
        killed_at(number, what)
        with suppress(Killed):
            tell(claude.end("prompt_input_exit"))
        seam.hook = None
        early._asked.clear()
        if not what:
            break
        tell(claude.end("prompt_input_exit"))
        doc = SessionStore().read(session_id)
        assert doc["status"] == "completed", what
        assert steps(doc) == [("found", ["late.txt"], None)], what
        assert SessionStore().unended() == [], what
    else:
        pytest.fail("it never came to an end")
    assert number > 10


def test_a_hook_that_was_killed_after_it_promised_a_session(repo: GitRepo) -> None:
    from gitsession.store import natives

    claude = Claude(repo.path)
    natives.bind(SessionStore().home, "claude-code", claude.session, "sess_1740480000_a3f7b2c1")
    assert tell(claude.prompt("do it")) == "sess_1740480000_a3f7b2c1"
    assert only_session()["task"] == "do it"
