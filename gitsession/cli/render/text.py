"""Foreign text on a screen: made harmless, measured and cut.

Whatever came from a file, a path, a message or a model may hold bytes that drive a terminal or turn the reading
order around.  They are shown, not sent: ``^[`` for ESC, ``^?`` for DEL, ``<U+202E>`` for what has no such name,
``\\xff`` for a byte that was not UTF-8.  Only drawing does this; what is stored stays as it came.
"""

from __future__ import annotations

from collections.abc import Sequence

BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
C1 = range(0x80, 0xA0)
_NO_WIDTH = ("Mn", "Me", "Cf")
_SEPARATORS = (0x2028, 0x2029)
_VISIBLE = {code: f"^{chr(code ^ 0x40)}" for code in (*range(0x20), 0x7F)}
_VISIBLE |= {code: f"<U+{code:04X}>" for code in (*C1, *BIDI, *_SEPARATORS)}
# How Python carries bytes that are not UTF-8 (PEP 383).
_VISIBLE |= {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(0x80, 0x100)}
_VISIBLE_IN_LAYOUT = {code: shown for code, shown in _VISIBLE.items() if chr(code) not in "\t\n"}


def safe_text(text: str, *, layout: bool = False) -> str:
    """``text`` with every control and bidi character shown visibly; ``layout`` lets tabs and newlines through."""
    if text.isprintable():
        return text
    return text.translate(_VISIBLE_IN_LAYOUT if layout else _VISIBLE)


def safe_texts(texts: Sequence[str]) -> Sequence[str]:
    """``safe_text`` of each, quick for thousands that are harmless as they are."""
    return texts if "".join(texts).isprintable() else [*map(safe_text, texts)]


def one_line(text: str) -> str:
    """``text`` as one harmless line: any run of white space is one space."""
    return safe_text(" ".join(text.split()))


def one_lines(texts: Sequence[str]) -> Sequence[str]:
    """``one_line`` of each, quick for thousands that are such lines already."""
    joined = "|".join(texts)
    # Printable white space is the space alone.
    if joined.isprintable() and not any(run in f"|{joined}|" for run in ("  ", "| ", " |")):
        return texts
    return [*map(one_line, texts)]


def width(text: str) -> int:
    """How many terminal cells ``text`` takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    # Not rich.cells: listings must not load rich, and Python's own table tells the same of all but emoji sequences.
    from unicodedata import category, east_asian_width

    return sum(0 if category(char) in _NO_WIDTH else 1 + (east_asian_width(char) in "WF") for char in text)


def pad(text: str, cells: int) -> str:
    """``text`` followed by spaces up to ``cells`` cells."""
    return text.ljust(cells) if text.isascii() else text + " " * (cells - width(text))


def clip(text: str, cells: int) -> str:
    """``text`` cut to ``cells`` cells, its last one a ``…`` if something was cut."""
    if width(text) <= cells:
        return text
    kept, used = [], 1
    for char in text:
        used += width(char)
        if used > cells:
            break
        kept.append(char)
    return "".join(kept) + "…" if cells > 0 else ""
