"""A session's checkpoints, as lines and as JSON (the record's own objects, see ``gitsession.model``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gitsession.cli.render.out import columns, write
from gitsession.cli.render.table import table
from gitsession.cli.render.text import one_line, pad
from gitsession.cli.render.units import count, date_time, local

if TYPE_CHECKING:
    from gitsession.model import Checkpoint, Session

_HEADER = ("", "TIME", "PHASE", "FILES", "TOKENS", "COMMIT", "DESCRIPTION")
_PHASE_CELLS = len("implementation")


def draw(session: Session) -> None:
    """One line each, with what it cost and where it is."""
    rows = [
        (
            f"[{one.index}]",
            date_time(one.timestamp),
            one_line(one.phase or "-"),
            str(len(one.files_changed) if one.files_changed_total is None else one.files_changed_total),
            f"{one.tokens_used.input + one.tokens_used.output:,}",
            (one.commit or "-")[:10],
            one_line(one.description),
        )
        for one in session.checkpoints
    ]
    write("\n".join(table(_HEADER, rows, columns())))


def short_lines(checkpoints: Sequence[Checkpoint], created_at: str) -> list[str]:
    """``[0] 10:01:15  analysis        "…"``; with dates where the session took more than one day."""
    moments = [local(moment) for moment in (created_at, *(one.timestamp for one in checkpoints))]
    days = {moment.date() for moment in moments if moment}
    return [
        f"[{one.index}] {date_time(one.timestamp)[0 if len(days) > 1 else -8 :]}  "
        f'{pad(one_line(one.phase or "-"), _PHASE_CELLS)}  "{one_line(one.description)}"'
        for one in checkpoints
    ]


def tokens(checkpoints: Sequence[Checkpoint], since: Mapping[str, int] | None = None) -> str:
    """``30,800 tokens in, 8,300 tokens out``; ``since`` (``input``, ``output``) is what no checkpoint has counted."""
    used, since = [one.tokens_used for one in checkpoints], since or {}
    sent = sum(one.input for one in used) + since.get("input", 0)
    got = sum(one.output for one in used) + since.get("output", 0)
    return f"{count(sent, 'token')} in, {count(got, 'token')} out"
