"""The line protocol: what is a directive, and that nothing else is lost."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsession.backends.base import CheckpointHint, Event, Output, Phase, Usage
from gitsession.backends.directives import MAX_DIRECTIVE, Speech, Text


def heard(*chunks: bytes, phase: str | None = None) -> list[Event]:
    speech = Speech(phase)
    return [event for chunk in chunks for event in speech.feed(chunk)] + list(speech.end())


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Output))


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ("::phase::analysis", Phase("analysis", "", done=False)),
        ("::phase::analysis::Analyzing 3 files...", Phase("analysis", "Analyzing 3 files...")),
        ("::phase::analysis::", Phase("analysis", "")),
        ("::phase::code review 2::a::b", Phase("code review 2", "a::b")),
        ("::phase::分析::分析 3 个文件", Phase("分析", "分析 3 个文件")),
        ("::phase::analysis::crlf\r", Phase("analysis", "crlf")),
        ("::done::Identified 15 functions", Phase("before", "Identified 15 functions", done=True)),
        ("::done::", Phase("before", "", done=True)),
        ("::checkpoint::完成 user 模块重构", CheckpointHint("完成 user 模块重构")),
        ("::checkpoint::a\tb", CheckpointHint("a\tb")),
        ("::tokens::in=12500,out=3200", Usage(12500, 3200)),
        ("::tokens::out=1, in=2, cost=0.12", Usage(2, 1, 0.12)),
        ("::tokens::in=5", Usage(5, 0)),
        ("::tokens::cost=3", Usage(0, 0, 3.0)),
    ],
)
def test_directives(line: str, event: Event) -> None:
    assert heard(line.encode() + b"\n", phase="before") == [event]


@pytest.mark.parametrize(
    "line",
    [
        "::",
        "::phase",
        "::phase::",
        "::phase::  ",
        "::phase:: ::text",
        "::phase::a\x1b[31m::text",
        "::phase::" + "n" * 65,
        "::phase-done::x",
        "::Phase::analysis",
        " ::phase::analysis",
        ":::phase::analysis",
        "say ::phase::analysis",
        "::checkpoint::",
        "::checkpoint::bell\x07",
        "::checkpoint::two\u2028lines",
        "::checkpoint::progress\rprogress",
        "::error::",
        "::tokens::",
        "::tokens::in=",
        "::tokens::in=-5,out=2",
        "::tokens::in=1.5,out=2",
        "::tokens::in=1,in=2",
        "::tokens::in=1,out=2,cached=3",
        "::tokens::in=1,out=2,cost=nan",
        "::tokens::in=1;out=2",
        "::tokens::in=٣",
        "::tokens::in=" + "9" * 16,
        "::set-output::name=value",
    ],
)
def test_what_is_no_directive_is_output(line: str) -> None:
    assert heard(line.encode() + b"\n") == [Output(line + "\n")]


def test_done_needs_a_phase() -> None:
    assert heard(b"::done::x\n") == [Output("::done::x\n")]
    assert heard(b"::phase::a\n::done::x\n") == [Phase("a"), Phase("a", "x", done=True)]


def test_a_directive_in_other_bytes_than_utf8_is_output() -> None:
    assert heard(b"::checkpoint::caf\xe9\n") == [Output("::checkpoint::caf\ufffd\n")]


def test_a_directive_may_come_in_pieces() -> None:
    assert heard(b"be", b"fore\n:", b":pha", b"se::an", b"alysis\nafter") == [
        Output("be"),
        Output("fore\n"),
        Phase("analysis"),
        Output("after"),
    ]


def test_a_directive_without_its_newline_is_output_at_the_end() -> None:
    """It may be half of one: the program was killed while it wrote."""
    assert heard(b"::checkpoint::half of a desc") == [Output("::checkpoint::half of a desc")]
    assert heard(b"::phase::a\n:") == [Phase("a"), Output(":")]


def test_a_piece_of_a_line_comes_at_once_unless_it_may_become_a_directive() -> None:
    speech = Speech(None)
    assert list(speech.feed(b"10%\r")) == [Output("10%\r")]
    assert list(speech.feed(b"20%\r::phase::x\n")) == [Output("20%\r::phase::x\n")]
    assert list(speech.feed(b"::ph")) == []
    assert list(speech.feed(b"oto\n")) == [Output("::photo\n")]


def test_a_character_may_be_cut_anywhere() -> None:
    data = "héllo 世界\n".encode()
    events = heard(*(data[i : i + 1] for i in range(len(data))))
    assert text_of(events) == "héllo 世界\n"
    assert text_of(heard(b"cut \xe4\xb8")) == "cut \ufffd"


def test_the_longest_directive_and_one_byte_more() -> None:
    fits = b"::checkpoint::" + b"x" * (MAX_DIRECTIVE - len("::checkpoint::\n")) + b"\n"
    assert len(fits) == MAX_DIRECTIVE
    assert [type(event) for event in heard(fits)] == [CheckpointHint]
    longer = fits[:-1] + b"x\n"
    chunks = [longer[i : i + 1000] for i in range(0, len(longer), 1000)]
    assert text_of(heard(*chunks)) == longer.decode()


def test_an_error_is_kept_as_the_reason_and_an_earlier_one_is_shown() -> None:
    speech = Speech(None)
    assert list(speech.feed(b"::error::first\n")) == []
    assert list(speech.feed(b"::error::CONNECTION ERROR: network timeout after 30s\n")) == [Output("first\n")]
    assert speech.error == "CONNECTION ERROR: network timeout after 30s"


def test_standard_error_has_no_directives() -> None:
    assert list(Text("stderr").feed(b"::phase::x\n")) == [Output("::phase::x\n", "stderr")]


PIECES = st.sampled_from(
    [b"::", b":", b"phase::", b"a", b"\n", b"\r", b"\xe4\xb8\x96", b"\xff", b"\0", b"done::", b" "]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=40), st.lists(st.integers(0, 60), max_size=8))
def test_output_is_what_was_printed_less_the_directives_however_it_is_cut(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    expected = heard(data)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    got = heard(*(data[a:b] for a, b in itertools.pairwise(places)))
    assert text_of(got) == text_of(expected)
    told = [event for event in got if not isinstance(event, Output)]
    assert told == [event for event in expected if not isinstance(event, Output)]
    if b"::" not in data:
        assert text_of(got) == data.decode("utf-8", "replace")
