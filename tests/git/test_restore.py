"""A plan carried out on a real working tree, from one recorded state to another."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support import GitRepo

from gitsession import seam
from gitsession.errors import RepositoryError
from gitsession.git.contents import Contents
from gitsession.git.objects import Objects
from gitsession.git.plan import Plan, State, make_plan
from gitsession.git.repo import Repo
from gitsession.git.restore import Applied, Obstacles, apply, directories, missing, obstacles
from gitsession.git.worktree import Worktree

Change = Callable[[GitRepo], None]


def recorded(user: GitRepo) -> State:
    """The working tree as git itself would record it, empty directories beside it."""
    index = user.git_dir / "index.of-the-test"
    user.git("add", "--all", env={"GIT_INDEX_FILE": str(index)})
    tree = user.git("write-tree", env={"GIT_INDEX_FILE": str(index)})
    index.unlink()
    empty = {
        os.fsencode(os.path.relpath(top, user.path))
        for top, below, files in os.walk(user.path)
        if not below and not files and ".git" not in Path(top).parts
    }
    return State(tree, empty_dirs=frozenset(empty))


class Bench:
    """A repository and what works on it."""

    def __init__(self, user: GitRepo) -> None:
        self.user = user
        self.repo = Repo.discover(user.path)
        self.objects = Objects(self.repo)
        self.contents = Contents(self.repo, self.objects)

    def plan(self, now: State, target: State) -> Plan:
        return make_plan(self.objects, known=now, now=now, target=target)

    def worktree(self) -> Worktree:
        return Worktree(self.repo.worktree, "t0", object_format=self.repo.object_format)

    def go(self, now: State, target: State) -> Applied:
        plan = self.plan(now, target)
        with self.worktree() as worktree:
            assert obstacles(plan, worktree) == Obstacles()
            assert missing(plan, target, self.contents) == []
            return apply(plan, worktree, self.contents)


@pytest.fixture
def bench(repo: GitRepo) -> Bench:
    return Bench(repo)


def edit(user: GitRepo) -> None:
    user.write("README.md", "changed\n")
    user.write("deep/er/new.txt", "new\n")
    user.at("src/util.py").unlink()


def binary(user: GitRepo) -> None:
    user.write("README.md", bytes(range(256)) * 40)
    user.write("zeros", b"\0" * 5000)


def modes(user: GitRepo) -> None:
    user.at("README.md").chmod(0o755)
    user.write("run.sh", "#!/bin/sh\n", 0o755)


def links(user: GitRepo) -> None:
    user.at("to-file").symlink_to("README.md")
    user.at("to-dir").symlink_to("src")
    user.at("to-nothing").symlink_to("nowhere at all")
    user.at("loop").symlink_to("loop")


def file_becomes_directory(user: GitRepo) -> None:
    user.at("README.md").unlink()
    user.write("README.md/inside.txt", "in\n")


def directory_becomes_file(user: GitRepo) -> None:
    shutil.rmtree(user.at("src"))
    user.write("src", "now a file\n")


def directory_becomes_link(user: GitRepo) -> None:
    shutil.rmtree(user.at("src"))
    user.at("src").symlink_to("README.md")


def file_becomes_link(user: GitRepo) -> None:
    user.at("README.md").unlink()
    user.at("README.md").symlink_to("src/app.py")


def names(user: GitRepo) -> None:
    for name in (b"new\nline", b"tab\t", b'quo"te', b"back\\slash", b"-dash", b"dot.", b":(glob)x", b"\xff\xfe", b"*"):
        user.write(name, name)
    for name in ("e\u0301", "\u00e9", "中文.txt", "🙂"):
        user.write(name, name)


def empty_directories(user: GitRepo) -> None:
    user.at("hollow/deep").mkdir(parents=True)
    shutil.rmtree(user.at("src"))
    user.at("src").mkdir()


def moved(user: GitRepo) -> None:
    user.at("elsewhere").mkdir()
    user.at("src/app.py").rename(user.at("elsewhere/main.py"))


CHANGES = [
    edit, binary, modes, links, file_becomes_directory, directory_becomes_file, directory_becomes_link,
    file_becomes_link, names, empty_directories, moved,
]  # fmt: skip


def test_ctrl_c_leaves_word_of_what_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(point: str) -> None:
        if point == "restore.replace":
            raise KeyboardInterrupt

    before = recorded(bench.user)
    edit(bench.user)
    monkeypatch.setattr(seam, "hook", interrupt)
    with pytest.raises(KeyboardInterrupt) as stopped:
        bench.go(recorded(bench.user), before)
    (said,) = stopped.value.__notes__
    assert said.startswith("the restore stopped half-way; the session's next restore, undo or checkpoint finishes it")


@pytest.mark.parametrize("change", CHANGES)
def test_there_and_back(bench: Bench, change: Change) -> None:
    a, shot_a = recorded(bench.user), bench.user.snapshot()
    change(bench.user)
    b, shot_b = recorded(bench.user), bench.user.snapshot()
    users = bench.user.user_state()
    assert not bench.go(b, a).left
    assert bench.user.snapshot() == shot_a
    assert not bench.go(a, b).left
    assert bench.user.snapshot() == shot_b
    assert bench.user.user_state() == users


@pytest.mark.parametrize("first", CHANGES)
def test_from_one_change_to_another(bench: Bench, first: Change) -> None:
    """Between two states neither of which is where the repository began."""
    first(bench.user)
    a, shot = recorded(bench.user), bench.user.snapshot()
    for second in (file_becomes_directory, directory_becomes_file):
        if bench.user.at("README.md").is_file() and bench.user.at("src").is_dir():
            second(bench.user)
            b = recorded(bench.user)
            assert not bench.go(b, a).left
            assert bench.user.snapshot() == shot


def test_only_what_differs_is_written(repo: GitRepo) -> None:
    for number in range(300):
        repo.write(f"d{number % 10}/f{number}", f"{number}\n")
    bench = Bench(repo)
    a = recorded(repo)
    os.utime(repo.write("d3/f13", "other\n"), (1, 1))
    b = recorded(repo)
    before = {path: path.stat() for path in repo.path.rglob("*") if path.is_file() and ".git" not in path.parts}
    assert bench.go(b, a).done == [b"d3/f13"]
    touched = [path for path, was in before.items() if path.stat() != was]
    assert [path for path in touched if path.stat().st_mtime_ns != before[path].st_mtime_ns] == [repo.at("d3/f13")]


def test_a_linked_directory_where_the_state_has_a_directory_with_files(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "app.py").write_text("theirs\n")
    a, shot = recorded(bench.user), bench.user.snapshot()
    shutil.rmtree(bench.user.at("src"))
    bench.user.at("src").symlink_to(outside)
    assert not bench.go(recorded(bench.user), a).left
    assert bench.user.snapshot() == shot
    assert os.listdir(outside) == ["app.py"]
    assert (outside / "app.py").read_text() == "theirs\n"


@pytest.mark.parametrize("point", ["restore.write", "restore.fsync", "restore.replace", "restore.remove"])
def test_a_directory_swapped_for_a_link_between_plan_and_write(bench: Bench, tmp_path: Path, point: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "extra.py").write_text("theirs\n")
    a = recorded(bench.user)
    bench.user.write("src/app.py", "changed\n")
    bench.user.write("src/extra.py", "theirs\n")
    plan = bench.plan(recorded(bench.user), a)
    swapped = False

    def swap(reached: str) -> None:
        nonlocal swapped
        if reached == point and not swapped:
            swapped = True
            bench.user.at("src").rename(bench.user.at("src-moved"))
            bench.user.at("src").symlink_to(outside)

    assert missing(plan, a, bench.contents) == []
    with bench.worktree() as worktree:
        seam.hook = swap
        try:
            apply(plan, worktree, bench.contents)
        finally:
            seam.hook = None
    assert swapped
    assert sorted(os.listdir(outside)) == ["extra.py"]
    assert (outside / "extra.py").read_text() == "theirs\n"


def test_a_file_that_changes_after_the_scan_is_left_alone(bench: Bench) -> None:
    a = recorded(bench.user)
    bench.user.write("README.md", "agent\n")
    bench.user.write("new.txt", "agent\n")
    b = recorded(bench.user)
    bench.user.write("README.md", "mine\n")
    bench.user.write("new.txt", "mine\n")
    applied = bench.go(b, a)
    assert applied.left == [
        (b"README.md", "changed while the restore ran"),
        (b"new.txt", "changed while the restore ran"),
    ]
    assert bench.user.at("README.md").read_text() == "mine\n"
    assert bench.user.at("new.txt").read_text() == "mine\n"


def test_ignored_files_in_a_directory_that_the_state_has_as_a_file(bench: Bench) -> None:
    a = recorded(bench.user)
    file_becomes_directory(bench.user)
    bench.user.write(".git/info/exclude", "*.log\n")
    bench.user.write("README.md/out.log", "precious\n")
    plan = bench.plan(recorded(bench.user), a)
    with bench.worktree() as worktree:
        assert obstacles(plan, worktree) == Obstacles(
            blocked=[(b"README.md/out.log", "is in the way of the file README.md")]
        )


def test_an_ignored_file_at_a_place_that_is_to_be_written(bench: Bench) -> None:
    a = recorded(bench.user)
    bench.user.at("README.md").unlink()
    b = recorded(bench.user)
    bench.user.write(".git/info/exclude", "README.md\n")
    bench.user.write("README.md", "precious\n")
    with bench.worktree() as worktree:
        assert obstacles(bench.plan(b, a), worktree) == Obstacles(unrecorded=[b"README.md"])


def test_empty_directories_at_a_place_that_is_to_be_written(bench: Bench) -> None:
    a = recorded(bench.user)
    bench.user.at("README.md").unlink()
    b = recorded(bench.user)
    bench.user.at("README.md/x/y").mkdir(parents=True)
    bench.user.at("README.md/z").mkdir()
    with bench.worktree() as worktree:
        assert obstacles(bench.plan(b, a), worktree) == Obstacles(hollow=[b"README.md/x/y", b"README.md/z"])


def test_a_missing_object_is_told_before_anything_is_touched(bench: Bench) -> None:
    a = recorded(bench.user)
    edit(bench.user)
    b = recorded(bench.user)
    oid = bench.user.tree(a.tree)[b"README.md"][1]
    (bench.user.common_dir / "objects" / oid[:2] / oid[2:]).unlink()
    assert missing(bench.plan(b, a), a, bench.contents) == [b"README.md"]


def test_a_large_file_is_streamed(bench: Bench) -> None:
    data = os.urandom(9 * 1024 * 1024)
    bench.user.write("large", data)
    a = recorded(bench.user)
    bench.user.write("large", "small")
    assert not bench.go(recorded(bench.user), a).left
    assert bench.user.at("large").read_bytes() == data


def test_a_full_disk_stops_the_restore_and_it_can_be_done_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    a, shot = recorded(bench.user), bench.user.snapshot()
    edit(bench.user)
    binary(bench.user)
    b = recorded(bench.user)
    plan = bench.plan(b, a)
    assert missing(plan, a, bench.contents) == []

    def full(point: str) -> None:
        if point == "restore.write":
            raise OSError(28, "No space left on device")

    with bench.worktree() as worktree:
        monkeypatch.setattr(seam, "hook", full)
        with pytest.raises(RepositoryError, match="No space left on device"):
            apply(plan, worktree, bench.contents)
        monkeypatch.setattr(seam, "hook", None)
    with bench.worktree() as worktree:
        assert not apply(plan, worktree, bench.contents).left
    assert bench.user.snapshot() == shot


def test_a_file_that_cannot_be_written_in_full_is_not_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not this disk's trouble but this file's: the others are restored, and it is as it was, not half."""
    bench.user.write("large", b"x" * 300_000)
    a = recorded(bench.user)
    bench.user.write("large", "small")
    bench.user.write("README.md", "changed\n")
    b = recorded(bench.user)
    write = os.write

    def too_large(fd: int, data: bytes) -> int:
        if len(data) > 100_000:
            write(fd, bytes(data[:1000]))
            raise OSError(27, "File too large")
        return write(fd, data)

    monkeypatch.setattr(os, "write", too_large)
    assert bench.go(b, a).left == [(b"large", "File too large")]
    assert bench.user.at("large").read_text() == "small"
    assert bench.user.at("README.md").read_text() == "# sample\n"
    assert not list(bench.user.path.glob(".gitsession-*"))


def test_a_damaged_object_costs_only_its_file(bench: Bench) -> None:
    bench.user.write("README.md", os.urandom(5000))
    a = recorded(bench.user)
    edit(bench.user)
    b = recorded(bench.user)
    oid = bench.user.tree(a.tree)[b"README.md"][1]
    place = bench.user.common_dir / "objects" / oid[:2] / oid[2:]
    data = place.read_bytes()
    place.chmod(0o644)
    place.write_bytes(data[:2000] + bytes(100) + data[2100:])
    (left,) = bench.go(b, a).left
    assert left[0] == b"README.md"
    assert "missing or damaged" in left[1]
    assert bench.user.at("README.md").read_text() == "changed\n"
    assert bench.user.at("src/util.py").exists()


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_many_files_are_written_side_by_side(tmp_path: Path, object_format: str) -> None:
    user = GitRepo.init(tmp_path / "r", object_format=object_format)
    bench = Bench(user)
    for number in range(1200):
        user.write(f"d{number % 40}/f{number}", f"{number}\n")
    a, shot = recorded(user), user.snapshot()
    for number in range(1200):
        user.write(f"d{number % 40}/f{number}", f"changed {number}\n")
    b = recorded(user)
    user.write("d7/f7", "mine\n")
    seen: list[int] = []
    plan = bench.plan(b, a)
    assert missing(plan, a, bench.contents) == []
    with bench.worktree() as worktree:
        applied = apply(plan, worktree, bench.contents, lambda done, total: seen.append(done))
    assert applied.left == [(b"d7/f7", "changed while the restore ran")]
    assert sorted(seen) == list(range(1, 1201))
    bench.objects.close()
    user.write("d7/f7", "7\n")
    assert user.snapshot() == shot


class Killed(BaseException):
    """Stands for the end of the process."""


def test_killed_at_any_point_and_done_again(bench: Bench) -> None:
    a, shot_a = recorded(bench.user), bench.user.snapshot()
    for change in (edit, modes, links, names, directory_becomes_file):
        change(bench.user)
    b, shot_b = recorded(bench.user), bench.user.snapshot()
    plan, back = bench.plan(b, a), bench.plan(a, b)
    assert missing(plan, a, bench.contents) == []
    assert missing(back, b, bench.contents) == []
    kill_at, finished = 0, False
    while not finished:
        kill_at += 1
        reached = 0

        def kill(_point: str, at: int = kill_at) -> None:
            nonlocal reached
            reached += 1
            if reached == at:
                raise Killed

        with bench.worktree() as worktree:
            seam.hook = kill
            try:
                apply(plan, worktree, bench.contents)
                finished = True
            except Killed:
                pass
            finally:
                seam.hook = None
        with bench.worktree() as worktree:
            worktree.sweep(directories(plan))
            assert not apply(plan, worktree, bench.contents).left
        assert bench.user.snapshot() == shot_a
        with bench.worktree() as worktree:
            assert not apply(back, worktree, bench.contents).left
        assert bench.user.snapshot() == shot_b
    assert kill_at > 20


def test_a_file_saved_while_it_is_removed_is_left_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    target = recorded(bench.user)
    bench.user.write("extra.txt", "one\n")
    now = recorded(bench.user)
    place = bench.user.at("extra.txt")
    monkeypatch.setattr(seam, "hook", lambda point: place.write_text("theirs\n") if point == "restore.remove" else None)
    assert bench.go(now, target).left == [(b"extra.txt", "changed while the restore ran")]
    assert place.read_text() == "theirs\n"
