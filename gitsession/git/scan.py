"""Find what may differ from the newest checkpoint when anybody may have written to the working tree.

Git finds it, because git is right about ignore rules, sparse checkouts, submodules and names.  It compares the files
with a private index (``gitsession.git.indexes``), which as a rule holds another tree than the newest checkpoint.  So a
path may differ from that checkpoint if it differs from the index, or if index and checkpoint differ there; else a file
that was put back to what it once was would look unchanged.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from gitsession.errors import CaptureError, GitFailed, RepositoryError
from gitsession.git import oddities, trees
from gitsession.git.filters import Filters
from gitsession.git.indexes import Index, Indexes
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo, Running
from gitsession.git.temporaries import is_temporary
from gitsession.git.trees import GITLINK, TREE, Entry

_CHANGED: Final = ("diff-files", "-z", "--raw")
_UNTRACKED: Final = ("ls-files", "-z", "-o", "--exclude-standard")
_ARGUMENTS: Final = 100_000  # bytes of paths on a command line
_PRECISION: Final = 2_000_000_000  # nanoseconds that an index's time may be wrong by
_TRIES: Final = 5
NESTED: Final = "nested repository"


@dataclass
class Scan:
    """What a look at the whole working tree found.

    ``differing`` are the paths whose files git sees differ from the index, ``candidates`` all whose files may differ
    from the newest checkpoint.  ``left_out`` has reasons for what cannot be in a tree; ``empty_dirs`` have nothing in
    them.  ``held`` is what the newest checkpoint has at those of the candidates that it has: its ref keeps that, on the
    disk.
    """

    index: Index
    differing: set[bytes]
    candidates: set[bytes]
    left_out: dict[bytes, str]
    empty_dirs: set[bytes]
    held: dict[bytes, Entry | None] = field(default_factory=dict)


class Scanner:
    """Looks at the whole working tree of ``repo``."""

    def __init__(self, repo: Repo, objects: Objects, filters: Filters, exclude: Iterable[str] = ()) -> None:
        self.indexes = Indexes(repo, filters)
        self._repo = repo
        self._objects = objects
        self._root = os.fsencode(repo.worktree) + b"/"
        self._untracked = (*_UNTRACKED, *(f"--exclude={pattern}" for pattern in exclude))

    def scan(self, previous: str | None, beside: Mapping[bytes, Entry]) -> Scan:
        """What differs from the newest checkpoint: ``previous`` is its tree (None before the first), ``beside`` is what
        it keeps beside that (see ``gitsession.git.filters``).
        """
        for _ in range(_TRIES):
            index, outdated = self.indexes.current(self._has if previous else self._has_all)
            try:
                found = self._look(index, previous)
                if outdated is not None and previous is not None:
                    found.candidates |= self._seen_by(outdated, previous)
                found.candidates |= self._unsure(index, beside)
            except (GitFailed, RepositoryError, FileNotFoundError):
                if index.path.exists() and self._has(index.tree):
                    raise
                index.path.unlink(missing_ok=True)
                continue
            # Git takes an index that is not there for an empty one: another process may have tidied it away.
            if index.path.exists():
                self.indexes.tidy(index)
                return found
        raise CaptureError(
            "the private index keeps vanishing", hint=f"does anything else write to {self._repo.private_dir}?"
        )

    def _has(self, tree: str) -> bool:
        """Whether the tree is there: nothing protects those that an index of ours is named by from ``git gc``."""
        with suppress(RepositoryError):
            self._objects.read(tree)  # it will be read anyway; to ask whether it is there can take one more git
            return True
        return False

    def _has_all(self, tree: str) -> bool:
        """Whether all that is in the tree is there, too: a base is made of it."""
        try:
            self._repo.git("rev-list", "--objects", "--quiet", "--missing=allow-promisor", tree)
        except GitFailed:
            return False
        return True

    def _look(self, index: Index, previous: str | None) -> Scan:
        """Ask git about everything at once; it has more than one thing to wait for."""
        newest = previous or index.tree
        with (
            self.indexes.start(index.path, *_CHANGED, "--ignore-submodules=none") as changed,
            self.indexes.start(index.path, *self._untracked, "--directory") as untracked,
        ):
            moved = {change.path: change.new for change in trees.diff(self._objects, index.tree, newest)}
            odd = oddities.in_known(self._repo, self._objects, newest, index.tree, moved)
            new, roots = _split(untracked.finish())
            differing = self._differing(index, changed)
        # Git does not list a directory as untracked that stands where its index has a file.
        roots |= {path for path in differing if self._is_directory(path)}
        listed, nested = self._expand(index, roots)
        new |= listed
        modes = {path: self._mode(newest, path) for path in nested}
        # A directory with captured files stays one when somebody makes a repository of it.
        new |= self._inside(index, newest, {path for path, mode in modes.items() if mode == TREE})
        # What another session's restore left when it was killed, and will remove.
        new = {path for path in new if not is_temporary(path)}
        nested = {path for path, mode in modes.items() if mode not in (TREE, GITLINK)}
        odd.add(oddities.below(self._repo, index.path, roots - modes.keys(), new, modes.keys()))
        unwanted = oddities.ignored(self._repo, index.path, odd.left_out)
        left_out = {path: reason for path, reason in odd.left_out.items() if path not in unwanted}
        return Scan(
            index=index,
            differing=set(differing),
            candidates=differing.keys() | new | moved.keys(),
            left_out=left_out | dict.fromkeys(nested, NESTED),
            empty_dirs=odd.empty_dirs,
            held=moved if previous is None else {**differing, **moved},
        )

    def _differing(self, index: Index, running: Running) -> dict[bytes, Entry | None]:
        """The paths that ``git diff-files`` names, with what the index has there."""
        try:
            return _entries(running.finish())
        except GitFailed:
            # A broken submodule ends git; then nobody looks for changed files in any.
            return _entries(self.indexes.git(index.path, *_CHANGED, "--ignore-submodules=dirty"))

    def _seen_by(self, outdated: Index, previous: str) -> set[bytes]:
        """The candidates by an earlier index.

        The user's git may have rewritten files and entered their new stat data in the user's index.  Where it converts
        line ends, the blobs can be the same and the bytes others.
        """
        with suppress(RepositoryError):
            moved = {change.path for change in trees.diff(self._objects, outdated.tree, previous)}
            return moved | _entries(self.indexes.git(outdated.path, *_CHANGED, "--ignore-submodules=all")).keys()
        return set()

    def _unsure(self, index: Index, beside: Mapping[bytes, Entry]) -> set[bytes]:
        """Those files kept beside the newest checkpoint's tree that may differ though git calls them unchanged.

        To git, what converts to the same blob is the same.  A file that was not touched since the index was made is as
        it was then.
        """
        made = index.path.stat().st_mtime_ns - _PRECISION
        unsure = set()
        for path, entry in beside.items():
            with suppress(OSError):
                if entry.mode != GITLINK and os.lstat(self._root + path).st_ctime_ns > made:
                    unsure.add(path)
        return unsure

    def _expand(self, index: Index, roots: Collection[bytes]) -> tuple[set[bytes], set[bytes]]:
        """The untracked files in untracked directories, and the repositories among and in these."""
        if not roots:
            return set(), set()
        # More than a command line takes: then once more for the whole working tree.
        limits = sorted(roots) if sum(len(root) + 1 for root in roots) < _ARGUMENTS else []
        return _split(self.indexes.git(index.path, *self._untracked, "--", *limits))

    def _inside(self, index: Index, newest: str, followed: Collection[bytes]) -> set[bytes]:
        """The untracked files in nested repositories in which files were captured before."""
        if not followed:
            return set()
        captured = [
            b"%o %b\t%b\0" % (change.new.mode, change.new.oid.encode(), change.path)
            for change in trees.diff(self._objects, index.tree, newest)
            if change.new is not None and any(parent in followed for parent in trees.parents(change.path))
        ]
        with self.indexes.fresh(index.path) as temporary:
            # Git looks into a nested repository when its index has files in it.
            self.indexes.git(temporary, "update-index", "-z", "--index-info", input=b"".join(captured))
            return _split(self.indexes.git(temporary, *self._untracked, "--", *sorted(followed)))[0]

    def _is_directory(self, path: bytes) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(self._root + path).st_mode)
        except OSError:
            return False

    def _mode(self, tree: str, path: bytes) -> int | None:
        entry = trees.lookup(self._objects, tree, path)
        return None if entry is None else entry.mode


def _split(listing: bytes) -> tuple[set[bytes], set[bytes]]:
    """Files and directories in the output of ``git ls-files -z``."""
    files, directories = set(), set()
    for path in listing.split(b"\0")[:-1]:
        if path.endswith(b"/"):
            directories.add(path[:-1])
        else:
            files.add(path)
    return files, directories


def _entries(raw: bytes) -> dict[bytes, Entry | None]:
    """The paths in the output of ``git diff-files --raw -z``, with what the index has there."""
    words = raw.split(b"\0")
    entries: dict[bytes, Entry | None] = {}
    for facts, path in zip(words[::2], words[1::2], strict=False):
        mode, _, oid, _, _ = facts.split(b" ")
        entries[path] = Entry(int(mode[1:], 8), oid.decode())
    return entries
