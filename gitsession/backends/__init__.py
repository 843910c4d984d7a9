"""Backends: what does a session's work.  A backend's module is imported when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from gitsession.config import Settings
from gitsession.errors import UnknownBackend

if TYPE_CHECKING:
    from gitsession.backends.base import Backend

NAMES: Final = ("command", "claude", "claude-code", "codex", "gemini", "opencode")
"""Every backend of the documentation."""
_DIALECTS: Final = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
}


def load(name: str, settings: Settings | None = None) -> Backend:
    """A fresh backend for one run; ``UnknownBackend`` for a name that has none."""
    settings = settings or Settings()
    if name == "command":
        from gitsession.backends.command import CommandBackend

        return CommandBackend(stop_grace=settings.stop_grace)
    if name == "claude":
        from gitsession.backends.claude import ClaudeBackend

        return ClaudeBackend(
            stop_grace=settings.stop_grace, timeout=settings.claude_timeout, max_retries=settings.claude_max_retries
        )
    if name in _DIALECTS:
        from gitsession.backends.wrapped import WrappedBackend

        dialect = import_module(f"gitsession.backends.{_DIALECTS[name]}").Dialect()
        return WrappedBackend(dialect, stop_grace=settings.stop_grace)
    raise UnknownBackend(f"there is no backend {name!r}", hint="backends: " + ", ".join(NAMES))
