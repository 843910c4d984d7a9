"""Where output goes: lines, JSON, and what the terminal can do."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from gitsession.cli.render.text import BIDI, C1
from gitsession.errors import GitSessionError

# The same value to a JSON parser, and nothing to a terminal.
_ESCAPED = {code: f"\\u{code:04x}" for code in (0x7F, *C1, *BIDI)}


def write(text: str = "", stream: TextIO | None = None) -> None:
    """One line (or several), at once."""
    with writing():
        (stream or sys.stdout).write(text + "\n")


def write_bytes(data: bytes) -> None:
    """Bytes as they are, for programs."""
    with writing():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


@contextmanager
def writing() -> Iterator[None]:
    """Where output is written: what goes wrong with it is one line.  A reader that went away is not for here."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise GitSessionError(f"cannot write the output: {error.strerror}") from error


def unread(stream: TextIO) -> None:
    """Nobody reads ``stream`` any more: what waits in it, or comes yet, leads nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_now(text: str) -> None:
    """Text for the terminal as it stands, drawn at once."""
    with writing():
        sys.stdout.write(text)
        sys.stdout.flush()


def note(text: str) -> None:
    """A remark beside the result: on standard error, so that pipes carry results only."""
    write(text, sys.stderr)


def write_json(value: Any, *, indent: int | None = 2) -> None:
    """One JSON value; with ``indent`` ``None`` on one line."""
    write(json_text(value, indent))


def write_json_array(values: Iterable[Any]) -> None:
    """A JSON array with a value a line, which is quick for thousands."""
    lines = ",\n".join(json_text(value) for value in values)
    write(f"[\n{lines}\n]" if lines else "[]")


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON that a terminal shows as it is."""
    import json

    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if text.isprintable():
        return text
    # A lone surrogate becomes an escape too, which JSON reads back.
    return text.translate(_ESCAPED).encode("utf-8", "backslashreplace").decode("utf-8")


def is_terminal(stream: TextIO) -> bool:
    """Whether ``stream`` is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def lead_to_one_place(one: TextIO, other: TextIO) -> bool:
    """Whether what is written to both comes together, as on a terminal and with ``2>&1``."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def columns() -> int | None:
    """The width to keep to in cells: ``$COLUMNS``, else the terminal's; ``None`` where lines may be any length."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None
