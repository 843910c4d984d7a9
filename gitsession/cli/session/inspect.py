"""``session inspect``: one session in full."""

from __future__ import annotations

import click

from gitsession.cli.options import find, json_option, session_argument, utc_option
from gitsession.cli.render import inspection
from gitsession.cli.render.out import write_json
from gitsession.verbs.inspect import inspect


@click.command(
    "inspect",
    help="Show one session: state, checkpoints, changed files, remaining work.\n\n"
    "\b\nExample:\n  pinable-agents session inspect sess_1740480000_a3f7b2c1 --verbose",
)
@session_argument
@utc_option
@click.option("--verbose", "-v", is_flag=True, help="Add metadata, context, cost and what was left out.")
@json_option
def command(session: str, verbose: bool, as_json: bool) -> None:
    found = inspect(*find(session))
    if as_json:
        write_json(inspection.as_object(found))
    else:
        inspection.draw(found, verbose=verbose)
