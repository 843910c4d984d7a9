"""``session log``: the journal, and with ``-f`` what comes into it."""

from __future__ import annotations

import click

from gitsession.cli.options import find, session_argument, utc_option
from gitsession.cli.render import log


@click.command(
    "log",
    help="Show what happened in a session, step by step.\n\n\b\nExample:\n  pinable-agents session log --follow latest",
)
@session_argument
@utc_option
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens next, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, one object a line.")
def command(session: str, follow: bool, as_json: bool) -> None:
    store, session_id = find(session)
    journal = store.journal(session_id)
    for entry in journal.follow() if follow else journal.read()[0]:
        log.draw(entry, as_json=as_json)
