"""Changed files without their lines: ``--stat``, ``--name-status`` and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gitsession import paths
from gitsession.cli.render.colour import styled
from gitsession.cli.render.text import clip, pad, safe_text, width
from gitsession.cli.render.units import count
from gitsession.git.diff import FileChange

_LETTERS = {"added": "A", "deleted": "D", "renamed": "R", "copied": "C", "type": "T"}
_GRAPH = 40
_WIDTH = 80


def name_status(changes: Sequence[FileChange]) -> Iterator[str]:
    """``M<tab>path``, as git writes it; a renamed file has its similarity and its old path, too."""
    for change in changes:
        letter = _LETTERS.get(change.status, "M")
        if change.old_path is None:
            yield f"{letter}\t{_path(change.path)}"
        else:
            yield f"{letter}{change.similarity:03}\t{_path(change.old_path)}\t{_path(change.path)}"


def stat(changes: Sequence[FileChange], columns: int | None) -> Iterator[str]:
    """One line a file with how many lines changed, and a sum; ``columns`` is the screen's width if there is one."""
    names = [_shown(change) for change in changes]
    amounts = [_amount(change) for change in changes]
    tail = max(map(width, amounts), default=0)
    room = max(20, (columns or _WIDTH) - tail - _GRAPH // 2 - 5)
    size = min(max(map(width, names), default=0), room)
    graph = max(10, min(_GRAPH, (columns or _WIDTH) - size - tail - 5))
    most = max(((change.insertions or 0) + (change.deletions or 0) for change in changes), default=0)
    for change, name, amount in zip(changes, names, amounts, strict=True):
        facts = f" {pad(_cut(name, size), size)} | {' ' * (tail - width(amount))}{amount}"
        bar = _bar(change, most, graph)
        yield " ".join(part for part in (facts, bar, f"({change.note})" if change.note else "") if part)
    if changes:
        inserted = sum(change.insertions or 0 for change in changes)
        deleted = sum(change.deletions or 0 for change in changes)
        yield f" {count(len(changes), 'file')} changed, +{inserted:,} -{deleted:,}"


def as_objects(changes: Sequence[FileChange]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "path": paths.encode(change.path),
            "status": change.status,
            "old_path": None if change.old_path is None else paths.encode(change.old_path),
            "similarity": change.similarity,
            "old_mode": f"{change.old_mode:06o}" if change.old_mode else None,
            "new_mode": f"{change.new_mode:06o}" if change.new_mode else None,
            "old_oid": change.old_oid,
            "new_oid": change.new_oid,
            "binary": change.binary,
            "insertions": change.insertions,
            "deletions": change.deletions,
            "note": change.note,
        }
        for change in changes
    ]


def _amount(change: FileChange) -> str:
    if change.binary:
        return "binary"
    return f"{(change.insertions or 0) + (change.deletions or 0):,}"


def _bar(change: FileChange, most: int, cells: int) -> str:
    plus, minus = (_scaled(number or 0, most, cells) for number in (change.insertions, change.deletions))
    return styled("+" * plus, "green") + styled("-" * minus, "red")


def _scaled(number: int, most: int, cells: int) -> int:
    """How many of ``cells`` show ``number``; what is there at all is seen."""
    return number if most <= cells or not number else max(1, number * cells // most)


def _shown(change: FileChange) -> str:
    name = _path(change.path)
    return name if change.old_path is None else f"{_path(change.old_path)} => {name}"


def _path(path: bytes) -> str:
    return safe_text(paths.encode(path))


def _cut(name: str, cells: int) -> str:
    """A name's end tells more than its beginning."""
    return name if width(name) <= cells else clip(name[::-1], cells)[::-1]
