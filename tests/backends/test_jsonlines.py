"""A program's output, cut into JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.backends import jsonlines
from gitsession.backends.base import Event, Notice, Output
from gitsession.backends.jsonlines import JsonLines


def heard(line: dict[str, Any]) -> Iterator[Event]:
    yield Output(f"heard {sorted(line)}")


def read(*pieces: bytes, interrupted: bool = False) -> list[Event]:
    lines = JsonLines(heard)
    events = [event for piece in pieces for event in lines.feed(piece)]
    return [*events, *lines.end(interrupted=interrupted)]


def test_an_object_a_line_is_heard() -> None:
    assert read(b'{"a": 1}\n{"b": 2}\r\n\n   \n') == [Output("heard ['a']"), Output("heard ['b']")]


def test_the_last_line_may_lack_its_end_unless_the_program_was_cut_short() -> None:
    assert read(b'{"a": 1}') == [Output("heard ['a']")]
    assert read(b'{"a": 1}', interrupted=True) == []


@pytest.mark.parametrize("line", [b"words", b"[1]", b"3", b'"text"', b"null", b'{"a": ', b"{" * 100_000, b"\xff\xfe"])
def test_what_is_no_object_is_the_programs_own_words(line: bytes) -> None:
    assert read(line + b"\n") == [Output(line.decode("utf-8", "replace") + "\n")]


def test_of_a_line_that_is_too_long_nothing_is_held_and_the_next_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "LIMIT", 2 * 1024**2)
    lines = JsonLines(heard)
    piece = b"x" * 1024**2
    assert [event for _ in range(5) for event in lines.feed(piece)] == []
    assert sum(map(len, lines._held)) <= 2 * 1024**2
    assert list(lines.feed(b'\n{"a": 1}\n')) == [
        Notice("the agent printed a line of 5 MB, which is not looked at"),
        Output("heard ['a']"),
    ]


LINES = st.lists(st.one_of(st.dictionaries(st.text(), st.text(), max_size=2).map(json.dumps), st.text(max_size=5)))


@given(LINES, st.lists(st.integers(0, 400)))
def test_where_the_output_is_cut_does_not_matter(lines: list[str], cuts: list[int]) -> None:
    data = b"".join(line.replace("\n", "").encode("utf-8", "surrogatepass") + b"\n" for line in lines)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert read(*pieces) == read(data)
