"""Delete a session: to the trash, with its hidden ref, so that it can be brought back."""

from __future__ import annotations

from pathlib import Path

from gitsession.errors import RepositoryError, SessionBusy, SessionCorrupted
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.store.sessions import SessionStore
from gitsession.verbs.checkpoint import repository_of


def delete(store: SessionStore, session_id: str) -> Path:
    """Move a session that nobody runs to the trash; where it is now.

    The ref is kept under ``refs/pinable-trash/<id>`` first, then the files move, then the old ref goes: at
    every point in between the session is either still whole or whole in the trash.
    """
    if (owner := store.owner(session_id)) is not None:
        raise SessionBusy(
            f"session {session_id} is running (process {owner.pid} on {owner.host})",
            hint=f"pause it first: pinable-agents session pause {session_id}",
        )
    try:
        repo = repository_of(store.read(session_id))
    except (RepositoryError, SessionCorrupted):
        # The repository is gone, and its refs with it; or nobody can tell which it was, and they stay where they are.
        return store.trash(session_id)
    objects = Objects(repo)
    try:
        ledger = Ledger(repo, objects, session_id)
        ledger.copy_to_trash()
        place = store.trash(session_id)
        ledger.drop()
        return place
    finally:
        objects.close()
