"""``session list``: every session of this person, also those that cannot be read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from gitsession.cli.options import complete_backends, here, json_option, since_when
from gitsession.cli.render import listing
from gitsession.cli.render.out import is_terminal, note, write_json_array
from gitsession.cli.render.text import one_line
from gitsession.errors import UsageError
from gitsession.lifecycle import STATES
from gitsession.store.sessions import SessionStore
from gitsession.store.summaries import AGE, Summary

# Times and priorities are sorted from the highest, names from the first.
_SORTS: dict[str, tuple[tuple[str, ...], bool]] = {
    "created_at": (AGE, True),
    "updated_at": (("updated_at", "id"), True),
    "priority": (("priority",), True),
    "id": (("id",), False),
    "status": (("status",), False),
    "backend": (("backend",), False),
}
_EVERY = 1.0  # seconds between two looks with --watch


@click.command(
    "list",
    help="List sessions, the newest first.\n\n\b\nExamples:\n"
    "  pinable-agents session list --status paused --sort created_at\n"
    "  pinable-agents session list --backend claude --limit 10\n"
    "  pinable-agents session list --repo . --since 7d",
)
@click.option("--status", type=click.Choice([*STATES, listing.CORRUPTED]), help="Only sessions in this state.")
@click.option("--backend", metavar="NAME", shell_complete=complete_backends, help="Only sessions of this backend.")
@click.option("--since", metavar="TIME", help="Only sessions that were touched since: 2026-02-25, 7d, 12h.")
@click.option("--repo", metavar="DIR", type=click.Path(path_type=Path), help="Only sessions of this repository.")
@click.option("--sort", type=click.Choice(list(_SORTS)), default="created_at", show_default=True, help="The order.")
@click.option("--reverse", is_flag=True, help="The other way round.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most N sessions.")
@click.option("--watch", "-w", is_flag=True, help="Show them as they go on, until Ctrl-C.")
@json_option
def command(sort: str, reverse: bool, limit: int | None, watch: bool, as_json: bool, **filters: Any) -> None:
    store, wanted = SessionStore(), _filter(**filters)
    fields, descending = _SORTS[sort]

    def look() -> tuple[list[Summary], list[Summary]]:
        everything = list(store.summaries())
        chosen = list(filter(wanted, everything)) if wanted else everything.copy()
        # One after the other: ten thousand texts are compared in half the time that tuples of them take.
        for field in reversed(fields):
            chosen.sort(key=attrgetter(field), reverse=descending != reverse)
        return everything, chosen[:limit]

    if watch:
        _watch(lambda: look()[1], as_json)
        return
    everything, shown = look()
    if as_json:
        write_json_array([listing.as_object(one) for one in shown])
        return
    if shown:
        listing.draw(shown, time.time())
    elif not everything:
        note(one_line(f"no sessions in {store.sessions_dir}"))
    else:
        note(f"no session fits; there are {len(everything):,} of other kinds")
    _tell_unreadable(everything, shown)


def _filter(
    status: str | None, backend: str | None, since: str | None, repo: Path | None
) -> Callable[[Summary], bool] | None:
    """Whether a session is wanted; ``None``: all are."""
    tests: list[Callable[[Summary], bool]] = []
    if status is not None:
        tests.append(lambda one: listing.status(one) == status)
    if backend is not None:
        tests.append(lambda one: one.backend == backend)
    if since is not None:
        moment = since_when(since, time.time())
        tests.append(lambda one: one.updated_at >= moment)
    if repo is not None:
        tests.append(_in_repository(repo))
    return (lambda one: all(test(one) for test in tests)) if tests else None


def _in_repository(place: Path) -> Callable[[Summary], bool]:
    """Whether a session is of the repository at ``place``, in whichever of its worktrees; it need not be there now."""
    from gitsession.errors import RepositoryError
    from gitsession.git.repo import Repo
    from gitsession.paths import name_of

    try:
        common_dir = name_of(Repo.discover(place).common_dir)
    except RepositoryError:
        worktree = name_of(here() / place)
        return lambda one: one.worktree == worktree
    return lambda one: one.repository == common_dir


def _watch(look: Callable[[], Sequence[Summary]], as_json: bool) -> None:
    if as_json or not is_terminal(sys.stdout):
        raise UsageError("--watch needs a terminal, and no --json", hint="session log -f ID follows one for programs")
    with listing.Screen() as screen:
        while True:
            screen.draw(look(), time.time())
            time.sleep(_EVERY)


def _tell_unreadable(everything: Sequence[Summary], shown: Sequence[Summary]) -> None:
    """A filter must not make a damaged session disappear without a word."""
    hidden = {one.id for one in everything if not one.status} - {one.id for one in shown if not one.status}
    if hidden:
        note(f"cannot be read and not shown: {len(hidden)} (session list --status {listing.CORRUPTED})")
