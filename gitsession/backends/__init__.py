"""Backends: what does a session's work.  A backend's module is imported when it is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gitsession.config import Settings
from gitsession.errors import NotYet, UnknownBackend

if TYPE_CHECKING:
    from gitsession.backends.base import Backend

NAMES: Final = ("command", "claude", "claude-code", "codex", "gemini", "opencode")
"""Every backend of the documentation, built or not."""


def load(name: str, settings: Settings | None = None) -> Backend:
    """A fresh backend for one run; ``UnknownBackend`` or ``NotYet`` for a name that has none."""
    settings = settings or Settings()
    if name == "command":
        from gitsession.backends.command import CommandBackend

        return CommandBackend(stop_grace=settings.stop_grace)
    if name == "claude":
        from gitsession.backends.claude import ClaudeBackend

        return ClaudeBackend(
            stop_grace=settings.stop_grace, timeout=settings.claude_timeout, max_retries=settings.claude_max_retries
        )
    if name in NAMES:
        raise NotYet(
            f"the backend {name!r} is not there yet",
            hint="any agent's program can be run with --backend command, after a --",
        )
    raise UnknownBackend(f"there is no backend {name!r}", hint="backends: " + ", ".join(NAMES))
