"""Repository paths as text: exact, unambiguous, valid UTF-8."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitsession.paths import decode, encode, name_of, place_of

# Arbitrary bytes, and bytes of the kind where an encoding could go wrong: quotes, backslashes, digits, broken UTF-8.
tricky = st.lists(
    st.sampled_from([b'"', b"\\", b"n", b"1", b"0", b"\xff", b"\xc3", b"\xa9", b"\n", b"\x7f", b"a", "é".encode()])
).map(b"".join)
any_path = st.binary() | tricky | st.text().map(lambda text: text.encode("utf-8", "ignore"))


@given(any_path)
@example(b'"')
@example(b'""')
@example(b'"\\303\\251"')
@example(b"\\303\xff")
def test_decoding_gives_the_exact_bytes_back(path: bytes) -> None:
    assert decode(encode(path)) == path


@given(any_path, any_path)
@example(b"\xff", b'"\\377"')
@example(b"a", b'"a"')
def test_two_paths_never_share_a_spelling(one: bytes, other: bytes) -> None:
    assert (encode(one) == encode(other)) == (one == other)


@given(any_path)
def test_a_spelling_is_valid_utf8(path: bytes) -> None:
    encode(path).encode("utf-8", "strict")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (b"src/app.py", "src/app.py"),
        ("模块/é.py".encode(), "模块/é.py"),
        (b"a b\tc\nd", "a b\tc\nd"),
        (b'in"side\\', 'in"side\\'),
        (b"caf\xe9.txt", '"caf\\351.txt"'),
        (b'"quoted"', '"\\"quoted\\""'),
        (b'\\"\xff\x01', '"\\\\\\"\\377\\001"'),
    ],
)
def test_only_what_is_not_utf8_or_begins_with_a_quote_is_quoted(path: bytes, text: str) -> None:
    assert encode(path) == text


def test_decode_reads_all_that_git_quotes() -> None:
    assert decode(r'"\a\b\t\n\v\f\r\"\\\303\251"') == b'\a\b\t\n\v\f\r"\\\xc3\xa9'


def test_places_have_names_that_lead_back() -> None:
    for place in (Path("/a/b c"), Path(os.fsdecode(b"/a/\xff")), Path("/é")):
        assert place_of(name_of(place)) == place
    assert name_of(Path(os.fsdecode(b"/a/\xff"))) == '"/a/\\377"'
    assert name_of(Path("/é")) == "/é"
