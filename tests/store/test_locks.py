"""The write lock: one writer at a time, whatever happens to it."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from pathlib import Path

import pytest
from store.conftest import Run, Start

from gitsession import SessionStore
from gitsession.errors import SessionBusy, StoreError
from gitsession.store import locks

HOLD = """
with store.edit(sys.argv[1]):
    print("in", flush=True)
    sys.stdin.read()
"""


def test_the_mutex_is_one_for_ids_that_differ_in_case_and_is_private(tmp_path: Path) -> None:
    with locks.mutex(tmp_path, "Abc"):
        assert [entry.name for entry in tmp_path.iterdir()] == ["abc.mutex"]
        assert locks.is_locked(tmp_path / "abc.mutex")
    assert not locks.is_locked(tmp_path / "abc.mutex")
    assert (tmp_path / "abc.mutex").stat().st_mode & 0o777 == 0o600


def test_what_does_not_exist_is_not_locked_and_asking_makes_nothing(tmp_path: Path) -> None:
    assert not locks.is_locked(tmp_path / "x.lock")
    assert list(tmp_path.iterdir()) == []


def test_a_probe_and_filelock_see_the_same_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    lock = locks.file_lock(path)
    assert locks.take(lock, 0)
    assert locks.is_locked(path)
    assert not locks.take(locks.file_lock(path), 0.02)
    lock.release()
    assert not locks.is_locked(path)


def test_a_writer_that_never_gets_its_turn_says_so(
    store: SessionStore, session: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = start(HOLD, session)
    assert other.stdout is not None
    assert other.stdout.readline() == "in\n"
    monkeypatch.setattr(locks, "_TURN", 0.05)
    with pytest.raises(SessionBusy, match=f"another process has been writing session {session}"), store.edit(session):
        pass
    assert store.read(session)["status"] == "paused"  # reading waits for nobody


def test_a_killed_writer_frees_the_lock(store: SessionStore, session: str, start: Start) -> None:
    other = start(HOLD, session)
    assert other.stdout is not None
    other.stdout.readline()
    other.send_signal(signal.SIGKILL)
    other.wait()
    with store.edit(session) as draft:
        draft.log("note")


def test_edits_of_many_threads_and_processes_lose_nothing(store: SessionStore, session: str, run: Run) -> None:
    code = """
import threading
from gitsession.store import locks
locks._TURN = 60  # it is a turn of sixty writes
def work():
    for _ in range(10):
        with store.edit("s") as draft:
            draft.log("usage", input=1, output=0, cost_usd=None)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    results = []
    runners = [threading.Thread(target=lambda: results.append(run(code))) for _ in range(3)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    assert [(done.returncode, done.stderr) for done in results] == [(0, "")] * 3
    assert store.read(session)["cost"]["total_tokens"] == 60
    entries, _ = store.journal(session).read()
    assert [entry["seq"] for entry in entries] == list(range(1, 5 + 60 + 1))


def test_a_place_where_no_lock_can_be_made_is_explained(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match=r"cannot lock .*s\.mutex: No such file or directory"),
        locks.mutex(tmp_path / "gone", "s"),
    ):
        pass


def test_a_child_program_does_not_inherit_the_lock(tmp_path: Path) -> None:
    ready = multiprocessing.get_context("spawn").Event()
    child = multiprocessing.get_context("spawn").Process(target=ready.wait, args=(20,))
    with locks.mutex(tmp_path, "s"):
        child.start()
    assert not locks.is_locked(tmp_path / "s.mutex")
    ready.set()
    child.join()
