"""What the doctor finds around sessions, and what it does about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo, program

from gitsession import seam
from gitsession.config import Settings
from gitsession.errors import RepositoryError
from gitsession.store.sessions import SessionStore
from gitsession.verbs import doctor, surroundings
from gitsession.verbs.checkpoint import repository_of
from gitsession.verbs.delete import delete
from gitsession.verbs.doctor import Checkup, checkup, relocate

SETTINGS = Settings()


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    session = TestSession(repo)
    repo.write("one.txt", "one\n")
    session.checkpoint()
    return session


def look(session: TestSession, *, fix: bool = False) -> Checkup:
    return checkup(session.store, SETTINGS, session.user.path, fix=fix)


def kinds(found: Checkup) -> list[str]:
    return [step.finding.kind for step in found.around] + [
        step.finding.kind for one in found.sessions for step in one.steps
    ]


def healed(session: TestSession, *expected: str) -> Checkup:
    """What was found is ``expected``; a look changes nothing, a fix does all, and then nothing is wrong."""
    assert kinds(look(session)) == list(expected)
    assert kinds(look(session)) == list(expected)
    done = look(session, fix=True)
    assert done.is_well
    after = look(session)
    assert (kinds(after), after.is_well) == ([], True)
    return done


def test_nothing_is_wrong_with_what_is_sound(session: TestSession) -> None:
    found = look(session)
    assert (found.around, found.sessions, found.looked_at, found.is_well) == ((), (), 1, True)


def test_a_home_that_others_can_read_is_closed(session: TestSession) -> None:
    session.store.home.chmod(0o755)
    (session.store.sessions_dir / "s1.json").chmod(0o644)
    healed(session, "permissions", "permissions")
    assert session.store.home.stat().st_mode & 0o777 == 0o700
    assert (session.store.sessions_dir / "s1.json").stat().st_mode & 0o777 == 0o600


def test_what_its_owner_cannot_use_is_opened(session: TestSession) -> None:
    session.store.sessions_dir.chmod(0)
    done = healed(session, "permissions")
    assert [step.done for step in done.around] == ["gave them back"]
    assert session.store.sessions_dir.stat().st_mode & 0o777 == 0o700
    (session.store.sessions_dir / "s1.json").chmod(0o200)
    healed(session, "permissions")
    assert session.store.read("s1")["id"] == "s1"


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="root reads everything")
def test_sessions_that_may_not_be_read_are_told(session: TestSession) -> None:
    sessions = session.store.sessions_dir
    rights = "-dac_override,-dac_read_search"  # what makes root read everything
    bound = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", program("pinable-agents"), "doctor"]
    for mode in (0, 0o400):
        sessions.chmod(mode)
        looked = subprocess.run(bound, capture_output=True, text=True, cwd=session.user.path)
        assert (looked.returncode, looked.stderr) == (1, "")
        assert looked.stdout.splitlines() == [
            f"{sessions} cannot be used by its owner (mode {mode:04o})",
            "  would give the permissions back",
            f"{sessions} cannot be read: no session was looked at",
            "  see whose it is, and its permissions",
            "Found 2 things to look at; --fix does what is said above",
        ]
        mended = subprocess.run([*bound, "--fix"], capture_output=True, text=True, cwd=session.user.path)
        assert (mended.returncode, mended.stderr) == (0, "")
        assert mended.stdout.splitlines()[-1] == "All is well now"


def test_a_temporary_file_is_put_aside_but_not_one_that_a_repair_may_need(session: TestSession) -> None:
    path = session.store.sessions_dir / "s1.json.tmp"
    path.write_bytes(b"half")
    path.chmod(0o600)
    healed(session, "leftover")
    assert [place.read_bytes() for place in (session.store.home / "reports" / "leftovers").iterdir()] == [b"half"]
    path.write_bytes((session.store.sessions_dir / "s1.json").read_bytes())
    path.chmod(0o600)
    (session.store.sessions_dir / "s1.json").write_bytes(b"")
    assert surroundings.stale(session.store) == []


def test_a_damaged_session_is_repaired(session: TestSession) -> None:
    (session.store.sessions_dir / "s1.json").write_bytes(b"{")
    healed(session, "files")
    assert len(session.records) == 1


@pytest.mark.parametrize("status", ["paused", "completed"])
def test_a_journal_that_cannot_be_read_is_told(session: TestSession, status: str) -> None:
    with session.store.edit("s1") as draft:
        draft.log("status", to="running")
        draft.log("status", to=status)
    past = time.time_ns() - 10**10
    for path in session.store.sessions_dir.glob("s1.*"):
        os.utime(path, ns=(past, past))
    list(session.store.summaries())
    journal = session.store.journal("s1").path
    journal.unlink()
    journal.mkdir()
    healed(session, "files")


def test_a_restore_cut_short_in_a_completed_session_is_finished(session: TestSession) -> None:
    with session.store.edit("s1") as draft:
        draft.log("status", to="running")
        draft.log("status", to="completed")

    def stop(point: str) -> None:
        if point == "restore.remove":
            raise KeyboardInterrupt

    seam.hook = stop
    try:
        with pytest.raises(KeyboardInterrupt):
            session.restore(None)
    finally:
        seam.hook = None
    assert session.user.at("one.txt").exists()
    healed(session, "restore")
    assert not session.user.at("one.txt").exists()


def test_a_session_that_cannot_be_looked_at_is_told(session: TestSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_args: object, **_options: object) -> None:
        raise RepositoryError("it cannot be read", hint="look there")

    monkeypatch.setattr(doctor, "repair", failing)
    found = look(session)
    assert [finding.text for one in found.sessions for finding in one.left] == ["it cannot be read"]
    assert not found.is_well


def test_a_ref_without_a_session_is_rebuilt(session: TestSession) -> None:
    for file in session.store.sessions_dir.glob("s1.*"):
        file.unlink()
    healed(session, "files")
    assert session.doc["task"] == "task"


def test_the_ref_of_a_deleted_session_goes_to_where_it_is_kept(session: TestSession) -> None:
    tip = session.user.git("rev-parse", "refs/pinable/s1")
    delete(session.store, "s1")
    session.user.git("update-ref", "refs/pinable/s1", tip)
    healed(session, "undropped")
    assert session.user.git("for-each-ref", "--format=%(refname)", "refs/pinable") == ""
    assert session.user.git("rev-parse", "refs/pinable-trash/s1") == tip


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (("remote.origin.mirror", "true"), True),
        (("remote.origin.push", "+refs/*:refs/*"), True),
        (("remote.origin.push", "refs/pinable/*:refs/pinable/*"), True),
        (("remote.origin.push", "refs/heads/*:refs/heads/*"), False),
        (("remote.origin.mirror", "false"), False),
    ],
)
def test_a_remote_that_would_publish_checkpoints_is_told(
    session: TestSession, config: tuple[str, str], said: bool
) -> None:
    session.user.git("config", *config)
    found = look(session, fix=True)
    assert kinds(found) == (["published"] if said else [])
    assert found.is_well is not said
    assert session.user.git("config", config[0]) == config[1]


def test_what_is_to_be_typed_keeps_every_hidden_ref_from_being_pushed(session: TestSession, tmp_path: Path) -> None:
    user, theirs = session.user, GitRepo.init(tmp_path / "theirs", "--bare")
    for kind in ("-meta", "-trash", "-meta-trash"):
        user.git("update-ref", f"refs/pinable{kind}/s1", "refs/pinable/s1")
    user.git("config", "remote.origin.url", str(theirs.path))
    user.git("config", "remote.origin.push", "+refs/*:refs/*")
    [told] = look(session).around
    subprocess.run(["sh", "-c", str(told.finding.hint).partition(": ")[2]], check=True, cwd=user.path)
    assert look(session).is_well
    user.git("push", "--quiet", "origin")
    assert theirs.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_git_missing_or_too_old_is_all_that_is_told(session: TestSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "version", lambda: (2, 20, 1))
    found = look(session)
    assert [step.finding.text for step in found.around] == ["git 2.20.1 is too old"]
    monkeypatch.setenv("PATH", "/nowhere")
    found = look(session)
    assert [step.finding.text for step in found.around] == ["the git program is not on the PATH"]


def test_processes_that_outlived_their_run_are_ended(session: TestSession) -> None:
    left = subprocess.Popen(["sleep", "600"], env={**os.environ, "PINABLE_SESSION_ID": "s1"}, start_new_session=True)
    code = """
import pathlib
from gitsession import SessionStore, config
from gitsession.verbs.doctor import checkup
for fix in (False, True, False):
    found = checkup(SessionStore(), config.Settings(), pathlib.Path.cwd(), fix=fix)
    print([(step.finding.text, step.done) for step in found.around])
"""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=session.user.path, capture_output=True, text=True, check=True
        )
        text = f"s1: processes outlived their run: sleep {left.pid}"
        assert done.stdout.splitlines() == [str([(text, "end them")]), str([(text, "ended them")]), "[]"]
    finally:
        left.kill()
        left.wait()


def test_a_repository_that_moved_is_found_again(session: TestSession, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    other = GitRepo.init(tmp_path / "other")
    shutil.move(session.user.path, moved)
    found = checkup(session.store, SETTINGS, tmp_path)
    assert [finding.kind for one in found.sessions for finding in one.left] == ["repository"]
    assert "doctor --relocate" in str(found.sessions[0].left[0].hint)
    assert relocate(session.store, other.path) == []
    assert relocate(session.store, moved) == ["s1"]
    assert session.doc["repository"]["worktree"] == str(moved)
    assert checkup(session.store, SETTINGS, tmp_path).is_well
    assert SessionStore().read("s1")["metadata"]["working_dir"] == str(session.user.path)


@pytest.mark.parametrize("left", [False, True])
def test_a_repository_that_is_not_there_names_what_to_do(session: TestSession, tmp_path: Path, left: bool) -> None:
    session.user.path.rename(tmp_path / "moved")
    if left:
        session.user.path.mkdir()
    with pytest.raises(RepositoryError) as error:
        repository_of(session.doc)
    assert "pinable-agents doctor --relocate PATH" in (error.value.hint or "")
