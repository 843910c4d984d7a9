"""Edits happen exactly once, are kept in a checkpoint, and never overwrite what somebody else wrote."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession import seam
from gitsession.backends.base import Edit, FileEdit, FileProblem
from gitsession.errors import EditConflict, RepositoryError
from gitsession.git.repo import Repo
from gitsession.git.worktree import Found, Worktree
from gitsession.verbs.checkpoint import Recorder
from gitsession.verbs.edits import Edits, Made
from gitsession.verbs.workspace import Workspace

APP, UTIL, NEW = b"src/app.py", b"src/util.py", b"src/new/thing.py"


class Bench:
    """A session, and edits made in it."""

    def __init__(self, repo: GitRepo) -> None:
        self.repo = repo
        self.session = TestSession(repo)
        self.workspace = Workspace(Repo.discover(repo.path))
        self.recorder = Recorder(self.session.store, self.session.id, Repo.discover(repo.path), self.session.settings)
        self.edits = Edits(self.recorder)
        self._calls = 0

    def change(self, path: bytes, data: bytes | None, **more: object) -> FileEdit:
        seen = self.workspace.read(path, 1 << 20)
        return FileEdit(path, data, seen.oid if seen else None, **more)  # type: ignore[arg-type]

    def edit(self, *changes: FileEdit, what: str = "step", more: bool = False) -> Edit:
        self._calls += 1
        return Edit(f"toolu_{self._calls}", changes, "told", "result", what, more)

    def make(self, *changes: FileEdit, **about: object) -> Made:
        return self.edits.make(self.edit(*changes, **about))  # type: ignore[arg-type]

    def events(self) -> list[str]:
        return [entry["event"] for entry in self.session.store.journal(self.session.id).read()[0]]

    def again(self) -> Edits:
        """As a new process would."""
        return Edits(self.recorder)


@pytest.fixture
def bench(repo: GitRepo) -> Iterator[Bench]:
    made = Bench(repo)
    yield made
    made.recorder.close()


class Killed(BaseException):
    """Takes the place of kill -9."""


def kill_at(monkeypatch: pytest.MonkeyPatch, point: str, nth: int = 1) -> None:
    reached = 0

    def hook(name: str) -> None:
        nonlocal reached
        reached += name == point
        if name == point and reached == nth:
            raise Killed

    monkeypatch.setattr(seam, "hook", hook)


def test_an_edit_is_written_down_made_checkpointed_and_done(bench: Bench) -> None:
    made = bench.make(bench.change(NEW, b"x = 1\n"), what="the new thing")
    assert (made.reason, made.told) == (None, "told")
    assert bench.repo.at(NEW).read_bytes() == b"x = 1\n"
    (record,) = made.saved
    assert (record["index"], record["description"], record["capture"]) == (0, "the new thing", "paths")
    assert (record["files_changed"], record["trigger"], record["call"]) == (["src/new/thing.py"], "agent", "toolu_1")
    assert bench.events()[-3:] == ["edit_intent", "checkpoint", "edit_done"]
    assert bench.session.doc["pending_edit"] is None
    assert bench.repo.git("show", "refs/pinable/s1:src/new/thing.py") == "x = 1"


def test_changing_deleting_and_moving(bench: Bench) -> None:
    bench.repo.at(APP).chmod(0o755)
    bench.make(bench.change(APP, b"print()\n"))
    assert bench.repo.at(APP).read_bytes() == b"print()\n"
    assert bench.repo.at(APP).stat().st_mode & 0o777 == 0o755
    bench.make(bench.change(b"bin/app", b"print()\n", executable=True), bench.change(APP, None))
    assert bench.repo.at(b"bin/app").stat().st_mode & 0o111
    assert not bench.repo.at(APP).exists()
    bench.make(bench.change(UTIL, None))
    assert not bench.repo.at(b"src").exists(), "a directory that became empty goes, too"


def test_what_somebody_else_wrote_is_in_a_checkpoint_before_it_is_replaced(bench: Bench) -> None:
    bench.repo.write(APP, b"theirs\n")
    made = bench.make(bench.change(APP, b"ours\n"))
    assert [record["trigger"] for record in [*made.found, *made.saved]] == ["found", "agent"]
    assert bench.repo.git("show", "refs/pinable/s1~1:src/app.py") == "theirs"
    assert bench.repo.git("show", "refs/pinable/s1:src/app.py") == "ours"


def test_a_file_that_is_not_what_was_expected_is_left_alone(bench: Bench) -> None:
    stale = bench.change(APP, b"ours\n")
    bench.repo.write(APP, b"theirs\n")
    made = bench.make(stale)
    assert made.reason is not None
    assert "changed by somebody else" in made.reason
    assert bench.repo.at(APP).read_bytes() == b"theirs\n"
    assert "edit_intent" not in bench.events()


@pytest.mark.parametrize("what", ["link", "fifo", "directory", "linked parent", "leading out"])
def test_nothing_is_written_through_or_over_what_is_no_file(bench: Bench, what: str) -> None:
    outside = bench.repo.path.parent / "outside"
    outside.mkdir()
    path = b"odd"
    if what == "link":
        bench.repo.at(path).symlink_to(outside / "target")
    elif what == "fifo":
        os.mkfifo(bench.repo.at(path))
    elif what == "directory":
        bench.repo.at(path).mkdir()
    else:
        bench.repo.at(b"dir").symlink_to("src" if what == "linked parent" else outside)
        path = b"dir/app.py"
    before = bench.repo.snapshot()
    with pytest.raises(FileProblem):
        bench.workspace.read(path, 1000)
    made = bench.make(FileEdit(path, b"ours\n", None))
    assert made.reason
    assert bench.repo.snapshot() == before
    assert not list(outside.iterdir())


@pytest.mark.parametrize("path", [b".git/hooks/pre-commit", b".GIT/config", b"a/../b", b"/etc/x", b"sub/.git/x"])
def test_what_no_tree_may_hold_is_not_written(bench: Bench, path: bytes) -> None:
    before = bench.repo.user_state()
    assert bench.make(FileEdit(path, b"x", None)).reason
    assert bench.repo.user_state() == before


def test_another_repository_inside_is_not_changed(bench: Bench) -> None:
    GitRepo.init(bench.repo.path / "inner").write("deep/file", "theirs\n")
    made = bench.make(bench.change(b"inner/deep/file", b"ours\n"))
    assert made.reason is not None
    assert "inner is another repository" in made.reason
    assert bench.repo.at("inner/deep/file").read_text() == "theirs\n"


def test_a_directory_that_cannot_be_written_is_told_to_the_model(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(point: str) -> None:
        if point == "restore.write":
            raise PermissionError(errno.EACCES, "Permission denied")

    change = bench.change(NEW, b"x\n")
    monkeypatch.setattr(seam, "hook", refuse)
    assert bench.make(change).reason == "src/new/thing.py: cannot be written: Permission denied"
    assert bench.events()[-2:] == ["edit_intent", "edit_dropped"]
    assert bench.session.doc["pending_edit"] is None


def test_a_full_disk_stops_the_run_and_the_edit_is_made_at_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(point: str) -> None:
        if point == "restore.fsync":
            raise OSError(errno.ENOSPC, "No space left on device")

    change = bench.change(APP, b"ours\n")
    monkeypatch.setattr(seam, "hook", full)
    with pytest.raises(RepositoryError, match="No space left"):
        bench.make(change)
    monkeypatch.setattr(seam, "hook", None)
    assert [path for path in bench.repo.snapshot() if b".gitsession" in path] == []
    assert len(bench.again().settle(keep_theirs=False).saved) == 1
    assert bench.repo.at(APP).read_bytes() == b"ours\n"


POINTS = [
    ("restore.write", 1),
    ("restore.fsync", 1),
    ("restore.replace", 1),
    ("restore.sync", 1),
    ("journal.append", 2),
    ("edit.done", 1),
    ("journal.append", 3),
]


@pytest.mark.parametrize(("point", "nth"), POINTS)
def test_killed_anywhere_it_is_made_once_and_checkpointed_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, point: str, nth: int
) -> None:
    edit = bench.edit(bench.change(APP, b"ours\n"), bench.change(NEW, b"x\n"), what="both")
    kill_at(monkeypatch, point, nth)
    with pytest.raises(Killed):
        bench.edits.make(edit)
    monkeypatch.setattr(seam, "hook", None)
    bench.recorder.adopt()
    made = bench.again().settle(keep_theirs=False)
    assert made.reason is None
    assert bench.repo.at(APP).read_bytes() == b"ours\n"
    assert bench.repo.at(NEW).read_bytes() == b"x\n"
    assert [(record["description"], record["call"]) for record in bench.session.records] == [("both", "toolu_1")]
    assert bench.events().count("edit_done") == 1
    again = bench.again().settle(keep_theirs=False)
    assert (again.saved, bench.events().count("edit_done")) == ([], 1)
    assert [path for path in bench.repo.snapshot() if b".gitsession" in path] == []


def left_half_done(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit whose intent is written down and that is not made."""
    edit = bench.edit(bench.change(APP, b"ours\n"))
    kill_at(monkeypatch, "restore.write")
    with pytest.raises(Killed):
        bench.edits.make(edit)
    monkeypatch.setattr(seam, "hook", None)


def test_a_person_s_change_in_between_is_a_conflict(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    left_half_done(bench, monkeypatch)
    bench.repo.write(APP, b"theirs\n")
    with pytest.raises(EditConflict, match=r"src/app\.py was changed while an edit") as caught:
        bench.again().settle(keep_theirs=False)
    assert caught.value.exit_status == 4
    assert bench.repo.at(APP).read_bytes() == b"theirs\n"
    assert caught.value.hint is not None
    command = caught.value.hint.partition("first: ")[2].partition(" > ")[0]
    assert bench.repo.git(*command.split()[1:]) == "ours", "the agent's version can be had"
    assert bench.session.doc["pending_edit"] is not None


def test_a_conflict_is_settled_by_keeping_theirs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    left_half_done(bench, monkeypatch)
    bench.repo.write(APP, b"theirs\n")
    bench.again().settle(keep_theirs=True)
    assert bench.repo.at(APP).read_bytes() == b"theirs\n"
    assert bench.session.doc["pending_edit"] is None
    assert bench.events()[-1] == "edit_dropped"


def test_a_conflict_is_settled_by_taking_the_agent_s(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    left_half_done(bench, monkeypatch)
    bench.repo.write(APP, b"ours\n")
    assert len(bench.again().settle(keep_theirs=False).saved) == 1


def test_several_edits_of_one_step_share_a_checkpoint(bench: Bench) -> None:
    assert bench.make(bench.change(NEW, b"x\n"), what="module", more=True).saved == []
    (record,) = bench.make(bench.change(APP, b"y\n"), what="module").saved
    assert record["files_changed"] == ["src/app.py", "src/new/thing.py"]


def test_a_step_that_was_cut_gets_its_checkpoint_later(bench: Bench) -> None:
    bench.make(bench.change(NEW, b"x\n"), what="module", more=True)
    (record,) = bench.again().settle(keep_theirs=False).saved
    assert (record["description"], record["files_changed"]) == ("module", ["src/new/thing.py"])
    assert bench.again().settle(keep_theirs=False).saved == []


def test_line_ends_that_git_would_change_stay_as_they_are(bench: Bench) -> None:
    bench.repo.write(".gitattributes", "*.txt text eol=crlf\n")
    bench.recorder.take("manual", always=True)
    bench.make(bench.change(b"a.txt", b"one\r\ntwo\n"))
    assert bench.repo.at(b"a.txt").read_bytes() == b"one\r\ntwo\n"
    bench.make(bench.change(b"a.txt", b"one\r\n"))
    assert bench.repo.at(b"a.txt").read_bytes() == b"one\r\n"


@pytest.mark.parametrize("data", [b"ours\n", None])
def test_what_the_user_saves_after_the_last_look_stays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, data: bytes | None
) -> None:
    """An editor that saves between the reading of the file and its replacement or removal."""
    edit = bench.edit(bench.change(APP, data))
    read = Worktree.blob_id

    def saving(tree: Worktree, path: bytes, found: Found) -> str | None:
        oid = read(tree, path, found)
        if bench.events()[-1] == "edit_intent":
            bench.repo.at(APP).write_bytes(b"theirs, and longer\n")
        return oid

    monkeypatch.setattr(Worktree, "blob_id", saving)
    made = bench.edits.make(edit)
    assert made.reason == "src/app.py: was changed by somebody else a moment ago: read it again"
    assert bench.repo.at(APP).read_bytes() == b"theirs, and longer\n"
    assert bench.events()[-1] == "edit_dropped"
    assert sorted(os.listdir(bench.repo.at(b"src"))) == ["app.py", "util.py"]
