"""Chains: how far one is, and what a member has to wait for and begins with.

A member of a chain waits until the one before it is completed, and begins with what that one found, through the same
code as ``--context-from``.  Only a beginning is held back: a session that has run goes on whenever it is resumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gitsession import lifecycle
from gitsession.errors import IllegalTransition, SessionNotFound, StoreError
from gitsession.lifecycle import Doc
from gitsession.store.chains import Chain, ChainStore
from gitsession.store.sessions import SessionStore

PENDING: Final = "pending"
CORRUPTED: Final = "corrupted"
_HANDS_OVER: Final = (lifecycle.PAUSED, lifecycle.COMPLETED)


@dataclass(frozen=True)
class Member:
    """Where one session of a chain is.

    ``state`` is the session's, ``pending`` if it does not exist, ``corrupted`` if it cannot be read (``problem`` says
    why).  ``since`` is when it came into that state, UTC.  ``waits_for`` is whom it has to wait for before it begins.
    """

    session_id: str
    state: str
    since: str | None = None
    waits_for: str | None = None
    problem: str | None = None


@dataclass(frozen=True)
class ChainStatus:
    chain: Chain
    members: tuple[Member, ...]

    @property
    def remaining(self) -> tuple[Member, ...]:
        """The members that are not completed, in order."""
        return tuple(member for member in self.members if member.state != lifecycle.COMPLETED)


def status(store: SessionStore, chain: Chain) -> ChainStatus:
    """How far a chain is."""
    members: list[Member] = []
    for session_id in chain.sessions:
        before = members[-1] if members else None
        waits_for = before.session_id if before is not None and before.state != lifecycle.COMPLETED else None
        members.append(_member(store, session_id, waits_for))
    return ChainStatus(chain, tuple(members))


def predecessors(store: SessionStore, session_id: str, *, force: bool = False) -> tuple[str, ...]:
    """The sessions that ``session_id`` comes after, in all its chains; it is about to begin.

    ``IllegalTransition`` if one of them is not completed; with ``force`` those that have nothing to hand over are left
    out instead.  ``StoreError`` if a chain cannot be read.
    """
    found: list[str] = []
    for chain in ChainStore(store.home).holding(session_id):
        before = chain.before(session_id)
        if before is None or before in found:
            continue
        state = _member(store, before, None).state
        if state != lifecycle.COMPLETED and not force:
            how = {PENDING: "does not exist yet", CORRUPTED: "cannot be read"}.get(state, f"is {state}")
            raise IllegalTransition(
                f"session {session_id} waits for {before}, which {how} (chain {chain.name})",
                hint=f"complete {before} first, or begin without it: --force",
            )
        if state in _HANDS_OVER:
            found.append(before)
    return tuple(found)


def is_member(store: SessionStore, session_id: str) -> bool:
    """Whether some chain names it: then it is a whole id, not the beginning of another."""
    return bool(ChainStore(store.home).holding(session_id))


def _member(store: SessionStore, session_id: str, waits_for: str | None) -> Member:
    try:
        doc = store.read(session_id)
    except SessionNotFound:
        return Member(session_id, PENDING, waits_for=waits_for)
    except StoreError as error:
        return Member(session_id, CORRUPTED, problem=str(error))
    state: str = doc["status"]
    return Member(session_id, state, _since(doc), waits_for if state == lifecycle.CREATED else None)


def _since(doc: Doc) -> str:
    """When the session came into its state."""
    runs = doc.get("runs") or []
    if doc["status"] == lifecycle.CREATED or not runs:
        moment: str = doc["created_at"] if doc["status"] == lifecycle.CREATED else doc["updated_at"]
        return moment
    return str(runs[-1]["started_at"] if doc["status"] == lifecycle.RUNNING else runs[-1]["ended_at"])
