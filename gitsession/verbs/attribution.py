"""Whose work is whose when several agents work in one tree: by the call of a tool, not by the time.

An agent's shell command may change any file, so after it the whole tree is looked at, and what others wrote meanwhile
is seen as well.  Where another session has a checkpoint of it, and the file holds just what that checkpoint holds, it
is that session's work and not the command's, if that session knows better:

- its agent made the edit by a tool that named the file, or
- it is a run of ours that began since the command did.  All of that run lies within the time of the command (which may
  be what started it), and it saw the file change in less.

Of two that looked at the whole tree at the same time neither knows better: both have it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from gitsession import paths
from gitsession.clock import timestamp
from gitsession.errors import GitSessionError
from gitsession.git import trees
from gitsession.git.ledger import Ledger, LedgerCommit
from gitsession.git.trees import Entry, TreeChange
from gitsession.lifecycle import Doc
from gitsession.verbs.checkpoint import Recorder

_MOST: Final = 100  # checkpoints of another session that are looked at
_FOUND: Final = ("found", "resume", "restore")  # triggers of what a session did not bring
_CLOCKS: Final = 1.0  # seconds by which a file system's clock may be behind


def by_others(recorder: Recorder, changes: Iterable[TreeChange], since: str) -> set[bytes]:
    """Those of the changed paths whose contents another session brought; it may have ended.

    ``since`` is when the command began (UTC, as in a checkpoint's ``timestamp``, or with milliseconds).
    """
    changed = {change.path: change.new for change in changes}
    theirs = set[bytes]()
    if changed:
        for session_id, is_within in _neighbours(recorder, since):
            for path, entry in _brought(recorder, session_id, since, is_within).items():
                if path in changed and changed[path] == entry:
                    theirs.add(path)
    return theirs


def _neighbours(recorder: Recorder, since: str) -> Iterator[tuple[str, bool]]:
    """The other sessions of this worktree with a checkpoint since then; and whether a run of ours that began since."""
    for session_id in _moved(recorder, since):
        with suppress(GitSessionError, LookupError, TypeError, AttributeError):  # not on this machine, or damaged
            if session_id != recorder.session_id:
                doc = recorder.store.read(session_id)
                if doc["repository"]["worktree"] == paths.name_of(recorder.repo.worktree):
                    run = doc["runs"][-1] if doc["runs"] else {}
                    yield session_id, not run.get("tracked") and run.get("started_at", "") >= since


def _moved(recorder: Recorder, since: str) -> Iterator[str]:
    """The sessions whose ref moved since then: by the files' times, or, where no files are, by what git says."""
    repo = recorder.repo
    if repo.ref_format == "files":
        for entry in os.scandir(repo.common_dir / "refs" / "pinable"):
            with suppress(FileNotFoundError):  # a lock
                if timestamp(entry.stat().st_mtime + _CLOCKS) >= since:
                    yield entry.name
        return
    said = repo.git("for-each-ref", "--format=%(refname:lstrip=2) %(creatordate:unix)", "refs/pinable")
    for line in said.decode("utf-8", "replace").splitlines():
        name, moment = line.split(" ")
        if timestamp(int(moment)) >= since:
            yield name


def _brought(recorder: Recorder, session_id: str, since: str, is_within: bool) -> dict[bytes, Entry | None]:
    """What that session left at each path that is its work for sure, or (``is_within``) for all it knows."""
    brought: dict[bytes, Entry | None] = {}
    try:
        for commit in _commits(recorder, session_id, since):
            record: Doc = commit.record or {}
            is_named = record.get("capture") == "paths" and record.get("trigger") == "agent"
            if is_named or (is_within and record.get("trigger") not in _FOUND):
                for change in record.get("changes", []):
                    path = paths.decode(change["path"])
                    if path not in brought:
                        brought[path] = trees.lookup(recorder.objects, commit.tree, path)
    except (GitSessionError, LookupError, TypeError):  # deleted under our hands, or damaged
        pass
    return brought


def _commits(recorder: Recorder, session_id: str, since: str) -> Iterator[LedgerCommit]:
    """Its checkpoints that are not older than ``since``, newest first."""
    for number, commit in enumerate(Ledger(recorder.repo, recorder.objects, session_id).commits()):
        if number >= _MOST or commit.record is None or commit.record.get("timestamp", "") < since:
            return
        yield commit
