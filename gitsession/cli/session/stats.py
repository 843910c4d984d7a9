"""``session stats``: how many, how much."""

from __future__ import annotations

import click

from gitsession.cli.options import json_option, utc_option
from gitsession.cli.render import stats as render
from gitsession.cli.render.out import write_json
from gitsession.store.sessions import SessionStore
from gitsession.verbs.stats import stats


@click.command("stats", help="Count sessions, what they used, and the space they take.")
@click.option("--no-git", is_flag=True, help="Do not ask the repositories, which may take a moment.")
@utc_option
@json_option
def command(no_git: bool, as_json: bool) -> None:
    found = stats(SessionStore(), git=not no_git)
    if as_json:
        write_json(render.as_object(found))
    else:
        render.draw(found)
