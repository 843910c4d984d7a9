"""``session restore`` and ``session undo``: go to a checkpoint's files, and back."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from gitsession import config, paths
from gitsession.cli.options import find, here, json_option, session_argument
from gitsession.cli.render import restoring
from gitsession.cli.render.out import is_terminal, note, write, write_json
from gitsession.cli.render.text import one_line, safe_text
from gitsession.errors import BadValue, ConflictError, DriftError
from gitsession.git.restore import Progress
from gitsession.ids import CHECKPOINT
from gitsession.verbs.restore import BASE, Index, RestoreReport, restore, undo

_NOTED = 5  # a refusal's message names that many paths; more are listed

Go = Callable[[bool, Progress | None], RestoreReport]
"""Restores, with ``dry_run`` and something to tell how far it is."""


@click.command("restore", help="Make the files what checkpoint N (or 'base') has. What is there now is saved first.")
@session_argument
@click.argument("checkpoint", metavar="N")
@click.option("--path", "only", metavar="P", multiple=True, help="Only this file, or what is below this directory.")
@click.option("--dry-run", is_flag=True, help="Show what would be done.")
@click.option("--force", is_flag=True, help="Also overwrite files that changed since the last checkpoint.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def restore_command(
    session: str, checkpoint: str, only: tuple[str, ...], dry_run: bool, force: bool, yes: bool, as_json: bool
) -> int:
    store, session_id = find(session)
    index, settings = _index(checkpoint), config.load(store.home)

    def go(dry: bool, progress: Progress | None) -> RestoreReport:
        return restore(
            store, session_id, index, settings=settings, paths=only, start=here(), dry_run=dry, force=force,
            progress=progress,
        )  # fmt: skip

    return _carry_out(go, dry_run, yes, as_json)


@click.command("undo", help="Take the last restore back; a second undo takes the first one back.")
@session_argument
@click.option("--dry-run", is_flag=True, help="Show what would be done.")
@click.option("--force", is_flag=True, help="Also overwrite files that changed since the last checkpoint.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def undo_command(session: str, dry_run: bool, force: bool, yes: bool, as_json: bool) -> int:
    store, session_id = find(session)
    settings = config.load(store.home)

    def go(dry: bool, progress: Progress | None) -> RestoreReport:
        return undo(store, session_id, settings=settings, dry_run=dry, force=force, progress=progress)

    return _carry_out(go, dry_run, yes, as_json)


def _index(text: str) -> Index:
    if text == BASE:
        return None
    if not re.fullmatch(CHECKPOINT, text):
        raise BadValue(f"{text!r} is no checkpoint", hint=f"give its number, or {BASE!r} for before the first change")
    return int(text)


def _carry_out(go: Go, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Ask if there is somebody to ask, restore, and tell; the exit status."""
    with _drift_listed():
        if not (dry_run or yes or as_json) and is_terminal(sys.stdin) and is_terminal(sys.stdout):
            planned = go(True, None)
            _tell(planned)
            if planned.changes_nothing or not click.confirm("Go on?"):
                return 0
        with _progress(as_json) as progress:
            report = go(dry_run, progress)
    if as_json:
        write_json(restoring.as_object(report))
    else:
        _tell(report)
    return ConflictError.exit_status if report.left else 0


def _tell(report: RestoreReport) -> None:
    for line in restoring.lines(report):
        write(line)
    for warning in report.warnings:
        note(f"warning: {one_line(warning)}")


@contextmanager
def _drift_listed() -> Iterator[None]:
    """The whole list of files that are in the way, where the message has only room for some."""
    try:
        yield
    except DriftError as error:
        if len(error.paths) > _NOTED:
            for path in error.paths:
                note(f"  {safe_text(paths.encode(path))}")
        raise


@contextmanager
def _progress(as_json: bool) -> Iterator[Progress | None]:
    """How far a long restore is, on a terminal."""
    if as_json or not is_terminal(sys.stderr):
        yield None
        return
    from gitsession.cli.render.counter import Counter

    with Counter("restoring files") as counter:
        yield counter.show
