"""What is said in a tracked agent: referenced, and kept only if the person wants that, without its secrets."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from feeding import Claude, only_session
from support import GitRepo
from verbs.test_tracking import begin, tell

from gitsession import SessionStore
from gitsession.config import Settings
from gitsession.verbs import transcripts
from gitsession.verbs.delete import delete, purge

KEPT = Settings(transcripts_keep=True)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """The agent's own record of its conversation."""
    path = tmp_path / "claudes.jsonl"
    path.write_text("")
    return path


def add(record: Path, *lines: object) -> None:
    with record.open("a") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def kept(home: Path, session_id: str) -> list[object]:
    path = home / "transcripts" / f"{session_id}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_without_the_setting_nothing_is_kept(repo: GitRepo, record: Path, pinable_home: Path) -> None:
    claude = Claude(repo.path)
    begin(claude)
    add(record, {"text": "hello"})
    tell({**claude.stop(), "transcript_path": str(record)})
    assert not (pinable_home / "transcripts").exists()
    assert only_session()["agents"][0]["transcript"] == str(record)


def test_with_it_each_turn_adds_what_is_new(repo: GitRepo, record: Path, pinable_home: Path) -> None:
    claude = Claude(repo.path)
    session_id = begin(claude)
    add(record, {"text": "höflich"})
    stop = {**claude.stop(), "transcript_path": str(record)}
    tell(stop, settings=KEPT)
    assert kept(pinable_home, session_id) == [{"text": "höflich"}]
    tell(stop, settings=KEPT)
    add(record, {"text": "more"})
    with record.open("a") as file:
        file.write('{"half of a li')
    tell({**claude.end(), "transcript_path": str(record)}, settings=KEPT)
    assert kept(pinable_home, session_id) == [{"text": "höflich"}, {"text": "more"}]
    for path in (pinable_home / "transcripts").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_are_masked(record: Path, tmp_path: Path) -> None:
    add(record, {"message": "use sk-ant-0123456789abcdef", "password": "hunter2", "n": 1})
    with record.open("a") as file:
        file.write("not JSON: api_key = 'abcdef0123456789'\n")
    transcripts.keep(tmp_path, "s", str(record))
    text = (tmp_path / "transcripts" / "s.jsonl").read_text()
    assert "sk-ant" not in text
    assert "hunter2" not in text
    assert "abcdef0123456789" not in text
    assert '"n": 1' in text


def test_a_record_that_became_shorter_is_read_anew(record: Path, tmp_path: Path) -> None:
    add(record, {"a": 1}, {"b": 2})
    transcripts.keep(tmp_path, "s", str(record))
    record.write_text("")
    add(record, {"c": 3})
    transcripts.keep(tmp_path, "s", str(record))
    assert kept(tmp_path, "s") == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_records_of_two_agents_stand_together(record: Path, tmp_path: Path) -> None:
    other = tmp_path / "codexs.jsonl"
    for number, path in enumerate((record, other, record)):
        add(path, {"n": number})
        transcripts.keep(tmp_path, "s", str(path))
    assert kept(tmp_path, "s") == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_what_a_kill_left_half_done_is_done_again(record: Path, tmp_path: Path) -> None:
    add(record, {"a": 1})
    transcripts.keep(tmp_path, "s", str(record))
    with (tmp_path / "transcripts" / "s.jsonl").open("a") as file:
        file.write('{"b": 2}\n{"tor')
    add(record, {"b": 2}, {"c": 3})
    transcripts.keep(tmp_path, "s", str(record))
    assert kept(tmp_path, "s") == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in ("/nowhere/x.jsonl", str(tmp_path), str(tmp_path / "fifo"), "/dev/zero"):
        transcripts.keep(tmp_path / "home", "s", path)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"kept": "x", "read": {}}', '{"kept": 1, "read": [1]}'])
def test_a_damaged_memory_costs_only_doubles(record: Path, tmp_path: Path, damage: str) -> None:
    add(record, {"a": 1})
    transcripts.keep(tmp_path, "s", str(record))
    (tmp_path / "transcripts" / "s.place").write_text(damage)
    add(record, {"b": 2})
    transcripts.keep(tmp_path, "s", str(record))
    assert kept(tmp_path, "s") == [{"a": 1}, {"a": 1}, {"b": 2}]


def test_it_goes_for_good_with_its_session(repo: GitRepo, record: Path, pinable_home: Path) -> None:
    claude = Claude(repo.path)
    session_id = begin(claude)
    add(record, {"text": "hello"})
    tell({**claude.end(), "transcript_path": str(record)}, settings=KEPT)
    store = SessionStore()
    delete(store, session_id)
    assert kept(pinable_home, session_id) == [{"text": "hello"}], "it can still be brought back"
    purge(store, store.last_trashed(session_id))
    assert list((pinable_home / "transcripts").iterdir()) == []
