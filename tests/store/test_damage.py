"""Damaged session files: told with what and where, listed, and kept byte for byte."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store.building import contents, new_doc, record

from gitsession import SessionStore
from gitsession.errors import BadSessionId, GitSessionError, SessionCorrupted, SessionNotFound
from gitsession.store import draft as drafts

Damage = Callable[[Path], object]


def edit_once(store: SessionStore) -> None:
    with store.edit("s") as draft:
        draft.log("note")


def refused(store: SessionStore) -> SessionCorrupted:
    """The error that every use of the session ends in; none of them changes a byte."""
    before = contents(store.home)
    errors: list[GitSessionError] = []
    for use in (store.read, store.load, lambda _: edit_once(store)):
        with pytest.raises(SessionCorrupted) as caught:
            use("s")
        errors.append(caught.value)
    assert len({str(error) for error in errors}) == 1
    assert "\n" not in str(errors[0])
    with pytest.raises(BadSessionId):
        store.create(new_doc())
    assert store.exists("s")
    assert (store.ids(), store.resolve("s")) == (["s"], "s")
    (summary,) = store.summaries()
    assert summary.id == "s"
    assert summary.problem == str(errors[0]).replace(f"{store.sessions_dir}/", "")
    with store.own("s"):
        pass
    assert contents(store.home) == before
    caught_one = errors[0]
    assert isinstance(caught_one, SessionCorrupted)
    return caught_one


def rewrite(path: Path, **fields: Any) -> None:
    """Change fields of a session file; those of value None go."""
    doc = {**json.loads(path.read_bytes()), **fields}
    path.write_text(json.dumps({name: value for name, value in doc.items() if value is not None}))


DAMAGES: list[tuple[Damage, str]] = [
    (lambda path: path.write_bytes(b""), "is empty"),
    (lambda path: path.write_bytes(b"\0" * 64), "is not valid JSON at byte 0 of 64"),
    (lambda path: path.write_bytes(path.read_bytes()[:100]), "is not valid JSON at byte "),
    (lambda path: path.write_bytes(path.read_bytes()[:-3]), "is not valid JSON at byte "),
    (lambda path: path.write_bytes(b'{"task": "\xc3\xa9", ?'), "is not valid JSON at byte 15 of 16"),
    (lambda path: path.write_bytes(b'{"a": "\xff"}'), "is not UTF-8 at byte 7"),
    (lambda path: path.write_bytes(b"[" * 100_000), "is "),
    (lambda path: path.write_bytes(b"[]\n"), "is JSON but not an object"),
    (lambda path: rewrite(path, id="other"), "says that it is session 'other'"),
    (lambda path: rewrite(path, status=None), "has no status"),
    (lambda path: rewrite(path, checkpoints={}), "has a checkpoints that is not a list"),
    (lambda path: rewrite(path, cost=[]), "has a cost that is not an object"),
    (lambda path: rewrite(path, task=5), "has a task that is not a string"),
    (lambda path: rewrite(path, schema_version="2"), "has a schema_version that is not a number"),
    (lambda path: rewrite(path, journal={"seq": -1, "offset": 0}), "has a journal that is not {seq, offset}"),
    (lambda path: rewrite(path, journal=[]), "has a journal that is not {seq, offset}"),
    (lambda path: rewrite(path, task="d\ud800 it"), "holds text that is not valid Unicode"),
    (lambda path: path.write_bytes(b'{"n": ' + b"1" * 5000 + b"}"), "holds a number of too many digits"),
    (lambda path: (path.unlink(), os.mkfifo(path)), "is not a regular file"),
    (lambda path: (path.unlink(), path.mkdir()), "is not a regular file"),
    (lambda path: (path.unlink(), path.symlink_to(path)), "is not a regular file"),
    (lambda path: path.unlink(), "is missing, and other files of the session are there"),
]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(("damage", "words"), DAMAGES, ids=[words for _, words in DAMAGES])
def test_a_damaged_session_file_is_told_and_kept(
    store: SessionStore, session: str, damage: Damage, words: str, beside: bool
) -> None:
    path = store.sessions_dir / "s.json"
    if beside:
        shutil.copy(path, store.sessions_dir / "s.json.tmp")
    damage(path)
    error = refused(store)
    assert str(error).startswith(f"{path} {words}")
    assert error.hint is not None
    assert error.hint.startswith("nothing was changed; the file is kept as it is") is True
    assert ("s.json.tmp beside it may hold" in error.hint) is beside


def test_only_the_temporary_file_left_of_a_session_is_told_and_kept(store: SessionStore, session: str) -> None:
    path = store.sessions_dir / "s.json"
    path.rename(store.sessions_dir / "s.json.tmp")
    store.journal("s").path.unlink()
    assert "is missing" in str(refused(store))


@pytest.mark.parametrize("data", [b"", b'{"id": "s", "task', json.dumps(new_doc()).encode()])
def test_a_creation_cut_short_is_no_session_and_can_be_repeated(store: SessionStore, data: bytes) -> None:
    store.sessions_dir.mkdir(parents=True)
    (store.sessions_dir / "s.json.tmp").write_bytes(data)
    assert (store.ids(), store.exists("s"), list(store.summaries())) == ([], False, [])
    with pytest.raises(SessionNotFound):
        store.read("s")
    store.create(new_doc())
    assert store.ids() == ["s"]


def test_a_damaged_session_can_be_deleted_and_brought_back_as_it_is(store: SessionStore, session: str) -> None:
    path = store.sessions_dir / "s.json"
    shutil.copy(path, store.sessions_dir / "s.json.tmp")
    path.write_bytes(b"\0" * 10)
    before = contents(store.sessions_dir)
    place = store.trash("s")
    assert contents(place) == before
    assert store.ids() == []
    store.untrash("s")
    assert contents(store.sessions_dir) == before


def test_one_damaged_session_does_not_hide_the_others(store: SessionStore, session: str) -> None:
    store.create(new_doc("t"))
    (store.sessions_dir / "s.json").write_bytes(b"")
    assert [(summary.id, summary.problem) for summary in store.summaries()] == [("s", "s.json is empty"), ("t", None)]


# The journal


def with_old_snapshot(store: SessionStore) -> None:
    """Put the snapshot back to before everything the journal tells."""
    rewrite(store.sessions_dir / "s.json", status="created", checkpoints=[], runs=[], journal={"seq": 0, "offset": 0})


def test_a_torn_last_line_is_dropped_and_replaced(store: SessionStore, session: str) -> None:
    with_old_snapshot(store)
    path = store.journal("s").path
    path.write_bytes(path.read_bytes()[:-1])
    assert (store.read("s")["status"], store.read("s")["journal"]["seq"]) == ("running", 4)
    with store.edit("s") as draft:
        draft.log("status", to="paused", reason="again")
    entries, _ = store.journal("s").read()
    assert [entry["seq"] for entry in entries] == [1, 2, 3, 4, 5]
    assert store.read("s")["pause_reason"] == "again"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_a_journal_that_is_no_file_is_told_and_not_waited_for(
    store: SessionStore, session: str, make: Callable[[Path], None]
) -> None:
    path = store.journal("s").path
    path.unlink()
    make(path)
    assert str(refused(store)) == f"{path} is not a regular file"
    store.trash("s")
    assert store.ids() == []


def test_a_journal_line_whose_text_is_no_unicode_is_no_entry(store: SessionStore, session: str) -> None:
    path = store.journal("s").path
    line = b'{"seq":6,"at":"2026-02-25T10:00:00Z","event":"note","text":"\\ud800"}\n'
    path.write_bytes(path.read_bytes() + line + line)
    assert "line 6" in str(refused(store))


def test_a_pipe_in_place_of_a_lock_is_not_waited_for(store: SessionStore, session: str) -> None:
    os.mkfifo(store.sessions_dir / "s.lock")
    assert store.owner("s") is None


def test_garbage_in_the_middle_that_is_not_yet_folded_is_told_and_kept(store: SessionStore, session: str) -> None:
    with_old_snapshot(store)
    path = store.journal("s").path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"#" * 20 + b"\n", *lines[3:]]))
    error = refused(store)
    assert str(error) == f"{path}: line 3 (byte {len(lines[0] + lines[1])}) is not a journal entry"


def test_garbage_that_the_snapshot_has_behind_it_does_not_stop_the_session(store: SessionStore, session: str) -> None:
    path = store.journal("s").path
    data = bytearray(path.read_bytes())
    data[5:9] = b"\0\0\0\0"
    path.write_bytes(data)
    assert len(store.read("s")["checkpoints"]) == 2
    with store.edit("s") as draft:
        draft.log("checkpoint", record=record(2))
    assert len(SessionStore().read("s")["checkpoints"]) == 3
    with pytest.raises(SessionCorrupted, match="line 1"):
        store.journal("s").read()


def test_entries_that_are_missing_are_told(store: SessionStore, session: str) -> None:
    with_old_snapshot(store)
    path = store.journal("s").path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], *lines[3:]]))
    assert str(refused(store)) == f"{path} lacks the entries 2 to 3"


@pytest.mark.parametrize(
    ("event", "fields"),
    [("status", {"to": "completed"}), ("status", {}), ("checkpoint", {"record": 5}), ("usage", {"input": "x"})],
)
def test_an_entry_that_does_not_fit_is_told(
    store: SessionStore, session: str, event: str, fields: dict[str, Any]
) -> None:
    path = store.journal("s").path
    line = json.dumps({"seq": 6, "at": "2026-02-25T10:00:00Z", "event": event, **fields})
    path.write_bytes(path.read_bytes() + line.encode() + b"\n")
    assert str(refused(store)).startswith(f"{path} has an entry 6 ({event}) that does not fit: ")


def test_an_event_of_a_newer_version_is_kept_and_passed_over(store: SessionStore, session: str) -> None:
    with store.edit("s") as draft:
        draft.log("from_the_future", anything=[1])
    assert store.read("s")["status"] == "paused"
    assert store.journal("s").read()[0][-1]["anything"] == [1]


@pytest.mark.parametrize("left", ["nothing", "no file", "some lines", "part of a line"])
@pytest.mark.parametrize("small", [0, 1 << 18])
def test_a_snapshot_ahead_of_its_journal_is_the_session_and_goes_on(
    store: SessionStore, session: str, left: str, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "SMALL", small)
    path = store.journal("s").path
    lines = path.read_bytes().splitlines(keepends=True)
    if left == "no file":
        path.unlink()
    else:
        path.write_bytes({"nothing": b"", "some lines": lines[0], "part of a line": lines[0] + lines[1][:9]}[left])
    before = store.read("s")
    assert (before["status"], len(before["checkpoints"]), before["journal"]["seq"]) == ("paused", 2, 5)
    for index in range(2, 8):
        with store.edit("s") as draft:
            draft.log("checkpoint", record=record(index))
        after = SessionStore().read("s")
        assert (len(after["checkpoints"]), after["journal"]["seq"]) == (index + 1, 4 + index)
    entries, _ = store.journal("s").read()
    assert [entry["seq"] for entry in entries][-6:] == [6, 7, 8, 9, 10, 11]


def test_a_journal_of_another_session_file_is_not_applied_twice(store: SessionStore, session: str) -> None:
    """A whole older or newer copy of the journal: what the snapshot has folded is known by its number."""
    path = store.journal("s").path
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"network"', b'"a longer reason"'))
    doc = store.read("s")
    assert (doc["pause_reason"], len(doc["checkpoints"]), len(doc["runs"])) == ("network", 2, 1)
    with store.edit("s") as draft:
        draft.log("note")
    assert len(SessionStore().read("s")["checkpoints"]) == 2


def test_the_hint_names_the_repair() -> None:
    store = SessionStore()
    store.create(new_doc("broken"))
    (store.sessions_dir / "broken.journal").write_text("x\nx\n")
    for damage in (None, "{"):
        if damage is not None:
            (store.sessions_dir / "broken.json").write_text(damage)
        with pytest.raises(SessionCorrupted) as found:
            store.read("broken") if damage else store.journal("broken").read()
        assert "pinable-agents session recover broken" in (found.value.hint or "")
        assert "doctor --fix" in (found.value.hint or "")
