"""``session restore`` and ``session undo``: go to a checkpoint's files, and back."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import click

from gitsession import config, paths
from gitsession.cli.options import find, here, json_option, session_argument
from gitsession.cli.render import restoring
from gitsession.cli.render.out import is_terminal, note, write, write_json
from gitsession.cli.render.text import one_line, safe_text
from gitsession.errors import BadValue, ConflictError, DriftError, GitSessionError
from gitsession.git.restore import Progress
from gitsession.ids import CHECKPOINT
from gitsession.verbs.restore import BASE, Index, RestoreReport, finish_interrupted, restore, undo

_NOTED = 5  # a refusal's message names that many paths; more are listed

Go = Callable[[bool, Progress | None], RestoreReport]
"""Restores, with ``dry_run`` and something to tell how far it is."""

Finish = Callable[[], RestoreReport | None]
"""Finishes a restore that was interrupted."""


@click.command(
    "restore",
    help="Make the files what checkpoint N (or 'base') has. What is there now is saved first.\n\n"
    "\b\nExamples:\n  pinable-agents session restore latest 1 --dry-run\n"
    "  pinable-agents session restore latest base --path src/user",
)
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

    return _carry_out(go, partial(finish_interrupted, store, session_id, settings), dry_run, yes, as_json)


@click.command(
    "undo",
    help="Take the last restore back; a second undo takes the first one back.\n\n"
    "\b\nExample:\n  pinable-agents session undo latest",
)
@session_argument
@click.option("--dry-run", is_flag=True, help="Show what would be done.")
@click.option("--force", is_flag=True, help="Also overwrite files that changed since the last checkpoint.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def undo_command(session: str, dry_run: bool, force: bool, yes: bool, as_json: bool) -> int:
    store, session_id = find(session)
    settings = config.load(store.home)

    def go(dry: bool, progress: Progress | None) -> RestoreReport:
        return undo(
            store, session_id, settings=settings, start=here(), dry_run=dry, force=force, progress=progress,
        )  # fmt: skip

    return _carry_out(go, partial(finish_interrupted, store, session_id, settings), dry_run, yes, as_json)


def _index(text: str) -> Index:
    if text == BASE:
        return None
    if not re.fullmatch(CHECKPOINT, text):
        raise BadValue(f"{text!r} is no checkpoint", hint=f"give its number, or {BASE!r} for before the first change")
    return int(text)


def _carry_out(go: Go, finish: Finish, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Ask if there is somebody to ask, restore, and tell; the exit status."""
    with _refusal_explained():
        asks = not (dry_run or yes or as_json) and is_terminal(sys.stdin) and is_terminal(sys.stdout)
        if asks and not _agreed(go, finish):
            return 0
        with _progress(as_json) as progress:
            report = go(dry_run, progress)
    if as_json:
        write_json(restoring.as_object(report))
    else:
        _tell(report)
    return ConflictError.exit_status if report.left else 0


def _agreed(go: Go, finish: Finish) -> bool:
    """Show the plan and ask; what was interrupted is a plan of its own, and there is none of another one before."""
    planned = go(True, None)
    _tell(planned)
    if not planned.interrupted:
        return not planned.changes_nothing and click.confirm("Go on?")
    if not click.confirm("Finish it?"):
        return False
    finished = finish()
    _warn(finished.warnings if finished else ())
    return _agreed(go, finish)


def _tell(report: RestoreReport) -> None:
    for line in restoring.lines(report):
        write(line)
    _warn(report.warnings)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        note(f"warning: {one_line(warning)}")


@contextmanager
def _refusal_explained() -> Iterator[None]:
    """What was done before the refusal, and all the files in the way where its message has only room for some."""
    try:
        yield
    except GitSessionError as error:
        _warn(getattr(error, "__notes__", ()))
        if isinstance(error, DriftError) and len(error.paths) > _NOTED:
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
