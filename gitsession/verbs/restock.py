"""Store again what the repository has lost of a session's checkpoints.

A file's bytes may still be in the working tree.  A directory is put together again from a list of what it held: the
working tree's, that of an index (the user's, or one of ours, which hold what was captured), another checkpoint's, or
what two neighbouring checkpoints and the changes between them say.  An object's id is made of its bytes: what has the
right id is what was lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import Final

from gitsession import paths
from gitsession.config import Settings
from gitsession.errors import CaptureError, GitFailed, RepositoryError
from gitsession.git import trees
from gitsession.git.capture import capture
from gitsession.git.check import lost
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.git.trees import LINK, Entry, Unpacked
from gitsession.git.worktree import Obstructed, Worktree
from gitsession.lifecycle import Doc

_Listing = dict[bytes, Entry]
_SHOWN: Final = 5


def store_again(ledger: Ledger, doc: Doc, settings: Settings) -> str:
    """Store what can still be had of the lost objects; in words, what that was.  ``RepositoryError`` if nothing."""
    number = _directories(ledger, doc, settings)
    files = _files(ledger, doc)
    ledger.objects.flush()
    told = [f"{number} lost {'directory' if number == 1 else 'directories'}"] if number else []
    told += list(map(paths.encode, files[:_SHOWN]))
    if not told:
        raise RepositoryError("nothing here has any of them as they were")
    return f"stored {', '.join(told)}{' …' if len(files) > _SHOWN else ''} again"


# Files


def _files(ledger: Ledger, doc: Doc) -> list[bytes]:
    """Add the lost blobs whose bytes the working tree still has; their paths."""
    wanted: dict[bytes, set[str]] = {}
    for record in _records(doc):
        for path, oid in lost(ledger.repo, ledger.objects, record["tree"]):
            wanted.setdefault(path, set()).add(oid)
    with Worktree(ledger.repo.worktree, "repair", object_format=ledger.repo.object_format) as worktree:
        return [path for path, oids in wanted.items() if path and _add(ledger.objects, worktree, path, oids)]


def _add(objects: Objects, worktree: Worktree, path: bytes, wanted: set[str]) -> bool:
    """Store what stands at ``path`` if it is one of the ``wanted`` blobs; whether it was."""
    try:
        found = worktree.look(path)
        if found is None or worktree.blob_id(path, found) not in wanted:
            return False
        data = worktree.target(path) if found.mode == LINK else worktree.read(path)[0]
    except (OSError, Obstructed):
        return False
    return objects.add("blob", data) in wanted


# Directories


class _Puzzle:
    """A ``trees.Store`` for putting trees together: it passes over those that are ``gone``, and keeps what it is made
    of those that are ``wanted``.
    """

    def __init__(self, objects: Objects, wanted: Iterable[str] = ()) -> None:
        self.unpacked = Unpacked()
        self.gone: set[str] = set()
        self.made: dict[str, bytes] = {}
        self._objects = objects
        self._wanted = frozenset(wanted)

    def read(self, oid: str) -> tuple[str, bytes]:
        try:
            return self._objects.read(oid)
        except RepositoryError:
            self.gone.add(oid)
            return "tree", b""

    def add(self, kind: str, data: bytes) -> str:
        header = f"{kind} {len(data)}\0".encode()
        oid = hashlib.new(self._objects.repo.object_format, header + data, usedforsecurity=False).hexdigest()
        if oid in self._wanted:
            self.made[oid] = data
        return oid

    def listing(self, tree: str) -> _Listing:
        """What can be read of ``tree``."""
        return dict(trees.walk(self, tree))


def _directories(ledger: Ledger, doc: Doc, settings: Settings) -> int:
    """Add the lost trees that can be put together again; how many."""
    missed = _lost_trees(ledger, doc)
    if not missed:
        return 0
    # The indexes first: capturing the working tree removes those whose tree is lost.
    known = [*_indexes(ledger.repo), _working_tree(ledger.repo, settings)]
    # One that was lost may hold another that is; and what the user's index holds, capturing may have stored by itself.
    while wanted := _lost_trees(ledger, doc):
        missed |= wanted
        puzzle = _Puzzle(ledger.objects, wanted)
        for listing in _candidates(puzzle, doc, known):
            with suppress(ValueError):  # of two sources, a file and a directory at one path
                trees.update(puzzle, None, listing)
        for data in puzzle.made.values():
            ledger.objects.add("tree", data)
        if not puzzle.made:
            break
    return len(missed - wanted)


def _lost_trees(ledger: Ledger, doc: Doc) -> set[str]:
    puzzle = _Puzzle(ledger.objects)
    for tree in {record["tree"] for record in _records(doc)}:
        puzzle.listing(tree)
    return puzzle.gone


def _candidates(puzzle: _Puzzle, doc: Doc, known: list[_Listing]) -> Iterator[_Listing]:
    """Lists of which one may be what was lost."""
    yield from known
    records = _records(doc)
    there = known[-1]
    before: _Listing | None = None
    for place, record in enumerate(records):
        own = puzzle.listing(record["tree"])
        after = puzzle.listing(records[place + 1]["tree"]) if place + 1 < len(records) else there
        came = _changed(record)
        went = _changed(records[place + 1]) if place + 1 < len(records) else set()
        yield own
        if before is not None:
            # The one before, with what this one changed: from the one after, unless that changed it once more.
            yield _patched(before, {path: (there if path in went else after).get(path) for path in came})
        # The one after without what it changed: from the one before, unless this one changed it.
        past = before or {}
        yield _patched(after, {path: (there if path in came else past).get(path) for path in went})
        before = own


def _patched(listing: _Listing, changes: dict[bytes, Entry | None]) -> _Listing:
    merged = {**listing, **changes}
    return {path: entry for path, entry in merged.items() if entry is not None}


def _changed(record: Doc) -> set[bytes]:
    return {paths.decode(change["path"]) for change in record.get("changes", [])}


def _records(doc: Doc) -> list[Doc]:
    return [*([doc["base"]] if doc.get("base") else []), *doc["checkpoints"]]


def _indexes(repo: Repo) -> Iterator[_Listing]:
    """What the private indexes and the user's say."""
    for index in (*sorted((repo.git_dir / "pinable").glob("index.*")), None):
        with suppress(GitFailed):
            entries = (line.partition(b"\t") for line in repo.git("ls-files", "-s", "-z", index=index).split(b"\0"))
            facts = ((path, *told.split()) for told, _, path in entries if path)
            yield {path: Entry(int(mode, 8), oid.decode()) for path, mode, oid, stage in facts if stage == b"0"}


def _working_tree(repo: Repo, settings: Settings) -> _Listing:
    """What a checkpoint taken now would hold, as far as that can be told."""
    with closing(Objects(repo)) as objects:
        try:
            captured = capture(
                repo,
                objects,
                None,
                max_file_size=settings.capture_max_file_size,
                exclude=settings.capture_exclude,
            )
            return dict(trees.walk(objects, captured.tree))
        except (CaptureError, RepositoryError):
            return {}
