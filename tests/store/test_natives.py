"""Agents' own sessions are bound to ours: one answer for all, whatever an agent calls its session."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gitsession.errors import BadSessionId, StoreError
from gitsession.store import natives

OURS = "sess_1740480000_a3f7b2c1"
OTHER = "sess_1740480001_a3f7b2c2"
CLAUDES = "714e6579-6ab7-4715-b517-47e92d99433c"
HOSTILE = ["../../escape", "/etc/passwd", ".hidden", "a/b", "a\0b", "", "x" * 5000, "ß", "con trol\n", "a.", "\udc80"]


def test_what_was_bound_is_found(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert natives.find(home, "codex", CLAUDES) is None
    assert not home.exists(), "looking makes nothing"
    natives.bind(home, "codex", CLAUDES, OURS)
    assert natives.find(home, "codex", CLAUDES) == OURS
    assert natives.find(home, "gemini", CLAUDES) is None
    assert (home / "agents" / "codex" / CLAUDES).read_bytes() == f"{OURS}\n".encode()
    natives.bind(home, "codex", CLAUDES, OTHER)
    assert natives.find(home, "codex", CLAUDES) == OTHER


def test_files_and_directories_are_private(tmp_path: Path) -> None:
    natives.claim(tmp_path / "home", "codex", "one", OURS)
    natives.bind(tmp_path / "home", "codex", "two", OURS)
    for path in [tmp_path / "home", *(tmp_path / "home").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_the_first_claim_holds(tmp_path: Path) -> None:
    assert natives.claim(tmp_path, "codex", CLAUDES, OURS) == OURS
    assert natives.claim(tmp_path, "codex", CLAUDES, OTHER) == OURS
    assert os.listdir(tmp_path / "agents" / "codex") == [CLAUDES], "nothing is left over"


@pytest.mark.parametrize("native", HOSTILE)
def test_a_name_that_is_none_for_a_file_is_replaced_by_its_hash(tmp_path: Path, native: str) -> None:
    assert natives.claim(tmp_path / "home", "codex", native, OURS) == OURS
    assert natives.find(tmp_path / "home", "codex", native) == OURS
    (name,) = os.listdir(tmp_path / "home" / "agents" / "codex")
    assert len(name) == 64
    assert set(name) <= set("0123456789abcdef")


def test_hostile_names_do_not_meet(tmp_path: Path) -> None:
    for number, native in enumerate(HOSTILE):
        natives.bind(tmp_path, "codex", native, f"s{number}")
    assert [natives.find(tmp_path, "codex", native) for native in HOSTILE] == [f"s{n}" for n in range(len(HOSTILE))]


@pytest.mark.parametrize("damage", [b"", b"\0\0\0", b"../../x\n", b"x" * 10_000, b"two words\n"])
def test_a_damaged_file_is_none_and_is_claimed_anew(tmp_path: Path, damage: bytes) -> None:
    natives.bind(tmp_path, "codex", CLAUDES, OURS)
    (tmp_path / "agents" / "codex" / CLAUDES).write_bytes(damage)
    assert natives.find(tmp_path, "codex", CLAUDES) is None
    assert natives.claim(tmp_path, "codex", CLAUDES, OTHER) == OTHER
    assert natives.find(tmp_path, "codex", CLAUDES) == OTHER


def test_what_is_no_session_id_is_not_bound(tmp_path: Path) -> None:
    for bind in (natives.bind, natives.claim):
        with pytest.raises(BadSessionId):
            bind(tmp_path, "codex", CLAUDES, "../x")
    assert natives.find(tmp_path, "codex", CLAUDES) is None


def test_where_links_cannot_be_made_it_works_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert natives.claim(tmp_path, "codex", CLAUDES, OURS) == OURS
    assert natives.claim(tmp_path, "codex", CLAUDES, OTHER) == OURS


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("a file in the way")
    with pytest.raises(StoreError):
        natives.bind(tmp_path, "codex", CLAUDES, OURS)
    with pytest.raises(StoreError):
        natives.find(tmp_path, "codex", CLAUDES)


CLAIM = """
import sys
from pathlib import Path
from gitsession.store import natives
print("ready", flush=True)
sys.stdin.readline()
print(natives.claim(Path(sys.argv[1]), "codex", "one", f"sess_{sys.argv[2]}"))
"""


def test_processes_that_claim_at_once_agree(tmp_path: Path) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(tmp_path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    answers = {process.communicate("\n", timeout=60)[0] for process in running}
    assert answers == {f"{natives.find(tmp_path, 'codex', 'one')}\n"}
