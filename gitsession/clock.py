"""Moments as the session files write them.

Reckoned without ``datetime``, which every start of a program would have to load.
"""

from __future__ import annotations

import time


def timestamp(moment: float | None = None) -> str:
    """A moment (Unix seconds; now by default): UTC, ISO 8601, whole seconds, ``Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def precise() -> str:
    """Now, like ``timestamp`` but with milliseconds: for what durations are reckoned from."""
    seconds, rest = divmod(time.time_ns() // 1_000_000, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"
