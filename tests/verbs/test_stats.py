"""Counting: every session once, and only what sessions take."""

from __future__ import annotations

from typing import Any

import pytest
from sessions import TestSession
from store.building import new_doc
from support import GitRepo

from gitsession import SessionStore
from gitsession.verbs.delete import delete
from gitsession.verbs.stats import Use, stats


def put(session_id: str, status: str, **fields: Any) -> None:
    SessionStore().create(new_doc(session_id, status=status, **fields))


def test_every_session_is_in_one_state() -> None:
    store = SessionStore()
    for number, status in enumerate(["running", "running", "paused", "completed", "completed", "created"]):
        put(f"s{number}", status, created_at=f"2026-01-{15 + number}T10:00:00Z")
    (store.sessions_dir / "bad.json").write_text("{")
    put("odd", "completed")
    path = store.sessions_dir / "odd.json"
    path.write_text(path.read_text().replace('"completed"', '"dancing"').replace('version": 1', 'version": 9'))
    with store.own("s0"):
        found = stats(store, git=False)
    assert dict(found.states) == {
        "active": 1, "interrupted": 1, "paused": 1, "completed": 2, "created": 1, "corrupted": 1, "other": 1,
    }  # fmt: skip
    assert found.states.total() == len(list(store.summaries()))
    assert (found.oldest, found.git_bytes) == ("2026-01-15T10:00:00Z", None)


def test_tokens_and_costs_by_backend() -> None:
    put("a", "completed", backend="claude", cost={"total_tokens": 100, "estimated_cost_usd": 0.25})
    put("b", "completed", backend="claude", cost={"total_tokens": 50, "estimated_cost_usd": None})
    put("c", "completed", cost={"total_tokens": 0, "estimated_cost_usd": None})
    found = stats(SessionStore(), git=False)
    assert found.backends == {"claude": Use(2, 150, 0.25, 1), "command": Use(1, 0, None, 0)}
    assert found.total == Use(3, 150, 0.25, 1)


def test_nothing_at_all() -> None:
    found = stats(SessionStore())
    assert (found.states.total(), found.oldest, found.disk_bytes, found.trashed, found.git_bytes) == (0, None, 0, 0, 0)


@pytest.mark.parametrize("branch", ["main", None])
def test_only_what_is_the_sessions_counts_in_git(repo: GitRepo, branch: str | None) -> None:
    repo.write("large.bin", bytes(range(256)) * 400)
    repo.commit()
    if branch is None:
        repo.git("checkout", "--quiet", "--detach")
        repo.git("branch", "--quiet", "--delete", "--force", "main")
    session = TestSession(repo)
    few = stats(session.store).git_bytes
    assert few is not None
    assert 0 < few < 3000
    noise = b"".join(number.to_bytes(4, "big") for number in range(0, 4_000_000_000, 200_000))
    repo.write("new.bin", noise)
    session.checkpoint()
    found = stats(session.store)
    assert found.repositories == 1
    assert found.git_bytes is not None
    assert found.git_bytes > few + 20_000
    before = found.disk_bytes
    assert before == sum(path.stat().st_size for path in session.store.sessions_dir.glob("s1.j*"))
    delete(session.store, "s1")
    after = stats(session.store)
    assert (after.disk_bytes, after.trashed, after.trash_bytes) == (0, 1, before)


def test_a_repository_that_is_gone_counts_nothing() -> None:
    put("a", "completed", repository={"worktree": "/not/there", "common_dir": "/not/there/.git"})
    found = stats(SessionStore())
    assert (found.git_bytes, found.repositories) == (0, 0)
