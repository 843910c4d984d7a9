"""``session archive`` and ``session unarchive``: sessions in files of their own, and back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from gitsession import config, lifecycle
from gitsession.cli.options import complete_sessions, days, find, here, json_option
from gitsession.cli.render import archiving
from gitsession.cli.render.out import write_json
from gitsession.cli.session.cleanup import default_age
from gitsession.errors import GitSessionError, UsageError
from gitsession.store.sessions import SessionStore
from gitsession.verbs.archive import archive, unarchive
from gitsession.verbs.cleanup import Choice, choose


@click.command(
    "archive",
    help="Pack sessions into files that can be kept anywhere, one ID.tar.gz each: record, journal, and all files of "
    "all checkpoints. What was packed is read back first, and then goes to the trash.\n\n"
    "Without an ID: completed sessions that were not touched for long and are in no chain.\n\n"
    "\b\nExamples:\n  pinable-agents session archive --older-than 14d --output ./session-archive/\n"
    "  pinable-agents session archive latest",
)
@click.argument("sessions", metavar="[ID]...", nargs=-1, shell_complete=complete_sessions)
@click.option("--older-than", metavar="TIME", type=days, help="Untouched for this long (session.auto_cleanup_days).")
@click.option(
    "--output", "-o", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), help="Where to put them."
)
@click.option("--dry-run", "-n", is_flag=True, help="Only say what would be archived.")
@json_option
def archive_command(
    sessions: tuple[str, ...], older_than: float | None, output: Path | None, dry_run: bool, as_json: bool
) -> int:
    store, now = SessionStore(), time.time()
    settings = config.load(store.home)
    if sessions and older_than is not None:
        raise UsageError("--older-than chooses sessions, and so do IDs", hint="give one of them")
    if sessions:
        ids = dict.fromkeys(find(text)[1] for text in sessions)
        choice = Choice(tuple(map(store.summary, ids)), ())
    else:
        choice = choose(store, lifecycle.COMPLETED, default_age(older_than, settings), now)
    if dry_run and not as_json:
        archiving.plan(choice, now)
        return 0
    directory = Path(os.path.abspath(output or store.home / "archive"))
    done, failed = [], []
    for one in () if dry_run else choice.chosen:
        try:
            done.append(archive(store, one.id, directory, settings))
        except GitSessionError as error:
            failed.append((one.id, error))
    if as_json:
        write_json(archiving.as_object(choice, done, failed, dry_run=dry_run))
    else:
        archiving.draw(choice, done, failed, directory)
    return max((error.exit_status for _, error in failed), default=0)


@click.command(
    "unarchive",
    help="Bring an archived session back, also into another clone; the archive stays.\n\n"
    "Without --repo it goes into the repository you are in, if that knows the commit that the session began from, else "
    "to where it was.\n\n\b\nExample:\n"
    "  pinable-agents session unarchive session-archive/sess_1740480000_a3f7b2c1.tar.gz",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--repo", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), help="Into this repository.")
def unarchive_command(files: tuple[Path, ...], repo: Path | None) -> int:
    store, status = SessionStore(), 0
    for file in files:
        try:
            archiving.back(unarchive(store, file, here(), repo))
        except GitSessionError as error:
            if len(files) == 1:
                raise
            archiving.not_back(file, error)  # what keeps one does not keep the next
            status = max(status, error.exit_status)
    return status
