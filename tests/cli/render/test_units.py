"""Times, durations and money as people read them."""

from __future__ import annotations

import time

import pytest

from gitsession.cli.render import units


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.4, "0s"),
        (9.6, "10s"),
        (754, "12m 34s"),
        (7200, "2h"),
        (7205, "2h"),
        (7265, "2h 1m"),
        (86400, "1d"),
        (97200, "1d 3h"),
        (60, "1m"),
    ],
)
def test_duration(seconds: float, shown: str) -> None:
    assert units.duration(seconds) == shown


@pytest.mark.parametrize(
    ("dollars", "shown"), [(0.87, "$0.87"), (None, "unknown"), (0.0, "$0.00"), (0.0042, "$0.0042"), (12.345, "$12.35")]
)
def test_money(dollars: float | None, shown: str) -> None:
    assert units.money(dollars) == shown


@pytest.mark.parametrize(
    ("ago", "shown"), [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (3 * 86400, "3d"), (-5, "0s")]
)
def test_age(ago: float, shown: str) -> None:
    assert units.age("2026-02-25T10:00:00Z", 1772013600 + ago) == shown


@pytest.mark.parametrize("unreadable", ["", "yesterday"])
def test_a_moment_that_cannot_be_read(unreadable: str) -> None:
    assert units.age(unreadable, 0) == "-"
    assert units.date_time(unreadable) == unreadable


def test_times_are_local(monkeypatch: pytest.MonkeyPatch) -> None:
    assert units.date_time("2026-02-25T10:00:00Z") == "2026-02-25 10:00:00"
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    assert units.date_time("2026-02-25T10:00:00Z") == "2026-02-25 18:00:00"


@pytest.mark.parametrize(("number", "shown"), [(0, "0 files"), (1, "1 file"), (12500, "12,500 files")])
def test_count(number: int, shown: str) -> None:
    assert units.count(number, "file") == shown
