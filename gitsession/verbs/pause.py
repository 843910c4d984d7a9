"""Ask a running session to pause, from another process."""

from __future__ import annotations

import os
import time

from gitsession import lifecycle
from gitsession.errors import IllegalTransition, SessionBusy
from gitsession.store.owner import END_IT
from gitsession.store.sessions import SessionStore
from gitsession.verbs.deaths import pause_dead


def pause(store: SessionStore, session_id: str, wait: float = 20.0) -> str:
    """Pause a session and say what was done: ``paused`` or ``already paused``.

    The request is a line in the journal; the owner reads it, interrupts its agent, takes a last checkpoint and
    pauses.  A session whose owner died is paused here and now.  ``SessionBusy`` if the owner has not paused
    after ``wait`` seconds; the request stands.
    """
    owner = store.owner(session_id)
    with store.edit(session_id) as draft:
        status = draft.doc["status"]
        if status == lifecycle.PAUSED:
            return "already paused"
        if status != lifecycle.RUNNING:
            lifecycle.transition(status, lifecycle.PAUSED)
        if owner is None:
            pause_dead(draft, store.last_owner_facts(session_id))
            return "paused"
        if not owner.local:
            raise SessionBusy(f"session {session_id} runs on {owner.host}", hint="run session pause on that machine")
        if owner.tracked is not None:
            raise SessionBusy(f"session {session_id} is fed by {owner}, which takes no orders from here", hint=END_IT)
        draft.log("pause_requested", pid=os.getpid())
    return _wait(store, session_id, owner.pid, wait)


def _wait(store: SessionStore, session_id: str, pid: int | None, wait: float) -> str:
    until = time.monotonic() + wait
    while time.monotonic() < until:
        status = store.read(session_id)["status"]
        if status == lifecycle.PAUSED:
            return "paused"
        if status == lifecycle.COMPLETED:
            raise IllegalTransition(f"session {session_id} completed before it could be paused")
        time.sleep(0.1)
    raise SessionBusy(
        f"session {session_id} (process {pid}) has not paused within {wait:.0f} s; it will when its agent lets it",
        hint=f"to end it at once: kill {pid}; its work stays and can be resumed",
    )
