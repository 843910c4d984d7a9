"""``session delete``: to the trash."""

from __future__ import annotations

import click

from gitsession.cli.options import find, session_argument
from gitsession.cli.render.out import note, write
from gitsession.cli.render.text import safe_text
from gitsession.verbs.delete import delete


@click.command(
    "delete",
    help="Move a session that does not run to the trash; the files of its repository stay.\n\n"
    "\b\nExample:\n  pinable-agents session delete sess_1740480000_a3f7b2c1",
)
@session_argument
@click.option("--force", is_flag=True, help="Also when a restore of its was cut short: the files stay half restored.")
def command(session: str, force: bool) -> None:
    store, session_id = find(session)
    place = delete(store, session_id, force=force)
    write(f"Session deleted: {session_id}")
    note(f"kept in {safe_text(str(place))}; 'pinable-agents session undelete {session_id}' brings it back")
