"""Numbers in what a program says."""

from __future__ import annotations

from typing import Any

import pytest

from gitsession.backends.wording import amount, number


@pytest.mark.parametrize(
    ("value", "money"),
    [
        (0.25, 0.25),
        (3, 3.0),
        (0, 0.0),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (-1, None),
        (True, None),
        ("1", None),
        (None, None),
    ],
)
def test_money_is_finite_and_not_negative(value: Any, money: float | None) -> None:
    assert amount(value) == money


@pytest.mark.parametrize(
    ("value", "count"), [(7, 7), (0, 0), (-1, 0), (1.5, 0), (True, 0), ("7", 0), (None, 0), (float("nan"), 0)]
)
def test_a_count_is_a_whole_number(value: Any, count: int) -> None:
    assert number(value) == count
