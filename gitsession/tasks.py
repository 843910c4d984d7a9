"""A task's fingerprint: tells whether a session is resumed with the task that it began with."""

from __future__ import annotations

import hashlib


def task_hash(task: str) -> str:
    """``sha256:`` and the hex digest of the task's UTF-8."""
    return "sha256:" + hashlib.sha256(task.encode("utf-8")).hexdigest()


def same_task(a: str, b: str) -> bool:
    """Whether two task hashes agree, compared by the shorter of them."""
    a, b = a.removeprefix("sha256:"), b.removeprefix("sha256:")
    length = min(len(a), len(b))
    return length > 0 and a[:length] == b[:length]
