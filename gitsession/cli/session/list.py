"""``session list``: every session of this person, also those that cannot be read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from gitsession.cli.options import json_option
from gitsession.cli.render import listing
from gitsession.cli.render.out import note, write_json_array
from gitsession.lifecycle import STATES
from gitsession.store.sessions import SessionStore
from gitsession.store.summaries import Summary

# Times and priorities are sorted from the highest, names from the first.
_SORTS: dict[str, tuple[Callable[[Summary], Any], bool]] = {
    "created_at": (lambda one: (one.created_at, one.id), True),
    "updated_at": (lambda one: (one.updated_at, one.id), True),
    "priority": (lambda one: one.priority, True),
    "id": (lambda one: one.id, False),
    "status": (lambda one: one.status, False),
    "backend": (lambda one: one.backend, False),
}


@click.command("list", help="List sessions, the newest first.")
@click.option("--status", type=click.Choice([*STATES, listing.CORRUPTED]), help="Only sessions in this state.")
@click.option("--backend", metavar="NAME", help="Only sessions of this backend.")
@click.option("--sort", type=click.Choice(list(_SORTS)), default="created_at", show_default=True, help="The order.")
@click.option("--reverse", is_flag=True, help="The other way round.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most N sessions.")
@json_option
def command(
    status: str | None, backend: str | None, sort: str, reverse: bool, limit: int | None, as_json: bool
) -> None:
    store = SessionStore()
    everything = list(store.summaries())
    key, descending = _SORTS[sort]
    chosen = [one for one in everything if status in (None, listing.status(one)) and backend in (None, one.backend)]
    chosen.sort(key=key, reverse=descending != reverse)
    shown = chosen[:limit]
    if as_json:
        write_json_array([listing.as_object(one) for one in shown])
        return
    if shown:
        listing.draw(shown, time.time())
    elif not everything:
        note(f"no sessions in {store.sessions_dir}")
    _tell_unreadable(everything, {one.id for one in shown})


def _tell_unreadable(everything: list[Summary], shown: set[str]) -> None:
    """A filter must not make a damaged session disappear without a word."""
    hidden = sum(listing.status(one) == listing.CORRUPTED and one.id not in shown for one in everything)
    if hidden:
        note(f"cannot be read and not shown: {hidden} (session list --status {listing.CORRUPTED})")
