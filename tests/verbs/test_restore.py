"""Restore, undo, refusals, and the record they leave."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession.config import Settings
from gitsession.errors import (
    CheckpointNotFound,
    ConflictError,
    DriftError,
    OutsideRepository,
    SessionBusy,
    SessionNotFound,
    UsageError,
)
from gitsession.verbs.restore import FileAction, finish_interrupted, restore, undo


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    return TestSession(repo)


def test_to_a_checkpoint_and_back(session: TestSession) -> None:
    repo = session.user
    repo.write("src/app.py", "one\n")
    repo.write("new.txt", "new\n")
    assert session.checkpoint() == 0
    first = repo.snapshot()
    repo.write("src/app.py", "two\n")
    repo.at("new.txt").unlink()
    repo.write("later/file.txt", "later\n")
    assert session.checkpoint() == 1
    second = repo.snapshot()
    users = repo.user_state()

    report = session.restore(0)
    assert repo.snapshot() == first
    assert (report.safety, report.checkpoint, report.left) == (1, 2, ())
    assert report.files == (
        FileAction("later", "rmdir", "checkpoint 0 does not have it"),
        FileAction("later/file.txt", "delete", "checkpoint 0 does not have it"),
        FileAction("new.txt", "create", "checkpoint 0 has it"),
        FileAction("src/app.py", "replace", "checkpoint 0 has other bytes"),
    )
    assert session.undo().target == 1
    assert repo.snapshot() == second
    assert session.undo().target == 2
    assert repo.snapshot() == first
    assert repo.user_state() == users
    repo.git("fsck", "--strict")


def test_the_record_grows_and_says_where_it_came_from(session: TestSession) -> None:
    session.user.write("f", "1\n")
    session.checkpoint("first")
    session.user.write("f", "2\n")
    session.checkpoint("second")
    session.restore(0)
    assert [(one["index"], one["trigger"], one["restored_from"]) for one in session.records[2:]] == [(2, "restore", 0)]
    record = session.records[2]
    assert record["description"] == "Restored checkpoint 0 (first)"
    assert record["changes"] == [{"path": "f", "status": "modified"}]
    assert record["tree"] == session.records[0]["tree"]
    assert session.doc["restoring"] is None
    log = session.user.git("log", "--format=%s", "--first-parent", "refs/pinable/s1").splitlines()
    assert log[:4] == [
        "checkpoint 2: Restored checkpoint 0 (first)", "checkpoint 1: second", "checkpoint 0: first", "base"
    ]  # fmt: skip


def test_an_undo_of_an_undo_is_named_by_what_was_first(session: TestSession) -> None:
    for text in ("first", "second"):
        session.user.write("f", text)
        session.checkpoint(text)
    session.restore(0)
    for _ in range(4):
        session.undo()
    assert [record["description"] for record in session.records[2:]] == [
        "Restored checkpoint 0 (first)",
        "Restored checkpoint 1 (second)",
        "Restored checkpoint 2 (first)",
        "Restored checkpoint 3 (second)",
        "Restored checkpoint 4 (first)",
    ]


def test_to_the_base(session: TestSession) -> None:
    before = session.user.snapshot()
    session.user.write("src/app.py", "changed\n")
    session.user.write("new", "new\n")
    session.checkpoint()
    report = session.restore(None)
    assert session.user.snapshot() == before
    assert report.description == "before the first change"
    assert session.records[-1]["restored_from"] is None
    session.undo()
    assert session.user.at("new").read_text() == "new\n"


def test_edits_after_the_last_checkpoint_are_refused_then_saved(session: TestSession) -> None:
    repo = session.user
    repo.write("f", "1\n")
    session.checkpoint()
    repo.write("f", "2\n")
    session.checkpoint()
    repo.write("f", "mine\n")
    before = repo.snapshot()
    with pytest.raises(DriftError, match=r"f \(changed since the last checkpoint\)") as caught:
        session.restore(0)
    assert caught.value.paths == (b"f",)
    assert caught.value.exit_status == 4
    assert repo.snapshot() == before
    assert len(session.records) == 2

    report = session.restore(0, force=True)
    assert repo.at("f").read_text() == "1\n"
    assert report.safety == 2
    assert session.records[2]["description"] == "Before restoring checkpoint 0"
    session.undo()
    assert repo.snapshot() == before


def test_an_edit_of_a_file_that_the_restore_does_not_touch_is_no_drift(session: TestSession) -> None:
    repo = session.user
    repo.write("f", "1\n")
    session.checkpoint()
    repo.write("f", "2\n")
    session.checkpoint()
    repo.write("README.md", "mine\n")
    session.restore(0, "f")
    assert repo.at("f").read_text() == "1\n"
    assert repo.at("README.md").read_text() == "mine\n"


@pytest.mark.parametrize("force", [False, True])
def test_a_new_file_of_somebody_else_stays(session: TestSession, force: bool) -> None:
    repo = session.user
    repo.write("f", "1\n")
    session.checkpoint()
    repo.write("f", "2\n")
    session.checkpoint()
    repo.write("theirs/out.txt", "theirs\n")
    report = session.restore(0, force=force)
    assert FileAction("theirs/out.txt", "keep", "appeared since the last checkpoint") in report.files
    assert repo.at("theirs/out.txt").read_text() == "theirs\n"
    session.undo()
    assert repo.at("theirs/out.txt").read_text() == "theirs\n"


def test_dry_run_touches_nothing(session: TestSession) -> None:
    session.user.write("f", "1\n")
    session.checkpoint()
    session.user.write("f", "2\n")
    session.user.write("g", "2\n")
    session.checkpoint()
    files, users, records = session.user.snapshot(), session.user.user_state(), session.records
    refs = session.user.git("for-each-ref")
    report = session.restore(0, dry_run=True)
    assert report.dry_run
    assert [(file.path, file.action) for file in report.files] == [("f", "replace"), ("g", "delete")]
    assert session.user.snapshot() == files
    assert session.user.user_state() == users
    assert session.records == records
    assert session.user.git("for-each-ref") == refs


def test_nothing_to_do_leaves_no_trace(session: TestSession) -> None:
    session.user.write("f", "1\n")
    session.checkpoint()
    report = session.restore(0)
    assert report.changes_nothing
    assert report.checkpoint is None
    assert len(session.records) == 1
    with pytest.raises(UsageError, match="nothing to undo"):
        session.undo()


def test_chosen_paths(session: TestSession) -> None:
    repo = session.user
    for path in ("src/app.py", "src/util.py", "README.md"):
        repo.write(path, "changed\n")
    repo.write("src/new.py", "new\n")
    session.checkpoint()
    session.restore(None, "src")
    assert repo.at("README.md").read_text() == "changed\n"
    assert repo.git("status", "--porcelain") == "M README.md".rjust(12)
    session.undo()
    assert repo.at("src/new.py").read_text() == "new\n"
    session.restore(None, "src/app.py", str(repo.at("README.md")))
    assert repo.git("status", "--porcelain", "-uall").split("\n") == [" M src/util.py", "?? src/new.py"]


def test_undo_of_chosen_paths_leaves_the_others(session: TestSession) -> None:
    repo = session.user
    repo.write("a", "1\n")
    repo.write("b", "1\n")
    session.checkpoint()
    repo.write("a", "2\n")
    session.checkpoint()
    session.restore(0, "a")
    repo.write("b", "later\n")
    session.checkpoint()
    report = session.undo()
    assert (repo.at("a").read_text(), repo.at("b").read_text()) == ("2\n", "later\n")
    assert report.warnings == ("what 1 later checkpoint recorded is taken back, too",)
    assert report.paths == ("a",)


@pytest.mark.parametrize(
    ("index", "paths", "error", "words"),
    [
        (7, (), CheckpointNotFound, "has no checkpoint 7; its checkpoints: 0 to 0"),
        (0, ("../outside",), OutsideRepository, "is not in the working tree"),
        (0, ("no/such/file",), UsageError, "neither in checkpoint 0 nor among the files now"),
    ],
)
def test_requests_that_cannot_work(
    session: TestSession, index: int, paths: tuple[str, ...], error: type[UsageError], words: str
) -> None:
    session.checkpoint()
    session.user.write("f", "x")
    with pytest.raises(error, match=words) as caught:
        session.restore(index, *paths)
    assert caught.value.exit_status == 2
    assert len(session.records) == 1


def test_a_session_that_does_not_exist(session: TestSession) -> None:
    with pytest.raises(SessionNotFound):
        restore(session.store, "other", 0, settings=session.settings)


def test_a_running_session_is_not_touched(session: TestSession) -> None:
    session.user.write("f", "1\n")
    session.checkpoint()
    session.user.write("f", "2\n")
    session.checkpoint()
    with session.store.own("s1"), pytest.raises(SessionBusy):
        session.restore(0)
    assert session.user.at("f").read_text() == "2\n"


def test_a_moved_clone_is_refused_with_what_to_do(session: TestSession, tmp_path: Path) -> None:
    session.checkpoint()
    session.user.path.rename(tmp_path / "moved")
    with pytest.raises(ConflictError, match="is not there") as caught:
        restore(session.store, "s1", 0, settings=session.settings, start=tmp_path)
    assert caught.value.hint


def test_another_repository_is_refused(session: TestSession, tmp_path: Path) -> None:
    session.checkpoint()
    other = GitRepo.init(tmp_path / "other")
    with pytest.raises(UsageError, match=r"belongs to .*/repo, and this is .*/other"):
        restore(session.store, "s1", 0, settings=session.settings, start=other.path)
    session.user.write("f", "1\n")
    session.checkpoint()
    session.restore(0)
    with pytest.raises(UsageError, match=r"belongs to .*/repo, and this is .*/other"):
        undo(session.store, "s1", settings=session.settings, start=other.path)
    assert not session.user.at("f").exists()


def test_a_missing_object_is_refused_before_anything_is_touched(session: TestSession) -> None:
    session.user.write("f", "precious\n")
    session.checkpoint()
    session.user.write("f", "2\n")
    session.user.write("README.md", "2\n")
    session.checkpoint()
    oid = session.user.git("rev-parse", "refs/pinable/s1~1:f")
    (session.user.common_dir / "objects" / oid[:2] / oid[2:]).unlink()
    before = session.user.snapshot()
    with pytest.raises(ConflictError, match="has lost the bytes of f"):
        session.restore(0)
    assert session.user.snapshot() == before
    assert session.doc.get("restoring") is None
    session.restore(0, "README.md")
    assert session.user.at("README.md").read_text() == "# sample\n"


def test_an_ignored_file_in_the_way(session: TestSession) -> None:
    """The checkpoint has it as a tracked file; it was deleted since, and made again under an ignore rule."""
    repo = session.user
    repo.write("build/out", "captured\n")
    session.checkpoint()
    repo.at("build/out").unlink()
    session.checkpoint()
    repo.write(".git/info/exclude", "build/\n")
    repo.write("build/out", "precious\n")
    with pytest.raises(DriftError, match="ignored, and no checkpoint holds it"):
        session.restore(0)
    assert repo.at("build/out").read_text() == "precious\n"
    session.restore(0, force=True)
    assert repo.at("build/out").read_text() == "captured\n"
    session.undo()
    assert repo.at("build/out").read_text() == "precious\n"


@pytest.mark.parametrize("precious", ["precious\n", "captured\n"])
def test_undo_brings_back_an_ignored_file_that_was_the_only_change(session: TestSession, precious: str) -> None:
    """It is in the safety checkpoint, also where the target has the same bytes, so that nothing is overwritten."""
    repo = session.user
    repo.write("out", "captured\n")
    repo.write("README.md", "1\n")
    session.checkpoint()
    repo.at("out").unlink()
    repo.write(".git/info/exclude", "out\n")
    repo.write("README.md", "2\n")
    session.checkpoint()
    repo.write("out", precious)
    before = repo.snapshot()
    report = session.restore(0, force=precious != "captured\n")
    assert report.safety == 2
    assert session.records[2]["changes"] == [{"path": "out", "status": "added"}]
    assert repo.git("show", f"{session.records[2]['commit']}:out") == precious.strip()
    assert repo.at("out").read_text() == "captured\n"
    session.undo()
    assert repo.snapshot() == before


@pytest.mark.parametrize("place", ["empty", "empty/below"])
def test_an_ignored_link_where_a_directory_has_to_be_is_refused(session: TestSession, place: str) -> None:
    """Before anything is touched, and whatever is forced."""
    repo = session.user
    repo.at(place).mkdir(parents=True)
    session.checkpoint()
    repo.at(place).rmdir()
    if place != "empty":
        repo.at("empty").rmdir()
    repo.write(".git/info/exclude", "empty\n")
    repo.at("empty").symlink_to("README.md")
    before = repo.snapshot()
    with pytest.raises(DriftError, match=f"empty .*is in the way of the directory {place}"):
        session.restore(0, force=True)
    assert repo.snapshot() == before


def test_undo_brings_back_ignored_empty_directories_in_the_place_of_a_file(session: TestSession) -> None:
    repo = session.user
    session.checkpoint()
    repo.at("README.md").unlink()
    repo.write(".git/info/exclude", "README.md\n")
    session.checkpoint()
    repo.at("README.md/x/y").mkdir(parents=True)
    before = repo.snapshot()
    session.restore(0)
    assert repo.at("README.md").is_file()
    session.undo()
    assert repo.snapshot() == before


def test_ignored_files_in_a_directory_that_has_to_be_a_file(session: TestSession) -> None:
    repo = session.user
    session.checkpoint()
    repo.at("README.md").unlink()
    repo.write(".git/info/exclude", "*.o\n")
    repo.write("README.md/main.o", "object\n")
    repo.write("README.md/main.c", "source\n")
    session.checkpoint()
    for force in (False, True):
        with pytest.raises(DriftError, match=r"main\.o \(is in the way of the file README\.md\)"):
            session.restore(0, force=force)
    assert repo.at("README.md/main.o").read_text() == "object\n"
    assert repo.at("README.md/main.c").read_text() == "source\n"


def test_a_file_that_the_base_ignored_is_kept(repo: GitRepo) -> None:
    """It was there, and only a later edit of the rules had it captured."""
    repo.write(".gitignore", ".env\n")
    repo.commit("rules")
    repo.write(".env", "key\n")
    session = TestSession(repo)
    repo.write(".gitignore", "")
    repo.write("new", "1\n")
    session.checkpoint()
    before = repo.snapshot()
    report = session.restore(None)
    assert FileAction(".env", "keep", "may have been there, but left out: ignored") in report.files
    assert repo.at(".env").read_text() == "key\n"
    assert not repo.at("new").exists()
    session.undo()
    assert repo.snapshot() == before


def test_an_ignored_file_is_kept_where_the_checkpoint_before_has_a_directory(session: TestSession) -> None:
    repo = session.user
    repo.write("l/in", "1\n")
    session.checkpoint()
    repo.at("l/in").unlink()
    repo.at("l").rmdir()
    repo.write(".gitignore", "l\n")
    repo.write("l", "there, ignored\n")
    session.checkpoint()
    repo.at(".gitignore").unlink()
    session.checkpoint()
    report = session.restore(1)
    assert repo.at("l").read_text() == "there, ignored\n"
    assert [(file.path, file.action) for file in report.files] == [(".gitignore", "create"), ("l", "keep")]


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_undo_takes_an_ignored_file_back_that_the_restore_made(session: TestSession, turns: int) -> None:
    """The rules of the safety checkpoint name it, but it was not there."""
    repo = session.user
    repo.write("a.log", "captured\n")
    session.checkpoint()
    with_file = repo.snapshot()
    repo.write(".gitignore", "*.log\n")
    session.checkpoint()
    repo.at("a.log").unlink()
    session.checkpoint()
    repo.write("b", "1\n")
    session.checkpoint()
    without = repo.snapshot()
    session.restore(0)
    assert repo.snapshot() == with_file
    for turn in range(turns):
        session.undo()
        assert repo.snapshot() == (with_file if turn % 2 else without)


def test_a_fifo_in_the_place_of_a_file_is_told(session: TestSession) -> None:
    session.user.at("README.md").unlink()
    os.mkfifo(session.user.at("README.md"))
    report = session.restore(None)
    assert report.files == (FileAction("README.md", "keep", "a fifo is in its place"),)
    assert stat.S_ISFIFO(session.user.at("README.md").stat().st_mode)


def test_a_file_that_was_too_large_for_the_base_is_kept(repo: GitRepo) -> None:
    repo.write("big", "x" * 3000)
    session = TestSession(repo, settings=Settings(capture_max_file_size=2000))
    repo.write("big", "small\n")
    session.checkpoint()
    report = session.restore(None)
    assert report.files == (
        FileAction("big", "keep", "may have been there, but left out: too large (3 KB, capture.max_file_size is 2 KB)"),
    )
    assert repo.at("big").read_text() == "small\n"


def test_an_empty_directory_that_has_an_ignored_file_by_now_is_there(repo: GitRepo) -> None:
    repo.at("d").mkdir()
    session = TestSession(repo)
    repo.write(".git/info/exclude", "*.log\n")
    repo.write("d/x.log", "1\n")
    session.checkpoint()
    assert session.restore(None).files == ()
    assert len(session.records) == 1


def test_an_empty_directory_that_was_ignored_meanwhile_is_recorded_as_empty(repo: GitRepo) -> None:
    repo.at("d").mkdir()
    session = TestSession(repo)
    repo.write(".gitignore", "d/\n")
    session.checkpoint()
    assert session.records[-1]["empty_dirs"] == []
    assert [file.path for file in session.restore(None).files] == [".gitignore"]
    assert session.records[-1]["empty_dirs"] == ["d"]


def test_a_directory_that_the_restore_empties_is_recorded_as_empty(repo: GitRepo) -> None:
    repo.at("d").mkdir()
    session = TestSession(repo)
    repo.write("d/f", "1\n")
    repo.at("e/inner").mkdir(parents=True)
    session.checkpoint()
    session.restore(None)
    assert session.records[-1]["empty_dirs"] == ["d"]
    assert session.restore(None).files == ()


def test_a_moved_head_is_told(session: TestSession, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = session.user
    session.checkpoint()
    repo.write("README.md", "2\n")
    session.checkpoint()
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2099-01-01T00:00:00+00:00")
    old, new = repo.git("rev-parse", "HEAD"), repo.commit("on the branch")
    report = session.restore(0)
    assert len(report.warnings) == 1
    assert f"HEAD was {old[:7]} at that checkpoint and is {new[:7]} now" in report.warnings[0]
    assert repo.git("rev-parse", "HEAD") == new
    assert repo.git("show", "HEAD:README.md") == "2"


@pytest.mark.parametrize("target", [None, 0, 1, 2])
def test_a_moved_head_is_told_without_a_reflog(session: TestSession, target: int | None) -> None:
    repo = session.user
    repo.git("config", "core.logAllRefUpdates", "false")
    heads = [repo.git("rev-parse", "HEAD")]
    for number in range(2):
        repo.write("README.md", f"{number}\n")
        heads.append(repo.commit(f"commit {number}"))
        session.checkpoint()
    repo.write("README.md", "more\n")
    session.checkpoint()
    repo.write("README.md", "last\n")
    session.checkpoint()
    repo.git("reflog", "expire", "--expire=all", "--all")
    then = heads[0 if target is None else min(target + 1, 2)]
    told = f"HEAD was {then[:7]} at that checkpoint and is {heads[2][:7]} now"
    assert [told in warning for warning in session.restore(target).warnings] == [True] * (then != heads[2])


def test_sessions_in_two_directories_leave_each_other_alone(repo: GitRepo) -> None:
    repo.write("a/f", "1\n")
    repo.write("b/f", "1\n")
    one = TestSession(repo, "one", start=repo.at("a"))
    two = TestSession(repo, "two", start=repo.at("b"))
    one.checkpoint()
    repo.write("a/f", "2\n")
    repo.write("b/f", "2\n")
    two.checkpoint()
    one.checkpoint()
    report = one.restore(0)
    assert (repo.at("a/f").read_text(), repo.at("b/f").read_text()) == ("1\n", "2\n")
    kept = FileAction("b/f", "keep", "belongs to session two")
    assert report.files == (FileAction("a/f", "replace", "checkpoint 0 has other bytes"), kept)
    report = one.restore(0)
    assert report.changes_nothing
    assert report.files == (kept,)


def test_a_path_by_its_name_is_restored_though_another_session_began_there(repo: GitRepo) -> None:
    for path in ("a/f", "b/f", "b/g"):
        repo.write(path, "1\n")
    one = TestSession(repo, "one", start=repo.at("a"))
    TestSession(repo, "two", start=repo.at("b"))
    for path in ("a/f", "b/f", "b/g"):
        repo.write(path, "2\n")
    one.checkpoint()
    report = one.restore(None, "b/f", ".")
    assert {file.path: file.action for file in report.files} == {"a/f": "replace", "b/f": "replace", "b/g": "keep"}
    assert [repo.at(path).read_text() for path in ("a/f", "b/f", "b/g")] == ["1\n", "1\n", "2\n"]


def test_a_completed_session_owns_no_directory(repo: GitRepo) -> None:
    repo.write("a/f", "1\n")
    repo.write("b/f", "1\n")
    one = TestSession(repo, "one", start=repo.at("a"))
    two = TestSession(repo, "two", start=repo.at("b"))
    with two.store.edit("two") as draft:
        draft.log("status", to="running")
        draft.log("status", to="completed")
    repo.write("b/f", "2\n")
    one.checkpoint()
    one.restore(None)
    assert repo.at("b/f").read_text() == "1\n"


def test_two_sessions_in_one_tree(repo: GitRepo) -> None:
    """What the second session did is drift to the first."""
    one, two = TestSession(repo, "one"), TestSession(repo, "two")
    repo.write("f", "1\n")
    one.checkpoint()
    repo.write("f", "2\n")
    one.checkpoint()
    repo.write("f", "second\n")
    repo.write("src/app.py", "second\n")
    two.checkpoint()
    with pytest.raises(DriftError) as caught:
        one.restore(None)
    assert caught.value.paths == (b"f", b"src/app.py")
    assert repo.at("f").read_text() == "second\n"


def test_nothing_interrupted_nothing_finished(session: TestSession) -> None:
    assert finish_interrupted(session.store, "s1", session.settings) is None
