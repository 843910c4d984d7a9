"""``session undelete``: out of the trash again."""

from __future__ import annotations

import click

from gitsession.cli.render import removal
from gitsession.cli.render.out import note, write
from gitsession.errors import UsageError
from gitsession.store.sessions import SessionStore
from gitsession.verbs.delete import undelete


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [one.session_id for one in SessionStore().trashed() if one.session_id.startswith(incomplete)]


@click.command(
    "undelete",
    help="Bring back a deleted session, as it was.\n\n\b\nExamples:\n"
    "  pinable-agents session undelete --list\n  pinable-agents session undelete sess_1740480000_a3f7b2c1",
)
@click.argument("session", metavar="[ID]", required=False, shell_complete=_complete)
@click.option("--list", "show", is_flag=True, help="Show what is in the trash.")
def command(session: str | None, show: bool) -> None:
    store = SessionStore()
    if show:
        deleted = store.trashed()
        if deleted:
            removal.trash(deleted)
        else:
            note("the trash is empty")
        return
    if session is None:
        raise UsageError("which session is not said", hint="--list shows what is in the trash")
    session_id = store.last_trashed(session).session_id
    whole = undelete(store, session_id)
    write(f"Session undeleted: {session_id}")
    if not whole:
        note("its repository is not where it was: what the session recorded is back, its checkpoints' files are there")
