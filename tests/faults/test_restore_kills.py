"""A restore of 200 files, killed at fifty points: the next command completes it, and undo gives the former files."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo, Snapshot, run_cli

from gitsession import seam
from gitsession.errors import DriftError, GitSessionError
from gitsession.verbs.restore import finish_interrupted

FILES = 200
KILLS = 50


def first(user: GitRepo) -> None:
    for number in range(FILES):
        user.write(f"d{number % 9}/f{number}", f"{number}\n" * 5)
    user.at("link").symlink_to("d1")
    user.at("hollow").mkdir()
    user.write("thing", "a file\n")


def second(user: GitRepo) -> None:
    for number in range(0, FILES, 4):
        user.at(f"d{number % 9}/f{number}").unlink()
    for number in range(1, FILES, 4):
        user.write(f"d{number % 9}/f{number}", f"changed {number}\n")
    for number in range(2, FILES, 4):
        user.at(f"d{number % 9}/f{number}").chmod(0o755)
    for number in range(3, FILES, 4):
        user.write(f"new/{number % 5}/f{number}", "new\n")
    user.at("link").unlink()
    user.write("link/inside", "in\n")
    user.at("hollow").rmdir()
    user.at("thing").unlink()
    user.write("thing/deep/inside", "in\n")


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    session = TestSession(repo)
    first(repo)
    session.checkpoint("first")
    second(repo)
    session.checkpoint("second")
    return session


def points(work: Callable[[], object]) -> int:
    """How many points ``work`` passes when nobody disturbs it."""
    reached = 0

    def count(_point: str) -> None:
        nonlocal reached
        reached += 1

    seam.hook = count
    try:
        work()
    finally:
        seam.hook = None
    return reached


def killed_at(point: int, work: Callable[[], object]) -> bool:
    """Do ``work`` in a process of its own that ends, as by kill -9, at its ``point``-th step; whether it got there."""
    child = os.fork()
    if child == 0:
        reached = 0

        def kill(_point: str) -> None:
            nonlocal reached
            reached += 1
            if reached == point:
                os._exit(9)

        seam.hook = kill
        status = 1
        try:
            work()
            status = 0
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 9), f"the child failed with {code}"
    return code == 9


def leftovers(user: GitRepo) -> list[Path]:
    return [path for path in user.path.rglob("*") if path.name.startswith(".gitsession-")]


@pytest.mark.timeout(300)
def test_killed_at_fifty_points(session: TestSession) -> None:
    """To the first checkpoint and to the second by turns, every tenth time with an undo on top."""
    user = session.user
    shots, totals = {}, {}
    for to in (0, 1, 0, 1):  # the second time no object is new: so it will be below
        totals[to] = points(partial(session.restore, to))
        shots[to] = user.snapshot()
    users, at, half_way = user.user_state(), 1, 0
    for number in range(KILLS):
        to = 1 - at
        point, known = 1 + number * (totals[to] - 2) // KILLS, len(session.records)
        assert killed_at(point, partial(session.restore, to))
        half_way += user.snapshot() not in shots.values()
        planned = session.doc.get("restoring") is not None
        report = finish_interrupted(session.store, session.id, session.settings)
        assert (report is not None) == planned
        assert not report or not report.left
        begun = len(session.records) > known
        assert begun or not planned
        assert user.snapshot() == shots[to if begun else at], f"killed at point {point}"
        if begun and number % 10 == 0:
            session.undo()
            assert user.snapshot() == shots[at]
        elif begun:
            at = to
    assert half_way > KILLS * 2 // 3
    assert leftovers(user) == []
    assert user.user_state() == users
    user.git("fsck", "--strict")


def changed_by_somebody(user: GitRepo, before: Snapshot) -> bytes:
    """Write into a file that the restore has not come to yet."""
    for path, facts in sorted(user.snapshot().items()):
        if facts[0] == "file" and b"changed" in facts[2] and before[path] == facts:
            user.write(path, "somebody's\n")
            return path
    raise AssertionError("nothing is left to be restored")


def test_an_edit_between_the_kill_and_the_next_command_stays(session: TestSession) -> None:
    user = session.user
    before = user.snapshot()
    assert killed_at(FILES // 3, lambda: session.restore(0))
    assert session.doc["restoring"] is not None
    path = changed_by_somebody(user, before)
    report = finish_interrupted(session.store, session.id, session.settings)
    assert report is not None
    assert [(one.path, one.reason) for one in report.left] == [(os.fsdecode(path), "changed while the restore ran")]
    assert report.warnings[0].endswith(f"but for {os.fsdecode(path)} (changed while the restore ran)")
    assert user.at(path).read_text() == "somebody's\n"
    assert session.doc["restoring"] is None


@pytest.mark.parametrize("what", ["restore", "undo"])
def test_the_next_restore_finishes_the_one_before(session: TestSession, what: str) -> None:
    user = session.user
    second_shot = user.snapshot()
    assert killed_at(FILES // 2, lambda: session.restore(0))
    report = session.restore(1) if what == "restore" else session.undo()
    assert report.warnings == ("a restore of checkpoint 0 that was interrupted has been finished",)
    assert user.snapshot() == second_shot
    assert leftovers(user) == []


@pytest.mark.parametrize("what", ["restore", "undo"])
def test_a_dry_run_tells_of_an_interrupted_restore_and_writes_nothing(session: TestSession, what: str) -> None:
    user = session.user
    assert killed_at(FILES // 2, lambda: session.restore(0))
    before, records = user.snapshot(), session.records
    report = session.restore(1, dry_run=True) if what == "restore" else session.undo(dry_run=True)
    assert (report.interrupted, report.dry_run, report.target, report.checkpoint) == (True, True, 0, None)
    assert report.warnings[0].startswith("a restore of checkpoint 0 was interrupted")
    assert ("new/0/f15", "delete") in [(file.path, file.action) for file in report.files]
    assert user.snapshot() == before
    assert session.records == records
    assert session.doc["restoring"] is not None


def test_a_refused_restore_tells_what_it_finished(session: TestSession) -> None:
    user = session.user
    user.write("mine", "1\n")
    session.checkpoint("third")
    assert killed_at(FILES // 2, lambda: session.restore(0, "d1", "d2", "d3"))
    user.write("mine", "2\n")
    with pytest.raises(DriftError, match="mine") as caught:
        session.restore(1)
    assert caught.value.__notes__ == ["a restore of checkpoint 0 that was interrupted has been finished"]
    assert session.doc["restoring"] is None
    assert user.at("mine").read_text() == "2\n"
    with pytest.raises(DriftError) as caught:
        session.restore(1)
    assert not hasattr(caught.value, "__notes__")


def test_what_was_another_session_s_when_it_began_is_left_alone_to_the_end(repo: GitRepo) -> None:
    for path in ("a/f", "a/g", "b/f"):
        repo.write(path, "1\n")
    session = TestSession(repo, "one", start=repo.at("a"))
    other = TestSession(repo, "two", start=repo.at("b"))
    for path in ("a/f", "a/g", "b/f"):
        repo.write(path, "2\n")
    session.checkpoint()

    def fail(point: str) -> None:
        if point == "restore.write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    seam.hook = fail
    try:
        with pytest.raises(GitSessionError):
            session.restore(None)
    finally:
        seam.hook = None
    assert session.doc["restoring"] is not None
    with other.store.edit(other.id) as draft:
        draft.log("status", to="running")
        draft.log("status", to="completed")
    finish_interrupted(session.store, session.id, session.settings)
    assert [repo.at(path).read_text() for path in ("a/f", "a/g", "b/f")] == ["1\n", "1\n", "2\n"]


def test_a_checkpoint_by_hand_finishes_it_first(session: TestSession) -> None:
    user = session.user
    assert killed_at(FILES // 2, lambda: session.restore(0))
    done = run_cli("pinable-agents", "session", "checkpoint", session.id, "--description", "by hand", cwd=user.path)
    assert done.returncode == 0, done.stderr
    assert session.doc["restoring"] is None
    assert leftovers(user) == []
    assert [(one["trigger"], one["files_changed"]) for one in session.records[-1:]] == [("manual", [])]


def test_killed_while_finishing(session: TestSession) -> None:
    """Killed again and again, a little later each time; then nobody kills."""
    user = session.user
    session.restore(0)
    after_first = user.snapshot()
    session.undo()
    assert killed_at(FILES // 3, lambda: session.restore(0))
    for point in (1, 5, 20, 40):
        killed_at(point, lambda: finish_interrupted(session.store, session.id, session.settings))
    finish_interrupted(session.store, session.id, session.settings)
    assert user.snapshot() == after_first


@pytest.mark.parametrize("error", [28, 5])
def test_a_disk_that_fails_half_way(session: TestSession, error: int) -> None:
    """No space left, or an input/output error: said plainly, and the next command goes on."""
    user = session.user
    before = user.snapshot()
    reached = 0

    def fail(point: str) -> None:
        nonlocal reached
        reached += point == "restore.write"
        if reached == 20:
            raise OSError(error, os.strerror(error))

    seam.hook = fail
    try:
        with pytest.raises(GitSessionError, match=os.strerror(error)):
            session.restore(0)
    finally:
        seam.hook = None
    report = finish_interrupted(session.store, session.id, session.settings)
    assert report is not None
    assert not report.left
    session.undo()
    assert user.snapshot() == before
