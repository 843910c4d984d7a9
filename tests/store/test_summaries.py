"""Listing: every session there is, as it is now, while others write."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from store.building import new_doc, record
from store.conftest import Start

from gitsession import SessionStore
from gitsession.store import draft as drafts
from gitsession.store import sessions as module
from gitsession.store.summaries import Summary


def test_a_summary_says_what_a_listing_shows(store: SessionStore) -> None:
    store.create(new_doc(model="m", repository={"worktree": "/work tree"}, priority=3))
    with store.edit("s") as draft:
        draft.log("checkpoint", record=record(0))
    assert list(store.summaries()) == [
        Summary(
            id="s",
            status="created",
            backend="command",
            model="m",
            task="Rename the module",
            created_at="2026-02-25T10:00:00Z",
            updated_at=store.read("s")["updated_at"],
            files_count=2,
            checkpoint_index=0,
            worktree="/work tree",
            priority=3,
            alive=False,
            problem=None,
        )
    ]


def test_a_summary_tells_what_the_journal_knows_beyond_the_session_file(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create(new_doc())
    monkeypatch.setattr(drafts.Draft, "close", lambda draft: None)
    with store.edit("s") as draft:
        draft.log("status", to="running")
        draft.log("checkpoint", record=record(0))
        draft.log("status", to="paused")
    assert json.loads((store.sessions_dir / "s.json").read_bytes())["status"] == "created"
    (summary,) = store.summaries()
    assert (summary.status, summary.checkpoint_index) == ("paused", 0)


def test_a_running_session_is_alive_while_its_owner_lives(store: SessionStore, start: Start) -> None:
    store.create(new_doc())
    with store.edit("s") as draft:
        draft.log("status", to="running")
    assert [summary.alive for summary in store.summaries()] == [False]
    owner = start("with store.own('s'):\n    print('in', flush=True)\n    sys.stdin.read()")
    assert owner.stdout is not None
    owner.stdout.readline()
    assert [summary.alive for summary in store.summaries()] == [True]
    owner.kill()
    owner.wait()
    assert [summary.alive for summary in store.summaries()] == [False]


def test_sessions_come_sorted_and_none_is_skipped(store: SessionStore) -> None:
    for name in ("c", "a", "b"):
        store.create(new_doc(name))
    (store.sessions_dir / "a.json").write_bytes(b"{")
    shutil.copy(store.sessions_dir / "c.json", store.sessions_dir / "copy of c.json")
    (store.sessions_dir / "._c.json").write_bytes(b"")
    (store.sessions_dir / "notes.txt").write_bytes(b"")
    assert [(summary.id, summary.problem) for summary in store.summaries()] == [
        ("a", "a.json is not valid JSON at byte 1 of 1"),
        ("b", None),
        ("c", None),
        ("copy of c", "copy of c.json says that it is session 'c'"),
    ]
    assert store.ids() == ["a", "b", "c"]


def test_a_session_of_a_newer_version_is_listed_with_what_can_be_told(store: SessionStore, session: str) -> None:
    path = store.sessions_dir / "s.json"
    odd = {"schema_version": 7, "checkpoints": [5], "files": 3, "repository": [], "priority": "x", "model": {}}
    path.write_text(json.dumps(json.loads(path.read_bytes()) | odd))
    (summary,) = store.summaries()
    assert summary.problem == "written by a newer version (schema 7)"
    assert (summary.status, summary.task, summary.files_count, summary.checkpoint_index) == (
        "paused", "Rename the module", 0, None
    )  # fmt: skip


def test_numbers_beyond_all_measure_are_left_out(store: SessionStore, session: str) -> None:
    path = store.sessions_dir / "s.json"
    cost = {"total_tokens": 10**400, "estimated_cost_usd": 10**400}
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"cost": cost, "priority": 10**400}))
    (summary,) = store.summaries()
    assert (summary.problem, summary.tokens, summary.cost_usd, summary.priority) == (None, 0, None, 0)


def test_sessions_that_come_and_go_while_listing_do_no_harm(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading of the directory and of each file, one session is deleted and one is made."""
    for name in ("a", "b", "c"):
        store.create(new_doc(name))
    read_state, other = module.read_state, SessionStore()

    def meanwhile(path: Path, journal: module.Journal) -> module.State:
        if path.stem == "a":
            other.trash("b")
            other.create(new_doc("d"))
        return read_state(path, journal)

    monkeypatch.setattr(module, "read_state", meanwhile)
    assert [(summary.id, summary.problem) for summary in store.summaries()] == [("a", None), ("c", None)]


def test_listing_while_another_process_writes_never_finds_a_problem(store: SessionStore, start: Start) -> None:
    writer = start(
        f"""
import select
doc = {new_doc()!r}
while not select.select([sys.stdin], [], [], 0)[0]:
    store.create(doc)
    with store.edit("s") as draft:
        draft.log("usage", input=1, output=1, cost_usd=None)
    store.trash("s")
    store.untrash("s")
    store.trash("s")
"""
    )
    assert writer.stdin is not None
    seen = 0
    while seen < 200:
        assert writer.poll() is None
        for summary in store.summaries():
            assert (summary.problem, summary.task) == (None, "Rename the module")
            seen += 1
    writer.stdin.write("\n")
    writer.stdin.flush()
    assert writer.wait() == 0
