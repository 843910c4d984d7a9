"""Text that is no Unicode."""

from __future__ import annotations

from gitsession.unicode import escaped, is_unicode


def test_halves_of_pairs_are_told_and_escaped() -> None:
    assert is_unicode("café 😀")
    assert not is_unicode("caf\udce9")
    assert escaped({"a\ud800": ["caf\udce9", "é😀", 1, None, {"b": "\udcff"}]}) == {
        "a\\ud800": ["caf\\udce9", "é😀", 1, None, {"b": "\\udcff"}]
    }
