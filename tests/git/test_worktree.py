"""The one writer of the working tree: nothing it does leaves the root or half a file."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitsession import seam
from gitsession.errors import RepositoryError
from gitsession.git.trees import EXECUTABLE, FILE, LINK, TREE
from gitsession.git.worktree import CHANGED, OTHER, Obstructed, Worktree

NOBODY = 65534
DOT_GIT_ELSEWHERE = [
    b"git~1/hooks/post-checkout",
    b"GIT~1/config",
    b".git /config",
    b"a/.git./x",
    ".g\u200cit/config".encode(),
    b".git::$INDEX_ALLOCATION/hooks/x",
    b"a\\..\\.git\\x",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def opened(root: Path) -> Worktree:
    return Worktree(root, "t0")


@contextmanager
def opened_as_nobody(root: Path) -> Iterator[Worktree]:
    """The same for a normal user, whom permissions bind: root may do everything."""
    with opened(root) as tree:
        if os.geteuid() != 0:
            yield tree
            return
        for directory, _, files in os.walk(root):
            for name in (".", *files):
                os.chown(os.path.join(directory, name), NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield tree
        finally:
            os.seteuid(0)


def put(tree: Worktree, path: bytes, data: bytes, mode: int = FILE) -> list[tuple[bytes, str]]:
    tree.stage(path, [data], mode, tree.look(path))
    return tree.place()


def blob(data: bytes, kind: str = "sha1") -> str:
    return hashlib.new(kind, b"blob %d\0" % len(data) + data).hexdigest()


def test_a_file_is_written_with_its_directories(root: Path) -> None:
    with opened(root) as tree:
        assert put(tree, b"a/b/c.txt", b"text\n") == []
        tree.sync()
    assert (root / "a/b/c.txt").read_bytes() == b"text\n"
    assert os.listdir(root / "a/b") == ["c.txt"]


def test_looking_tells_what_stands_there(root: Path) -> None:
    (root / "file").write_bytes(b"x")
    (root / "run").write_bytes(b"x")
    (root / "run").chmod(0o755)
    (root / "dir").mkdir()
    (root / "link").symlink_to("nowhere")
    os.mkfifo(root / "fifo")
    with opened(root) as tree:
        names = (b"file", b"run", b"dir", b"link", b"fifo")
        modes = {name: found.mode for name in names if (found := tree.look(name))}
        assert modes == {b"file": FILE, b"run": EXECUTABLE, b"dir": TREE, b"link": LINK, b"fifo": OTHER}
        assert tree.look(b"gone") is None
        assert tree.look(b"gone/deeper") is None


def test_ids_are_git_s(root: Path) -> None:
    (root / "file").write_bytes(b"hello\n")
    (root / "link").symlink_to("target")
    with opened(root) as tree:
        found = tree.look(b"file")
        link = tree.look(b"link")
        assert found
        assert link
        assert tree.blob_id(b"file", found) == "ce013625030ba8dba906f756967f9e9ca394464a"
        assert tree.blob_id(b"link", link) == blob(b"target")
    with Worktree(root, "t0", object_format="sha256") as tree:
        assert tree.blob_id(b"file", found) == blob(b"hello\n", "sha256")


def test_a_file_below_a_link_is_not_looked_at(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"s")
    (root / "way").symlink_to(tmp_path / "outside")
    with opened(root) as tree, pytest.raises(Obstructed) as caught:
        tree.look(b"way/secret")
    assert caught.value.path == b"way"


def test_a_write_below_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (root / "way").symlink_to(tmp_path / "outside")
    with opened(root) as tree, pytest.raises(Obstructed):
        tree.stage(b"way/new", [b"x"], FILE, None)
    assert os.listdir(tmp_path / "outside") == []


def test_a_link_is_replaced_and_its_target_untouched(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_bytes(b"mine")
    (root / "f").symlink_to(outside)
    with opened(root) as tree:
        assert put(tree, b"f", b"ours") == []
    assert outside.read_bytes() == b"mine"
    assert not (root / "f").is_symlink()
    assert (root / "f").read_bytes() == b"ours"


def test_a_parent_swapped_for_a_link_while_we_write_leads_nowhere(root: Path, tmp_path: Path) -> None:
    """Between any two steps of one write the parent becomes a link to the outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for swap_at in ("restore.write", "restore.fsync", "restore.replace"):
        (root / "d").mkdir()

        def swap(point: str, swap_at: str = swap_at) -> None:
            if point == swap_at:
                (root / "d").rename(root / f"moved-{swap_at}")
                (root / "d").symlink_to(outside)

        with opened(root) as tree:
            seam.hook = swap
            try:
                put(tree, b"d/f", b"data")
            finally:
                seam.hook = None
        assert os.listdir(outside) == []
        (root / "d").unlink()


def test_what_changed_since_it_was_looked_at_is_left_alone(root: Path) -> None:
    (root / "f").write_bytes(b"old")
    with opened(root) as tree:
        tree.stage(b"f", [b"new"], FILE, tree.look(b"f"))
        (root / "f").write_bytes(b"theirs")
        assert tree.place() == [(b"f", "changed while the restore ran")]
    assert (root / "f").read_bytes() == b"theirs"
    assert os.listdir(root) == ["f"]


@pytest.mark.parametrize(
    ("before", "mode", "after"),
    [(0o600, FILE, 0o600), (0o640, EXECUTABLE, 0o750), (0o755, FILE, 0o644), (0o444, FILE, 0o444)],
)
def test_permissions_of_a_replaced_file_stay_but_for_execution(root: Path, before: int, mode: int, after: int) -> None:
    (root / "f").write_bytes(b"old")
    (root / "f").chmod(before)
    with opened(root) as tree:
        put(tree, b"f", b"new", mode)
    assert (root / "f").stat().st_mode & 0o777 == after


def test_a_read_only_file_is_replaced_by_its_owner(root: Path) -> None:
    (root / "f").write_bytes(b"old")
    (root / "f").chmod(0o444)
    with opened_as_nobody(root) as tree:
        assert put(tree, b"f", b"new") == []
    assert ((root / "f").read_bytes(), (root / "f").stat().st_mode & 0o777) == (b"new", 0o444)


@pytest.mark.parametrize(("umask", "mode", "bits"), [(0o022, FILE, 0o644), (0o077, EXECUTABLE, 0o700)])
def test_a_new_file_has_what_the_umask_leaves(root: Path, umask: int, mode: int, bits: int) -> None:
    os.umask(umask)
    with opened(root) as tree:
        put(tree, b"f", b"new", mode)
    assert (root / "f").stat().st_mode & 0o777 == bits


def test_only_the_mode_changes(root: Path) -> None:
    (root / "f").write_bytes(b"x")
    before = (root / "f").stat()
    with opened(root) as tree:
        tree.set_executable(b"f", True)
    after = (root / "f").stat()
    assert after.st_mode & 0o777 == 0o755
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("path", [b".git/config", b"a/../b", b"a//b", b"sub/.GIT/hooks/x", b".", b""])
def test_paths_that_no_tree_may_hold_are_refused(root: Path, path: bytes) -> None:
    with opened(root) as tree, pytest.raises(RepositoryError, match="must not be written"):
        tree.stage(path, [b"x"], FILE, None)
    assert os.listdir(root) == []


def test_a_directory_is_removed_only_when_empty(root: Path) -> None:
    (root / "full/in").mkdir(parents=True)
    (root / "full/f").write_bytes(b"x")
    with opened(root) as tree:
        tree.remove_empty(b"full")
        assert os.listdir(root / "full") == ["f"]
        assert not tree.remove_directory(b"full")
        assert tree.remove_directory(b"gone")


def test_directories_may_be_deeper_than_calls_may(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    for _ in range(sys.getrecursionlimit() + 1):
        os.mkdir("d")
        os.chdir("d")
    Path("f").write_bytes(b"x")
    deepest = b"d/" * (sys.getrecursionlimit() + 1)
    os.chdir(root)
    with opened(root) as tree:
        assert list(tree.below(b"d")) == [deepest + b"f"]
        found = tree.look(deepest + b"f")
        assert found is not None
        tree.remove(deepest + b"f", found)
        tree.remove_empty(b"d")
    assert os.listdir(root) == []


def test_the_directory_we_stand_in_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "here").mkdir()
    monkeypatch.chdir(root / "here")
    with opened(root) as tree:
        assert not tree.remove_directory(b"here")
    assert (root / "here").is_dir()


def test_a_killed_write_s_leftover_is_swept(root: Path) -> None:
    (root / ".gitsession-t0-7").write_bytes(b"half")
    (root / ".gitsession-other-1").write_bytes(b"not ours")
    with opened(root) as tree:
        tree.sweep([b"", b"gone"])
    assert os.listdir(root) == [".gitsession-other-1"]


def test_a_directory_that_may_not_be_read_does_not_keep_the_others_from_being_swept(root: Path) -> None:
    for name in ("closed", "open"):
        (root / name).mkdir()
        (root / name / ".gitsession-t0-7").write_bytes(b"half")
    (root / "closed").chmod(0)
    with opened_as_nobody(root) as tree:
        tree.sweep([b"closed", b"open"])
    (root / "closed").chmod(0o755)
    assert os.listdir(root / "closed") == [".gitsession-t0-7"]
    assert os.listdir(root / "open") == []


def test_many_files_are_placed_in_batches(root: Path) -> None:
    with opened(root) as tree:
        for number in range(600):
            tree.stage(b"d%d/f%d" % (number % 7, number), [b"%d" % number], FILE, None)
            if tree.batch_full:
                assert tree.place() == []
        assert tree.place() == []
        tree.sync()
    assert sum(len(files) for _, _, files in os.walk(root)) == 600
    assert (root / "d4/f11").read_bytes() == b"11"


def test_the_same_walk_without_descriptors(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What systems without dir_fd get: the same refusals, by lstat."""
    monkeypatch.setattr("gitsession.git.worktree._HAVE_DIR_FD", False)
    (tmp_path / "outside").mkdir()
    (root / "way").symlink_to(tmp_path / "outside")
    (root / "gone.txt").write_bytes(b"x")
    with opened(root) as tree:
        assert put(tree, b"a/b/f", b"data") == []
        assert tree.place_link(b"a/link", b"b/f", None) is None
        gone = tree.look(b"gone.txt")
        assert gone is not None
        assert tree.remove(b"gone.txt", gone) is None
        with pytest.raises(Obstructed):
            tree.stage(b"way/f", [b"x"], FILE, None)
        tree.make_directory(b"e/f")
        assert tree.remove_directory(b"e/f")
        tree.sync()
    assert (root / "a/link").read_bytes() == b"data"
    assert sorted(os.listdir(root)) == ["a", "e", "way"]
    assert os.listdir(tmp_path / "outside") == []


@pytest.mark.parametrize("replaced", [False, True])
def test_what_is_saved_until_the_last_moment_is_not_removed(
    root: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    """Written in place, or by another file renamed over it."""
    (root / "a.txt").write_bytes(b"one")

    def save(point: str) -> None:
        if point == "restore.remove":
            (root / ("other" if replaced else "a.txt")).write_bytes(b"theirs")
            if replaced:
                (root / "other").rename(root / "a.txt")

    monkeypatch.setattr(seam, "hook", save)
    with opened(root) as tree:
        found = tree.look(b"a.txt")
        assert found is not None
        assert tree.remove(b"a.txt", found) == CHANGED
        assert tree.remove(b"a.txt", found) == CHANGED, "which can be seen before it is moved"
    assert os.listdir(root) == ["a.txt"]
    assert (root / "a.txt").read_bytes() == b"theirs"


def test_a_file_made_anew_while_one_is_removed_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a.txt").write_bytes(b"one")
    monkeypatch.setattr(
        seam, "hook", lambda point: (root / "a.txt").write_bytes(b"new") if point == "restore.unlink" else None
    )
    with opened(root) as tree:
        found = tree.look(b"a.txt")
        assert found is not None
        assert tree.remove(b"a.txt", found) is None
        (root / "a.txt").unlink()
        assert tree.remove(b"a.txt", found) is None, "it is gone already"
    assert os.listdir(root) == []


@pytest.mark.parametrize("name", DOT_GIT_ELSEWHERE)
def test_names_that_mean_dot_git_elsewhere_are_not_written(root: Path, name: bytes) -> None:
    with opened(root) as tree, pytest.raises(RepositoryError, match="must not be written"):
        tree.stage(name, [b"evil"], FILE, None)
    assert os.listdir(root) == []
