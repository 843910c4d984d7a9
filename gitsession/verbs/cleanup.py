"""Remove many sessions at once, and never one that somebody may still need.

A session that runs, that cannot be read, or that a chain names is not removed in bulk, whatever was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitsession import lifecycle
from gitsession.errors import GitSessionError
from gitsession.store.chains import ChainStore
from gitsession.store.sessions import SessionStore
from gitsession.store.summaries import Summary
from gitsession.verbs.delete import delete, purge
from gitsession.verbs.totals import moment

DAY: Final = 86400.0  # seconds


@dataclass(frozen=True)
class Choice:
    """``chosen``: the oldest first; ``kept``: what would be among them, and why it is not."""

    chosen: tuple[Summary, ...]
    kept: tuple[tuple[Summary, str], ...]


def choose(store: SessionStore, status: str, older_than: float, now: float) -> Choice:
    """The sessions in state ``status`` in which nothing happened for ``older_than`` seconds before ``now`` (Unix).

    ``StoreError`` when a chain cannot be read: nobody knows which sessions it needs.
    """
    chains = {session_id: chain.name for chain in ChainStore(store.home).all() for session_id in chain.sessions}
    chosen, kept = [], []
    for one in store.summaries():
        if one.status != status or not _is_older(one, now - older_than):
            continue
        reason = _why_kept(store, one, chains)
        if reason is None:
            chosen.append(one)
        else:
            kept.append((one, reason))
    chosen.sort(key=lambda one: (one.updated_at, one.id))
    return Choice(tuple(chosen), tuple(kept))


def _is_older(one: Summary, then: float) -> bool:
    try:
        return moment(one.updated_at) <= then
    except ValueError:
        return False


def _why_kept(store: SessionStore, one: Summary, chains: dict[str, str]) -> str | None:
    if one.problem is not None:
        return one.problem
    if one.id in chains:
        return f"in chain {chains[one.id]}"
    owner = store.owner(one.id) if one.status != lifecycle.COMPLETED else None
    return None if owner is None else f"owned by {owner}"


@dataclass(frozen=True)
class Removed:
    """What became of one session: where it is now, or the ``error`` that kept it."""

    session_id: str
    place: Path | None = None
    error: GitSessionError | None = None


def remove(store: SessionStore, sessions: Iterable[Summary]) -> Iterator[Removed]:
    """Move each to the trash; what keeps one does not keep the next."""
    for one in sessions:
        try:
            yield Removed(one.id, place=delete(store, one.id))
        except GitSessionError as error:
            yield Removed(one.id, error=error)


def purge_old(store: SessionStore, days: int, now: float) -> Iterator[Removed]:
    """Remove for good what has been in the trash for ``days``; nothing if that is 0."""
    for one in store.trashed() if days else []:
        if one.since <= now - days * DAY:
            try:
                purge(store, one)
            except GitSessionError as error:
                yield Removed(one.session_id, error=error)
            else:
                yield Removed(one.session_id)
