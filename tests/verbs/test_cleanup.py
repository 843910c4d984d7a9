"""Cleaning up: what is old goes to the trash, and nothing that somebody may still need."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from store.building import new_doc

from gitsession import SessionStore
from gitsession.clock import timestamp
from gitsession.config import Settings
from gitsession.errors import StoreError
from gitsession.store.chains import ChainStore
from gitsession.verbs import tidy as module
from gitsession.verbs.cleanup import choose, remove
from gitsession.verbs.tidy import News, begin, tidy

DAY = 86400.0
NOW = time.time()


@pytest.fixture
def store() -> SessionStore:
    """Completed sessions ``d10``, ``d20``, ``d40`` and ``d60`` days old, and others, as old, that are to stay."""
    store = SessionStore()
    for days in (10, 20, 40, 60):
        put(store, f"d{days}", days)
    put(store, "paused", 90, status="paused")
    put(store, "created", 90, status="created")
    put(store, "chained", 90)
    put(store, "newer", 90, schema_version=9)
    ChainStore(store.home).create("chain", ["chained", "not-yet"])
    (store.sessions_dir / "broken.json").write_text("{")
    return store


def put(store: SessionStore, session_id: str, days: float, **fields: Any) -> None:
    """A session that was last touched ``days`` ago, by its record and by its file's time."""
    then = NOW - days * DAY
    moments = {"created_at": timestamp(then), "updated_at": timestamp(then)}
    store.create(new_doc(session_id, **({"status": "completed"} | moments)))
    import json

    path = store.sessions_dir / f"{session_id}.json"
    doc = json.loads(path.read_bytes()) | moments | fields
    journal = store.journal(session_id).path
    doc["journal"] = {"seq": 1, "offset": journal.stat().st_size}
    path.write_text(json.dumps(doc))
    for file in (path, journal):
        os.utime(file, (then, then))


def test_only_what_is_old_enough_the_oldest_first(store: SessionStore) -> None:
    choice = choose(store, "completed", 30 * DAY, NOW)
    assert [one.id for one in choice.chosen] == ["d60", "d40"]
    assert sorted((one.id, reason) for one, reason in choice.kept) == [
        ("chained", "in chain chain"),
        ("newer", "written by a newer version (schema 9)"),
    ]


def test_another_state_when_it_is_asked_for(store: SessionStore) -> None:
    assert [one.id for one in choose(store, "paused", 30 * DAY, NOW).chosen] == ["paused"]
    with store.own("created"):
        choice = choose(store, "created", 30 * DAY, NOW)
    assert choice.chosen == ()
    assert choice.kept[0][1].startswith("owned by process")


def test_a_chain_that_cannot_be_read_stops_it(store: SessionStore) -> None:
    (store.home / "chains" / "bad.json").write_text("{")
    with pytest.raises(StoreError, match=r"bad\.json is not a chain"):
        choose(store, "completed", 30 * DAY, NOW)
    assert tidy(store, Settings(), NOW).problem is not None
    assert store.exists("d60")


def test_what_keeps_one_does_not_keep_the_next(store: SessionStore) -> None:
    choice = choose(store, "completed", 30 * DAY, NOW)
    with store.own("d60"):
        results = list(remove(store, choice.chosen))
    assert [(one.session_id, one.error is None) for one in results] == [("d60", False), ("d40", True)]
    assert store.exists("d60")


# By itself


class Started:
    """Stands for the process that tidies."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def test_by_itself_once_a_day_and_told_once(store: SessionStore) -> None:
    start = Started()
    assert begin(store, start, NOW) is None
    assert begin(store, start, NOW + 60) is None
    assert start.times == 1
    assert tidy(store, Settings(), NOW) == News(("d60", "d40"), 0, None)
    assert sorted(store.ids()) == ["broken", "chained", "created", "d10", "d20", "newer", "paused"]
    assert begin(store, start, NOW + 120) == News(("d60", "d40"), 0, None)
    assert begin(store, start, NOW + 180) is None
    assert start.times == 1
    begin(store, start, NOW + DAY + 1)
    assert start.times == 2


def test_never_when_it_is_off(store: SessionStore) -> None:
    (store.home / "config.toml").write_text("[session]\nauto_cleanup_days = 0\n")
    start = Started()
    begin(store, start, NOW)
    assert start.times == 0
    assert tidy(store, Settings(session_auto_cleanup_days=0), NOW) == News()
    assert store.exists("d60")


def test_where_nothing_is_old_nothing_is_written(tmp_path: Path) -> None:
    store, start = SessionStore(tmp_path / "home"), Started()
    begin(store, start, NOW)
    assert not store.home.exists()
    store.create(new_doc())
    begin(store, start, time.time())
    assert not (store.home / "tidied.json").exists()
    assert start.times == 0


def test_the_trash_alone_is_reason_enough(store: SessionStore) -> None:
    for session_id in store.ids():
        if session_id != "d10":
            (store.sessions_dir / f"{session_id}.json").unlink()
            store.journal(session_id).path.unlink(missing_ok=True)
    place = store.trash("d10")
    start = Started()
    os.utime(place, (0, NOW - 20 * DAY))
    begin(store, start, NOW)
    assert start.times == 1
    assert tidy(store, Settings(), NOW) == News((), 1, None)
    assert store.trashed() == []


@pytest.mark.parametrize("memo", ["", "{", "[]", '{"looked": "x"}', '{"looked": 1e99}', '{"news": 5}', '{"news": {}}'])
def test_a_damaged_memo_is_none(store: SessionStore, memo: str) -> None:
    (store.home / "tidied.json").write_text(memo)
    start = Started()
    assert begin(store, start, NOW) is None
    assert start.times == 1


def test_a_bad_setting_is_not_its_business(store: SessionStore) -> None:
    (store.home / "config.toml").write_text("[session]\nauto_cleanup_days = 'x'\n")
    assert begin(store, Started(), NOW) is None


def test_it_looks_no_longer_than_its_budget(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time left, the other process looks."""
    monkeypatch.setattr(module, "_BUDGET", -1.0)
    monkeypatch.setattr(module, "_MANY", 1)
    start = Started()
    for session_id in ("d40", "d60", "paused", "created", "chained", "newer"):
        os.utime(store.sessions_dir / f"{session_id}.json")
    begin(store, start, NOW)
    assert start.times == 1
