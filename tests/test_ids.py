"""What may be a session's id."""

from __future__ import annotations

import re

import pytest

from gitsession.errors import BadSessionId
from gitsession.ids import MAX_LENGTH, check_session_id, new_session_id


def test_a_new_id_is_seconds_and_eight_hex_digits() -> None:
    assert re.fullmatch(r"sess_1740480000_[0-9a-f]{8}", new_session_id(1740480000.9))


def test_a_new_id_passes_its_own_check_and_two_of_one_second_differ() -> None:
    first, second = new_session_id(1.0), new_session_id(1.0)
    assert first != second
    assert check_session_id(first) == first


@pytest.mark.parametrize(
    "text", ["a", "7", "my-refactor-2026", "sess_analysis_001", "v1.2.3", "A_b-c.d", "x" * MAX_LENGTH, "console", "com"]
)
def test_what_every_system_takes_as_a_name_is_an_id(text: str) -> None:
    assert check_session_id(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "a b", "../x", "a/b", "a\\b", "a..b", "..", ".", ".hidden", "-rf", "_x", "a.", "x.lock", "x.LOCK",
        "CON", "con", "nul.txt", "Com1", "lpt9.x", "a:b", "a*", "a?b", "a~1", "a^", "a@{b", "a\n", "a\0b", "é", "名前",
        "x" * (MAX_LENGTH + 1), "x" * 300, "latest",
    ],
)  # fmt: skip
def test_what_could_not_be_a_file_or_a_ref_somewhere_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(BadSessionId) as caught:
        check_session_id(text)
    assert "cannot be a session id" in str(caught.value)
    assert len(str(caught.value)) < 120
    assert caught.value.hint
    assert ("newest" if text == "latest" else "1 to 100") in caught.value.hint
