"""Capture: what is on disk gets into the tree, by whichever way, and nothing of the user's moves."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from capturing import Session, paths_of
from hypothesis import HealthCheck, example, given, note, settings
from hypothesis import strategies as st
from support import GitRepo

from gitsession.errors import CaptureError
from gitsession.git import capture as capture_module
from gitsession.git import trees
from gitsession.git.capture import Captured, Skipped, capture
from gitsession.git.objects import Objects
from gitsession.git.trees import Entry


@pytest.fixture
def session(repo: GitRepo) -> Iterator[Session]:
    session = Session(repo)
    yield session
    session.close()


def test_base_is_the_working_tree(session: Session) -> None:
    session.user.write("src/app.py", "changed\n")
    session.user.write("new/file.txt", "new\n")
    session.user.at("README.md").unlink()
    captured = session.scan()
    assert captured.method == "scan"
    assert captured.changes == []
    assert captured.differs
    assert session.files(captured) == {
        b"new/file.txt": (trees.FILE, b"new\n"),
        b"src/app.py": (trees.FILE, b"changed\n"),
        b"src/util.py": (trees.FILE, b"def add(a, b):\n    return a + b\n"),
    }


def test_staged_content_is_not_mistaken_for_the_files(session: Session) -> None:
    """What is staged is neither HEAD's nor the disk's; the checkpoint has the disk's."""
    session.user.write("README.md", "staged\n")
    session.user.git("add", "README.md")
    session.user.write("README.md", "on disk\n")
    session.user.write("staged.txt", "staged\n")
    session.user.git("add", "staged.txt")
    session.user.at("staged.txt").unlink()
    files = session.files(session.scan())
    assert files[b"README.md"] == (trees.FILE, b"on disk\n")
    assert b"staged.txt" not in files


def test_ignored_files_are_left_out_without_a_word(session: Session) -> None:
    session.user.write(".gitignore", "*.log\nbuild/\n")
    session.user.write("x.log", "")
    session.user.write("build/out", "")
    captured = session.scan()
    assert captured.skipped == []
    assert {b"x.log", b"build/out"}.isdisjoint(session.files(captured))


def test_what_a_killed_restore_left_is_not_the_users(session: Session) -> None:
    """Only files of exactly these names, and of these only what no checkpoint has."""
    session.user.write(".gitsession-0123abcd-1", "tracked\n")
    session.user.commit()
    left = (".gitsession-0123abcd-7", "src/.gitsession-0123abcd-3-12", "new/.gitsession-0123456789ab-1")
    theirs = (".gitsession-notes", ".gitsession-0123abcd-7.txt", "x.gitsession-0123abcd-7")
    for path in (*left, *theirs):
        session.user.write(path, "half")
    captured = session.scan()
    assert {path.decode() for path in session.entries(captured)} == {
        "README.md", "src/app.py", "src/util.py", ".gitsession-0123abcd-1", *theirs
    }  # fmt: skip
    assert captured.skipped == []
    session.user.at(".gitsession-0123abcd-1").unlink()
    assert paths_of(session.scan()) == [b".gitsession-0123abcd-1"]


def test_nothing_changed_is_no_difference(session: Session) -> None:
    session.user.write("untracked", "x")
    first = session.scan()
    again = session.scan()
    assert not again.differs
    assert again.changes == []
    assert again.tree == first.tree


def test_touching_a_file_is_no_difference(session: Session) -> None:
    session.scan()
    os.utime(session.user.at("README.md"), (1, 1))
    assert not session.scan().differs


def test_changes_are_against_the_newest_checkpoint(session: Session) -> None:
    session.user.write("gone.txt", "x")
    session.scan()
    session.user.write("README.md", "2\n")
    session.user.write("added.txt", "3\n")
    session.user.at("gone.txt").unlink()
    captured = session.scan()
    assert captured.differs
    assert paths_of(captured) == [b"README.md", b"added.txt", b"gone.txt"]
    assert captured.changes[1].old is None
    assert captured.changes[2].new is None


@pytest.mark.parametrize("second", ["scan", "known"])
@pytest.mark.parametrize("third", ["scan", "known"])
def test_a_file_put_back_to_its_old_bytes_is_seen(session: Session, second: str, third: str) -> None:
    """Git's index says it is unchanged, for it is what the index holds; the newest checkpoint says otherwise."""
    first = session.scan()
    original = session.user.at("README.md").read_bytes()
    facts = session.user.at("README.md").stat()
    takes: dict[str, Callable[[], Captured]] = {"scan": session.scan, "known": lambda: session.known(b"README.md")}
    session.user.write("README.md", "other\n")
    takes[second]()
    session.user.write("README.md", original)
    os.utime(session.user.at("README.md"), ns=(facts.st_atime_ns, facts.st_mtime_ns))
    back = takes[third]()
    assert paths_of(back) == [b"README.md"]
    assert back.tree == first.tree


def test_an_edit_of_the_same_size_in_the_same_instant_is_seen(session: Session) -> None:
    for number in range(20):
        session.user.write("README.md", f"{number:02}")
        session.user.write("untracked", f"{number:02}")
        files = session.files(session.scan())
        assert files[b"README.md"][1] == files[b"untracked"][1] == b"%02d" % number


def test_an_edit_in_the_instant_of_git_add_is_seen(session: Session) -> None:
    """The copy of the user's index keeps the time by which git knows that its stat data is too young."""
    for number in range(10):
        session.user.write("README.md", f"{number:02}")
        session.user.git("add", "README.md")
        session.user.write("README.md", f"{number + 50:02}")
        assert session.files(session.scan())[b"README.md"][1] == b"%02d" % (number + 50)


def test_a_captured_file_is_followed_when_it_is_ignored_later(session: Session) -> None:
    session.user.write("notes.log", "1")
    session.scan()
    session.user.write(".gitignore", "*.log\n")
    session.user.write("notes.log", "2")
    session.user.write("other.log", "2")
    captured = session.scan()
    assert paths_of(captured) == [b".gitignore", b"notes.log"]
    session.user.at("notes.log").unlink()
    assert paths_of(session.scan()) == [b"notes.log"]


def test_executable_bit_and_links(session: Session) -> None:
    session.scan()
    session.user.at("README.md").chmod(0o755)
    session.user.at("link").symlink_to("nowhere")
    session.user.at("loop").symlink_to("loop")
    session.user.at("to-dir").symlink_to("src")
    captured = session.scan()
    files = session.files(captured)
    assert files[b"README.md"][0] == trees.EXECUTABLE
    assert files[b"link"] == (trees.LINK, b"nowhere")
    assert files[b"loop"] == (trees.LINK, b"loop")
    assert files[b"to-dir"] == (trees.LINK, b"src")
    assert captured.skipped == []


def test_executable_bit_where_the_file_system_has_none(session: Session) -> None:
    """With core.fileMode off git believes the index; new files are plain."""
    session.user.at("README.md").chmod(0o755)
    session.user.commit("executable")
    session.user.git("config", "core.fileMode", "false")
    session.scan()
    session.user.write("README.md", "2\n", mode=0o644)
    session.user.write("new", "x", mode=0o755)
    files = session.files(session.scan())
    assert files[b"README.md"] == (trees.EXECUTABLE, b"2\n")
    assert files[b"new"] == (trees.FILE, b"x")


def test_links_where_the_file_system_has_none(session: Session) -> None:
    session.user.at("link").symlink_to("old")
    session.user.commit("link")
    session.user.git("config", "core.symlinks", "false")
    session.user.at("link").unlink()
    session.user.write("link", "new")
    assert session.files(session.scan())[b"link"] == (trees.LINK, b"new")


def test_nothing_behind_a_link_belongs_to_the_tree(session: Session, tmp_path: Path) -> None:
    session.scan()
    outside = tmp_path / "outside"
    shutil.copytree(session.user.at("src"), outside)
    shutil.rmtree(session.user.at("src"))
    session.user.at("src").symlink_to(outside)
    for captured in (session.known(b"src", b"src/app.py", b"src/util.py", keep=False), session.scan()):
        assert session.files(captured)[b"src"] == (trees.LINK, os.fsencode(outside))
        assert paths_of(captured) == [b"src", b"src/app.py", b"src/util.py"]


def test_known_paths_take_only_these(session: Session) -> None:
    session.scan()
    session.user.write("README.md", "2\n")
    session.user.write("src/app.py", "2\n")
    session.user.write("a/b/new", "2\n")
    captured = session.known(b"README.md", b"a/b/new")
    assert captured.method == "paths"
    assert paths_of(captured) == [b"README.md", b"a/b/new"]
    assert paths_of(session.scan()) == [b"src/app.py"]


@pytest.mark.parametrize(
    "path",
    [b"../outside", b"/etc/passwd", b".git/config", b"a/.GIT/x", b"a//b", b"", b".git./x", b"a/git~1", b"x\\.git"],
)
def test_paths_that_git_refuses_are_left_out(session: Session, path: bytes) -> None:
    session.scan()
    captured = session.known(path, b"README.md")
    assert captured.skipped == [Skipped(path, "git does not store a file of this name")]
    assert not captured.differs


def test_names_that_mean_dot_git_elsewhere_are_left_out(session: Session) -> None:
    session.scan()
    for name in (".git.", "GIT~1", ".g\u200cit", "fine.git"):
        session.user.write(name, "x")
    captured = session.scan()
    assert paths_of(captured) == [b"fine.git"]
    assert [left.path for left in captured.skipped] == sorted([b".git.", b"GIT~1", ".g\u200cit".encode()])
    session.user.git("fsck", "--strict")


@pytest.mark.parametrize("swap", ["file to dir", "dir to file", "file to link", "link to dir", "dir to link"])
@pytest.mark.parametrize("way", ["scan", "known"])
def test_swaps(session: Session, swap: str, way: str) -> None:
    old, new = swap.split(" to ")
    make: dict[str, Callable[[], object]] = {
        "file": lambda: session.user.write("x", "file"),
        "dir": lambda: (session.user.write("x/one", "1"), session.user.write("x/two", "2")),
        "link": lambda: session.user.at("x").symlink_to("src"),
    }
    make[old]()
    session.user.commit("old")
    session.scan()
    if old == "dir":
        shutil.rmtree(session.user.at("x"))
    else:
        session.user.at("x").unlink()
    make[new]()
    captured = session.scan() if way == "scan" else session.known(b"x", b"x/one", b"x/two")
    expected = {
        "file": {b"x": (trees.FILE, b"file")},
        "dir": {b"x/one": (trees.FILE, b"1"), b"x/two": (trees.FILE, b"2")},
        "link": {b"x": (trees.LINK, b"src")},
    }
    files = session.files(captured)
    assert {path: file for path, file in files.items() if path.startswith(b"x")} == expected[new]
    assert captured.skipped == []


def test_empty_directories(session: Session) -> None:
    session.user.at("a/b/c").mkdir(parents=True)
    session.user.at("src/empty").mkdir()
    session.user.write(".gitignore", "ignored/\n")
    session.user.at("ignored/x").mkdir(parents=True)
    session.user.at("half/ignored").mkdir(parents=True)
    session.user.at("half/empty").mkdir()
    captured = session.scan()
    assert captured.empty_dirs == [b"a/b/c", b"half/empty", b"src/empty"]
    session.user.write("a/b/c/file", "x")
    for path in ("src/app.py", "src/util.py"):
        session.user.at(path).unlink()
    session.user.at("src/empty").rmdir()
    changed = (b"a/b/c/file", b"src/app.py", b"src/util.py")
    by_paths = session.known(*changed, keep=False)
    by_scan = session.scan()
    assert by_scan.empty_dirs == by_paths.empty_dirs == [b"half/empty", b"src"]
    assert by_scan.differs
    session.user.at("src").rmdir()
    only_directories = session.scan()
    assert only_directories.empty_dirs == [b"half/empty"]
    assert only_directories.differs
    assert only_directories.changes == []


def test_size_limit_is_for_untracked_files(session: Session) -> None:
    session.user.write("big", "x" * 5000)
    session.user.write("README.md", "y" * 5000)
    captured = session.scan(max_file_size=4096)
    assert captured.skipped == [Skipped(b"big", "too large (5 KB, capture.max_file_size is 4 KB)")]
    assert session.files(captured)[b"README.md"][1] == b"y" * 5000
    assert not session.scan(max_file_size=4096).differs
    session.user.git("add", "big")
    assert paths_of(session.scan(max_file_size=4096)) == [b"big"]
    session.user.git("rm", "--quiet", "--cached", "big")
    session.user.write("big", "z" * 6000)
    assert paths_of(session.scan(max_file_size=4096)) == [b"big"], "captured once, it is followed"


def test_a_file_that_keeps_changing_is_left_out_with_its_former_version(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = session.scan()
    session.user.write("README.md", "0")
    session.user.write("src/app.py", "calm")
    add_file = Objects.add_file

    def write_meanwhile(self: Objects, fd: int, size: int, held: str | None = None) -> str:
        oid = add_file(self, fd, size, held)
        if os.path.samestat(os.fstat(fd), session.user.at("README.md").stat()):
            session.user.write("README.md", "x" * (size + 1))
        return oid

    monkeypatch.setattr(Objects, "add_file", write_meanwhile)
    captured = session.scan()
    assert captured.skipped == [Skipped(b"README.md", "changed while read")]
    assert paths_of(captured) == [b"src/app.py"]
    assert session.files(captured)[b"README.md"] == session.files(first)[b"README.md"]
    monkeypatch.undo()
    assert paths_of(session.scan()) == [b"README.md"]


def test_a_file_that_changed_once_while_it_was_read_is_read_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.scan()
    session.user.write("README.md", "before")
    add_file = Objects.add_file
    pending = [b"after!"]

    def write_meanwhile(self: Objects, fd: int, size: int, held: str | None = None) -> str:
        oid = add_file(self, fd, size, held)
        if pending:
            session.user.write("README.md", pending.pop())
        return oid

    monkeypatch.setattr(Objects, "add_file", write_meanwhile)
    captured = session.scan()
    assert captured.skipped == []
    assert session.files(captured)[b"README.md"][1] == b"after!"


def test_a_file_that_becomes_a_directory_while_it_is_read(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.scan()
    session.user.write("x", "file")
    add_file = Objects.add_file

    def swap(self: Objects, fd: int, size: int, held: str | None = None) -> str:
        oid = add_file(self, fd, size, held)
        if session.user.at("x").is_file():
            session.user.at("x").unlink()
            session.user.write("x/y", "below")
        return oid

    monkeypatch.setattr(Objects, "add_file", swap)
    captured = session.known(b"x", b"x/y")
    assert paths_of(captured) == [b"x/y"]
    assert captured.skipped == []


def test_a_failure_of_the_whole_is_a_capture_error(session: Session) -> None:
    (session.repo.git_dir / "index").write_bytes(b"this is no index")
    with pytest.raises(CaptureError, match="could not be captured"):
        session.scan()
    with pytest.raises(CaptureError, match="missing"):
        capture(session.repo, session.objects, "1" * 40, paths=[b"README.md"])


def test_a_large_file_is_streamed(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_module, "MAX_FILE_SIZE", 1)
    content = os.urandom(9 * 1024 * 1024)
    session.scan()
    session.user.write("README.md", content)
    captured = session.scan()
    entry = trees.lookup(session.objects, captured.tree, b"README.md")
    assert entry == Entry(trees.FILE, session.user.git("hash-object", "README.md"))
    assert not session.scan().differs


# Both ways, and git itself

NAMES = [b"a", b"a/b", b"a/b/c", b"a.b", b"a0", b"d/e", b"d/ig.x", b"ig.y", b"\xff\n", b'q"\\\t', b"d/e e/\xc3\xa9"]
CONTENTS = [b"", b"one\n", b"two\n", b"thr\r\n", b"\0bin\xff", b"longer than the others\n" * 30]

names = st.sampled_from(NAMES)
operations = st.one_of(
    st.tuples(st.just("write"), names, st.sampled_from(CONTENTS)),
    st.tuples(st.just("write"), names, st.sampled_from(CONTENTS)),
    st.tuples(st.just("delete"), names, st.just(b"")),
    st.tuples(st.just("chmod"), names, st.just(b"")),
    st.tuples(st.just("link"), names, st.sampled_from([b"a", b"nowhere", b"/", b"d"])),
    st.tuples(st.just("mkdir"), names, st.just(b"")),
    st.tuples(st.just("touch"), names, st.just(b"")),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("ignore"), st.just(b""), st.sampled_from([b"ig.*\n", b"", b"d/\n!d/e\n"])),
    st.tuples(st.just("git"), st.just(b""), st.sampled_from([b"add -A", b"commit -qam x", b"reset -q", b"gc -q"])),
)


def clear(place: Path) -> None:
    """Take away what stands at a place, or in its way."""
    for parent in reversed(place.parents):
        if parent.is_symlink() or parent.is_file():
            parent.unlink()
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def perform(repo: GitRepo, operation: tuple[str, bytes, bytes]) -> None:  # noqa: C901 - one branch a kind
    kind, path, argument = operation
    place = repo.at(path)
    plain = place.is_file() and not place.is_symlink()
    if kind == "write":
        if not plain:
            clear(place)
        repo.write(path, argument)
    elif kind == "delete":
        clear(place)
    elif kind == "chmod" and plain:
        place.chmod(place.stat().st_mode ^ 0o111)
    elif kind == "link":
        clear(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.fsdecode(argument))
    elif kind == "mkdir":
        clear(place)
        place.mkdir(parents=True)
    elif kind == "touch" and plain:
        os.utime(place, (1, 1))
    elif kind == "rename" and plain and path != argument and not argument.startswith(path + b"/"):
        target = repo.at(argument)
        clear(target)
        if place.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            place.rename(target)
    elif kind == "ignore":
        repo.write(".gitignore", argument)
    elif kind == "git":
        repo.git(*os.fsdecode(argument).split(), ok=(0, 1))


class Oracle:
    """What git says with an index of its own: it, too, follows what it once took, and what the user's index has."""

    def __init__(self, repo: GitRepo) -> None:
        self._repo = repo
        self._env = {"GIT_INDEX_FILE": str(repo.git_dir / "oracle")}
        shutil.copy2(repo.git_dir / "index", repo.git_dir / "oracle")

    def tree(self) -> str:
        self._repo.git("add", "--all", env=self._env)
        # Also if an ignore rule came after the user's own "git add".
        tracked = [name for name in self._repo.git_bytes("ls-files", "-z").split(b"\0") if name]
        there = [name for name in tracked if self._stands(name)]
        self._repo.git("add", "--force", "--", *map(os.fsdecode, there), env=self._env)
        return self._repo.git("write-tree", env=self._env)

    def _stands(self, name: bytes) -> bool:
        """Whether there is a file or a link, and no link on the way to it."""
        place = self._repo.at(name)
        on_the_way = [parent for parent in place.parents if parent.is_relative_to(self._repo.path)]
        is_file = place.is_symlink() or place.is_file()
        return is_file and not any(parent.is_symlink() for parent in on_the_way)


def empty_directories(root: Path) -> list[bytes]:
    found = [
        os.fsencode(os.path.relpath(directory, root))
        for directory, directories, files in os.walk(root)
        if not directories and not files and ".git" not in Path(directory).parts
    ]
    return sorted(found)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(st.lists(operations, min_size=1, max_size=5), min_size=1, max_size=5))
@example(steps=[[("write", b"a", b"")], [("write", b"a", b"")], [("mkdir", b"a", b"")]])
@example(steps=[[("write", "d/e e/é".encode(), b"one\n"), ("git", b"", b"add -A"), ("ignore", b"", b"d/\n!d/e\n")]])
def test_both_ways_and_git_agree(steps: list[list[tuple[str, bytes, bytes]]]) -> None:
    """Known paths, given what really changed, and a scan make the same tree, which is git's own."""
    with tempfile.TemporaryDirectory() as place:
        user = GitRepo.init(Path(place) / "repo")
        user.write("a/b", "one\n")
        user.write("d/e", "two\n")
        user.commit("Start")
        oracle = Oracle(user)
        session = Session(user)
        try:
            before = oracle.tree()
            assert session.checkpoint().tree == before
            for step in steps:
                for operation in step:
                    perform(user, operation)
                expected = oracle.tree()
                state = user.user_state()
                changed = user.git_bytes("diff-tree", "-r", "-z", "--name-only", before, expected).split(b"\0")[:-1]
                note(f"{changed}")
                by_paths = session.known(*changed, keep=False)
                by_scan = session.checkpoint()
                assert (by_paths.tree, by_scan.tree) == (expected, expected)
                assert paths_of(by_paths) == paths_of(by_scan) == changed
                assert by_scan.skipped == by_paths.skipped == []
                if not any(operation[0] == "ignore" for each in steps for operation in each):
                    assert by_scan.empty_dirs == empty_directories(user.path)
                assert user.user_state() == state
                before = expected
            user.git("fsck", "--strict")
        finally:
            session.close()
