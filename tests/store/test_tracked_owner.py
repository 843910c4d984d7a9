"""A session that an agent's hooks feed is owned by the agent's process, which holds no lock and knows nothing of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from gitsession import SessionStore, living
from gitsession.errors import SessionBusy
from gitsession.living import Process
from gitsession.store import owner


@pytest.fixture
def agent() -> Iterator[tuple[subprocess.Popen[bytes], Process]]:
    running = subprocess.Popen(["sleep", "60"])
    facts = living._facts(running.pid)
    assert facts is not None
    yield running, facts.process
    running.kill()
    running.wait()


Agent = tuple[subprocess.Popen[bytes], Process]


def test_it_owns_the_session_as_long_as_it_lives(store: SessionStore, session: str, agent: Agent) -> None:
    running, process = agent
    store.track(session, "codex", process)
    info = store.owner(session)
    assert info is not None
    assert (info.pid, info.tracked, info.local) == (process.pid, "codex", True)
    assert str(info).startswith(f"codex (process {process.pid}) on {owner.host()} since ")
    with pytest.raises(SessionBusy, match=r"owned by codex \(process"):
        store.own(session).acquire()
    with pytest.raises(SessionBusy):
        store.trash(session)
    running.kill()
    running.wait()
    assert store.owner(session) is None
    assert store.unended() == [session]
    with store.own(session):
        assert store.owner(session) is not None
    assert store.unended() == []


def test_another_process_that_got_its_number_is_not_it(store: SessionStore, session: str, agent: Agent) -> None:
    _, process = agent
    store.track(session, "codex", process._replace(started="1"))
    assert store.owner(session) is None


def test_facts_of_another_boot_are_of_a_process_that_is_gone(
    store: SessionStore, session: str, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.track(session, "codex", agent[1])
    here = owner.host()
    monkeypatch.setattr(owner, "boot_id", lambda: "another")
    monkeypatch.setattr(owner, "host", lambda: here)
    assert store.owner(session) is None


def test_it_is_forgotten_when_it_says_good_bye(store: SessionStore, session: str, agent: Agent) -> None:
    store.track(session, "codex", agent[1])
    store.untrack(session)
    assert (store.owner(session), store.unended()) == (None, [])
    store.untrack(session)


def test_the_first_that_lives_stays(store: SessionStore, session: str, agent: Agent) -> None:
    store.track(session, "codex", agent[1])
    me = living._facts(os.getpid())
    assert me is not None
    store.track(session, "codex", me.process)
    info = store.owner(session)
    assert info is not None
    assert info.pid == agent[1].pid


def test_a_run_of_ours_is_not_pushed_aside(store: SessionStore, session: str, agent: Agent) -> None:
    with store.own(session):
        with pytest.raises(SessionBusy):
            store.track(session, "codex", agent[1])
        store.untrack(session)
        info = store.owner(session)
        assert info is not None
        assert (info.pid, info.tracked) == (os.getpid(), None)
