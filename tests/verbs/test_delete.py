"""Deleting, and taking it back: the session with its checkpoints, at every point whole in one place."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession import seam
from gitsession.errors import BadSessionId, ConflictError, SessionBusy, SessionNotFound
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.verbs.cleanup import purge_old
from gitsession.verbs.delete import delete, purge, undelete
from gitsession.verbs.verify import verify

DAY = 86400.0


class Killed(BaseException):
    """What a test's kill raises."""


@pytest.fixture(autouse=True)
def no_hook() -> Iterator[None]:
    yield
    seam.hook = None


def killed_at(number: int) -> None:
    """The next code is killed at the ``number``-th point that it reaches."""
    left = iter(range(number, -1, -1))

    def hook(_point: str) -> None:
        if next(left, 0) == 0:
            raise Killed

    seam.hook = hook


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    session = TestSession(repo)
    repo.write("src/app.py", "changed\n")
    session.checkpoint()
    return session


def refs(repo: GitRepo) -> dict[str, str]:
    lines = repo.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split() for line in lines if line.startswith("refs/pinable"))


def test_to_the_trash_and_back(session: TestSession) -> None:
    before, doc = refs(session.user), session.doc
    delete(session.store, "s1")
    assert list(refs(session.user)) == ["refs/pinable-trash/s1"]
    assert undelete(session.store, "s1")
    assert (refs(session.user), session.doc) == (before, doc)
    session.user.write("src/app.py", "changed again\n")
    session.restore(0, force=True)
    assert session.user.at("src/app.py").read_text() == "changed\n"


def test_what_only_the_session_can_finish_is_finished_first(session: TestSession) -> None:
    def hook(point: str) -> None:
        if point == "restore.replace":
            raise Killed

    seam.hook = hook
    with pytest.raises(Killed):
        session.restore(None)
    seam.hook = None
    with pytest.raises(ConflictError, match="a restore in session s1 was cut short") as refused:
        delete(session.store, "s1")
    assert "pinable-agents session checkpoint s1" in (refused.value.hint or "")
    assert session.store.exists("s1")
    delete(session.store, "s1", force=True)
    assert undelete(session.store, "s1")
    session.restore(None)
    delete(session.store, "s1")


def test_of_several_deleted_under_one_id_each_gets_its_own_checkpoints(repo: GitRepo) -> None:
    tips = []
    for text in ("one\n", "two\n", "three\n"):
        session = TestSession(repo)
        repo.write("src/app.py", text)
        session.checkpoint(text.strip())
        tips.append(repo.git("rev-parse", "refs/pinable/s1"))
        delete(session.store, "s1")
    store = session.store
    (oldest,) = [one for one in store.trashed() if one.place.name == "s1"]
    purge(store, oldest)
    assert sorted(refs(repo).values()) == sorted(tips[1:])
    for tip in (tips[2], tips[1]):
        undelete(store, "s1")
        assert repo.git("rev-parse", "refs/pinable/s1") == tip
        assert verify(store, "s1") == []
        for ending in ("json", "journal"):
            (store.sessions_dir / f"s1.{ending}").unlink()
        repo.git("update-ref", "-d", "refs/pinable/s1")
    with pytest.raises(SessionNotFound, match="in the trash"):
        undelete(store, "s1")


def test_what_exists_is_not_overwritten(session: TestSession) -> None:
    delete(session.store, "s1")
    TestSession(session.user)
    before = refs(session.user)
    with pytest.raises(BadSessionId, match="session s1 exists"):
        undelete(session.store, "s1")
    assert refs(session.user) == before


def test_a_session_whose_repository_is_gone(session: TestSession, tmp_path: Path) -> None:
    session.user.path.rename(tmp_path / "away")
    delete(session.store, "s1")
    assert not undelete(session.store, "s1")
    (tmp_path / "away").rename(session.user.path)
    assert verify(session.store, "s1") == []
    delete(session.store, "s1")
    shutil.rmtree(session.user.path)
    purge(session.store, session.store.trashed()[0])
    assert session.store.trashed() == []


def test_an_unreadable_session_comes_back_as_it_was(session: TestSession) -> None:
    path = session.store.sessions_dir / "s1.json"
    path.write_text("{")
    delete(session.store, "s1")
    undelete(session.store, "s1")
    assert path.read_text() == "{"
    assert "refs/pinable/s1" in refs(session.user)


@pytest.mark.parametrize("point", range(0, 24, 2))
def test_undeleting_can_be_killed_anywhere(session: TestSession, point: int) -> None:
    before, doc = refs(session.user), session.doc
    delete(session.store, "s1")
    killed_at(point)
    try:
        undelete(session.store, "s1")
    except Killed:
        seam.hook = None
        if session.store.exists("s1") and not session.store.trashed():
            assert verify(session.store, "s1") == []
        else:
            undelete(session.store, "s1")
    assert session.doc == doc
    assert refs(session.user).items() >= before.items()


@pytest.mark.parametrize("point", range(0, 10, 2))
def test_purging_can_be_killed_anywhere(session: TestSession, point: int) -> None:
    delete(session.store, "s1")
    killed_at(point)
    try:
        purge(session.store, session.store.trashed()[0])
    except Killed:
        seam.hook = None
        for one in session.store.trashed():
            purge(session.store, one)
    assert (refs(session.user), session.store.trashed(), session.store.ids()) == ({}, [], [])


def test_a_deletion_cut_short_is_not_in_the_trash_and_not_purged(session: TestSession) -> None:
    place = session.store.trash_dir / "s1"
    place.mkdir(parents=True)
    session.store.journal("s1").path.rename(place / "s1.journal")
    assert session.store.trashed() == []
    assert list(purge_old(session.store, 1, time.time() + 9 * DAY)) == []
    assert (place / "s1.journal").exists()


def test_the_trash_is_emptied_of_what_is_old(session: TestSession) -> None:
    place = delete(session.store, "s1")
    assert list(purge_old(session.store, 14, time.time())) == []
    os.utime(place, (0, time.time() - 15 * DAY))
    assert list(purge_old(session.store, 0, time.time())) == []
    assert [one.session_id for one in purge_old(session.store, 14, time.time())] == ["s1"]
    assert (refs(session.user), list(session.store.trash_dir.iterdir())) == ({}, [])


def test_a_ref_that_moved_is_not_deleted(session: TestSession, monkeypatch: pytest.MonkeyPatch) -> None:
    delete(session.store, "s1")
    other = session.user.git("rev-parse", "HEAD")
    original = Ledger._values

    def moved(ledger: Ledger, *names: str) -> tuple[str | None, ...]:
        values = original(ledger, *names)
        session.user.git("update-ref", "refs/pinable-trash/s1", other)
        return values

    monkeypatch.setattr(Ledger, "_values", moved)
    (result,) = purge_old(session.store, 1, time.time() + 9 * DAY)
    assert result.error is not None
    assert refs(session.user) == {"refs/pinable-trash/s1": other}
    assert len(session.store.trashed()) == 1


def test_the_ledger_finds_its_place_by_what_it_holds(session: TestSession) -> None:
    tip = session.user.git("rev-parse", "refs/pinable/s1")
    base = session.user.git("rev-parse", "refs/pinable/s1~1")
    delete(session.store, "s1")
    repo = Repo.discover(session.user.path)
    objects = Objects(repo)
    ledger = Ledger(repo, objects, "s1")
    assert (ledger.find_in_trash(tip), ledger.find_in_trash(base)) == (1, 1)
    assert ledger.find_in_trash(session.user.git("rev-parse", "HEAD")) is None
    objects.close()


def test_an_earlier_session_of_the_same_id_comes_back_by_its_name(session: TestSession) -> None:
    store, first = session.store, session.doc
    tip = refs(session.user)["refs/pinable/s1"]
    delete(store, "s1")
    later = TestSession(session.user)
    session.user.write("later.txt", "later\n")
    later.checkpoint("later")
    second = later.doc
    delete(store, "s1")
    assert [one.name for one in store.trashed()] == ["s1~2", "s1~1"]
    with pytest.raises(SessionNotFound):
        store.last_trashed("s1~3")
    assert undelete(store, "s1", "s1~1")
    assert session.doc == first
    assert refs(session.user)["refs/pinable/s1"] == tip
    assert [finding for finding in verify(store, "s1") if not finding.harmless] == []
    delete(store, "s1")
    assert undelete(store, "s1", "s1~2")
    assert later.doc == second


def test_one_that_is_half_way_back_is_not_overwritten_by_another(session: TestSession) -> None:
    store, first = session.store, session.doc
    delete(store, "s1")
    TestSession(session.user)
    delete(store, "s1")

    def hook(point: str) -> None:
        if point == "trash.move.json":
            raise Killed

    seam.hook = hook
    with pytest.raises(Killed):
        undelete(store, "s1", "s1~1")
    seam.hook = None
    with pytest.raises(SessionBusy, match="half-way back") as refused:
        undelete(store, "s1")
    assert refused.value.hint == "first: pinable-agents session undelete s1~1"
    assert undelete(store, "s1", "s1~1")
    assert session.doc == first
