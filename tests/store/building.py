"""What tests of the store build with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def new_doc(session_id: str = "s", **fields: Any) -> dict[str, Any]:
    """The record of a session that is about to be created."""
    return {
        "id": session_id,
        "status": "created",
        "backend": "command",
        "model": None,
        "task": "Rename the module",
        "task_hash": "sha256:0",
        "files": ["a.py", "b.py"],
        "created_at": "2026-02-25T10:00:00Z",
        "updated_at": "2026-02-25T10:00:00Z",
        "checkpoints": [],
        "context": {},
        "cost": {"total_tokens": 0, "estimated_cost_usd": None},
        "metadata": {"working_dir": "/w", "os": "linux", "wrapper_version": "0"},
        **fields,
    }


def record(index: int, description: str = "a step") -> dict[str, Any]:
    """A checkpoint's record."""
    return {
        "index": index,
        "timestamp": "2026-02-25T10:01:00Z",
        "phase": "analysis",
        "description": description,
        "files_changed": ["a.py"],
        "changes": [{"path": "a.py", "status": "modified"}],
    }


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below ``directory`` with its bytes, but for the locks, which hold none."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.suffix not in {".lock", ".mutex", ".owner"}
    }


class Fault:
    """A seam hook that fails at one point: the ``number``-th reached, counted from 0."""

    def __init__(self, number: int, error: int) -> None:
        self.left, self.error, self.point = number, error, ""

    def __call__(self, point: str) -> None:
        if self.left == 0:
            self.point = point
            self.left -= 1
            raise OSError(self.error, os.strerror(self.error))
        self.left -= 1
