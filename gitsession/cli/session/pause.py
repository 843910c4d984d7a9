"""``session pause``: from another terminal, as Ctrl-C does in its own."""

from __future__ import annotations

import click

from gitsession.cli.options import find, session_argument
from gitsession.cli.render.out import note, write
from gitsession.cli.render.run import paused
from gitsession.verbs.pause import pause


@click.command(
    "pause",
    help="Pause a running session: interrupt its agent, take a last checkpoint.\n\n"
    "\b\nExample:\n  pinable-agents session pause sess_1740480000_a3f7b2c1",
)
@session_argument
def command(session: str) -> None:
    store, session_id = find(session)
    done = pause(store, session_id)
    taken = store.read(session_id)["checkpoints"]
    write(paused(session_id, taken[-1]["index"] if taken else None))
    if done != "paused":
        note("it was paused already")
