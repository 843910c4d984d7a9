"""The record of a session that is about to be created."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from gitsession import __version__, lifecycle
from gitsession.clock import timestamp
from gitsession.git.repo import Repo
from gitsession.lifecycle import Doc
from gitsession.paths import name_of
from gitsession.tasks import task_hash


def new_record(
    session_id: str,
    task: str,
    backend: str,
    repo: Repo,
    *,
    start: Path,
    model: str | None = None,
    files: Sequence[str] = (),
    workflow: str | None = None,
    command: Sequence[str] = (),
    priority: int = 0,
) -> Doc:
    """A session in its first state, begun in the directory ``start``; ``files`` are relative to the worktree."""
    head = repo.head()
    now = timestamp()
    hashed = task_hash(task)
    metadata = {
        "git_branch": head.branch,
        "git_commit": head.oid[:7] if head.oid else None,
        "working_dir": name_of(start.resolve()),
        "os": platform.system().lower(),
        "wrapper_version": __version__,
        "task_hash": hashed,
        "start_time": None,
        "backend": backend,
        "model": model,
    }
    # Written out, and held against ``gitsession.model`` by a test: to load that takes longer than a checkpoint.
    return {
        "schema_version": lifecycle.SCHEMA_VERSION,
        "id": session_id,
        "status": lifecycle.CREATED,
        "backend": backend,
        "model": model,
        "task": task,
        "task_hash": hashed,
        "files": list(files),
        "created_at": now,
        "updated_at": now,
        "workflow": workflow,
        "current_phase": None,
        "phases_completed": [],
        "checkpoints": [],
        "context": {"conversation_history": [], "accumulated_changes": [], "working_branch": head.branch},
        "cost": {"total_tokens": 0, "estimated_cost_usd": None},
        "metadata": metadata,
        "repository": described(repo),
        "base": None,
        "command": list(command) or None,
        "priority": priority,
        "pause_reason": None,
        "runs": [],
    }


def described(repo: Repo) -> Doc:
    """How a record names its repository."""
    return {
        "worktree": name_of(repo.worktree),
        "git_dir": name_of(repo.git_dir),
        "common_dir": name_of(repo.common_dir),
        "object_format": repo.object_format,
    }
