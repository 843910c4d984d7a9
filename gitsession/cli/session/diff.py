"""``session diff``: what checkpoints changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from gitsession import paths
from gitsession.cli.options import complete_sessions, find, here, json_option
from gitsession.cli.render import changes as render
from gitsession.cli.render import colour
from gitsession.cli.render import patch as drawing
from gitsession.cli.render.out import columns, is_terminal, note, write_bytes, write_json, writing
from gitsession.cli.render.pager import paged
from gitsession.cli.render.text import safe_text
from gitsession.errors import ConflictError, GitFailed, GitSessionError, UsageError
from gitsession.git.diff import FileChange, PatchOptions
from gitsession.store.sessions import SessionStore
from gitsession.verbs.diff import Comparison, is_range

_PATHS = "gitsession.paths"


class _Command(click.Command):
    """A command that keeps what follows ``--`` apart: those are paths, whatever they look like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[_PATHS] = tuple(args[end + 1 :])
        return super().parse_args(ctx, args[:end])


@click.command(
    "diff",
    cls=_Command,
    options_metavar="[OPTIONS]",
    help="Show what changed: N is checkpoint N against the one before, A..B any two, base..N everything up to N; "
    "without either, the base against the last checkpoint. Without an ID it is the latest session. "
    "PATHs after -- limit it.\n\n"
    "\b\nExamples:\n  pinable-agents session diff latest 1\n  pinable-agents session diff latest base..2 --stat -- src",
)
@click.argument("what", metavar="[ID] [N|A..B] [-- PATH…]", nargs=-1, shell_complete=complete_sessions)
@click.option("--stat", "style", flag_value="stat", help="Only how many lines changed in each file.")
@click.option("--name-status", "style", flag_value="name-status", help="Only the names, and what happened to each.")
@click.option("-U", "--unified", "context", metavar="N", type=click.IntRange(min=0), help="N lines of context.")
@click.option("-w", "--ignore-all-space", "ignore_space", is_flag=True, help="Ignore white space.")
@click.option("--word-diff", "words", is_flag=True, help="Show changed words instead of lines.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there are differences, with 0 if there are none.")
@click.option("--no-pager", is_flag=True, help="Do not use a pager on a terminal.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    what: tuple[str, ...],
    style: str | None,
    context: int | None,
    ignore_space: bool,
    words: bool,
    exit_code: bool,
    no_pager: bool,
    as_json: bool,
) -> int:
    store, session_id, spec = _subject(what)
    limits = ctx.meta[_PATHS]
    listed = as_json or style is not None
    with _failure_is_no_difference():
        comparison = Comparison(store, session_id, spec, limits, here() if limits else None)
        found = comparison.changes(ignore_space=ignore_space) if listed else []
        patch = b"" if listed else comparison.patch(PatchOptions(context, ignore_space, words))
        unseen = [] if listed else comparison.unseen(ignore_space=ignore_space)
    if listed:
        _list(comparison, found, "json" if as_json else style, no_pager)
    else:
        _show(comparison, patch, no_pager)
        for change in unseen:
            note(f"{safe_text(paths.encode(change.path))}: {change.note}, which a patch cannot say")
    differs = bool(found or patch or unseen)
    return 1 if exit_code and differs else 0


@contextmanager
def _failure_is_no_difference() -> Iterator[None]:
    """1 is what differences end with; what cannot be read ends with 4, as it does for a restore."""
    try:
        yield
    except GitSessionError as error:
        if error.exit_status == GitSessionError.exit_status:
            error.exit_status = ConflictError.exit_status
        if isinstance(error, GitFailed):
            error.hint = error.hint or "'git fsck' says what the repository lacks"
        raise


def _subject(what: tuple[str, ...]) -> tuple[SessionStore, str, str | None]:
    """The session and the checkpoints that the arguments mean."""
    if len(what) > 2:
        raise UsageError("too many arguments", hint="paths come after --: session diff ID 1..3 -- src")
    session, spec = ("latest", None) if not what else what if len(what) == 2 else (what[0], None)
    if len(what) == 1 and is_range(what[0]) and not SessionStore().exists(what[0]):
        session, spec = "latest", what[0]
    store, session_id = find(session)
    return store, session_id, spec


def _list(comparison: Comparison, found: list[FileChange], style: str | None, no_pager: bool) -> None:
    if style == "json":
        old, new = (
            {"index": side.index, "commit": side.commit, "description": side.description}
            for side in (comparison.old, comparison.new)
        )
        write_json({"session": comparison.session_id, "from": old, "to": new, "files": render.as_objects(found)})
        return
    lines = render.name_status(found) if style == "name-status" else render.stat(found, columns())
    with writing(), paged(_pager(comparison, no_pager)) as out:
        out.writelines(f"{line}\n" for line in lines)


def _show(comparison: Comparison, patch: bytes, no_pager: bool) -> None:
    """Git's bytes into a pipe; on a terminal the same, made readable."""
    if not is_terminal(sys.stdout):
        write_bytes(patch)
        return
    encodings = comparison.encodings([change.path for change in comparison.changes()])
    with writing(), paged(_pager(comparison, no_pager)) as out:
        out.writelines(f"{line}\n" for line in drawing.lines(patch, encodings, _highlighter()))


def _highlighter() -> drawing.Highlighter | None:
    if not colour.wanted():
        return None
    from gitsession.cli.render.syntax import highlight

    return highlight


def _pager(comparison: Comparison, no_pager: bool) -> str | None:
    return comparison.pager() if is_terminal(sys.stdout) and not no_pager else None
