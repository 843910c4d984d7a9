"""The journal: whole lines, a torn end that does not count, corruption that is named."""

from __future__ import annotations

import errno
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store.building import Fault

from gitsession import seam
from gitsession.errors import SessionCorrupted, StoreError
from gitsession.store.journal import Journal, decode, encode


def entry(seq: int, **fields: Any) -> dict[str, Any]:
    return {"seq": seq, "at": "2026-02-25T10:00:00Z", "event": "note", **fields}


def filled(path: Path, count: int = 3) -> tuple[Journal, list[int]]:
    """A journal of ``count`` entries, and where each ends."""
    journal, ends = Journal(path), [0]
    for seq in range(1, count + 1):
        ends.append(journal.append(encode(entry(seq, text="é" * seq)), ends[-1]))
    return journal, ends[1:]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.journal"


def seqs(entries: list[dict[str, Any]]) -> list[int]:
    return [item["seq"] for item in entries]


def test_a_missing_journal_is_empty(path: Path) -> None:
    assert Journal(path).read() == ([], 0)
    assert Journal(path).size() == 0
    assert list(Journal(path).follow()) == []


def test_entries_are_read_back_from_any_line_on(path: Path) -> None:
    journal, ends = filled(path)
    assert journal.read() == ([entry(1, text="é"), entry(2, text="éé"), entry(3, text="ééé")], ends[-1])
    assert seqs(journal.read(ends[0])[0]) == [2, 3]
    assert journal.read(ends[2]) == ([], ends[2])
    assert journal.size() == ends[2]


def test_a_line_is_compact_private_utf8(path: Path) -> None:
    filled(path, 1)
    assert path.read_text("utf-8") == '{"seq":1,"at":"2026-02-25T10:00:00Z","event":"note","text":"é"}\n'
    assert path.stat().st_mode & 0o777 == 0o600


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_any_value_is_one_line(value: Any) -> None:
    line = encode(entry(1, value=value))
    assert line.count(b"\n") == 1
    assert decode(line)["value"] == value


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(StoreError, match="not valid Unicode"):
        encode(entry(1, text="\udc80"))


def test_a_last_line_cut_anywhere_does_not_count_and_the_next_entry_replaces_it(path: Path) -> None:
    journal, ends = filled(path)
    whole = path.read_bytes()
    for cut in range(ends[1], ends[2]):
        path.write_bytes(whole[:cut])
        entries, end = journal.read()
        assert (seqs(entries), end) == ([1, 2], ends[1])
        journal.append(encode(entry(3, again=True)), end)
        assert journal.read()[0][-1] == entry(3, again=True)


@pytest.mark.parametrize("tail", [b"\0" * 9, b"\0" * 9 + b"\n", b"garbage\n", b"\xff\xfe\n", b"[]\n", b"{}\n", b"\n"])
def test_an_end_that_is_no_entry_does_not_count_and_the_next_entry_replaces_it(path: Path, tail: bytes) -> None:
    journal, ends = filled(path)
    path.write_bytes(path.read_bytes() + tail)
    entries, end = journal.read()
    assert (seqs(entries), end) == ([1, 2, 3], ends[-1])
    journal.append(encode(entry(4)), end)
    assert seqs(journal.read()[0]) == [1, 2, 3, 4]


@pytest.mark.parametrize("bad", [b"\0" * 40, b"garbage", b'{"seq":2}', b'{"seq":true,"at":"","event":""}', b"[" * 9**5])
def test_garbage_in_the_middle_is_named_by_line_and_byte_and_kept(path: Path, bad: bytes) -> None:
    journal, ends = filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    data = lines[0] + bad + b"\n" + lines[2]
    path.write_bytes(data)
    with pytest.raises(SessionCorrupted) as caught:
        journal.read()
    assert str(caught.value) == f"{path}: line 2 (byte {ends[0]}) is not a journal entry"
    with pytest.raises(SessionCorrupted, match=rf"line 2 \(byte {ends[0]}\)"):
        journal.read(ends[0])
    assert path.read_bytes() == data


def test_numbers_that_do_not_rise_are_corruption(path: Path) -> None:
    journal, ends = filled(path)
    path.write_bytes(path.read_bytes() + encode(entry(3)))
    with pytest.raises(SessionCorrupted, match=rf"line 4 \(byte {ends[2]}\) is entry 3 after entry 3"):
        journal.read()


def test_read_beyond_starts_over_where_no_line_can_start(path: Path) -> None:
    journal, ends = filled(path)
    assert seqs(journal.read_beyond(ends[1])[0]) == [3]
    for elsewhere in (ends[1] + 5, ends[2] + 1000):
        entries, end = journal.read_beyond(elsewhere)
        assert (seqs(entries), end) == ([1, 2, 3], ends[2])


@pytest.mark.parametrize("number", [0, 1])
def test_an_entry_that_could_not_be_made_durable_is_not_there(path: Path, number: int) -> None:
    journal, ends = filled(path)
    before = path.read_bytes()
    seam.hook = Fault(number, errno.EIO)
    with pytest.raises(StoreError, match=r"cannot write .*s\.journal: Input/output error"):
        journal.append(encode(entry(4)), ends[-1])
    assert path.read_bytes() == before


def test_a_journal_that_became_shorter_is_not_written_into(path: Path) -> None:
    journal, ends = filled(path)
    path.write_bytes(path.read_bytes()[: ends[0]])
    with pytest.raises(SessionCorrupted, match="became shorter"):
        journal.append(encode(entry(4)), ends[2])
    assert path.stat().st_size == ends[0]


def test_following_gives_what_is_there_then_what_comes_and_ends_when_the_file_goes(path: Path) -> None:
    journal, ends = filled(path)
    following = journal.follow(ends[1], interval=0.001)
    assert next(following)["seq"] == 3
    came: list[int] = []
    reader = threading.Thread(target=lambda: came.extend(item["seq"] for item in following))
    reader.start()
    line = encode(entry(4))
    with open(path, "ab") as file:  # in two halves: the first alone does not count
        file.write(line[:10])
        file.flush()
        file.write(line[10:])
    while not came:
        reader.join(0.001)
    path.unlink()
    reader.join(60)
    assert came == [4]


def test_every_line_is_json_for_any_other_program(path: Path) -> None:
    filled(path)
    assert [json.loads(line)["seq"] for line in path.read_text("utf-8").splitlines()] == [1, 2, 3]
