"""``pinable-agents doctor``: what is wrong, and what would be done about it."""

from __future__ import annotations

from pathlib import Path

import click

from gitsession import config
from gitsession.cli.options import here, json_option
from gitsession.cli.render import checkup as render
from gitsession.cli.render.out import write, write_json
from gitsession.errors import UsageError
from gitsession.store.sessions import SessionStore


@click.command("doctor", help="Find what is wrong with sessions and around them; exit status 1 if there is something.")
@click.option("--fix", is_flag=True, help="Do what can be done. Nothing is deleted: what is replaced is kept.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done (the default).")
@click.option(
    "--relocate",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="The repository of sessions that cannot find theirs is at PATH now.",
)
@json_option
def command(fix: bool, dry_run: bool, relocate: Path | None, as_json: bool) -> int:
    if dry_run and (fix or relocate is not None):
        raise UsageError("--dry-run changes nothing, and --fix and --relocate do", hint="leave one of them out")
    from gitsession.verbs import doctor

    store = SessionStore()
    if relocate is not None:
        moved = doctor.relocate(store, relocate)
        if as_json:
            write_json({"relocated": moved})
        else:
            for line in render.relocated_lines(moved, str(relocate)):
                write(line)
        return 0 if moved else 1
    found = doctor.checkup(store, config.load(store.home), here(), fix=fix)
    if as_json:
        write_json(render.as_object(found))
    else:
        for line in render.lines(found):
            write(line)
    return 0 if found.is_well else 1
