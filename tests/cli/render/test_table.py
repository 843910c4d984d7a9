"""Columns line up in cells."""

from __future__ import annotations

from gitsession.cli.render.table import aligned, table
from gitsession.cli.render.text import width

ROWS = [("sess_1", "claude", "重构用户模块为微服务架构，保留接口"), ("s", "命令", "short")]


def test_columns_line_up_whatever_the_script() -> None:
    lines = table(("ID", "BACKEND", "TASK"), ROWS, None)
    assert lines == [
        "ID      BACKEND  TASK",
        "sess_1  claude   重构用户模块为微服务架构，保留接口",
        "s       命令     short",
    ]


def test_the_last_column_gives_way() -> None:
    lines = table(("ID", "BACKEND", "TASK"), ROWS, 40)
    assert max(map(width, lines)) <= 40
    assert lines[1].endswith("…")


def test_a_narrow_terminal_still_shows_the_beginning() -> None:
    assert "重构" in table(("ID", "BACKEND", "TASK"), ROWS, 10)[1]


def test_aligned() -> None:
    assert aligned([("a", "1"), ("abc", "2")]) == ["a    1", "abc  2"]
    assert aligned([]) == []
