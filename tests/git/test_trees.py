"""Trees are what git makes of the same entries: git is the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory import Memory
from support import GitRepo

from gitsession.errors import RepositoryError
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.git.trees import (
    EXECUTABLE,
    FILE,
    GITLINK,
    LINK,
    TREE,
    Entry,
    TreeChange,
    Unpacked,
    diff,
    lookup,
    storable,
    update,
    walk,
)

Files = dict[bytes, Entry]

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class Oracle:
    """What git itself says, with an index of the oracle's own and objects that need not exist."""

    def __init__(self, repo: GitRepo) -> None:
        self.repo = repo
        self.env = {"GIT_INDEX_FILE": str(repo.path / "oracle-index")}

    def tree(self, files: Files, changes: Mapping[bytes, Entry | None] = {}) -> str:
        self.repo.git("read-tree", "--empty", env=self.env)
        self._index_info(dict(files))
        # As documented: first what goes, then what comes.
        self._index_info({path: entry for path, entry in changes.items() if entry is None})
        self._index_info({path: entry for path, entry in changes.items() if entry is not None})
        return self.repo.git("write-tree", "--missing-ok", env=self.env)

    def _index_info(self, changes: Mapping[bytes, Entry | None]) -> None:
        lines = []
        for path, entry in changes.items():
            mode, oid = (0, "0" * 40) if entry is None else entry
            lines.append(b"%o %s\t%s\0" % (mode, oid.encode(), path))
        self.repo.git("update-index", "-z", "--index-info", input=b"".join(lines), env=self.env)

    def diff(self, a: str, b: str) -> set[TreeChange]:
        out = self.repo.git_bytes("diff-tree", "-r", "-z", "--no-renames", a, b)
        words = out.split(b"\0")[:-1]
        found = set()
        for facts, path in zip(words[::2], words[1::2], strict=True):
            old_mode, new_mode, old, new, _status = facts[1:].decode().split()
            sides = (Entry(int(old_mode, 8), old), Entry(int(new_mode, 8), new))
            found.add(TreeChange(path, *(side if side.mode else None for side in sides)))
        return found


def entry(number: int, mode: int = FILE) -> Entry:
    return Entry(mode, f"{number:040x}")


def is_possible(paths: list[bytes]) -> bool:
    """Whether these paths can all be files: none is a directory of another."""
    return not any(path.startswith(other + b"/") for path in paths for other in paths)


# Few names, so that files and directories meet; and those that sort around a slash.
NAMES = st.sampled_from([b"a", b"a.b", b"a0", b"a-", b"a b", b"b", b"\xff", b"\xc3\xa9", b"A", b"a\nb", b"z"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(b"/".join)
ENTRIES = st.builds(entry, st.integers(1, 5), st.sampled_from([FILE, EXECUTABLE, LINK, GITLINK]))
FILES = st.dictionaries(PATHS, ENTRIES, max_size=12).filter(lambda files: is_possible(list(files)))
CHANGES = st.dictionaries(PATHS, st.none() | ENTRIES, max_size=8).filter(
    lambda changes: is_possible([path for path, entry in changes.items() if entry is not None])
)
HYPOTHESIS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


@HYPOTHESIS
@given(files=FILES, changes=CHANGES)
def test_update_agrees_with_gits_index(empty_repo: GitRepo, files: Files, changes: dict[bytes, Entry | None]) -> None:
    """From nothing, and from there by any changes, file and directory changing places included."""
    memory, oracle = Memory(), Oracle(empty_repo)
    tree = update(memory, None, files)
    assert tree == oracle.tree(files)
    assert update(memory, tree, changes) == oracle.tree(files, changes)


@HYPOTHESIS
@given(before=FILES, after=FILES)
def test_diff_agrees_with_git_and_leads_from_one_to_the_other(empty_repo: GitRepo, before: Files, after: Files) -> None:
    """``diff`` is git's, sorted; as changes it turns the one tree into the other."""
    oracle = Oracle(empty_repo)
    a, b = oracle.tree(before), oracle.tree(after)
    objects = Objects(Repo.discover(empty_repo.path))
    changes = diff(objects, a, b)
    assert set(changes) == oracle.diff(a, b)
    assert [change.path for change in changes] == sorted(change.path for change in changes)
    assert update(objects, a, {change.path: change.new for change in changes}) == b
    assert diff(objects, b, a) == [TreeChange(change.path, change.new, change.old) for change in changes]
    objects.close()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(files=FILES, changes=CHANGES)
def test_update_is_the_same_step_by_step(files: Files, changes: dict[bytes, Entry | None]) -> None:
    """All at once, or what goes one by one and then what comes one by one."""
    memory = Memory()
    start = update(memory, None, files)
    tree = start
    for path, one in sorted(changes.items(), key=lambda item: item[1] is not None):
        tree = update(memory, tree, {path: one})
    assert update(memory, start, changes) == tree


@settings(max_examples=200, deadline=None, derandomize=True)
@given(files=FILES)
def test_walk_and_lookup_give_back_what_was_put_in(files: Files) -> None:
    """``walk`` in git's order, ``lookup`` also for directories; from memory, and from what was stored."""
    memory = Memory()
    tree = update(memory, None, files)
    for _ in range(2):
        assert list(walk(memory, tree)) == sorted(files.items())
        for path, one in files.items():
            assert lookup(memory, tree, path) == one
            assert lookup(memory, tree, path + b"/below") is None
            if b"/" in path:
                above = lookup(memory, tree, path.rpartition(b"/")[0])
                assert above is not None
                assert above.mode == TREE
        assert lookup(memory, tree, b"nothing") is None
        memory.unpacked.forget()


def test_the_sha256_of_a_tree(tmp_path: Path) -> None:
    """Ids of 32 bytes; the same tree as git's."""
    repo = GitRepo.init(tmp_path / "repo", object_format="sha256")
    for path in ("a/b", "a.b", "a0", "c/d/e"):
        repo.write(path, path)
    repo.commit()
    memory = Memory("sha256")
    expected = repo.git("rev-parse", "HEAD^{tree}")
    files = {path: Entry(int(mode, 8), oid) for path, (mode, oid) in repo.tree("HEAD").items()}
    tree = update(memory, None, files)
    assert tree == expected
    assert dict(walk(memory, tree)) == files
    assert update(memory, tree, {b"a/b": None, b"a": files[b"a0"]}) != tree


def test_nothing_is_the_empty_tree() -> None:
    """Also when the last file goes; directories left empty vanish with it."""
    memory = Memory()
    assert update(memory, None, {}) == EMPTY
    tree = update(memory, None, {b"a/b/c": entry(1)})
    assert update(memory, tree, {b"a/b/c": None}) == EMPTY
    assert diff(memory, None, tree) == [TreeChange(b"a/b/c", None, entry(1))]
    assert diff(memory, tree, None) == [TreeChange(b"a/b/c", entry(1), None)]
    assert diff(memory, None, None) == []


def test_only_touched_trees_are_read() -> None:
    """One changed path among 100 directories reads the trees that lead to it, and a comparison those of both sides.

    None of them twice, and none that was just made.
    """
    memory = Memory()
    tree = update(memory, None, {b"%d/%d/f" % (i, j): entry(1) for i in range(10) for j in range(10)})
    memory.unpacked.forget()
    changed = update(memory, tree, {b"3/4/f": entry(2)})
    assert len(memory.reads) == 3
    assert diff(memory, tree, changed) == [TreeChange(b"3/4/f", entry(1), entry(2))]
    assert len(memory.reads) == 3
    memory.unpacked.forget()
    memory.reads.clear()
    assert diff(memory, tree, changed) == [TreeChange(b"3/4/f", entry(1), entry(2))]
    assert len(memory.reads) == 6


def test_what_is_kept_of_trees_has_an_end() -> None:
    """One that is larger than all that may be kept is kept alone."""
    unpacked = Unpacked()
    names = [b"%d" % number for number in range(30_000)]
    for oid in ("a", "b", "c"):
        unpacked.keep(oid, dict.fromkeys(names, b""))
        assert len(unpacked.get(oid) or {}) == len(names)
    assert [oid for oid in ("a", "b", "c") if unpacked.get(oid) is not None] == ["c"]
    unpacked.keep("d", dict.fromkeys([*names, *(name + b"x" for name in names)], b""))
    unpacked.keep("e", {b"f": b""})
    assert unpacked.get("d") is None


def test_changes_that_change_nothing_write_nothing() -> None:
    """The tree given is the tree returned."""
    memory = Memory()
    tree = update(memory, None, {b"a/b": entry(1)})
    count = len(memory.objects)
    for changes in ({}, {b"a/b": entry(1)}, {b"x": None}, {b"x/y": None}, {b"a/b/c": None}, {b"a": None}):
        assert update(memory, tree, changes) == tree
    assert len(memory.objects) == count


def test_file_and_directory_change_places() -> None:
    """A set replaces what is in its way; taking away never takes a whole directory."""
    memory = Memory()
    tree = update(memory, None, {b"a/b": entry(1), b"a/c": entry(2), b"d": entry(3)})
    swapped = update(memory, tree, {b"a": entry(4), b"a/b": None, b"d": None, b"d/e": entry(5)})
    assert dict(walk(memory, swapped)) == {b"a": entry(4), b"d/e": entry(5)}
    assert dict(walk(memory, update(memory, tree, {b"d/e": entry(5)}))) == {
        b"a/b": entry(1),
        b"a/c": entry(2),
        b"d/e": entry(5),
    }
    assert update(memory, tree, {b"a": None, b"d/e": None}) == tree


def test_a_whole_directory_can_be_set() -> None:
    """An entry may be a tree."""
    memory = Memory()
    tree = update(memory, None, {b"a/b": entry(1), b"a/c": entry(2)})
    inner = lookup(memory, tree, b"a")
    assert inner is not None
    assert dict(walk(memory, update(memory, tree, {b"x": inner}))) == {
        b"a/b": entry(1),
        b"a/c": entry(2),
        b"x/b": entry(1),
        b"x/c": entry(2),
    }


def test_a_very_deep_path() -> None:
    """Depth is not limited by the interpreter's stack."""
    memory = Memory()
    path = b"/".join([b"d"] * 2000)
    tree = update(memory, None, {path: entry(1)})
    assert list(walk(memory, tree)) == [(path, entry(1))]
    assert diff(memory, tree, None) == [TreeChange(path, entry(1), None)]
    assert update(memory, tree, {path: None}) == EMPTY


@pytest.mark.parametrize(
    "path",
    [b"", b"/a", b"a/", b"a//b", b".", b"a/../b", b".git", b"a/.GIT/x", b"a\0b", b"a/git~1", b".git. /x", b"a\\.git"],
)
def test_paths_that_no_tree_may_hold(path: bytes) -> None:
    """They are a mistake of the caller, who can ask before."""
    assert not storable(path)
    with pytest.raises(ValueError, match="cannot hold"):
        update(Memory(), None, {path: entry(1)})


def test_a_path_cannot_be_both_a_file_and_a_directory() -> None:
    """Two entries that exclude each other are a mistake, too."""
    with pytest.raises(ValueError, match="both a file and a directory"):
        update(Memory(), None, {b"a": entry(1), b"a/b": entry(2)})


def test_a_damaged_tree_is_not_repaired_silently() -> None:
    """Bytes that are no entry, and an object that is no tree."""
    memory = Memory()
    bad = memory.add("tree", b"100644 a\0" + b"x" * 20 + b"rubbish")
    with pytest.raises(RepositoryError, match=f"tree {bad} is damaged"):
        update(memory, bad, {b"a": entry(1)})
    blob = memory.add("blob", b"")
    with pytest.raises(RepositoryError, match="is a blob, not a tree"):
        list(walk(memory, blob))


def test_modes_padded_by_old_programs_are_understood() -> None:
    """``040000`` is a directory like ``40000``."""
    memory = Memory()
    inner = update(memory, None, {b"b": entry(1)})
    padded = memory.add("tree", b"040000 a\0" + bytes.fromhex(inner))
    assert dict(walk(memory, padded)) == {b"a/b": entry(1)}
    assert update(memory, padded, {b"c": entry(2)}) == update(memory, None, {b"a/b": entry(1), b"c": entry(2)})


@pytest.mark.parametrize("path", [b".gitignore", b"a/.github/x", b"git~2", b"x.git", b"a.git/b", b"legit~1", b"a\\b:c"])
def test_names_that_only_look_like_dot_git(path: bytes) -> None:
    assert storable(path)
