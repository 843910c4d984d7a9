"""Take a checkpoint: capture the files, commit them to the hidden ref, write them into the record.

The order makes every kill harmless: objects, then the ref, then the journal line, then the session file.  A
ref that is ahead of its record is adopted the next time anybody touches the session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitsession import paths
from gitsession.config import Settings, in_repository
from gitsession.errors import NotARepository, RefMoved, RepositoryError, UsageError
from gitsession.git.capture import Captured, capture
from gitsession.git.consolidation import Consolidation
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.git.trees import TreeChange
from gitsession.lifecycle import MAX_LISTED_CHANGES, Doc, newest
from gitsession.store.draft import Draft
from gitsession.store.sessions import SessionStore
from gitsession.unicode import escaped
from gitsession.verbs import heads

if TYPE_CHECKING:
    from gitsession.model import Checkpoint

_COMMIT = re.compile(r"(?!0+\Z)(?:[0-9a-f]{40}|[0-9a-f]{64})")
_MOVED = (
    "bring it back to that place, or say where it is now: pinable-agents doctor --relocate PATH; "
    "nothing of the session is lost meanwhile"
)
# What the base's commit says of the session, so that its record can be rebuilt from the repository alone.
KEPT_IN_GIT = (
    "id", "backend", "model", "task", "task_hash", "files", "created_at", "workflow", "metadata", "command", "priority",
)  # fmt: skip


class Recorder:
    """Takes the checkpoints of one session; keeps the repository's objects open between them."""

    def __init__(self, store: SessionStore, session_id: str, repo: Repo, settings: Settings) -> None:
        refuse_store_inside(store.home, repo)
        self.store = store
        self.session_id = session_id
        self.repo = repo
        self.objects = Objects(repo)
        self.ledger = Ledger(repo, self.objects, session_id)
        self.packs = Consolidation(repo)
        self.settings = in_repository(settings, repo.worktree)

    def close(self) -> None:
        self.packs.close()
        self.objects.close()

    def base(self) -> Captured | None:
        """Record the files as they are before the first change; ``None`` if that was done before."""
        with self.store.edit(self.session_id) as draft:
            self._adopt(draft)
            if draft.doc.get("base"):
                return None
            captured = capture(
                self.repo,
                self.objects,
                None,
                max_file_size=self.settings.capture_max_file_size,
                exclude=self.settings.capture_exclude,
            )
            head = self.repo.head().oid
            record = {"head": head, **_beside_tree(captured)}
            meta = self.ledger.keep_raw(captured.raw, None)
            commit = self.ledger.append(
                captured.tree,
                tip=None,
                parent=head,
                subject="base",
                record={**record, "meta": meta, "session": _kept_in_git(draft.doc)},
            )
            draft.log("base", base={"commit": commit, "tree": captured.tree, **record, "meta": meta})
            return captured

    def take(
        self,
        trigger: str,
        description: str | None = None,
        *,
        always: bool = False,
        known: Iterable[bytes] | None = None,
        call: str | None = None,
        agent: Doc | None = None,
    ) -> Doc | None:
        """Take a checkpoint and return its record; ``None`` if nothing changed and ``always`` is false.

        ``known`` names the only paths that can differ (no scan is made); without a ``description`` the
        changed files make one.  For one ``call`` of the agent's there is one checkpoint; ``agent`` says where the
        agent's own conversation was.
        """
        with self.store.edit(self.session_id) as draft:
            if call is not None and any(one.get("call") == call for one in draft.doc["checkpoints"]):
                return None
            given = {"call": call, "agent": agent}
            extra = {name: value for name, value in given.items() if value is not None}
            return self.take_in(draft, trigger, description, always=always, known=known, extra=extra)

    def look_in(self, draft: Draft, known: Iterable[bytes] | None = None) -> Captured:
        """What a checkpoint taken now would hold, against the newest; no checkpoint is recorded."""
        self._adopt(draft)
        heads.take_in(draft, self.repo)
        before = newest(draft.doc)
        return capture(
            self.repo,
            self.objects,
            before["tree"],
            paths=known,
            max_file_size=self.settings.capture_max_file_size,
            exclude=self.settings.capture_exclude,
            previous_raw=self.ledger.raw(before.get("meta")),
            previous_empty=[paths.decode(path) for path in before.get("empty_dirs", [])],
        )

    def take_in(
        self,
        draft: Draft,
        trigger: str,
        description: str | None = None,
        *,
        always: bool = False,
        known: Iterable[bytes] | None = None,
        extra: Doc | None = None,
        captured: Captured | None = None,
    ) -> Doc | None:
        """``take`` under a lock the caller holds; ``extra`` fields go into the record.

        ``captured`` is what ``look_in`` found under the same lock, if it was asked.
        """
        if captured is None:
            captured = self.look_in(draft, known)
        if not (always or captured.differs):
            return None
        doc = draft.doc
        before = newest(doc)
        index = len(doc["checkpoints"])
        changes = [{"path": paths.encode(change.path), "status": status_of(change)} for change in captured.changes]
        pending = doc["cost"].get("pending", {"input": 0, "output": 0})
        record: Doc = {
            "index": index,
            "timestamp": draft.now(),
            "phase": doc.get("current_phase"),
            "description": description if description is not None else describe(changes),
            "files_changed": [change["path"] for change in changes[:MAX_LISTED_CHANGES]],
            "tokens_used": {"input": pending["input"], "output": pending["output"]},
            **({"cost_usd": pending["cost_usd"]} if "cost_usd" in pending else {}),
            "capture": captured.method,
            "trigger": trigger,
            "changes": changes[:MAX_LISTED_CHANGES],
            **({"files_changed_total": len(changes)} if len(changes) > MAX_LISTED_CHANGES else {}),
            **_beside_tree(captured),
            **self._head_moved(doc, captured),
            **(extra or {}),
        }
        # Before the commit: what that holds and the journal could not would be ahead of it for good.
        record = escaped(record)
        record["meta"] = self.ledger.keep_raw(captured.raw, index)
        commit = self.ledger.append(
            captured.tree,
            tip=before["commit"],
            parent=before["commit"],
            subject=f"checkpoint {index}: {record['description']}",
            index=index,
            phase=record["phase"],
            record=record,
        )
        record |= {"commit": commit, "tree": captured.tree}
        draft.log("checkpoint", record=record)
        return record

    def _head_moved(self, doc: Doc, captured: Captured) -> Doc:
        """Where HEAD was at the last scan and is now, if that differs: what came with it is not the session's work."""
        if captured.method != "scan":
            return {}
        before = next((one["head"] for one in reversed(doc["checkpoints"]) if "head" in one), doc["base"].get("head"))
        now = self.repo.head_oid()
        return {} if now == before else {"head_before": before, "head": now}

    def adopt(self) -> int:
        """Bring a record up to a ref that a killed process left ahead of it; how many commits that were."""
        with self.store.edit(self.session_id) as draft:
            return self._adopt(draft)

    def _adopt(self, draft: Draft) -> int:
        """See ``adopt``; ``RefMoved`` when the ref does not go on from what the record knows."""
        entries = entries_ahead(self.ledger, draft.doc)
        for entry in entries:
            draft.log(**entry, adopted=True)
        return len(entries)


def entries_ahead(ledger: Ledger, doc: Doc) -> list[Doc]:
    """What the ref holds and ``doc`` does not, as journal entries (``event`` and what belongs to it), oldest first.

    ``RefMoved`` when the ref does not go on from what the record knows.
    """
    known = newest(doc)["commit"] if doc.get("base") else None
    tip = ledger.tip()
    if tip == known:
        return []
    ahead = []
    for commit in ledger.commits():
        if commit.oid == known:
            break
        ahead.append(commit)
    else:
        if known is not None or tip is None:
            raise RefMoved(
                f"{ledger.ref} is at {tip or 'nothing'}, the session's record is at {known}",
                hint=f"something else moved or removed the ref; {_putting_back(ledger, known)}",
            )
    entries: list[Doc] = []
    for commit in reversed(ahead):
        if commit.record is None:
            raise RefMoved(f"{ledger.ref} holds {commit.oid}, which no session wrote", hint="remove it first")
        # Whoever wrote it: a text that the journal cannot hold would keep the session from ever being touched again.
        found = {**escaped(commit.record), "commit": commit.oid, "tree": commit.tree}
        found.pop("session", None)
        is_base = "index" not in found
        entries.append({"event": "base", "base": found} if is_base else {"event": "checkpoint", "record": found})
    return entries


def _putting_back(ledger: Ledger, known: Any) -> str:
    """What to type; a record can say anything, and what is typed must do no harm."""
    if not _COMMIT.fullmatch(str(known)):
        return "pinable-agents doctor says what its record lacks"
    # Without following the ref, should it be a symbolic one now.
    return f"put it back with: git update-ref --no-deref {ledger.ref} {known}"


def checkpoint(store: SessionStore, session_id: str, description: str | None, settings: Settings) -> Checkpoint:
    """A checkpoint at a person's word, of a running, paused or completed session's files as they are now.

    It is taken even when nothing changed.  ``RepositoryError`` when the session's worktree is gone or is another
    repository's now.
    """
    from gitsession.model import Checkpoint

    recorder = Recorder(store, session_id, repository_of(store.read(session_id)), settings)
    try:
        recorder.base()
        record = recorder.take("manual", description, always=True)
        recorder.packs.tend()
        return Checkpoint.model_validate(record)
    finally:
        recorder.close()


def refuse_store_inside(home: Path, repo: Repo) -> None:
    """``UsageError`` where checkpoints would hold the sessions' own records, and a restore undo them."""
    worktree, place = repo.worktree.resolve(), home.resolve()
    if not place.is_relative_to(worktree):
        return
    if any(place.is_relative_to(directory.resolve()) for directory in (repo.git_dir, repo.common_dir)):
        return
    record = place.relative_to(worktree) / "sessions" / "record.json"
    if not repo.git("--no-literal-pathspecs", "check-ignore", "--", f"./{record.as_posix()}", ok=(0, 1)):
        raise UsageError(
            f"the sessions' place {home} is inside the working tree {repo.worktree}",
            hint="set PINABLE_HOME to a place outside of it, or have git ignore it",
        )


def repository_of(doc: Doc) -> Repo:
    """The session's repository, found where it was; ``RepositoryError`` when it is not there any more."""
    known: Doc = doc.get("repository") or {}
    worktree = paths.place_of(known.get("worktree") or doc["metadata"]["working_dir"])
    if not worktree.is_dir():
        raise RepositoryError(
            f"the session's worktree {worktree} is not there",
            hint=_MOVED,
        )
    try:
        repo = Repo.discover(worktree)
    except NotARepository as error:
        raise NotARepository(str(error), hint=_MOVED) from error
    here = tuple(map(paths.name_of, (repo.worktree, repo.common_dir)))
    if known and here != (known["worktree"], known["common_dir"]):
        raise RepositoryError(
            f"{worktree} belongs to the repository {repo.common_dir} now; the session's was {known['common_dir']}",
            hint=_MOVED,
        )
    return repo


def describe(changes: list[dict[str, Any]]) -> str:
    """What a checkpoint without a description is called: the files that changed, shortly."""
    if not changes:
        return "No files changed"
    verbs = {"added": "Added", "deleted": "Deleted"}
    statuses = {change["status"] for change in changes}
    verb = verbs.get(changes[0]["status"], "Changed") if len(statuses) == 1 else "Changed"
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    return f"{verb} {changes[0]['path']}{more}"


def status_of(change: TreeChange) -> str:
    """``added``, ``deleted``, ``type`` (file, link or submodule became another of them) or ``modified``."""
    if change.old is None:
        return "added"
    if change.new is None:
        return "deleted"
    return "type" if change.old.mode >> 12 != change.new.mode >> 12 else "modified"


def _kept_in_git(doc: Doc) -> Doc:
    """See ``KEPT_IN_GIT``; objects can be pushed somewhere, so no key that was given in a command goes with them."""
    from gitsession.verbs.redact import Redactor

    kept: Doc = Redactor().value({name: doc.get(name) for name in KEPT_IN_GIT})
    return kept


def _beside_tree(captured: Captured) -> Doc:
    """What a record tells that the tree cannot hold."""
    return {
        "skipped": [{"path": paths.encode(item.path), "reason": item.reason} for item in captured.skipped],
        "empty_dirs": [paths.encode(path) for path in captured.empty_dirs],
    }
