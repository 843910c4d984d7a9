"""What went wrong in agents' hooks is kept, bounded and private."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from gitsession.store import hooklog


def test_a_problem_is_noted_with_when_and_where(tmp_path: Path) -> None:
    assert hooklog.read(tmp_path) == []
    hooklog.note(tmp_path, "codex", "Stop", "the disk\nis full")
    (entry,) = hooklog.read(tmp_path)
    assert (entry["agent"], entry["event"], entry["problem"]) == ("codex", "Stop", "the disk is full")
    assert entry["at"].endswith("Z")
    assert stat.S_IMODE(hooklog.place(tmp_path).stat().st_mode) == 0o600


def test_the_same_again_is_not_noted_again_and_another_is(tmp_path: Path) -> None:
    for problem in ("one", "one", "two", "one"):
        hooklog.note(tmp_path, "codex", "Stop", problem)
    assert [entry["problem"] for entry in hooklog.read(tmp_path)] == ["one", "two", "one"]


def test_it_does_not_grow_without_end(tmp_path: Path) -> None:
    for number in range(600):
        hooklog.note(tmp_path, "codex", "Stop", f"{number} " + "x" * 1000)
    assert hooklog.place(tmp_path).stat().st_size <= 64 * 1024
    entries = hooklog.read(tmp_path)
    assert entries[-1]["problem"].startswith("599 ")
    assert len(entries[-1]["problem"]) == 500
    assert stat.S_IMODE(hooklog.place(tmp_path).stat().st_mode) == 0o600


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"\xff", b'{"at": 1}', b"[" * 10_000])
def test_what_is_no_entry_is_passed_over(tmp_path: Path, line: bytes) -> None:
    hooklog.note(tmp_path, "codex", "Stop", "one")
    with hooklog.place(tmp_path).open("ab") as file:
        file.write(line + b"\n")
    hooklog.note(tmp_path, "codex", "Stop", "two")
    assert [entry["problem"] for entry in hooklog.read(tmp_path)] == ["one", "two"]


def test_where_it_cannot_be_written_nobody_is_troubled(tmp_path: Path) -> None:
    hooklog.place(tmp_path).mkdir()
    hooklog.note(tmp_path, "codex", "Stop", "one")
    hooklog.note(tmp_path / "nowhere", "codex", "Stop", "one")
    assert hooklog.read(tmp_path) == []


def test_every_line_is_json(tmp_path: Path) -> None:
    hooklog.note(tmp_path, "codex", "St\x1bop", "a \x1b[31mred\x1b[0m ü")
    assert hooklog.place(tmp_path).read_bytes().isascii()
    assert json.loads(hooklog.place(tmp_path).read_text())["problem"].endswith("ü")
