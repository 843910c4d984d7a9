"""A unified diff on a screen: its bytes as text, harmless, aligned and coloured.

Only for people: what goes into a pipe or a file are git's own bytes, which ``git apply`` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gitsession import paths
from gitsession.cli.render.colour import styled
from gitsession.cli.render.text import clip, safe_text, width
from gitsession.git.diff import patch_files
from gitsession.git.text import decode

_TAB = 8
LONGEST = 2000
"""Cells of a line that are shown; the rest is cut, with a word."""
_HIGHLIGHTED = 512 * 1024
_STYLES = {"+": "green", "-": "red", "@": "cyan"}

Highlighter = Callable[[str, list[str]], list[str] | None]
"""Colours the lines of a file of this name; ``None`` if it does not know how."""


def lines(patch: bytes, encodings: Mapping[bytes, str], highlight: Highlighter | None = None) -> Iterator[str]:
    """The patch's lines as they are drawn; ``encodings`` are those that attributes declare, by path."""
    if len(patch) > _HIGHLIGHTED:
        highlight = None
    for file in patch_files(patch):
        path = file.path
        text, how = decode(b"\n".join(file.body), encodings.get(path) if path is not None else None)
        for line in file.head:
            yield styled(safe_text(decode(line)[0]), "bold")
        if how is not None:
            yield styled(f"(read as {safe_text(how)})", "yellow")
        if file.body:
            yield from _body(paths.encode(path or b""), text.split("\n"), highlight)


def _body(path: str, body: list[str], highlight: Highlighter | None) -> Iterator[str]:
    shown = [_fitted(line) for line in body]
    # A hunk's head is no code; a blank line keeps the count.
    code = ["" if line.startswith(("@", "\\")) else line[1:] for line in shown]
    coloured = highlight(path, code) if highlight is not None else None
    for number, line in enumerate(shown):
        mark = line[:1]
        if coloured is not None and mark in {"+", " "}:
            yield styled(mark, _STYLES.get(mark)) + coloured[number]
        else:
            yield styled(line, _STYLES.get(mark))


def _fitted(line: str) -> str:
    """A line made harmless, its tabs where they belong, and cut if it is too long to be read."""
    whole = len(line)
    if whole > LONGEST:
        line = line[:LONGEST]
    text = _without_tabs(line[:1], safe_text(line[1:], layout=True))
    cut = whole > LONGEST or (not text.isascii() and width(text) > LONGEST) or len(text) > 2 * LONGEST
    return f"{clip(text, LONGEST)} … (cut: the line has {whole - 1:,} characters)" if cut else text


def _without_tabs(mark: str, content: str) -> str:
    """Tabs as spaces up to the column that the file itself has them at: the mark does not count."""
    if "\t" not in content:
        return mark + content
    out, column = [mark], 0
    for index, part in enumerate(content.split("\t")):
        if index:
            gap = _TAB - column % _TAB
            out.append(" " * gap)
            column += gap
        out.append(part)
        column += width(part)
    return "".join(out)
