"""Deleted sessions: whole, private, and back when wanted."""

from __future__ import annotations

import signal

import pytest
from store.building import contents, new_doc
from store.conftest import Start

from gitsession import SessionStore
from gitsession.errors import BadSessionId, SessionBusy, SessionNotFound


def test_a_deleted_session_is_in_the_trash_and_comes_back_byte_for_byte(store: SessionStore, session: str) -> None:
    before, doc = contents(store.sessions_dir), store.read(session)
    place = store.trash(session)
    assert place == store.trash_dir / session
    assert contents(place) == before
    assert (store.ids(), store.exists(session), contents(store.sessions_dir)) == ([], False, {})
    with pytest.raises(SessionNotFound):
        store.read(session)
    store.untrash(session)
    assert contents(store.sessions_dir) == before
    assert store.read(session) == doc
    assert list(store.trash_dir.iterdir()) == []


def test_a_living_session_is_not_deleted(store: SessionStore, session: str, start: Start) -> None:
    owner = start("with store.own('s'):\n    print('in', flush=True)\n    sys.stdin.read()")
    assert owner.stdout is not None
    owner.stdout.readline()
    before = contents(store.home)
    with pytest.raises(SessionBusy, match=f"owned by process {owner.pid}"):
        store.trash(session)
    assert contents(store.home) == before
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    store.trash(session)
    assert store.ids() == []


def test_several_sessions_deleted_under_one_id_come_back_newest_first(store: SessionStore) -> None:
    places = []
    for task in ("first", "second", "third"):
        store.create(new_doc(task=task))
        places.append(store.trash("s").name)
    assert places == ["s", "s~2", "s~3"]
    store.untrash("s")
    assert store.read("s")["task"] == "third"
    assert store.trash("s").name == "s~3"
    for task in ("third", "second", "first"):
        store.untrash("s")
        assert store.read("s")["task"] == task
        for path in store.sessions_dir.glob("s.j*"):
            path.unlink()
    with pytest.raises(SessionNotFound, match="no session 's' in "):
        store.untrash("s")


@pytest.mark.parametrize("twin", ["s", "S"])
def test_a_session_does_not_come_back_over_another(store: SessionStore, session: str, twin: str) -> None:
    store.trash(session)
    store.create(new_doc(twin))
    before = contents(store.home)
    with pytest.raises(BadSessionId):
        store.untrash(session)
    assert contents(store.home) == before


def test_a_session_of_a_newer_version_is_moved_as_it_is(store: SessionStore, session: str) -> None:
    path = store.sessions_dir / "s.json"
    path.write_bytes(path.read_bytes().replace(b'"schema_version": 1', b'"schema_version": 9'))
    before = contents(store.sessions_dir)
    assert contents(store.trash(session)) == before


def test_an_id_whose_session_was_deleted_can_be_used_again(store: SessionStore, session: str) -> None:
    store.trash(session)
    store.create(new_doc(task="another"))
    assert (store.read("s")["task"], store.read("s")["journal"]["seq"]) == ("another", 1)
