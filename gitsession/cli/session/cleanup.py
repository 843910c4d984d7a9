"""``session cleanup``: old sessions to the trash."""

from __future__ import annotations

import time

import click

from gitsession import config, lifecycle
from gitsession.cli.options import days, json_option
from gitsession.cli.render import removal
from gitsession.cli.render.out import write_json
from gitsession.errors import UsageError
from gitsession.store.sessions import SessionStore
from gitsession.verbs.cleanup import DAY, choose, purge_old, remove

_STATES = [lifecycle.COMPLETED, lifecycle.PAUSED, lifecycle.CREATED]


@click.command(
    "cleanup",
    help="Move old sessions to the trash, and remove for good what was in it for session.trash_days.\n\n"
    "A session that runs, that cannot be read, or that is in a chain stays.\n\n"
    "\b\nExamples:\n  pinable-agents session cleanup --older-than 30d --dry-run\n"
    "  pinable-agents session cleanup --status completed --older-than 7d",
)
@click.option(
    "--older-than", metavar="TIME", type=days, help="Untouched for this long: 30d, 12h (session.auto_cleanup_days)."
)
@click.option(
    "--status", type=click.Choice(_STATES), default=lifecycle.COMPLETED, show_default=True, help="In this state."
)
@click.option("--dry-run", "-n", is_flag=True, help="Only say what would be removed.")
@json_option
def command(older_than: float | None, status: str, dry_run: bool, as_json: bool) -> int:
    store, now = SessionStore(), time.time()
    settings = config.load(store.home)
    choice = choose(store, status, default_age(older_than, settings), now)
    removed = [] if dry_run else list(remove(store, choice.chosen))
    purged = [] if dry_run else list(purge_old(store, settings.session_trash_days, now))
    if as_json:
        write_json(removal.as_object(choice, removed, purged, dry_run=dry_run))
    elif dry_run:
        removal.plan(choice, now)
    else:
        removal.done(removed, purged)
        removal.kept(choice.kept)
    return max((one.error.exit_status for one in (*removed, *purged) if one.error is not None), default=0)


def default_age(asked: float | None, settings: config.Settings) -> float:
    """Seconds that were asked for, else those after which sessions are removed by themselves."""
    if asked is None and not settings.session_auto_cleanup_days:
        raise UsageError("how old is not said, and session.auto_cleanup_days is 0", hint="say it: --older-than 30d")
    return settings.session_auto_cleanup_days * DAY if asked is None else asked
