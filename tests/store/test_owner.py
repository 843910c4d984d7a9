"""Who runs a session: one process, named, free at its death."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from store.conftest import Start

from gitsession import SessionStore
from gitsession.errors import SessionBusy
from gitsession.store import owner

OWN = """
from gitsession.errors import SessionBusy
sys.stdin.readline()
try:
    with store.own("s") as lock:
        lock.note(agent_pid=4711)
        print("owns", flush=True)
        sys.stdin.readline()
except SessionBusy as error:
    print(error, flush=True)
"""


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def facts_file(store: SessionStore) -> Path:
    """Where the owner's facts are."""
    (store.home / "owners").mkdir(exist_ok=True)
    return store.home / "owners" / "s.owner"


def leave_facts(store: SessionStore, **facts: Any) -> None:
    """Facts of an owner, as one that died without a word leaves them."""
    here = {"pid": 1, "host": owner.host(), "boot_id": owner.boot_id(), "since": "2026-02-25T10:00:00Z"}
    facts_file(store).write_text(json.dumps(here | facts))


def test_nobody_owns_a_session_that_nobody_runs(store: SessionStore, session: str) -> None:
    assert store.owner(session) is None
    assert store.last_owner_facts(session) is None


def test_the_owner_is_named_with_pid_host_and_since(store: SessionStore, session: str) -> None:
    with store.own(session):
        info = store.owner(session)
        assert info is not None
        assert (info.pid, info.host, info.local) == (os.getpid(), owner.host(), True)
        assert str(info) == f"process {os.getpid()} on {owner.host()} since {info.since}"
        with pytest.raises(SessionBusy) as caught:
            store.own(session).acquire()
        assert str(caught.value) == f"session s is owned by {info}"
        assert caught.value.hint == "wait for it, or stop it: pinable-agents session pause s"
    assert store.owner(session) is None
    assert not facts_file(store).exists()
    assert (store.sessions_dir / "s.lock").exists()


def test_an_owned_session_can_be_written_by_others(store: SessionStore, session: str) -> None:
    with store.own(session), store.edit(session) as draft:
        draft.log("note")


def test_of_two_processes_that_race_one_owns_and_the_other_names_it(
    store: SessionStore, session: str, start: Start
) -> None:
    racers = [start(OWN) for _ in range(2)]
    for racer in racers:
        say(racer)
    said = {hear(racer): racer for racer in racers}
    winner = said.pop("owns")
    info = store.owner(session)
    assert info is not None
    assert info.pid == winner.pid
    # The other may meet it in the instant before it has said who it is.
    names = f"process {winner.pid} on {owner.host()} since {info.since}", f"another process on {owner.host()}"
    (loser,) = said
    assert loser in [f"session s is owned by {name}" for name in names]


def test_a_killed_owner_is_none_at_once_and_its_facts_remain(store: SessionStore, session: str, start: Start) -> None:
    process = start(OWN)
    say(process)
    assert hear(process) == "owns"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert store.owner(session) is None
    facts = store.last_owner_facts(session)
    assert facts is not None
    assert (facts["pid"], facts["agent_pid"]) == (process.pid, 4711)
    with store.own(session):
        assert store.last_owner_facts(session) != facts


def test_noted_facts_are_seen_and_taken_away(store: SessionStore, session: str) -> None:
    with store.own(session) as lock:
        lock.note(agent_pid=5)
        info = store.owner(session)
        assert info is not None
        assert info.facts["agent_pid"] == 5
        lock.note(agent_pid=None)
        assert "agent_pid" not in (store.last_owner_facts(session) or {})


def test_an_owner_on_another_host_is_not_judged_dead(store: SessionStore, session: str) -> None:
    leave_facts(store, host="elsewhere", boot_id="another", pid=77)
    info = store.owner(session)
    assert info is not None
    assert (info.local, info.host, info.pid) == (False, "elsewhere", 77)
    with pytest.raises(SessionBusy, match="process 77 on elsewhere since 2026-02-25T10:00:00Z") as caught:
        store.own(session).acquire()
    assert caught.value.hint == f"if nothing runs there any more, remove {facts_file(store)}"
    facts_file(store).unlink()
    with store.own(session):
        pass


@pytest.mark.parametrize(
    "facts",
    [
        {"boot_id": "before the reboot"},
        pytest.param({"host": "container"}, marks=pytest.mark.skipif(owner.boot_id() is None, reason="no boot id")),
    ],
)
def test_a_dead_owner_of_this_machine_holds_nothing(store: SessionStore, session: str, facts: dict[str, str]) -> None:
    leave_facts(store, **facts)
    assert store.owner(session) is None
    with store.own(session):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "\0\0"])
def test_facts_that_cannot_be_read_do_no_harm(
    store: SessionStore, session: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.own(session):
        facts_file(store).write_text(text)
        monkeypatch.setattr(owner, "_INSTANT", 0.02)
        info = store.owner(session)
        assert info is not None
        assert (info.pid, info.local, str(info)) == (None, True, f"another process on {owner.host()}")
    assert store.owner(session) is None


def test_facts_of_an_earlier_owner_are_not_the_new_ones(
    store: SessionStore, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    with store.own(session):
        leave_facts(store, pid=gone.pid)
        monkeypatch.setattr(owner, "_INSTANT", 0.02)
        info = store.owner(session)
        assert info is not None
        assert info.pid is None


def test_releasing_twice_is_harmless_and_the_lock_can_be_taken_again(store: SessionStore, session: str) -> None:
    lock = store.own(session)
    lock.acquire()
    lock.release()
    lock.release()
    with lock:
        assert store.owner(session) is not None
