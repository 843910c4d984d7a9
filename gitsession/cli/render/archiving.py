"""Archives made, and sessions brought back; ``archive --json``: one object::

    {"dry_run", "archived": [{"id", "path"}], "kept": [{"id", "reason"}], "failed": [{"id", "error"}]}

With ``dry_run`` the ``path`` is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitsession.cli.render import removal
from gitsession.cli.render.out import note, write
from gitsession.cli.render.text import one_line, safe_text
from gitsession.cli.render.units import age, bytes_, count

if TYPE_CHECKING:
    from gitsession.errors import GitSessionError
    from gitsession.verbs.archive import Archived, Unarchived
    from gitsession.verbs.cleanup import Choice

Failed = Sequence[tuple[str, "GitSessionError"]]


def plan(choice: Choice, now: float) -> None:
    """What a dry run would archive."""
    for one in choice.chosen:
        write(f"Would archive: {safe_text(one.id)}  {one.status}  {age(one.updated_at, now)}  {one_line(one.task)}")
    write(f"{count(len(choice.chosen), 'session')} would be archived")
    removal.kept(choice.kept)


def draw(choice: Choice, done: Sequence[Archived], failed: Failed, directory: Path) -> None:
    """Each archive, and what could not be archived."""
    for one in done:
        write(f"Session archived: {one.session_id}  {bytes_(one.path.stat().st_size)}")
    for session_id, error in failed:
        note(f"not archived: {session_id}: {one_line(str(error))}")
        if error.hint:
            note(f"hint: {one_line(error.hint)}")
    write(f"{count(len(done), 'session')} archived" + (f" in {safe_text(str(directory))}" if done else ""))
    removal.kept(choice.kept)


def back(one: Unarchived) -> None:
    """A session that came back."""
    write(f"Session unarchived: {one.session_id}")
    if one.moved:
        note(f"it belongs to {safe_text(str(one.worktree))} now")
    if one.grafted:
        note("the commit it began from is not there: its checkpoints have ids of their own now, and the same files")
    if one.offered:
        note("the program that the archive names is only run when you name it: codeagent-wrapper tells it on a resume")
    if one.moved and one.checkpoint is not None:
        note(f"to have its files here, too: pinable-agents session restore {one.session_id} {one.checkpoint}")


def not_back(file: Path, error: GitSessionError) -> None:
    """An archive whose session did not come back."""
    note(f"not unarchived: {safe_text(str(file))}: {one_line(str(error))}")
    if error.hint:
        note(f"hint: {one_line(error.hint)}")


def as_object(choice: Choice, done: Sequence[Archived], failed: Failed, *, dry_run: bool) -> dict[str, Any]:
    """The documented JSON object."""
    planned = [{"id": one.id, "path": None} for one in choice.chosen]
    return {
        "dry_run": dry_run,
        "archived": planned if dry_run else [{"id": one.session_id, "path": str(one.path)} for one in done],
        "kept": [{"id": one.id, "reason": reason} for one, reason in choice.kept],
        "failed": [{"id": session_id, "error": str(error)} for session_id, error in failed],
    }
