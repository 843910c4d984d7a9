"""Other sessions in the same working tree: which directories are theirs.

A checkpoint holds the whole working tree, but two sessions in two directories are two people's work.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from gitsession import paths
from gitsession.git import plan, trees
from gitsession.git.repo import Repo
from gitsession.lifecycle import COMPLETED, Doc
from gitsession.store.sessions import SessionStore


def directories_of_others(store: SessionStore, doc: Doc, repo: Repo) -> dict[bytes, str]:
    """Where other unfinished sessions of the worktree began, if this one began beside them, and their ids."""
    own = _start_of(doc, repo)
    if not own:
        return {}
    starts = {
        _start_of(store.read(summary.id), repo): summary.id
        for summary in store.summaries()
        if summary.worktree == paths.name_of(repo.worktree) and summary.status != COMPLETED and not summary.problem
    }
    return {
        start: owner
        for start, owner in starts.items()
        if start and not _contains(start, own) and not _contains(own, start)
    }


def reserved_for(theirs: Mapping[bytes, str], asked: Sequence[bytes]) -> plan.Reserved:
    """Paths in the directories of other sessions, but for what was asked for by its own name."""
    named = plan.below(path for path in asked if any(_contains(start, path) for start in theirs))

    def reason(path: bytes) -> str | None:
        owner = next((theirs[above] for above in (path, *trees.parents(path)) if above in theirs), None)
        return None if owner is None or named(path) else f"belongs to session {owner}"

    return reason


def _start_of(doc: Doc, repo: Repo) -> bytes:
    """The directory the session was started in, relative to the worktree; empty for the worktree itself."""
    start = Path(doc["metadata"].get("working_dir") or repo.worktree)
    if not start.is_relative_to(repo.worktree):
        return b""
    relative = os.fsencode(start.relative_to(repo.worktree).as_posix())
    return b"" if relative == b"." else relative


def _contains(directory: bytes, path: bytes) -> bool:
    return path == directory or path.startswith(directory + b"/")
