"""Count sessions, what they used, and the space they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gitsession import lifecycle
from gitsession.errors import GitFailed, RepositoryError
from gitsession.git.repo import Repo
from gitsession.paths import place_of
from gitsession.store.index import look
from gitsession.store.sessions import SessionStore
from gitsession.store.summaries import Summary

ACTIVE, PAUSED, COMPLETED, CORRUPTED = "active", "paused", "completed", "corrupted"
CREATED, INTERRUPTED, OTHER = "created", "interrupted", "other"
# What our refs lead to and nothing else does.
_COUNT: Final = (
    "rev-list",
    "--disk-usage",
    "--objects",
    "--glob=refs/pinable*",
    "--not",
    "--exclude=refs/pinable*",
    "--all",
)
_STATES: Final = {lifecycle.PAUSED: PAUSED, lifecycle.COMPLETED: COMPLETED, lifecycle.CREATED: CREATED, "": CORRUPTED}


@dataclass
class Use:
    """What some sessions used.

    ``cost_usd`` is the sum of what is known, ``None`` where nothing is; ``unpriced`` how many used tokens whose price
    is not known.
    """

    sessions: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    unpriced: int = 0

    def add(self, one: Summary) -> None:
        self.sessions += 1
        self.tokens += one.tokens
        if one.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + one.cost_usd
        elif one.tokens:
            self.unpriced += 1


@dataclass(frozen=True)
class Stats:
    """Every session is in one of ``states``.  Sizes in bytes; ``git_bytes`` is ``None`` where it was not counted.

    ``interrupted`` sessions say that they run, and their process is gone; ``other`` are of a newer version's states.
    """

    states: Counter[str]
    oldest: str | None
    disk_bytes: int
    trashed: int
    trash_bytes: int
    total: Use
    backends: dict[str, Use] = field(default_factory=dict)
    git_bytes: int | None = None
    repositories: int = 0


def stats(store: SessionStore, *, git: bool = True) -> Stats:
    """Look at every session; with ``git`` ask each repository how much its sessions hold that nothing else does."""
    states: Counter[str] = Counter()
    backends: dict[str, Use] = {}
    total = Use()
    summaries = list(store.summaries())
    for one in summaries:
        states[_state(one)] += 1
        total.add(one)
        if one.backend:
            backends.setdefault(one.backend, Use()).add(one)
    git_bytes, repositories = _in_git(summaries) if git else (None, 0)
    trashed = store.trashed()
    return Stats(
        states=states,
        oldest=min((one.created_at for one in summaries if one.created_at), default=None),
        disk_bytes=_disk_usage(store.sessions_dir),
        trashed=len(trashed),
        trash_bytes=sum(_disk_usage(one.place) for one in trashed),
        total=total,
        backends=dict(sorted(backends.items())),
        git_bytes=git_bytes,
        repositories=repositories,
    )


def _state(one: Summary) -> str:
    if one.status == lifecycle.RUNNING:
        return ACTIVE if one.alive else INTERRUPTED
    return _STATES.get(one.status, OTHER)


def _disk_usage(directory: Path) -> int:
    """Bytes of the session files and journals in ``directory``."""
    seen = look(directory)
    return sum(state[1] for states in (seen.snapshots, seen.journals) for state in states.values() if state is not None)


def _in_git(summaries: Iterable[Summary]) -> tuple[int, int]:
    """Bytes that the repositories hold for sessions and for nothing else, and how many repositories there are.

    They are asked all at once.
    """
    places = {one.repository: place_of(one.worktree) for one in summaries if one.repository and one.worktree}
    repos = []
    for place in places.values():
        with suppress(RepositoryError):
            repos.append(Repo.discover(place))
    total = 0
    with ExitStack() as stack:
        running = [stack.enter_context(repo.start(*_COUNT)) for repo in repos]
        for one in running:
            with suppress(GitFailed):
                total += int(one.finish().strip() or 0)
    return total, len(repos)
