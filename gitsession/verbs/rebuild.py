"""A session's record from its repository alone: what the checkpoints' commits say, and what a cut file still tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from gitsession import lifecycle
from gitsession.clock import timestamp
from gitsession.errors import GitSessionError, RepositoryError, StoreError
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.lifecycle import Doc
from gitsession.model import Session
from gitsession.paths import name_of, place_of
from gitsession.store.record import read_bytes
from gitsession.store.salvage import fragments
from gitsession.store.sessions import SessionStore
from gitsession.tasks import task_hash
from gitsession.unicode import escaped
from gitsession.verbs.births import described
from gitsession.verbs.checkpoint import KEPT_IN_GIT, entries_ahead
from gitsession.verbs.offered import offered

_UNKNOWN_TASK = "(lost with the session file)"
_WORKTREE = re.compile(rb'"worktree": ?("(?:[^"\\]|\\.)*")')


def rebuild(store: SessionStore, session_id: str, here: Path) -> Doc | None:
    """The record as far as a repository has it; ``None`` if none that could be the session's holds its ref."""
    cut = _fragments(store, session_id)
    for place in _places(store, session_id, here):
        with suppress(RepositoryError):
            repo = Repo.discover(place)
            with closing(Objects(repo)) as objects:
                ledger = Ledger(repo, objects, session_id)
                if ledger.tip() is not None:
                    return _from_ledger(ledger, cut)
    return None


def complete(doc: Doc, ledger: Ledger) -> int:
    """Take what the ref holds and the record lacks into ``doc``; how many commits that were.  Errors: ``RefMoved``."""
    entries = entries_ahead(ledger, doc)
    for entry in entries:
        lifecycle.fold(doc, {"seq": doc["journal"]["seq"] + 1, "at": doc["updated_at"], **entry})
    _count_tokens(doc)
    return len(entries)


def _from_ledger(ledger: Ledger, cut: Doc) -> Doc:
    oldest = list(ledger.commits())[-1]
    told: Doc = (oldest.record or {}).get("session") or {}
    repo = ledger.repo
    known: Doc = escaped({name: value for name in KEPT_IN_GIT if (value := told.get(name, cut.get(name))) is not None})
    task = known.setdefault("task", _UNKNOWN_TASK)
    now = timestamp()
    metadata = {"working_dir": name_of(repo.worktree), "os": "unknown", "wrapper_version": "unknown"}
    session = Session.model_validate(
        {
            "backend": "command",
            "task_hash": task_hash(task),
            "created_at": cut.get("created_at") or now,
            **known,
            "id": ledger.session_id,
            "status": lifecycle.COMPLETED if cut.get("status") == lifecycle.COMPLETED else lifecycle.PAUSED,
            "updated_at": cut.get("updated_at") or now,
            "metadata": metadata | known.get("metadata", {}),
            "repository": described(repo),
            "context": {"working_branch": (known.get("metadata") or {}).get("git_branch")},
            "current_phase": cut.get("current_phase"),
            "pause_reason": "rebuilt from its checkpoints after its files were lost",
        }
    )
    doc = session.model_dump(mode="json") | {"journal": {"seq": 0, "offset": 0}}
    if doc["command"]:  # whoever can write to the repository can write its refs
        doc |= offered(doc["command"])
    complete(doc, ledger)
    return doc


def _count_tokens(doc: Doc) -> None:
    """Tokens that only the checkpoints tell of count, too; what they cost is not known."""
    cost = doc["cost"]
    used = [record.get("tokens_used") or {} for record in doc["checkpoints"]] + [cost.get("pending") or {}]
    told = sum(part.get("input", 0) + part.get("output", 0) for part in used)
    missing = told - cost.get("total_tokens", 0)
    if missing > 0:
        cost["total_tokens"] = told
        cost["unpriced_tokens"] = cost.get("unpriced_tokens", 0) + missing
        cost["estimated_cost_usd"] = None


def _fragments(store: SessionStore, session_id: str) -> Doc:
    cut: Doc = {}
    for data in _bytes(store, session_id):
        cut = fragments(data) | cut
    return cut


def _bytes(store: SessionStore, session_id: str) -> Iterator[bytes]:
    for ending in (".json", ".json.tmp", ".journal"):
        with suppress(FileNotFoundError, StoreError):
            yield read_bytes(store.sessions_dir / f"{session_id}{ending}")


def _places(store: SessionStore, session_id: str, here: Path) -> Iterator[Path]:
    """Where the session's repository may be, each once: where its damaged files say, here, where other sessions are."""
    seen: set[Path] = set()

    def new(place: Path) -> bool:
        fresh = place not in seen and place.is_dir()
        seen.add(place)
        return fresh

    import json

    for data in _bytes(store, session_id):
        for match in _WORKTREE.finditer(data):
            with suppress(ValueError):
                if new(place := place_of(json.loads(match[1]))):
                    yield place
    if new(here):
        yield here
    with suppress(GitSessionError):
        for summary in store.summaries():
            if summary.worktree and new(place := place_of(summary.worktree)):
                yield place
