"""Foreign text: shown, measured, cut."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.cli.render.text import clip, one_line, pad, safe_text, width


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "^[[31mred^[[0m"),
        ("a\0b", "a^@b"),
        ("bell\x07 del\x7f", "bell^G del^?"),
        ("c1 csi \x9b31m", "c1 csi <U+009B>31m"),
        ("evil\u202etxt.exe", "evil<U+202E>txt.exe"),
        ("\u2066isolate\u2069 \u200f \u061c", "<U+2066>isolate<U+2069> <U+200F> <U+061C>"),
        ("line\u2028separator", "line<U+2028>separator"),
        (b"caf\xe9".decode("utf-8", "surrogateescape"), "caf\\xe9"),
        ("tab\tand\nnewline", "tab^Iand^Jnewline"),
        ("重构用户模块 é 😀", "重构用户模块 é 😀"),
    ],
)
def test_what_could_drive_a_terminal_is_shown(foreign: str, shown: str) -> None:
    assert safe_text(foreign) == shown


def test_layout_keeps_tabs_and_newlines_only() -> None:
    assert safe_text("a\tb\nc\rd", layout=True) == "a\tb\nc^Md"


@given(st.text())
def test_nothing_unsafe_is_left(text: str) -> None:
    unsafe = {"Cc", "Zl", "Zp"}
    assert not {unicodedata.category(char) for char in safe_text(text)} & unsafe
    assert not set(safe_text(text)) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert safe_text(text) == text


def test_one_line_has_no_line_breaks() -> None:
    assert one_line("  first\n\n  second\t third \x1b") == "first second third ^["


@pytest.mark.parametrize(
    ("text", "cells"), [("", 0), ("abc", 3), ("重构", 4), ("e\u0301", 1), ("ｆｕｌｌ", 8), ("½", 1)]
)
def test_width_counts_cells(text: str, cells: int) -> None:
    assert width(text) == cells


def test_pad_lines_up_wide_text() -> None:
    assert pad("重构", 6) == "重构  "
    assert pad("abcdefg", 6) == "abcdefg"


@pytest.mark.parametrize(
    ("text", "cells", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("重构用户", 8, "重构用户"),
        ("重构用户", 7, "重构用…"),
        ("重构用户", 6, "重构…"),
    ],
)
def test_clip_cuts_at_cells_and_says_so(text: str, cells: int, shown: str) -> None:
    assert clip(text, cells) == shown


@given(st.text(st.characters(categories=["L", "M", "So"])), st.integers(1, 40))
def test_clip_never_takes_more_than_its_cells(text: str, cells: int) -> None:
    assert width(clip(text, cells)) <= cells
