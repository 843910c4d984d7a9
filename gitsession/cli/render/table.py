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
    return from_columns(header, [*zip(*rows, strict=True)] or [()] * len(header), columns)


def from_columns(header: Sequence[str], cells: Sequence[Sequence[str]], columns: int | None) -> list[str]:
    """The same of columns, which is quick for thousands of rows."""
    *first, last = ((name, *column) for name, column in zip(header, cells, strict=True))
    padded = [_padded(column) for column in first]
    if columns is not None:
        room = max(_LEAST, columns - sum(size for size, _ in padded) - len(_GAP) * len(padded))
        last = tuple(clip(cell, room) for cell in last)
    return [_GAP.join(line).rstrip() for line in zip(*(column for _, column in padded), last, strict=True)]


def _padded(column: Sequence[str]) -> tuple[int, list[str]]:
    """The widest cell's width, and the cells padded to it; a column at a time, because there may be thousands."""
    if "".join(column).isascii():
        size = max(map(len, column))
        return size, [cell.ljust(size) for cell in column]
    size = max(map(width, column))
    return size, [pad(cell, size) for cell in column]


def aligned(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """``left  right`` lines, the left ones padded to the widest."""
    size = max((width(left) for left, _ in pairs), default=0)
    return [f"{pad(left, size)}{_GAP}{right}" for left, right in pairs]
