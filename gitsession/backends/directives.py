"""The lines by which a program tells what it is doing, and everything else it prints.

A directive is one whole line of standard output, UTF-8, at most 64 KiB, ended by a newline::

    ::phase::NAME               phase NAME begins, or goes on; another NAME ends the phase before
    ::phase::NAME::TEXT         the same; TEXT says what is being done: [Phase: NAME] TEXT
    ::done::TEXT                the step has ended with TEXT: [Phase: NAME] DONE - TEXT  (TEXT may be empty)
    ::checkpoint::TEXT          keep the files as they are now, described by TEXT
    ::tokens::in=12500,out=3200,cost=0.12
                                tokens spent since the last such line, and dollars; any of the three may be left out
    ::error::TEXT               the work fails, because of TEXT; counts whatever the exit status is, the last one wins

NAME is up to 64 letters, digits, spaces and ``_ . -``.  TEXT is any text without control characters but tabs.

Everything else is output and passes through: other lines, lines that look like directives and are none, pieces of
lines as soon as they arrive.  Only a line that may become a directive is held back until its end.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

from gitsession.backends.base import CheckpointHint, Event, Output, Phase, Stream, Usage

MAX_DIRECTIVE: Final = 64 * 1024
_PIECE = re.compile(rb"[^\n]*\n|[^\n]+")
_DIRECTIVE = re.compile(r"::(phase|done|checkpoint|tokens|error)::(.*)")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_NAME = re.compile(r"\w[\w .-]{0,63}")
_AMOUNT = re.compile(r"(?:in|out)=[0-9]{1,15}|cost=[0-9]{1,9}(?:\.[0-9]{1,12})?")


class Text:
    """Turns the bytes of one stream into ``Output``, losing nothing; bytes that are not UTF-8 become U+FFFD."""

    def __init__(self, stream: Stream) -> None:
        self._stream: Stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> Iterator[Event]:
        for piece in _PIECE.findall(data):
            yield from self._output(piece)

    def end(self) -> Iterator[Event]:
        """What is left when nothing more comes."""
        yield from self._output(b"", final=True)

    def _output(self, data: bytes, *, final: bool = False) -> Iterator[Event]:
        if text := self._decoder.decode(data, final):
            yield Output(text, self._stream)


class Speech(Text):
    """Standard output with its directives; ``error`` is what the program gave as the reason of its failure."""

    def __init__(self, phase: str | None) -> None:
        super().__init__("stdout")
        self.error: str | None = None
        self._phase = phase
        self._held = b""
        self._at_start = True

    def feed(self, data: bytes) -> Iterator[Event]:
        held, self._held = self._held, b""
        for piece in _PIECE.findall(held + data):
            if not self._at_start or piece[:2] not in (b"::", b":") or len(piece) > MAX_DIRECTIVE:
                yield from self._output(piece)
                self._at_start = piece.endswith(b"\n")
            elif not piece.endswith(b"\n"):
                self._held = piece
            elif (events := self._directive(piece)) is not None:
                yield from events
            else:
                yield from self._output(piece)

    def end(self) -> Iterator[Event]:
        # A line without its end may be half of one: it is shown, not obeyed.
        held, self._held = self._held, b""
        yield from self._output(held, final=True)

    def give_up_error(self) -> Iterator[Event]:
        """The given reason as plain output, when it will not be the reason of the end."""
        if self.error is not None:
            yield Output(self.error + "\n", "stdout")
        self.error = None

    def _directive(self, line: bytes) -> list[Event] | None:
        """What the line says, ``None`` if it is no directive."""
        try:
            match = _DIRECTIVE.fullmatch(line.decode("utf-8").rstrip("\r\n"))
        except UnicodeDecodeError:
            return None
        if match is None or _CONTROL.search(match[2]):
            return None
        word, text = match[1], match[2].strip()
        if word == "done":
            return None if self._phase is None else [Phase(self._phase, text, done=True)]
        if not text:
            return None
        if word == "phase":
            return self._begin(text)
        if word == "tokens":
            return _usage(text)
        if word == "checkpoint":
            return [CheckpointHint(text)]
        superseded = list(self.give_up_error())
        self.error = text
        return superseded

    def _begin(self, text: str) -> list[Event] | None:
        name, _, rest = text.partition("::")
        if not _NAME.fullmatch(name):
            return None
        self._phase = name
        return [Phase(name, rest.strip())]


def _usage(text: str) -> list[Event] | None:
    items = [item.strip() for item in text.split(",")]
    if not all(_AMOUNT.fullmatch(item) for item in items):
        return None
    amounts = dict(item.split("=") for item in items)
    if len(amounts) != len(items):
        return None
    cost = float(amounts["cost"]) if "cost" in amounts else None
    return [Usage(int(amounts.get("in", 0)), int(amounts.get("out", 0)), cost)]
