"""A session in one line of a listing, made without pydantic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gitsession.lifecycle import Doc
from gitsession.store.record import is_too_new


@dataclass(frozen=True)
class Summary:
    """What a listing shows; a session that cannot be read has its ``problem`` and empty fields.

    ``checkpoint_index`` is the last checkpoint's.  ``alive``: it is running and its owner lives; a running session that
    is not alive was killed.
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


def summarize(session_id: str, doc: Doc, alive: bool) -> Summary:
    """The summary of a record; fields of a shape this version does not know stay empty."""
    checkpoints, repository, model = doc.get("checkpoints"), doc.get("repository"), doc.get("model")
    last = checkpoints[-1] if isinstance(checkpoints, list) and checkpoints else None
    files, priority = doc.get("files"), doc.get("priority")
    version = doc.get("schema_version")
    return Summary(
        id=session_id,
        status=_text(doc.get("status")),
        backend=_text(doc.get("backend")),
        model=_text(model) or None,
        task=_text(doc.get("task")),
        created_at=_text(doc.get("created_at")),
        updated_at=_text(doc.get("updated_at")),
        files_count=len(files) if isinstance(files, list) else 0,
        checkpoint_index=_number(last.get("index")) if isinstance(last, dict) else None,
        worktree=_text(repository.get("worktree")) or None if isinstance(repository, dict) else None,
        priority=_number(priority) or 0,
        alive=alive,
        problem=f"written by a newer version (schema {version})" if is_too_new(doc) else None,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int | None:
    return value if type(value) is int else None
