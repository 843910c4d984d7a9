"""Moments as the session files write them."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(moment: float | None = None) -> str:
    """A moment (Unix seconds; now by default): UTC, ISO 8601, whole seconds, ``Z``."""
    at = datetime.now(UTC) if moment is None else datetime.fromtimestamp(moment, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def precise() -> str:
    """Now, like ``timestamp`` but with milliseconds: for what durations are reckoned from."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
