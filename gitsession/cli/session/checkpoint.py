"""``session checkpoint``: take one by hand, also while the session runs."""

from __future__ import annotations

import click

from gitsession import config
from gitsession.cli.options import find, json_option, only_utf8, session_argument
from gitsession.cli.render.out import note, write, write_json
from gitsession.cli.render.run import saved
from gitsession.cli.render.text import one_line, safe_text
from gitsession.verbs.checkpoint import checkpoint
from gitsession.verbs.restore import finish_interrupted


@click.command(
    "checkpoint",
    help="Take a checkpoint of a session's files as they are now.\n\n"
    '\b\nExample:\n  pinable-agents session checkpoint latest --description "before lunch"',
)
@session_argument
@click.option(
    "--description", metavar="TEXT", callback=only_utf8, help="What the files are now; else the changed files make one."
)
@json_option
def command(session: str, description: str | None, as_json: bool) -> None:
    store, session_id = find(session)
    settings = config.load(store.home)
    finish_interrupted(store, session_id, settings)
    taken = checkpoint(store, session_id, description, settings)
    if as_json:
        write_json(taken.model_dump(mode="json"))
        return
    write(saved(taken.index, taken.description))
    for item in taken.skipped:
        note(f"left out: {safe_text(item.path)} ({one_line(item.reason)})")
