"""Find interrupted sessions.

Sessions that can be resumed are those that are paused, those that never came to run, and those whose owner died, which
are paused first.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from gitsession import lifecycle
from gitsession.errors import GitSessionError
from gitsession.store.sessions import SessionStore
from gitsession.store.summaries import Summary
from gitsession.verbs.deaths import bury


@dataclass(frozen=True)
class Scan:
    """``recoverable``: in the order in which they are recovered; ``damaged``: cannot be read; ``paused``: just now.

    ``newer`` ones were written by a newer version: that they are not for this one to read is no damage.
    """

    recoverable: tuple[Summary, ...]
    damaged: tuple[Summary, ...]
    paused: tuple[str, ...]
    newer: tuple[Summary, ...] = ()


def scan(store: SessionStore, *, dry_run: bool = False) -> Scan:
    """Look at every session, and pause those whose owner died: all that is changed, and with ``dry_run`` nothing is."""
    recoverable, paused = [], []
    damaged: list[Summary] = []
    newer: list[Summary] = []
    for summary in store.summaries():
        if summary.problem is not None:
            (newer if summary.status else damaged).append(summary)
        elif summary.status == lifecycle.RUNNING and not summary.alive:
            found = summary
            if not dry_run:
                found = _paused(store, summary)
                paused += [summary.id] if found.status == lifecycle.PAUSED else []
            recoverable.append(found)
        elif summary.status == lifecycle.PAUSED or _never_ran(store, summary):
            recoverable.append(summary)
    return Scan(tuple(in_order(recoverable)), tuple(damaged), tuple(paused), tuple(newer))


def is_persons(store: SessionStore, session_id: str) -> bool:
    """Whether a person used the agent in it last: it goes on without them only when it is asked for by its id."""
    with suppress(GitSessionError):
        runs = store.read(session_id).get("runs") or []
        return bool(runs) and bool(runs[-1].get("tracked"))
    return False


def _never_ran(store: SessionStore, summary: Summary) -> bool:
    """Whether it was killed between its creation and its first run."""
    return summary.status == lifecycle.CREATED and store.owner(summary.id) is None


def in_order(sessions: Iterable[Summary]) -> list[Summary]:
    """The order in which sessions are recovered: of higher priority first, then the older."""
    return sorted(sessions, key=lambda one: (-one.priority, one.created_at, one.id))


def _paused(store: SessionStore, summary: Summary) -> Summary:
    """The session once its death is recorded; as it was if that is not possible now."""
    with suppress(GitSessionError):
        bury(store, summary.id)
    return store.summary(summary.id)
