"""A dry call tells what the hook said, or why it could not be called."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsession.verbs import drycall


def test_what_it_says(tmp_path: Path) -> None:
    reply = drycall.call(["sh", "-c", 'echo "$PINABLE_HOOK_CHECK"; pwd; echo last >&2'], tmp_path)
    assert reply.failure is None
    assert sorted(reply.output.split()) == sorted(["1", str(tmp_path), "last"])
    assert drycall.call(["sh", "-c", "printf 'one\\ntwo\\n\\n'"], tmp_path).last_line == "two"
    assert drycall.call(["true"], tmp_path).last_line == ""


def test_what_cannot_be_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "it cannot be run" in str(drycall.call([str(tmp_path / "gone")], tmp_path).failure)
    monkeypatch.setattr(drycall, "_PATIENCE", 0.1)
    assert "timed out" in str(drycall.call(["sleep", "100"], tmp_path).failure)
