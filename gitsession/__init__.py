"""gitsession: sessions of AI coding agents, kept in JSON and in git.

The names below are the public library; each loads what it needs when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own takes 8 ms to load, and a git hook passes here
__version__ = "0.1.0"

if TYPE_CHECKING:
    from gitsession.errors import GitSessionError as GitSessionError
    from gitsession.model import Checkpoint as Checkpoint
    from gitsession.model import Session as Session
    from gitsession.store.sessions import SessionStore as SessionStore

_PUBLIC = {
    "SessionStore": "gitsession.store.sessions",
    "Session": "gitsession.model",
    "Checkpoint": "gitsession.model",
    "GitSessionError": "gitsession.errors",
}
__all__ = ["Checkpoint", "GitSessionError", "Session", "SessionStore", "__version__"]


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        from importlib import import_module

        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
