"""The index: quick, never right against the files, and no trouble to anybody."""

from __future__ import annotations

import json
import marshal
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from store.building import new_doc
from store.conftest import Start

from gitsession import SessionStore
from gitsession.store import index
from gitsession.store import sessions as module
from gitsession.store.draft import SMALL
from gitsession.store.owner import boot_id

MANY = 40  # enough for an index to pay


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written a moment ago counts as settled, so that a test need not wait."""
    monkeypatch.setattr(index, "_FRESH", 0)


@pytest.fixture
def many(store: SessionStore) -> SessionStore:
    for number in range(MANY):
        store.create(new_doc(f"s{number:03}", task=f"task {number}"))
    return store


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the session files that are read from now on."""
    read: list[str] = []
    original = module.read_state

    def counting(path: Path, journal: Any) -> Any:
        read.append(path.stem)
        return original(path, journal)

    monkeypatch.setattr(module, "read_state", counting)
    return read


def tasks(store: SessionStore) -> dict[str, str]:
    return {one.id: one.task for one in SessionStore(store.home).summaries()}


def test_a_second_listing_reads_no_session(many: SessionStore, reads: list[str]) -> None:
    first = list(many.summaries())
    assert len(reads) == MANY
    assert stat.S_IMODE((many.home / "index").stat().st_mode) == 0o600
    reads.clear()
    assert list(SessionStore(many.home).summaries()) == first
    assert reads == []


def test_few_sessions_make_no_index(store: SessionStore) -> None:
    store.create(new_doc())
    list(store.summaries())
    assert not (store.home / "index").exists()


def test_what_changes_is_read_again_and_nothing_else(many: SessionStore, reads: list[str]) -> None:
    tasks(many)
    with many.edit("s003") as draft:
        draft.log("settings", values={"task": "another"})
    path = many.sessions_dir / "s005.json"
    path.write_text(path.read_text().replace("task 5", "TASK 5"))
    os.utime(path, ns=(path.stat().st_atime_ns, 1))  # times set back by hand do not hide it
    many.trash("s007")
    reads.clear()
    found = tasks(many)
    assert set(reads) == {"s003", "s005"}
    assert (found["s003"], found["s005"], len(found)) == ("another", "TASK 5", MANY - 1)
    assert "s007" not in found


def test_a_journal_alone_is_enough(many: SessionStore) -> None:
    tasks(many)
    journal = many.journal("s001")
    entry = {"seq": 2, "at": "2026-02-25T11:00:00Z", "event": "settings", "values": {"task": "from the journal"}}
    with journal.path.open("ab") as file:
        file.write(json.dumps(entry).encode() + b"\n")
    assert tasks(many)["s001"] == "from the journal"


def test_of_a_completed_session_the_session_file_is_enough(many: SessionStore, reads: list[str]) -> None:
    """Also where the record is so large that an entry does not write it anew, and the writer dies after the entry."""
    for name in ("s001", "s002"):
        with many.edit(name) as draft:
            draft.log("status", to="running")
            draft.log("status", to="completed")
            draft.log("settings", values={"large": "x" * 2 * SMALL})
    tasks(many)
    with many.edit("s001") as draft:
        draft.log("settings", values={"task": "said to the journal alone"})
    with suppress(KeyError), many.edit("s002") as draft:
        draft.log("settings", values={"task": "and no more"})
        raise KeyError
    reads.clear()
    found = tasks(many)
    assert (found["s001"], found["s002"]) == ("said to the journal alone", "and no more")
    assert set(reads) == {"s001", "s002"}
    assert "said to" not in (many.sessions_dir / "s001.json").read_text()


def test_a_completed_session_s_journal_is_missed(many: SessionStore, reads: list[str]) -> None:
    with many.edit("s001") as draft:
        draft.log("status", to="running")
        draft.log("status", to="completed")
    tasks(many)
    reads.clear()
    (many.sessions_dir / "s001.journal").unlink()
    tasks(many)
    assert reads == ["s001"]


def test_another_boot_ends_it(many: SessionStore, reads: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tasks(many)
    monkeypatch.setattr(index, "_HEADER", index._HEADER.replace(str(boot_id()).encode(), b"another boot"))
    reads.clear()
    tasks(many)
    assert len(reads) == MANY


def test_what_was_just_written_is_not_trusted(many: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_FRESH", 2_000_000_000)
    tasks(many)
    assert not (many.home / "index").exists()


def damage(data: bytes, how: str) -> bytes:
    if how == "torn":
        return data[: len(data) // 2]
    if how == "another version":
        return data.replace(b"gitsession ", b"gitsession 9", 1)
    if how == "one bit":
        place = len(data) - 100
        return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    return b"" if how == "empty" else os.urandom(len(data))


@pytest.mark.parametrize("how", ["torn", "another version", "one bit", "empty", "random"])
def test_a_damaged_index_is_none(many: SessionStore, reads: list[str], how: str) -> None:
    before = tasks(many)
    path = many.home / "index"
    path.write_bytes(damage(path.read_bytes(), how))
    reads.clear()
    assert tasks(many) == before
    assert len(reads) == MANY
    reads.clear()
    assert tasks(many) == before
    assert reads == []


def test_an_index_that_lies_about_states_is_not_believed(many: SessionStore) -> None:
    """Rows of files as they are not: as if the index were a copy from another machine."""
    before = tasks(many)
    path = many.home / "index"
    start = len(index._HEADER) + index._CRC_SIZE
    rows = marshal.loads(path.read_bytes()[start:])
    moved = {
        name: ((row[0][0], row[0][1], row[0][2] + 1), row[1], (*row[2][:4], "LIE", *row[2][5:]))
        for name, row in rows.items()
    }
    data = marshal.dumps(moved)
    path.write_bytes(index._HEADER + index.zlib.crc32(data).to_bytes(4, "big") + data)
    assert tasks(many) == before


def test_unreadable_sessions_are_never_in_it(many: SessionStore) -> None:
    (many.sessions_dir / "s001.json").write_text("{")
    for _ in range(2):
        found = {one.id: one.problem for one in many.summaries()}
        assert found["s001"] == "s001.json is not valid JSON at byte 1 of 1"


def test_a_running_session_is_asked_after_each_time(many: SessionStore) -> None:
    with many.edit("s001") as draft:
        draft.log("status", to="running")
    for _ in range(2):
        assert [one.alive for one in many.summaries() if one.id == "s001"] == [False]
    with many.own("s001"):
        assert [one.alive for one in many.summaries() if one.id == "s001"] == [True]


def test_where_it_cannot_be_written_listing_goes_on(many: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index, "write_all", full)
    assert len(tasks(many)) == MANY
    assert not list(many.home.glob("index*"))


def test_another_writer_is_not_disturbed_and_a_dead_one_is_cleared_away(many: SessionStore) -> None:
    temporary = many.home / "index.tmp"
    temporary.write_bytes(b"somebody is writing")
    tasks(many)
    assert not (many.home / "index").exists()
    os.utime(temporary, (0, time.time() - 120))
    tasks(many)
    assert (many.home / "index").exists()
    assert not temporary.exists()


def concurrently(many: SessionStore, start: Start, listings: int, written: int) -> None:
    """``listings`` listings, in two processes, while ``written`` sessions are written again and again in another."""
    writer = start(
        f"""
import itertools
print("go", flush=True)
for turn in itertools.count():
    for number in range({written}):
        with store.edit(f"s{{number:03}}") as draft:
            draft.log("settings", values={{"task": f"task {{number}} turn {{turn}}"}})
"""
    )
    assert writer.stdout is not None
    writer.stdout.readline()
    other = start(
        f"""
from gitsession.store import index
index._FRESH = 0
for _ in range({listings // 2}):
    found = list(SessionStore().summaries())
    assert len(found) == {MANY}, len(found)
    for one in found:
        assert one.problem is None, one
        assert one.task.startswith(f"task {{int(one.id[1:])}}"), one
"""
    )
    last = dict.fromkeys(range(written), -1)
    for _ in range(listings // 2):
        found = {one.id: one for one in SessionStore().summaries()}
        assert len(found) == MANY
        for number in range(MANY):
            one = found[f"s{number:03}"]
            assert one.problem is None
            words = one.task.split()
            assert words[:2] == ["task", str(number)]
            if number < written and len(words) > 2:  # what was seen once does not go back
                assert int(words[3]) >= last[number]
                last[number] = int(words[3])
    assert other.wait(timeout=100) == 0, other.stderr.read() if other.stderr else ""
    assert writer.poll() is None


def test_listings_while_sessions_are_written(many: SessionStore, start: Start) -> None:
    concurrently(many, start, listings=60, written=10)


@pytest.mark.slow
def test_a_thousand_listings_while_fifty_sessions_are_written(
    store: SessionStore, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "MANY", 200)
    for number in range(200):
        store.create(new_doc(f"s{number:03}", task=f"task {number}"))
    concurrently(store, start, listings=1000, written=50)
