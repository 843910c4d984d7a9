"""Whose work is whose when several agents work in one tree: by the call of a tool, not by the time.

An agent's shell command may change any file, so after it the whole tree is looked at, and what another agent wrote
meanwhile is seen as well.  Where that agent's session has a checkpoint of an edit, made by a tool that named the file,
and the file holds just what that checkpoint holds, it is that session's work and not the command's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gitsession import paths
from gitsession.errors import GitSessionError
from gitsession.git import trees
from gitsession.git.ledger import Ledger, LedgerCommit
from gitsession.git.trees import Entry, TreeChange
from gitsession.lifecycle import Doc
from gitsession.store.sessions import SessionStore
from gitsession.verbs.checkpoint import Recorder

_MOST: Final = 100  # checkpoints of another session that are looked at
WORKTREE: Final = "worktree"
"""The owner's fact that tells where an agent works."""


def by_others(recorder: Recorder, changes: Iterable[TreeChange], since: str) -> set[bytes]:
    """Those of the changed paths whose contents another tracked session brought by an edit of its own.

    ``since`` is when this session last looked (UTC, as in a checkpoint's ``timestamp``).
    """
    changed = {change.path: change.new for change in changes}
    theirs = set[bytes]()
    if changed:
        for session_id in _neighbours(recorder.store, recorder):
            for path, entry in _edited(recorder, session_id, since).items():
                if path in changed and changed[path] == entry:
                    theirs.add(path)
    return theirs


def _neighbours(store: SessionStore, recorder: Recorder) -> Iterator[str]:
    """The other sessions that agents' hooks feed in this worktree."""
    for session_id in store.unended():
        if session_id != recorder.session_id:
            facts = store.last_owner_facts(session_id) or {}
            if "tracked" in facts and facts.get(WORKTREE) == str(recorder.repo.worktree):
                yield session_id


def _edited(recorder: Recorder, session_id: str, since: str) -> dict[bytes, Entry | None]:
    """What the tools of that session's agent left at each path that they named."""
    edited: dict[bytes, Entry | None] = {}
    try:
        for commit in _commits(recorder, session_id, since):
            record: Doc = commit.record or {}
            if record.get("capture") == "paths" and record.get("trigger") == "agent":
                for change in record.get("changes", []):
                    path = paths.decode(change["path"])
                    if path not in edited:
                        edited[path] = trees.lookup(recorder.objects, commit.tree, path)
    except (GitSessionError, LookupError, TypeError):  # deleted under our hands, or damaged
        pass
    return edited


def _commits(recorder: Recorder, session_id: str, since: str) -> Iterator[LedgerCommit]:
    """Its checkpoints that are not older than ``since``, newest first."""
    for number, commit in enumerate(Ledger(recorder.repo, recorder.objects, session_id).commits()):
        if number >= _MOST or commit.record is None or commit.record.get("timestamp", "") < since:
            return
        yield commit
