"""What was removed, to the trash or for good; ``cleanup --json``: one object::

    {"dry_run", "deleted": [id], "kept": [{"id", "reason"}], "failed": [{"id", "error"}], "purged": [id]}

``deleted`` are the sessions that are (with ``dry_run``: would be) in the trash now, ``kept`` those that were left alone
and why, ``purged`` those that had been in the trash for long and are gone for good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gitsession.cli.render.out import columns, note, write
from gitsession.cli.render.table import table
from gitsession.cli.render.text import one_line, safe_text
from gitsession.cli.render.units import age, count, date_time

if TYPE_CHECKING:
    from gitsession.store.summaries import Summary
    from gitsession.store.trash import Trashed
    from gitsession.verbs.cleanup import Choice, Removed
    from gitsession.verbs.tidy import News

_UNDELETE = "pinable-agents session undelete"


def tell(news: News) -> None:
    """What was done in the background the last time."""
    if news.deleted:
        note(f"cleaned up: {_moved(len(news.deleted))} ({_UNDELETE} --list; session.auto_cleanup_days)")
    if news.purged:
        note(f"cleaned up: {count(news.purged, 'session')} removed from the trash for good (session.trash_days)")
    if news.problem:
        note(f"not cleaned up: {one_line(news.problem)}")


def plan(choice: Choice, now: float) -> None:
    """What a dry run would remove."""
    for one in choice.chosen:
        write(f"Would delete: {safe_text(one.id)}  {one.status}  {age(one.updated_at, now)}  {one_line(one.task)}")
    write(f"{count(len(choice.chosen), 'session')} would be moved to the trash")
    kept(choice.kept)


def done(removed: Sequence[Removed], purged: Sequence[Removed]) -> None:
    """What was removed, and what could not be."""
    deleted = 0
    for one in removed:
        if one.error is None:
            deleted += 1
            write(f"Session deleted: {one.session_id}")
        else:
            _failure(one)
    write(_moved(deleted) + (f"; '{_UNDELETE} ID' brings one back" if deleted else ""))
    for one in purged:
        if one.error is not None:
            _failure(one)
    gone = sum(one.error is None for one in purged)
    if gone:
        write(f"{count(gone, 'session')} removed from the trash for good")


def kept(sessions: Sequence[tuple[Summary, str]]) -> None:
    """Those that were left alone, and why."""
    for one, reason in sessions:
        note(f"kept: {safe_text(one.id)} ({one_line(reason)})")


def trash(deleted: Sequence[Trashed]) -> None:
    """The trash, the last deleted first; of several deleted under one id each has its name there, ``id~2``."""
    times = Counter(one.session_id for one in deleted)
    names = [one.session_id if times[one.session_id] == 1 else one.name for one in deleted]
    rows = [(date_time(one.since), safe_text(name)) for one, name in zip(deleted, names, strict=True)]
    write("\n".join(table(("DELETED", "ID"), rows, columns())))


def as_object(
    choice: Choice, removed: Sequence[Removed], purged: Sequence[Removed], *, dry_run: bool
) -> dict[str, Any]:
    """The documented JSON object."""
    chosen = [one.id for one in choice.chosen]
    return {
        "dry_run": dry_run,
        "deleted": chosen if dry_run else [one.session_id for one in removed if one.error is None],
        "kept": [{"id": one.id, "reason": reason} for one, reason in choice.kept],
        "failed": [{"id": one.session_id, "error": str(one.error)} for one in (*removed, *purged) if one.error],
        "purged": [one.session_id for one in purged if one.error is None],
    }


def _moved(number: int) -> str:
    return f"{count(number, 'session')} moved to the trash"


def _failure(one: Removed) -> None:
    note(f"not removed: {safe_text(one.session_id)}: {one_line(str(one.error))}")
