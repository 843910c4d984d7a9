"""``session undelete``: out of the trash again."""

from __future__ import annotations

import click

from gitsession.cli.render import removal
from gitsession.cli.render.out import note, write
from gitsession.errors import UsageError
from gitsession.store.sessions import SessionStore
from gitsession.verbs.delete import undelete


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    deleted = SessionStore().trashed()
    names = [name for one in deleted for name in ((one.name,) if "~" in incomplete else (one.session_id,))]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


@click.command(
    "undelete",
    help="Bring back a deleted session, as it was. Of several deleted under one ID "
    "the last; another one by the name that --list shows, ID~2.\n\n\b\nExamples:\n"
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
    one = store.last_trashed(session)
    session_id = one.session_id
    whole = undelete(store, session_id, one.name if "~" in session else None)
    write(f"Session undeleted: {session_id}")
    if not whole:
        note("its repository is not where it was: what the session recorded is back, its checkpoints' files are there")
