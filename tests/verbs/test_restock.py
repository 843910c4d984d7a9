"""Directories of checkpoints that the repository has lost: put together again, or told."""

from __future__ import annotations

import shutil

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession.config import Settings
from gitsession.verbs.repair import repair
from gitsession.verbs.verify import verify

REF = "refs/pinable/s1"


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    """Three checkpoints, each with a change in ``src`` and one at the top; the working tree is as the last."""
    session = TestSession(repo)
    for step in ("one", "two", "three"):
        repo.write("src/app.py", f"{step}\n")
        repo.write(f"src/{step}.py", f"{step}\n")
        repo.write("top.txt", f"{step}\n")
        session.checkpoint(step)
    return session


def lose(session: TestSession, *names: str, empty: bool = False) -> dict[str, bytes]:
    """Take trees away, or leave an empty file of each; what they were."""
    lost = {}
    for oid in [session.user.git("rev-parse", name) for name in names]:
        lost[oid] = session.user.git_bytes("cat-file", "tree", oid)
        path = session.user.common_dir / "objects" / oid[:2] / oid[2:]
        path.unlink()
        if empty:
            path.touch(mode=0o444)
    return lost


def forget_indexes(session: TestSession) -> None:
    shutil.rmtree(session.user.git_dir / "pinable")


def mended(session: TestSession, lost: dict[str, bytes]) -> None:
    done = repair(session.store, "s1", Settings(), session.user.path)
    assert (done.left, [step.failure for step in done.steps]) == ((), [None])
    assert {oid: session.user.git_bytes("cat-file", "tree", oid) for oid in lost} == lost
    assert verify(session.store, "s1") == []
    session.user.git("fsck", "--strict")
    session.checkpoint("after")


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("names", [[""], ["src"], ["", "src"]])
@pytest.mark.parametrize("indexes", [True, False])
def test_the_newest_checkpoints_directories_come_from_the_working_tree(
    session: TestSession, names: list[str], empty: bool, indexes: bool
) -> None:
    if not indexes:
        forget_indexes(session)
    mended(session, lose(session, *(f"{REF}:{name}" for name in names), empty=empty))


@pytest.mark.parametrize("back", [0, 1, 2])
@pytest.mark.parametrize("names", [[""], ["", "src"]])
def test_an_older_checkpoints_directories_come_from_its_neighbours(
    session: TestSession, back: int, names: list[str]
) -> None:
    session.user.write("other.txt", "somebody's\n")
    forget_indexes(session)
    (session.user.git_dir / "index").unlink()
    if back == 1:
        # Its version of a file that both neighbours changed is nowhere but in the lost tree: only that file is not.
        session.user.write("src/app.py", "two\n")
        session.user.write("top.txt", "two\n")
    elif back == 2:
        session.user.write("src/app.py", "one\n")
        session.user.write("top.txt", "one\n")
    mended(session, lose(session, *(f"{REF}~{back}:{name}" for name in names)))


def test_the_users_index_tells_what_the_base_held(repo: GitRepo) -> None:
    repo.write("src/staged.py", "staged\n")
    repo.git("add", "--all")
    session = TestSession(repo)
    repo.write("src/staged.py", "changed\n")
    session.checkpoint()
    forget_indexes(session)
    mended(session, lose(session, f"{REF}~1:", f"{REF}~1:src"))


def test_what_nobody_knows_any_more_is_told(session: TestSession) -> None:
    lose(session, f"{REF}~1:", f"{REF}~1:src")
    forget_indexes(session)
    done = repair(session.store, "s1", Settings(), session.user.path)
    assert [step.failure for step in done.steps] == ["nothing here has any of them as they were"]
    assert [finding.kind for finding in done.left] == ["objects"]
    assert done.left[0].hint == "fetch them from a clone, if there is one; 'git fsck' says more"
