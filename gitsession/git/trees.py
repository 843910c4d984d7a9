"""Git trees as values: look up, walk, change and compare them without a working tree and without an index.

A tree object is a run of ``<mode in octal> <name>\\0<binary id>``, sorted by name, where a directory sorts as if its
name ended in a slash (so ``a.b`` comes before the directory ``a``, and ``a0`` after it).  Paths are bytes, relative
to the tree, separated by ``/``.  Every function reads only the trees it has to, so its cost is what is touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from gitsession.errors import RepositoryError

TREE: Final = 0o040000
FILE: Final = 0o100644
EXECUTABLE: Final = 0o100755
LINK: Final = 0o120000
GITLINK: Final = 0o160000

# One entry of a tree object: all of it, and its name.  By the number of hex digits of the repository's ids.
_ENTRY: Final = {
    40: re.compile(rb"([0-7]+ ([^\0]+)\0.{20})", re.DOTALL),
    64: re.compile(rb"([0-7]+ ([^\0]+)\0.{32})", re.DOTALL),
}
_TREE_START: Final = b"40000 "
# Characters that HFS+ does not see in a name, and what NTFS and HFS+ then take for ``.git``.
_UNSEEN: Final = re.compile(rb"\xe2\x80[\x8c-\x8f\xaa-\xae]|\xe2\x81[\xaa-\xaf]|\xef\xbb\xbf")
_GIT: Final = re.compile(rb"(?:\A|[/\\])(?:\.git|git~1)[ .]*(?:[:/\\]|\Z)", re.IGNORECASE)


class Entry(NamedTuple):
    """What stands at a path: ``mode`` as git writes it (``FILE``, ``LINK`` …) and the object's id in hex."""

    mode: int
    oid: str


class TreeChange(NamedTuple):
    """One path that differs: ``old`` is None where it is added, ``new`` where it is gone.  Never a directory."""

    path: bytes
    old: Entry | None
    new: Entry | None


# A directory's entries by name, in git's order, each as the tree object holds it: most are only copied.
_Directory = Mapping[bytes, bytes]
_Changing = dict[bytes, dict[bytes, bytes]]  # directories by their paths


class Unpacked:
    """Directories by their trees' ids: who changes a tree and compares it with what it was asks for most twice."""

    _MOST: Final = 50_000  # entries, of some 200 bytes each

    def __init__(self) -> None:
        self._directories: dict[str, _Directory] = {}
        self._entries = 0

    def get(self, oid: str) -> _Directory | None:
        return self._directories.get(oid)

    def keep(self, oid: str, directory: _Directory) -> None:
        """Nobody may change it any more."""
        self._entries += len(directory)
        if self._entries > self._MOST:
            self.forget()
            self._entries = len(directory)
        self._directories[oid] = directory

    def forget(self) -> None:
        self._directories.clear()
        self._entries = 0


class Store(Protocol):
    """What the functions here need of an object database (see ``gitsession.git.objects``)."""

    unpacked: Unpacked

    def read(self, oid: str) -> tuple[str, bytes]: ...
    def add(self, kind: str, data: bytes) -> str: ...


def storable(path: bytes) -> bool:
    """Whether a tree may hold ``path``: git refuses ``.``, ``..``, empty names and whatever means ``.git`` somewhere.

    A file that is ``git~1/config`` here is the repository's configuration on another system.
    """
    if b"\0" in path or any(part in (b"", b".", b"..") for part in path.split(b"/")):
        return False
    return _GIT.search(_UNSEEN.sub(b"", path)) is None


def lookup(objects: Store, tree: str, path: bytes) -> Entry | None:
    """What stands at ``path`` in ``tree``, a directory too."""
    entry = Entry(TREE, tree)
    for name in path.split(b"/"):
        below = _load(objects, entry.oid).get(name) if entry.mode == TREE else None
        if below is None:
            return None
        entry = _entry(name, below)
    return entry


def walk(objects: Store, tree: str) -> Iterator[tuple[bytes, Entry]]:
    """Every path in ``tree`` that is not a directory, in git's order."""
    pending = [(b"", Entry(TREE, tree))]
    while pending:
        path, entry = pending.pop()
        if entry.mode != TREE:
            yield path, entry
            continue
        prefix = path + b"/" if path else b""
        names = _load(objects, entry.oid)
        # The stored order is git's; the stack turns it round.
        pending.extend((prefix + name, _entry(name, names[name])) for name in reversed(list(names)))


def update(objects: Store, tree: str | None, changes: Mapping[bytes, Entry | None]) -> str:
    """The tree that ``tree`` (None: empty) becomes by ``changes``; new trees are added to ``objects``.

    None takes a path away: exactly that path, as from an index, so a directory standing there stays.  An entry
    is set after all that is taken away, and replaces what is in its way: a file where it needs a directory, or a whole
    directory.  Directories left empty vanish.  ``ValueError`` for a path no tree may hold, or two entries of which
    one would have to be a directory.
    """
    bad = [path for path in changes if not storable(path)]
    if bad:
        raise ValueError(f"a tree cannot hold {bad[0]!r}")
    directories = _directories(changes)
    loaded = _load_touched(objects, tree, directories)
    dirty = _apply(changes, loaded)
    filled = {parent for path, entry in changes.items() if entry is not None for parent in parents(path)}
    # Longer paths first: a directory is finished before the one that holds it.
    for directory in sorted(directories - {b""}, reverse=True):
        replaced = changes.get(directory) is not None
        if replaced and directory in filled:
            raise ValueError(f"{directory!r} cannot be both a file and a directory")
        if directory in dirty and not replaced:
            parent, name = _split(directory)
            _put(objects, loaded[parent], name, loaded[directory])
            dirty.add(parent)
    if tree is not None and b"" not in dirty:
        return tree
    return _store(objects, loaded[b""])


def diff(objects: Store, a: str | None, b: str | None) -> list[TreeChange]:
    """The paths that differ between two trees (None: empty), sorted; equal subtrees are not read."""
    changes: list[TreeChange] = []
    pending = [(b"", a, b)]
    while pending:
        prefix, before, after = pending.pop()
        if before == after:
            continue
        old = _load(objects, before) if before else {}
        new = _load(objects, after) if after else {}
        # Most entries of a large directory are the same on both sides: a set finds the others quickly.
        for name in {name for name, _ in old.items() ^ new.items()}:
            path = prefix + name
            sides = [_entry(name, side[name]) if name in side else None for side in (old, new)]
            was, now = (None if side is None or side.mode == TREE else side for side in sides)
            if was is not None or now is not None:
                changes.append(TreeChange(path, was, now))
            below_was, below_now = (side.oid if side is not None and side.mode == TREE else None for side in sides)
            if below_was is not None or below_now is not None:
                pending.append((path + b"/", below_was, below_now))
    return sorted(changes, key=lambda change: change.path)


def _entry(name: bytes, packed: bytes) -> Entry:
    mode = packed.partition(b" ")[0]
    return Entry(int(mode, 8), packed[len(mode) + len(name) + 2 :].hex())


def _packed(name: bytes, entry: Entry) -> bytes:
    return b"%o %b\0%b" % (entry.mode, name, bytes.fromhex(entry.oid))


def _is_tree(packed: bytes) -> bool:
    return packed.startswith(_TREE_START)


def _unpack(data: bytes, oid: str) -> _Directory:
    found = _ENTRY[len(oid)].findall(data)
    # The expression skips what does not fit: a damaged tree is not put together again by what it matched.
    if b"".join([packed for packed, _ in found]) != data:
        raise RepositoryError(f"tree {oid} is damaged", hint="see 'git fsck'")
    if b"0" + _TREE_START in data:  # some old programs padded the mode
        return {name: packed.lstrip(b"0") for packed, name in found}
    return {name: packed for packed, name in found}


def _load(objects: Store, oid: str) -> _Directory:
    directory = objects.unpacked.get(oid)
    if directory is None:
        kind, data = objects.read(oid)
        if kind != "tree":
            raise RepositoryError(f"{oid} is a {kind}, not a tree", hint="see 'git fsck'")
        directory = _unpack(data, oid)
        objects.unpacked.keep(oid, directory)
    return directory


def _store(objects: Store, directory: _Directory) -> str:
    """Add a directory's tree; its id."""
    ordered = sorted(directory.items(), key=lambda item: item[0] + b"/" if _is_tree(item[1]) else item[0])
    oid = objects.add("tree", b"".join([packed for _, packed in ordered]))
    objects.unpacked.keep(oid, dict(ordered))
    return oid


def _load_touched(objects: Store, tree: str | None, directories: set[bytes]) -> _Changing:
    """The entries of each of ``directories`` as they are in ``tree``, empty where there is none."""
    loaded: _Changing = {b"": dict(_load(objects, tree)) if tree is not None else {}}
    for directory in sorted(directories - {b""}):
        parent, name = _split(directory)
        packed = loaded[parent].get(name, b"")
        loaded[directory] = dict(_load(objects, _entry(name, packed).oid)) if _is_tree(packed) else {}
    return loaded


def _apply(changes: Mapping[bytes, Entry | None], loaded: _Changing) -> set[bytes]:
    """Make ``changes`` in the directories they are in; the directories that became different."""
    dirty = set()
    for path, entry in changes.items():
        directory, name = _split(path)
        before = loaded[directory].get(name)
        if entry is not None and _packed(name, entry) != before:
            loaded[directory][name] = _packed(name, entry)
            dirty.add(directory)
        elif entry is None and before is not None and not _is_tree(before):
            del loaded[directory][name]
            dirty.add(directory)
    return dirty


def _put(objects: Store, parent: dict[bytes, bytes], name: bytes, directory: _Directory) -> None:
    """Store ``directory`` and enter it in ``parent``; an empty one is taken out instead."""
    if directory:
        parent[name] = _packed(name, Entry(TREE, _store(objects, directory)))
    elif _is_tree(parent.get(name, b"")):
        del parent[name]


def _split(path: bytes) -> tuple[bytes, bytes]:
    """The directory (``b""`` at the top) and the name."""
    directory, _, name = path.rpartition(b"/")
    return directory, name


def parents(path: bytes) -> Iterator[bytes]:
    """Each directory above ``path``, the nearest first, without the top."""
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path


def _directories(paths: Iterable[bytes]) -> set[bytes]:
    """Every directory that has to be looked into to reach ``paths``, the top always."""
    found = {b""}
    for path in paths:
        for directory in parents(path):
            if directory in found:
                break
            found.add(directory)
    return found
