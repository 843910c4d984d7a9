"""Runs that ended without a word: killed, or gone with the machine."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from gitsession import lifecycle
from gitsession.errors import GitSessionError
from gitsession.store.draft import Draft
from gitsession.store.owner import boot_id
from gitsession.store.sessions import SessionStore


def pause_dead(draft: Draft, owner: dict[str, Any] | None, **facts: Any) -> bool:
    """Pause a session that says it runs and whose owner is gone, at the moment it was last seen alive; whether it did.

    The caller has made sure that nobody owns it.  ``owner`` is what the dead owner said of itself, ``facts`` go into
    the entry.
    """
    if draft.doc["status"] != lifecycle.RUNNING:
        return False
    owner = owner or {}
    then, now = owner.get("boot_id"), boot_id()
    how = "the machine went down" if then and now and then != now else "killed, or the machine went down"
    what = "the agent" if "tracked" in owner else "the run"
    draft.log(
        "status",
        to=lifecycle.PAUSED,
        reason=f"{what} ended without a word ({how})",
        ended_at=draft.doc["updated_at"],
        **({"owner": owner} if owner else {}),
        **facts,
    )
    return True


def bury(store: SessionStore, session_id: str) -> bool:
    """Pause one session whose owner died, and forget that owner; whether it was running.

    ``SessionBusy`` if one lives.
    """
    facts = store.last_owner_facts(session_id)
    with store.own(session_id):
        if not store.exists(session_id):
            return False
        with store.edit(session_id) as draft:
            return pause_dead(draft, facts)


def bury_all(store: SessionStore) -> list[str]:
    """``bury`` wherever an owner died; the sessions that are paused now.

    What it costs depends on how many sessions run or were killed, not on how many there are.  What cannot be paused (it
    is owned after all, damaged, the disk is full) is left as it is: this is done by the way, when a program starts.
    """
    buried = []
    for session_id in store.unended():
        with suppress(GitSessionError):
            if store.owner(session_id) is None and bury(store, session_id):
                buried.append(session_id)
    return buried
