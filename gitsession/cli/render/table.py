"""Columns that line up, whatever script they are written in."""

from __future__ import annotations

from collections.abc import Sequence

from gitsession.cli.render.text import clip, pad, width

_GAP = "  "
_LEAST = 20  # cells that the last column keeps however narrow the terminal is


def table(header: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None) -> list[str]:
    """Lines of a table; the last column is cut so that a line fits ``columns`` cells (``None``: any length).

    Cells are single lines already made safe.
    """
    everything = [header, *rows]
    sizes = [max(width(row[column]) for row in everything) for column in range(len(header) - 1)]
    room = None if columns is None else max(_LEAST, columns - sum(sizes) - len(_GAP) * len(sizes))
    lines = []
    for *cells, last in everything:
        shown = last if room is None else clip(last, room)
        lines.append(_GAP.join([*map(pad, cells, sizes), shown]).rstrip())
    return lines


def aligned(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """``left  right`` lines, the left ones padded to the widest."""
    size = max((width(left) for left, _ in pairs), default=0)
    return [f"{pad(left, size)}{_GAP}{right}" for left, right in pairs]
