"""JSON, and what the terminal can do."""

from __future__ import annotations

import json

import pytest

from gitsession.cli.render.out import columns, write_json


def test_json_is_the_same_value_and_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"task": "重构 \x1b[31m \x9b \x7f \u202e", "path": "caf\udce9"}
    write_json(value, indent=None)
    written = capsys.readouterr().out
    assert json.loads(written) == value
    assert "重构" in written
    assert not set(written) & set("\x1b\x9b\x7f\u202e")
    assert written.count("\n") == 1


@pytest.mark.parametrize(("wanted", "width"), [("50", 50), ("0", None), ("wide", None), ("", None)])
def test_columns_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, wanted: str, width: int | None) -> None:
    monkeypatch.setenv("COLUMNS", wanted)
    assert columns() == width
