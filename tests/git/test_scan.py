"""The scan's private indexes, and what it finds that git does not tell."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from capturing import Session, paths_of, skipped
from support import GitRepo

from gitsession.errors import CaptureError, GitFailed
from gitsession.git import oddities, trees
from gitsession.git.filters import Filters
from gitsession.git.indexes import Index, Indexes
from gitsession.git.objects import Objects
from gitsession.git.program import Argument
from gitsession.git.repo import Repo
from gitsession.git.scan import Scanner


@pytest.fixture
def session(repo: GitRepo) -> Iterator[Session]:
    session = Session(repo)
    yield session
    session.close()


def indexes(session: Session) -> list[Index]:
    """The private indexes there are, each checked to hold the tree it is named by."""
    found = []
    for path in session.repo.private_dir.glob("index.*"):
        _, tree, signature = path.name.split(".", 2)
        assert session.user.git("write-tree", env={"GIT_INDEX_FILE": str(path)}) == tree
        found.append(Index(path, tree, signature))
    return found


def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the files that are read from now on."""
    sizes: list[int] = []
    add_file = Objects.add_file

    def note(self: Objects, fd: int, size: int, held: str | None = None) -> str:
        sizes.append(size)
        return add_file(self, fd, size, held)

    monkeypatch.setattr(Objects, "add_file", note)
    return sizes


def looks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The directories that are looked into from now on."""
    looked: list[bytes] = []
    scandir = os.scandir

    def note(path: str | bytes) -> object:
        if isinstance(path, bytes):
            looked.append(path)
        return scandir(path)

    monkeypatch.setattr(oddities.os, "scandir", note)
    return looked


def test_unchanged_files_are_not_read(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = reads(monkeypatch)
    session.user.write("src/app.py", "changed\n")
    session.scan()
    assert sizes == [len("changed\n")]


def test_the_private_index_outlives_the_process(session: Session) -> None:
    session.scan()
    before = indexes(session)
    other = Session(session.user)
    other.scan()
    assert indexes(session) == before
    other.close()
    assert oct(session.repo.private_dir.stat().st_mode)[-3:] == "700"


def test_a_change_of_the_users_index_makes_a_new_one(session: Session) -> None:
    session.scan()
    [old] = indexes(session)
    session.user.write("staged", "x")
    session.user.git("add", "staged")
    session.scan()
    [new] = indexes(session)
    assert new.signature != old.signature
    assert new.tree == session.user.git("write-tree")


def test_much_that_was_read_is_not_read_again(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.scan()
    for number in range(501):
        session.user.write(f"many/{number}", f"{number}")
    session.user.at("README.md").unlink()
    session.user.write("src/app.py", b"", mode=0o755)
    session.user.at("link").symlink_to("nowhere")
    captured = session.scan()
    assert captured.tree in {index.tree for index in indexes(session)}
    sizes = reads(monkeypatch)
    assert not session.scan().differs
    assert sizes == []
    session.user.write("many/7", "changed")
    assert paths_of(session.scan()) == [b"many/7"]
    assert sizes == [7]


def test_nor_when_the_newest_checkpoint_is_an_older_one_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {f"many/{number}": f"{number}" for number in range(501)}
    for path, content in many.items():
        session.user.write(path, content)
    session.user.commit()
    session.scan()
    for path, content in many.items():
        # Git knows a file that was written in the same second again by its bytes, and then there is nothing to read.
        os.utime(session.user.write(path, content), (1, 1))
    before = session.user.at("README.md").read_bytes()
    session.user.write("README.md", "changed")
    session.scan()
    session.user.write("README.md", before)
    assert session.known(b"README.md").tree == session.user.git("rev-parse", "HEAD^{tree}")
    sizes = reads(monkeypatch)
    assert not session.scan().differs
    assert len(sizes) <= 1


def test_few_small_files_do_not_make_a_new_index(session: Session) -> None:
    session.scan()
    before = indexes(session)
    session.user.write("src/app.py", "changed\n")
    session.scan()
    assert indexes(session) == before


def test_a_file_that_changes_before_it_is_entered_is_seen_next_time(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.scan()
    for number in range(501):
        session.user.write(f"many/{number}", f"{number}")
    heal = Indexes.heal

    def write_before(self: Indexes, *args: object) -> None:
        session.user.write("many/7", "x")
        heal(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Indexes, "heal", write_before)
    captured = session.scan()
    assert session.files(captured)[b"many/7"][1] == b"7"
    assert captured.tree not in {index.tree for index in indexes(session)}
    monkeypatch.undo()
    assert paths_of(session.scan()) == [b"many/7"]


def test_a_failing_heal_costs_nothing_else(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.scan()
    session.user.write("large", b"x" * 2_000_000)
    git = Indexes.git

    def fail(self: Indexes, index: Path, *args: Argument, input: bytes | None = None) -> bytes:
        if "--info-only" in args:
            raise GitFailed("update-index", 128, "fatal: no")
        return git(self, index, *args, input=input)

    monkeypatch.setattr(Indexes, "git", fail)
    assert paths_of(session.scan()) == [b"large"]
    assert list(session.repo.private_dir.glob("new-*")) == []


def test_only_so_many_indexes_are_kept(session: Session) -> None:
    session.scan()
    for number in range(8):
        session.user.write("large", b"%d" % number * 2_000_000)
        session.scan()
    assert 2 <= len(indexes(session)) <= 6


def test_an_index_that_vanishes_is_made_again(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process tidied it away: to git that is an empty index, and a deleted file would be missed."""
    session.scan()
    session.user.at("README.md").unlink()
    start = Indexes.start
    times = []

    def vanish(self: Indexes, index: Path, *args: Argument) -> object:
        if not times:
            index.unlink()
        times.append(index)
        return start(self, index, *args)

    monkeypatch.setattr(Indexes, "start", vanish)
    assert paths_of(session.scan()) == [b"README.md"]
    times.clear()
    monkeypatch.setattr(Indexes, "current", lambda *_: (Index(session.repo.git_dir / "gone", "0" * 40, "x"), None))
    with pytest.raises(CaptureError, match="keeps vanishing"):
        session.scan()


def test_an_index_whose_tree_a_gc_took_is_no_base(session: Session) -> None:
    """The session that made it was deleted; the next one's base has to be complete all the same."""
    for number in range(501):
        session.user.write(f"many/{number}", f"{number}")
    first = session.scan()
    assert first.tree in {index.tree for index in indexes(session)}
    session.close()
    session.user.git("gc", "-q", "--prune=now")
    second = Session(session.user)
    assert second.scan().tree == first.tree
    session.user.git("rev-list", "--objects", "--quiet", first.tree)
    second.close()


def test_nor_one_whose_tree_is_incomplete(session: Session) -> None:
    session.user.write("large", b"x" * 2_000_000)
    first = session.scan()
    assert first.tree in {index.tree for index in indexes(session)}
    oid = session.entries(first)[b"large"].oid
    session.user.at(f".git/objects/{oid[:2]}/{oid[2:]}").unlink()
    second = Session(session.user)
    assert second.scan().tree == first.tree
    session.user.git("rev-list", "--objects", "--quiet", first.tree)
    second.close()


def test_more_untracked_directories_than_a_command_line_takes(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitsession.git.scan._ARGUMENTS", 10)
    session.user.write("first directory/file", "x")
    session.user.write("second/file", "x")
    GitRepo.init(session.user.at("third"))
    captured = session.scan()
    assert {b"first directory/file", b"second/file"} <= session.entries(captured).keys()
    assert skipped(captured) == {b"third": "nested repository"}


def test_an_ignored_directory_is_not_looked_into(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold a hundred thousand files."""
    session.user.write(".gitignore", "node_modules/\n")
    for place in ("node_modules/deep", "src/node_modules/deep", "new/node_modules/deep", "new/only/node_modules"):
        session.user.write(f"{place}/file", "x")
    session.user.write("new/file", "x")
    looked = looks(monkeypatch)
    assert session.scan().empty_dirs == []
    assert looked
    assert not [path for path in looked if b"node_modules" in path]


def test_known_directories_are_looked_into_when_they_change(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.scan()
    found = json.loads((session.repo.private_dir / "directories").read_text())
    assert found["seen"].keys() == {"", "src"}
    monkeypatch.setattr(oddities, "_TOO_YOUNG", 0)
    session.scan()
    looked = looks(monkeypatch)
    session.scan()
    assert looked == []
    os.mkfifo(session.user.at("src/fifo"))
    assert skipped(session.scan()) == {b"src/fifo": "fifo"}
    assert looked == [os.fsencode(session.user.at("src"))]


def test_what_is_known_of_directories_is_only_a_help(session: Session) -> None:
    os.mkfifo(session.user.at("src/fifo"))
    session.scan()
    place = session.repo.private_dir / "directories"
    for text in ("", "[]", "{}", '{"tree": "x", "seen": {}}', '{"tree": null, "seen": {"src": 7}}', "\0"):
        place.write_text(text)
        assert skipped(session.scan()) == {b"src/fifo": "fifo"}


def test_a_file_that_was_put_back_is_a_candidate(session: Session) -> None:
    """Git calls it unchanged; that the newest checkpoint has another version makes it one."""
    repo, objects = session.repo, session.objects
    scanner = Scanner(repo, objects, Filters(repo))
    head = session.user.git("rev-parse", "HEAD^{tree}")
    newest = trees.update(objects, head, {b"README.md": trees.Entry(trees.FILE, objects.add("blob", b"other"))})
    objects.flush()
    found = scanner.scan(newest, {})
    assert found.differing == set()
    assert found.candidates == {b"README.md"}
    assert scanner.scan(head, {}).candidates == set()


def test_a_name_in_another_case_is_another_file_whatever_the_configuration_says(session: Session) -> None:
    """``core.ignorecase`` may come from a clone that was made on another system."""
    session.user.write("A.txt", "one\n")
    session.user.commit()
    session.user.git("config", "core.ignorecase", "true")
    session.scan()
    session.user.at("A.txt").unlink()
    session.user.write("a.txt", "work\n")
    captured = session.scan()
    assert paths_of(captured) == [b"A.txt", b"a.txt"]
    assert session.files(captured)[b"a.txt"] == (trees.FILE, b"work\n")


def test_on_a_disk_that_takes_two_cases_for_one_git_may_as_well(session: Session) -> None:
    session.user.git("config", "core.ignorecase", "true")
    session.user.at(".GIT").symlink_to(".git")  # what such a disk would find
    assert Filters(session.repo).options == []


def test_git_is_not_asked_to_write_the_users_index(session: Session) -> None:
    before = session.user.user_state()
    os.utime(session.user.at("README.md"), (1, 1))
    session.scan()
    session.user.write("x", "x" * 2_000_000)
    session.scan()
    assert session.user.user_state() == before


def test_repo_without_an_index(empty_repo: GitRepo) -> None:
    repo = Repo.discover(empty_repo.path)
    index, outdated = Indexes(repo, Filters(repo)).current(lambda _: True)
    assert (index.tree, index.signature, outdated) == ("4b825dc642cb6eb9a060e54bf8d69288fbee4904", "none", None)
    assert index.path.exists()
