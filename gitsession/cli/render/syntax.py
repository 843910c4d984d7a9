"""Colours of a programming language, for a terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.syntax import Syntax


def highlight(path: str, code: list[str]) -> list[str] | None:
    """The lines in the colours of the language that the file's name tells; ``None`` if it tells none."""
    lexer = Syntax.guess_lexer(path)
    if lexer == "default":
        return None
    text = Syntax("", lexer, theme="ansi_dark").highlight("\n".join(code))
    parts = text.split("\n", allow_blank=True)
    if len(parts) < len(code):
        return None
    console = Console(file=StringIO(), force_terminal=True, color_system="standard", width=1 << 20, soft_wrap=True)
    coloured = []
    for part in parts[: len(code)]:
        with console.capture() as capture:
            console.print(part, end="")
        coloured.append(capture.get())
    return coloured
