"""JSON lines from a program's standard output: one object a line, of any length up to a bound.

A line that is no JSON object is the program's own words to a person and passes through as output; the agents print such
lines when they cannot even begin.  Only ``LIMIT`` bytes of one line are held: of a longer one nothing can be read, and
that is said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from gitsession.backends.base import Event, Notice, Output

LIMIT: Final = 64 * 1024 * 1024

Line = dict[str, Any]


class JsonLines:
    """Cuts a stream into its lines and hands each object to ``heard``."""

    def __init__(self, heard: Callable[[Line], Iterator[Event]]) -> None:
        self._heard = heard
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[Event]:
        first, *rest = data.split(b"\n")
        self._hold(first)
        for piece in rest:
            yield from self._line()
            self._hold(piece)

    def end(self, *, interrupted: bool = False) -> Iterator[Event]:
        """What is left when nothing more comes: a line without its end can be whole, but not of a program cut short."""
        if self._size and not interrupted:
            yield from self._line()

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= LIMIT:
            self._held.append(piece)

    def _line(self) -> Iterator[Event]:
        line, size = b"".join(self._held), self._size
        self._held, self._size = [], 0
        if size > LIMIT:
            yield Notice(f"the agent printed a line of {size // 1024**2} MB, which is not looked at")
            return
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            yield from self._heard(found)
        elif line.strip():
            yield Output(line.decode("utf-8", "replace") + "\n")
