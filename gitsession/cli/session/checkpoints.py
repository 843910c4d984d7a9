"""``session checkpoints``: what can be gone back to."""

from __future__ import annotations

import click

from gitsession.cli.options import find, json_option, session_argument, utc_option
from gitsession.cli.render import checkpoints
from gitsession.cli.render.out import note, write_json_array


@click.command(
    "checkpoints",
    help="List a session's checkpoints.\n\n\b\nExample:\n  pinable-agents session checkpoints sess_1740480000_a3f7b2c1",
)
@session_argument
@utc_option
@json_option
def command(session: str, as_json: bool) -> None:
    store, session_id = find(session)
    record = store.load(session_id)
    if as_json:
        write_json_array([one.model_dump(mode="json") for one in record.checkpoints])
    elif record.checkpoints:
        checkpoints.draw(record)
    else:
        note(f"session {session_id} has no checkpoint yet")
