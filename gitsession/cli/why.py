"""``pinable-agents why``: the session behind a commit, a line, a file or a range."""

from __future__ import annotations

import click

from gitsession.cli.options import here, json_option
from gitsession.cli.render import origins
from gitsession.cli.render.out import note, write_json_array
from gitsession.store.sessions import SessionStore
from gitsession.verbs.why import why


@click.command(
    "why",
    help="Tell which session's work is in a commit, FILE, FILE:LINE, FILE:FROM-TO or range A..B.\n\n"
    "\b\nExamples:\n  pinable-agents why HEAD\n  pinable-agents why src/app.py:42\n"
    "  pinable-agents why main..topic",
)
@click.argument("what", metavar="COMMIT|FILE[:LINE]|RANGE", default="HEAD")
@json_option
def command(what: str, as_json: bool) -> None:
    answers = why(SessionStore(), here(), what)
    if as_json:
        write_json_array([origins.as_object(answer) for answer in answers])
    elif answers:
        origins.draw(answers)
    else:
        note(f"no commit of {what} holds work of a session")
