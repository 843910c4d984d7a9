"""Archive a session, bring it back here or in another clone, and go on with it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession import SessionStore, seam
from gitsession.config import Settings
from gitsession.errors import (
    BadSessionId,
    ConflictError,
    IllegalTransition,
    NotARepository,
    RepositoryError,
    SessionBusy,
    SessionCorrupted,
    StoreError,
)
from gitsession.git import bundle
from gitsession.store import archives
from gitsession.verbs import archive as module
from gitsession.verbs.archive import archive, unarchive
from gitsession.verbs.checkpoint import repository_of
from gitsession.verbs.delete import purge, undelete
from gitsession.verbs.recover import Recoverer
from gitsession.verbs.restore import restore
from gitsession.verbs.run import Runner, RunRequest
from gitsession.verbs.verify import verify


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    """Two checkpoints: one with a new file in a directory, one without it and with another that is executable."""
    session = TestSession(repo)
    repo.write("src/new.py", "new\n")
    session.checkpoint()
    (repo.path / "src" / "new.py").unlink()
    repo.write("run.sh", "#!/bin/sh\n", mode=0o755)
    session.checkpoint()
    return session


def put_away(session: TestSession, place: Path) -> Path:
    """Archive the session and remove it for good."""
    done = archive(session.store, session.id, place, session.settings)
    for one in session.store.trashed():
        purge(session.store, one)
    assert session.user.git("for-each-ref", "refs/pinable", "refs/pinable-trash") == ""
    return done.path


def wrong(session: TestSession) -> list[str]:
    return [finding.text for finding in verify(session.store, session.id) if not finding.harmless]


def clone(repo: GitRepo, path: Path, *options: str) -> GitRepo:
    repo.git("clone", "--quiet", *options, f"file://{repo.path}", path)
    return GitRepo(path)


def files(repo: GitRepo) -> dict[bytes, tuple[str, int, bytes]]:
    return {path: facts for path, facts in repo.snapshot().items() if facts[0] != "dir"}


def test_an_archived_session_is_in_the_trash_and_its_archive_is_a_git_bundle(
    session: TestSession, tmp_path: Path
) -> None:
    tips = session.user.git("rev-parse", "refs/pinable/s1")
    done = archive(session.store, "s1", tmp_path / "out", session.settings)
    assert done.path == tmp_path / "out" / "s1.tar.gz"
    assert (session.store.ids(), [one.session_id for one in session.store.trashed()]) == ([], ["s1"])
    assert [path.name for path in done.path.parent.iterdir()] == ["s1.tar.gz"]
    scratch = tmp_path / "x"
    shutil.unpack_archive(done.path, scratch, filter="data")
    other = clone(session.user, tmp_path / "clone")
    other.git("fetch", "--quiet", scratch / "s1" / "refs.bundle", "refs/pinable/s1")
    assert other.git("rev-parse", "FETCH_HEAD") == tips


def test_an_archive_may_lie_on_another_file_system(session: TestSession, tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system here")
    tip = session.user.git("rev-parse", "refs/pinable/s1")
    with tempfile.TemporaryDirectory(dir=memory) as place:
        path = put_away(session, Path(place, "out"))
        unarchive(session.store, path, tmp_path)
    assert session.user.git("rev-parse", "refs/pinable/s1") == tip
    assert not wrong(session)


def test_what_a_killed_run_left_beside_its_archive_is_removed(session: TestSession, tmp_path: Path) -> None:
    for name in (".archive-s1~dead", ".archive-s1-b~alive"):
        (tmp_path / "out" / name).mkdir(parents=True)
        (tmp_path / "out" / name / "refs.bundle").write_text("half")
    archive(session.store, "s1", tmp_path / "out", session.settings)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".archive-s1-b~alive", "s1.tar.gz"]


def test_what_a_killed_run_unpacked_is_removed_a_day_later(session: TestSession, tmp_path: Path) -> None:
    path = put_away(session, tmp_path / "out")
    for name in (".unarchive-old", ".unarchive-new"):
        (session.store.home / name).mkdir()
        (session.store.home / name / "refs.bundle").write_text("half")
    os.utime(session.store.home / ".unarchive-old", (0, 0))
    unarchive(session.store, path, tmp_path)
    assert [left.name for left in session.store.home.glob(".unarchive-*")] == [".unarchive-new"]


def test_there_and_back_in_the_same_repository(session: TestSession, tmp_path: Path) -> None:
    before, tip = session.doc, session.user.git("rev-parse", "refs/pinable/s1")
    path = put_away(session, tmp_path / "out")
    back = unarchive(session.store, path, tmp_path)
    assert (back.session_id, back.worktree, back.checkpoint, back.moved, back.grafted) == (
        "s1", session.user.path, 1, False, False
    )  # fmt: skip
    assert session.doc == before
    assert session.user.git("rev-parse", "refs/pinable/s1") == tip
    assert wrong(session) == []
    assert session.store.trashed() == []


def test_into_another_clone(session: TestSession, tmp_path: Path) -> None:
    state, tip = files(session.user), session.user.git("rev-parse", "refs/pinable/s1")
    path = put_away(session, tmp_path / "out")
    other = clone(session.user, tmp_path / "clone")
    mine = other.user_state()
    shutil.rmtree(session.user.path)
    back = unarchive(session.store, path, other.path / "src")
    assert (back.worktree, back.moved, back.grafted) == (other.path, True, False)
    assert repository_of(session.doc).worktree == other.path
    assert other.git("rev-parse", "refs/pinable/s1") == tip
    assert other.user_state() == mine
    assert wrong(session) == []
    restore(session.store, "s1", 1, settings=Settings(), start=other.path)
    assert files(other) == state
    restore(session.store, "s1", 0, settings=Settings(), start=other.path)
    assert other.at("src/new.py").read_text() == "new\n"


@pytest.mark.parametrize("kind", ["unrelated", "shallow"])
def test_into_a_repository_that_does_not_know_the_beginning(session: TestSession, tmp_path: Path, kind: str) -> None:
    state = files(session.user)
    path = put_away(session, tmp_path / "out")
    if kind == "unrelated":
        other = GitRepo.init(tmp_path / "other")
    else:
        session.user.commit("later", add=False)
        other = clone(session.user, tmp_path / "clone", "--depth=1")
    shutil.rmtree(session.user.path)
    with pytest.raises(NotARepository, match="no repository here knows"):
        unarchive(session.store, path, tmp_path)
    back = unarchive(session.store, path, tmp_path, other.path)
    assert (back.worktree, back.moved, back.grafted) == (other.path, True, True)
    assert other.git("log", "--format=%s", "--first-parent", "refs/pinable/s1").splitlines()[1:] == [
        "checkpoint 0: step",
        "base",
    ]
    other.git("fsck", "--strict")
    assert wrong(session) == []
    restore(session.store, "s1", 1, settings=Settings(), start=other.path, force=True)
    assert state.items() <= files(other).items()


def test_exact_bytes_and_another_object_format_come_along(tmp_path: Path) -> None:
    repo = GitRepo.init(tmp_path / "repo", object_format="sha256")
    repo.write(".gitattributes", "*.txt text eol=lf\n")
    repo.commit()
    session = TestSession(repo)
    repo.write("dos.txt", "a\r\nb\r\n")
    session.checkpoint()
    assert repo.git("for-each-ref", "refs/pinable-meta/s1") != ""
    path = put_away(session, tmp_path / "out")
    other = clone(repo, tmp_path / "clone")
    unarchive(session.store, path, other.path)
    restore(session.store, "s1", 0, settings=Settings(), start=other.path)
    assert other.at("dos.txt").read_bytes() == b"a\r\nb\r\n"


def test_another_object_format_is_refused(session: TestSession, tmp_path: Path) -> None:
    path = put_away(session, tmp_path / "out")
    other = GitRepo.init(tmp_path / "other", object_format="sha256")
    with pytest.raises(RepositoryError, match="is a sha256 one"):
        unarchive(session.store, path, tmp_path, other.path)
    assert session.store.ids() == []


def test_a_session_without_checkpoints(repo: GitRepo, tmp_path: Path) -> None:
    session = TestSession(repo)
    path = put_away(session, tmp_path / "out")
    assert unarchive(session.store, path, repo.path).checkpoint is None
    assert session.doc["status"] == "created"


def test_what_exists_is_not_overwritten(session: TestSession, tmp_path: Path) -> None:
    path = archive(session.store, "s1", tmp_path / "out", session.settings).path
    TestSession(session.user)
    with pytest.raises(BadSessionId, match="session s1 exists"):
        unarchive(session.store, path, tmp_path)
    with pytest.raises(StoreError, match="is not of this session as it is now"):
        archive(session.store, "s1", tmp_path / "out", session.settings)
    assert session.store.ids() == ["s1"]


def test_a_run_that_was_cut_short_is_finished_by_the_next(
    session: TestSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "delete", killed)
        with pytest.raises(KeyboardInterrupt):
            archive(session.store, "s1", tmp_path, session.settings)
    assert session.store.ids() == ["s1"]
    archive(session.store, "s1", tmp_path, session.settings)
    assert session.store.ids() == []


def test_a_bad_archive_does_not_cost_the_original(
    session: TestSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = bundle.write

    def broken(ledger: object, path: Path) -> None:
        original(ledger, path)  # type: ignore[arg-type]
        data = path.read_bytes()
        path.write_bytes(data[:-40] + b"\0" * 40)

    monkeypatch.setattr(bundle, "write", broken)
    with pytest.raises(RepositoryError):
        archive(session.store, "s1", tmp_path / "out", session.settings)
    assert session.store.ids() == ["s1"]
    assert list((tmp_path / "out").iterdir()) == []


def test_an_archived_record_that_cannot_be_read_is_refused(session: TestSession, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(b'{"n": ' + b"1" * 5000 + b"}")
    files = {archives.SNAPSHOT: bad, archives.JOURNAL: session.store.journal("s1").path}
    archives.pack(tmp_path / "s2.tar.gz", "s2", files)
    with pytest.raises(SessionCorrupted, match="holds a number of too many digits"):
        unarchive(session.store, tmp_path / "s2.tar.gz", session.user.path)
    assert session.store.ids() == ["s1"]


@pytest.mark.parametrize(
    "place", ["base.commit", "base.tree", "base.head", "base.meta", "checkpoints.1.commit", "checkpoints.1.tree"]
)
def test_an_archive_that_gives_options_for_ids_of_objects_is_refused(
    session: TestSession, tmp_path: Path, place: str
) -> None:
    doc = session.doc
    owner = doc["base"] if place.startswith("base") else doc["checkpoints"][1]
    owner[place.rpartition(".")[2]] = f"--output={tmp_path / 'owned'}"
    (tmp_path / "bad.json").write_text(json.dumps(doc))
    (tmp_path / "none").write_text("")
    put_away(session, tmp_path / "out").unlink()
    path = tmp_path / "out" / "s1.tar.gz"
    archives.pack(path, "s1", {archives.SNAPSHOT: tmp_path / "bad.json", archives.JOURNAL: tmp_path / "none"})
    with pytest.raises(SessionCorrupted, match=rf"has a wrong {place}: it is no object's id"):
        unarchive(session.store, path, session.user.path)
    assert session.store.ids() == []


def test_what_happens_while_it_is_archived_is_not_lost(
    session: TestSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = module.delete

    def late(store: SessionStore, session_id: str) -> Path:
        session.checkpoint("in between")
        return original(store, session_id)

    monkeypatch.setattr(module, "delete", late)
    with pytest.raises(SessionBusy, match="went on while it was archived"):
        archive(session.store, "s1", tmp_path, session.settings)
    assert [record["description"] for record in session.records][-1] == "in between"
    assert not (tmp_path / "s1.tar.gz").exists()


def test_what_is_in_the_middle_of_something_is_refused(session: TestSession, tmp_path: Path) -> None:
    with session.store.own("s1"), pytest.raises(SessionBusy):
        archive(session.store, "s1", tmp_path, session.settings)
    with session.store.edit("s1") as draft:
        draft.log("status", to="running")
    with pytest.raises(IllegalTransition, match="it says that it runs"):
        archive(session.store, "s1", tmp_path, session.settings)
    (session.store.sessions_dir / "s1.json").write_text("{")
    with pytest.raises(SessionCorrupted):
        archive(session.store, "s1", tmp_path, session.settings)
    assert not list(tmp_path.glob("*.tar.gz"))


class Killed(BaseException):
    """What a test's kill raises."""


@pytest.mark.parametrize("point", range(0, 26, 3))
def test_unarchiving_can_be_killed_anywhere(session: TestSession, tmp_path: Path, point: int) -> None:
    before = session.doc
    path = put_away(session, tmp_path / "out")
    left = iter(range(point, -1, -1))

    def hook(_point: str) -> None:
        if next(left, 0) == 0:
            raise Killed

    seam.hook = hook
    try:
        unarchive(session.store, path, tmp_path)
    except Killed:
        seam.hook = None
        if session.store.trashed():
            undelete(session.store, "s1")
        elif not session.store.exists("s1"):
            unarchive(session.store, path, tmp_path)
    finally:
        seam.hook = None
    assert session.doc == before
    assert wrong(session) == []


def test_the_program_that_an_archive_names_runs_only_when_the_user_names_it(
    session: TestSession, tmp_path: Path
) -> None:
    owned = tmp_path / "owned"
    with session.store.edit("s1") as draft:
        draft.log("settings", values={"command": ["touch", str(owned)]})
    path = put_away(session, tmp_path / "out")
    assert unarchive(session.store, path, session.user.path).offered
    request = RunRequest(start=session.user.path, session_id="s1")
    with pytest.raises(ConflictError, match="comes from elsewhere") as refused:
        Runner(session.store, request, lambda _: None, session.settings).run()
    assert f"-- touch {owned}" in (refused.value.hint or "")
    (result,) = Recoverer(session.store, session.settings, tmp_path, lambda _: None, lambda _: None).recover_all(["s1"])
    assert isinstance(result.error, ConflictError)
    assert not owned.exists()
    named = replace(request, command=("true",))
    assert Runner(session.store, named, lambda _: None, session.settings).run().status == "completed"
    assert (session.doc["command"], session.doc["command_offered"]) == (["true"], None)


def test_an_archive_in_the_middle_of_an_edit_is_refused(
    session: TestSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session.store.edit("s1") as draft:
        draft.log("edit_intent", edit={"call": "c", "changes": []})
    with monkeypatch.context() as patch:
        patch.setattr(module, "_settle", lambda *_: None)
        path = put_away(session, tmp_path / "out")
    with pytest.raises(SessionCorrupted, match="an edit of its was interrupted"):
        unarchive(session.store, path, session.user.path)
