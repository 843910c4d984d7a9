"""``session list``: a line a session; ``--json``: an array of objects::

    {"id", "status", "alive", "backend", "model", "task", "created_at", "updated_at",
     "checkpoint", "files_count", "worktree", "priority", "problem"}

``status`` is ``corrupted`` where the file cannot be read, and ``problem`` says why; ``alive`` is false for a running
session whose process is gone and null for one that does not run; ``checkpoint`` is the newest one's index or null,
``files_count`` how many files the task was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from gitsession.cli.render.out import columns, write, write_now
from gitsession.cli.render.table import from_columns, table
from gitsession.cli.render.text import one_line, one_lines, safe_text, safe_texts
from gitsession.cli.render.units import age, ages

if TYPE_CHECKING:
    from gitsession.store.summaries import Summary

CORRUPTED = "corrupted"
GONE = "running (owner gone)"
_LONGEST = 1000  # characters of a task, where no terminal cuts the line; --json has all of it
_HEADER = ("ID", "STATUS", "BACKEND", "CHECKPOINT", "AGE", "TASK")


def status(session: Summary) -> str:
    """The session's state; ``corrupted`` where its file says none."""
    return session.status or CORRUPTED


def draw(sessions: Sequence[Summary], now: float) -> None:
    """One line each; ages are from their creation to ``now`` (Unix seconds)."""
    cells = (
        safe_texts([one.id for one in sessions]),
        safe_texts([GONE if one.status == "running" and not one.alive else status(one) for one in sessions]),
        safe_texts([one.backend or "-" for one in sessions]),
        [progress(one.checkpoint_index, one.files_count) for one in sessions],
        ages((one.created_at for one in sessions), now),
        _subjects(sessions),
    )
    write("\n".join(from_columns(_HEADER, cells, columns())))


_WATCHED = ("ID", "STATUS", "BACKEND", "CHECKPOINT", "PHASE", "TOUCHED", "TASK")


class Screen:
    """The terminal while sessions are watched: drawn over and over, and left as it was found."""

    def __enter__(self) -> Self:
        write_now("\x1b[?1049h\x1b[?25l")
        return self

    def __exit__(self, *_: object) -> None:
        write_now("\x1b[?25h\x1b[?1049l")

    def draw(self, sessions: Sequence[Summary], now: float) -> None:
        """As many sessions as fit; how far each is, and when it was last heard of."""
        rows = [
            (
                safe_text(one.id),
                state(status(one), one.alive),
                safe_text(one.backend or "-"),
                progress(one.checkpoint_index, one.files_count),
                one_line(one.phase or "-"),
                age(one.updated_at, now),
                _subject(one),
            )
            for one in sessions
        ]
        from shutil import get_terminal_size  # slow to load, and only needed here

        size = get_terminal_size()
        lines = table(_WATCHED, rows, columns() or size.columns)
        if len(lines) > size.lines - 1:
            left = len(lines) - (size.lines - 2)
            lines = [*lines[: size.lines - 2], f"… and {left:,} more"]
        # Each line is cleared to its end, and then what is below: nothing flickers.
        write_now("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")


def state(name: str, alive: bool) -> str:
    """A state in words: a running session whose process is gone is not what it says."""
    return GONE if name == "running" and not alive else safe_text(name)


def progress(checkpoint: int | None, files: int) -> str:
    """``1/3``: the newest checkpoint and how many files the task was given; ``-`` without a checkpoint."""
    if checkpoint is None:
        return "-"
    return f"{checkpoint}/{files}" if files else str(checkpoint)


def _subjects(sessions: Sequence[Summary]) -> Sequence[str]:
    if any(one.problem is not None or len(one.task) > _LONGEST for one in sessions):
        return [_subject(one) for one in sessions]
    return one_lines([one.task for one in sessions])


def _subject(session: Summary) -> str:
    """The task; what is wrong with the file stands before it."""
    task = one_line(session.task[:_LONGEST]) + ("…" if len(session.task) > _LONGEST else "")
    if session.problem is None:
        return task
    return f"! {one_line(session.problem)}{': ' if task else ''}{task}"


def as_object(session: Summary) -> dict[str, Any]:
    """A session as the documented JSON object."""
    return {
        "id": session.id,
        "status": status(session),
        "alive": session.alive if session.status == "running" else None,
        "backend": session.backend or None,
        "model": session.model,
        "task": None if status(session) == CORRUPTED else session.task,
        "created_at": session.created_at or None,
        "updated_at": session.updated_at or None,
        "checkpoint": session.checkpoint_index,
        "files_count": session.files_count,
        "worktree": session.worktree,
        "priority": session.priority,
        "problem": session.problem,
    }
