"""A session in one line of a listing, made without pydantic."""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import Any, Final, NamedTuple

from gitsession.lifecycle import Doc
from gitsession.store.record import is_too_new


class Summary(NamedTuple):
    """What a listing shows; a session that cannot be read has its ``problem`` and empty fields.

    ``checkpoint_index`` is the last checkpoint's.  ``alive``: it is running and its owner lives; a running session that
    is not alive was killed.  ``repository`` is the git directory that the worktrees of one repository share.
    ``begun`` is when its first run began, to the millisecond.
    """

    id: str
    status: str = ""
    backend: str = ""
    model: str | None = None
    task: str = ""
    created_at: str = ""
    updated_at: str = ""
    files_count: int = 0
    checkpoint_index: int | None = None
    worktree: str | None = None
    priority: int = 0
    alive: bool = False
    problem: str | None = None
    phase: str | None = None
    repository: str | None = None
    tokens: int = 0
    cost_usd: float | None = None
    begun: str = ""


AGE: Final = ("created_at", "begun", "id")
"""The fields that sort summaries from the oldest to the newest, also those of one second."""
by_age: Final = attrgetter(*AGE)


def summarize(session_id: str, doc: Doc, alive: bool) -> Summary:
    """The summary of a record; fields of a shape this version does not know stay empty."""
    checkpoints, repository, cost = doc.get("checkpoints"), _object(doc.get("repository")), _object(doc.get("cost"))
    last = checkpoints[-1] if isinstance(checkpoints, list) and checkpoints else None
    runs = doc.get("runs")
    first = runs[0] if isinstance(runs, list) and runs else None
    files, said = doc.get("files"), cost.get("estimated_cost_usd")
    price = said if isinstance(said, float) else _number(said)
    version = doc.get("schema_version")
    return Summary(
        id=session_id,
        status=_text(doc.get("status")),
        backend=_text(doc.get("backend")),
        model=_text(doc.get("model")) or None,
        task=_text(doc.get("task")),
        created_at=_text(doc.get("created_at")),
        updated_at=_text(doc.get("updated_at")),
        files_count=len(files) if isinstance(files, list) else 0,
        checkpoint_index=_number(last.get("index")) if isinstance(last, dict) else None,
        worktree=_text(repository.get("worktree")) or None,
        priority=_number(doc.get("priority")) or 0,
        alive=alive,
        problem=f"written by a newer version (schema {version})" if is_too_new(doc) else None,
        phase=_text(doc.get("current_phase")) or None,
        repository=_text(repository.get("common_dir")) or None,
        tokens=_number(cost.get("total_tokens")) or 0,
        cost_usd=None if price is None else float(price),
        begun=_text(first.get("started_at")) if isinstance(first, dict) else "",
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int | None:
    """No listing can reckon with numbers beyond all measure."""
    return value if type(value) is int and abs(value) <= sys.maxsize else None
