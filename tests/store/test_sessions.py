"""The store: making, finding, reading and changing sessions."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
from store.building import contents, new_doc, record
from store.conftest import Run, Start

from gitsession import Session, SessionStore
from gitsession.errors import (
    AmbiguousSession,
    BadSessionId,
    IllegalTransition,
    SessionCorrupted,
    SessionNotFound,
    SessionTooNew,
    StoreError,
)
from gitsession.store import draft as drafts
from gitsession.store import record as records
from gitsession.store.summaries import by_age

EXAMPLE = Path(__file__).parents[1] / "data" / "session_example.json"


def put_example(store: SessionStore) -> dict[str, Any]:
    """The published example as a file in the store, and what it says."""
    doc: dict[str, Any] = json.loads(EXAMPLE.read_bytes())
    store.sessions_dir.mkdir(parents=True)
    shutil.copy(EXAMPLE, store.sessions_dir / f"{doc['id']}.json")
    return doc


# Where


def test_the_home_is_the_environments_and_nothing_is_made_by_looking(store: SessionStore, pinable_home: Path) -> None:
    assert store.home == pinable_home
    assert (store.sessions_dir, store.trash_dir) == (pinable_home / "sessions", pinable_home / "trash")
    assert (store.ids(), list(store.summaries()), store.exists("s"), store.owner("s")) == ([], [], False, None)
    assert not pinable_home.exists()


def test_the_home_is_in_the_users_home_by_default(monkeypatch: pytest.MonkeyPatch, seal: Path) -> None:
    monkeypatch.delenv("PINABLE_HOME")
    assert SessionStore().home == seal / ".pinable-agents"
    monkeypatch.setenv("PINABLE_HOME", "")
    assert SessionStore().home == seal / ".pinable-agents"
    monkeypatch.setenv("PINABLE_HOME", "~/x")
    assert SessionStore().home == seal / "x"
    assert SessionStore(Path("y")).home == Path.cwd() / "y"


def test_everything_made_is_private(store: SessionStore, session: str) -> None:
    with store.own(session):
        for path in [store.home, *store.home.rglob("*")]:
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


# Making


def test_a_created_session_is_there_as_given(store: SessionStore) -> None:
    given = new_doc(unknown={"kept": True})
    store.create(dict(reversed(given.items())))
    read = store.read("s")
    assert read == given | {
        "schema_version": 1,
        "updated_at": read["updated_at"],
        "journal": {"seq": 1, "offset": store.journal("s").size()},
    }
    assert (store.ids(), store.exists("s")) == (["s"], True)
    assert [*json.loads((store.sessions_dir / "s.json").read_bytes())][:3] == ["schema_version", "id", "status"]


def test_the_first_entry_holds_the_whole_record(store: SessionStore) -> None:
    store.create(new_doc())
    (first,), _ = store.journal("s").read()
    assert first["event"] == "created"
    assert first["session"] == json.loads((store.sessions_dir / "s.json").read_bytes())


@pytest.mark.parametrize("session_id", ["../x", "a/b", "CON", "x.lock", "y" * 300, "latest", ""])
def test_what_cannot_be_an_id_is_refused_everywhere(store: SessionStore, session_id: str) -> None:
    assert not store.exists(session_id)
    with pytest.raises(BadSessionId):
        store.create(new_doc(session_id))
    with pytest.raises(BadSessionId):
        store.read(session_id)
    with pytest.raises(BadSessionId), store.edit(session_id):
        pass
    with pytest.raises(BadSessionId):
        store.own(session_id)
    with pytest.raises(BadSessionId):
        store.trash(session_id)


def test_an_id_is_used_once_whatever_its_case(store: SessionStore) -> None:
    store.create(new_doc("abc"))
    before = contents(store.home)
    with pytest.raises(BadSessionId, match="session abc exists already"):
        store.create(new_doc("abc", task="another"))
    with pytest.raises(BadSessionId, match="session Abc would differ from abc only in case"):
        store.create(new_doc("Abc"))
    assert contents(store.home) == before


def test_of_two_processes_that_create_one_id_one_does(store: SessionStore, start: Start) -> None:
    code = f"""
from gitsession.errors import BadSessionId
sys.stdin.readline()
try:
    store.create({new_doc("same")} | {{"task": str(os.getpid())}})
    print("made")
except BadSessionId as error:
    print(error)
"""
    racers = [start(code) for _ in range(3)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    said = [(racer.communicate()[0].strip(), racer.pid) for racer in racers]
    (maker,) = [pid for words, pid in said if words == "made"]
    assert sorted(words for words, _ in said) == ["made", *["session same exists already"] * 2]
    assert store.read("same")["task"] == str(maker)


@pytest.mark.parametrize("task", ["", "\x1b[31m\0\u202e", "任务 🧪 é", "x" * (1 << 20), "line\nline\r\n\ttab", '"\\'])
def test_a_task_is_stored_exactly(store: SessionStore, task: str) -> None:
    store.create(new_doc(task=task))
    assert SessionStore().read("s")["task"] == task
    assert next(iter(store.summaries())).task == task


def test_text_that_is_not_unicode_is_refused_before_anything_is_written(store: SessionStore) -> None:
    with pytest.raises(StoreError, match="not valid Unicode"):
        store.create(new_doc(task="\udc80"))
    assert contents(store.home) == {}
    store.create(new_doc())
    before = contents(store.home)
    with pytest.raises(StoreError, match="not valid Unicode"), store.edit("s") as draft:
        draft.log("note", text="\udcff")
    assert contents(store.home) == before


# Finding


def test_an_id_may_be_shortened_to_what_fits_only_it(store: SessionStore) -> None:
    for name in ("sess_1_aa", "sess_1_ab", "sess_2", "sess_22"):
        store.create(new_doc(name))
    assert store.resolve("sess_1_aa") == "sess_1_aa"
    assert store.resolve("sess_1_ab") == "sess_1_ab"
    assert store.resolve("sess_2") == "sess_2"  # exact, though a prefix of another
    assert store.resolve("sess_22") == "sess_22"
    with pytest.raises(AmbiguousSession, match="'sess_1' fits 2 sessions: sess_1_aa, sess_1_ab"):
        store.resolve("sess_1")
    for nothing in ("x", "", "sess_1_aaa", "../", "SESS"):
        with pytest.raises(SessionNotFound):
            store.resolve(nothing)


def test_latest_is_the_newest_of_one_second_too(store: SessionStore) -> None:
    for session_id, begun in (("b", "10:00:00.100Z"), ("c", "10:00:00.200Z"), ("a", "10:00:00.300Z")):
        store.create(new_doc(session_id))
        with store.edit(session_id) as draft:
            draft.log("status", to="running", run={"started_at": f"2026-02-25T{begun}"})
    assert [summary.id for summary in sorted(store.summaries(), key=by_age)] == ["b", "c", "a"]
    assert store.resolve("latest") == "a"


def test_latest_is_the_newest_created(store: SessionStore) -> None:
    with pytest.raises(SessionNotFound, match="no session yet"):
        store.resolve("latest")
    for name, day in (("b", "25"), ("c", "27"), ("a", "26")):
        store.create(new_doc(name, created_at=f"2026-02-{day}T10:00:00Z"))
    with store.edit("b") as draft:
        draft.log("note")
    (store.sessions_dir / "z.json").write_bytes(b"broken")
    assert store.resolve("latest") == "c"


def test_a_session_that_is_not_there_is_not_found(store: SessionStore, session: str) -> None:
    for attempt in (store.read, store.load, store.trash, store.untrash, lambda name: store.edit(name).__enter__()):
        with pytest.raises(SessionNotFound, match="no session 'nothing'"):
            attempt("nothing")
    assert not (store.sessions_dir / "nothing.mutex").exists() or store.ids() == [session]


# Reading


def test_a_read_record_is_the_callers_own(store: SessionStore, session: str) -> None:
    store.read(session)["checkpoints"].clear()
    with store.edit(session) as draft:
        draft.log("note")
    assert len(store.read(session)["checkpoints"]) == 2


def test_load_gives_a_checked_session(store: SessionStore, session: str) -> None:
    loaded = store.load(session)
    assert isinstance(loaded, Session)
    assert loaded.last_checkpoint is not None
    assert (loaded.status, loaded.pause_reason, loaded.last_checkpoint.index) == ("paused", "network", 1)


def test_load_names_a_field_that_is_wrong(store: SessionStore) -> None:
    store.create(new_doc(priority="high", metadata={"os": "linux", "wrapper_version": "1", "working_dir": "/"}))
    with pytest.raises(SessionCorrupted, match=r"s\.json has a wrong priority: "):
        store.load("s")


def test_a_file_of_the_published_format_is_read_changed_and_keeps_all_it_had(store: SessionStore) -> None:
    doc = put_example(store)
    name = doc["id"]
    assert store.read(name) == doc | {"journal": {"seq": 0, "offset": 0}}
    with store.edit(name) as draft:
        draft.log("status", to="running", run={})
        draft.log("checkpoint", record=record(2))
    after = store.read(name)
    changed = {"status", "updated_at", "checkpoints", "context", "metadata", "pause_reason", "runs", "journal"}
    cost = doc["cost"] | {"pending": {"input": 0, "output": 0}}
    assert {key: value for key, value in after.items() if key not in changed | {"cost"}} == {
        key: value for key, value in doc.items() if key not in changed | {"cost"}
    }
    assert after["cost"] == cost
    assert after["checkpoints"][:2] == doc["checkpoints"]
    assert after["metadata"].items() >= doc["metadata"].items()


def test_unknown_fields_survive_a_write_at_every_level(store: SessionStore) -> None:
    store.create(new_doc(future={"x": [1]}, cost={"future": 1}, metadata={"future": None}))
    with store.edit("s") as draft:
        draft.log("checkpoint", record=record(0) | {"future": {"y": 2}})
    doc = json.loads((store.sessions_dir / "s.json").read_bytes())
    assert (doc["future"], doc["cost"]["future"], doc["metadata"]["future"]) == ({"x": [1]}, 1, None)
    assert doc["checkpoints"][0]["future"] == {"y": 2}


# Changing


def test_what_is_logged_is_in_the_draft_in_the_journal_and_in_the_file(store: SessionStore, session: str) -> None:
    with store.edit(session) as draft:
        entry = draft.log("checkpoint", record=record(2))
        assert record(2).items() <= draft.doc["checkpoints"][2].items()
        assert draft.doc["journal"] == {"seq": 6, "offset": store.journal(session).size()}
    assert entry == {"seq": 6, "at": entry["at"], "event": "checkpoint", "record": record(2)}
    assert store.journal(session).read()[0][-1] == entry
    assert json.loads((store.sessions_dir / "s.json").read_bytes()) == store.read(session)


def test_an_edit_that_logs_nothing_writes_nothing(store: SessionStore, session: str) -> None:
    before = contents(store.home)
    with store.edit(session) as draft:
        assert draft.doc["status"] == "paused"
    assert contents(store.home) == before


def test_what_an_entry_holds_is_not_the_callers_object(store: SessionStore, session: str) -> None:
    mine = record(2)
    with store.edit(session) as draft:
        draft.log("checkpoint", record=mine)
        mine["description"] = "changed later"
        assert draft.doc["checkpoints"][2]["description"] == "a step"


def test_an_illegal_transition_writes_nothing_and_the_draft_goes_on(store: SessionStore, session: str) -> None:
    with store.edit(session) as draft:
        with pytest.raises(IllegalTransition):
            draft.log("status", to="completed")
        draft.log("note")
    assert [entry["event"] for entry in store.journal(session).read()[0]][-1] == "note"
    assert store.read(session)["status"] == "paused"


def test_what_was_logged_before_an_exception_stays_and_is_not_told_by_the_old_file(
    store: SessionStore, session: str
) -> None:
    snapshot = (store.sessions_dir / "s.json").read_bytes()

    def fail_half_way() -> None:
        with store.edit(session) as draft:
            draft.log("checkpoint", record=record(2))
            draft.doc["task"] = "never logged"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert (store.sessions_dir / "s.json").read_bytes() == snapshot
    doc = store.read(session)
    assert (len(doc["checkpoints"]), doc["task"]) == (3, "Rename the module")
    with store.edit(session) as draft:
        assert (len(draft.doc["checkpoints"]), draft.doc["task"]) == (3, "Rename the module")


def test_a_hot_loop_reads_the_files_once_and_a_change_by_others_is_seen(
    store: SessionStore, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    read_bytes = records.read_bytes
    monkeypatch.setattr(records, "read_bytes", lambda path: (reads.append(path), read_bytes(path))[1])
    own, other = SessionStore(), SessionStore()
    for _ in range(5):
        with own.edit(session) as draft:
            draft.log("usage", input=1, output=0, cost_usd=None)
    assert len(reads) == 1
    with other.edit(session) as draft:
        draft.log("usage", input=1, output=0, cost_usd=None)
    with own.edit(session) as draft:
        assert draft.doc["cost"]["total_tokens"] == 6
    assert len(reads) == 3


def test_a_too_new_session_is_read_and_never_written(store: SessionStore, session: str) -> None:
    path = store.sessions_dir / "s.json"
    doc = json.loads(path.read_bytes()) | {"schema_version": 2, "status": {"shape": "unknown"}, "cost": None}
    path.write_text(json.dumps(doc))
    before = contents(store.home)
    assert store.read(session) == doc
    with pytest.raises(SessionTooNew, match=r"session s was written by a newer gitsession \(schema 2\)") as caught:
        store.edit(session).__enter__()
    assert caught.value.hint == "upgrade gitsession"
    assert contents(store.home) == before


# The save policy


def test_a_large_snapshot_waits_until_the_journal_has_grown_as_much(
    store: SessionStore, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "SMALL", 2000)
    path, sizes = store.sessions_dir / "s.json", []
    for index in range(2, 60):
        with store.edit(session) as draft:
            draft.log("checkpoint", record=record(index))
        doc = json.loads(path.read_bytes())
        sizes.append(path.stat().st_size)
        assert store.journal(session).size() - doc["journal"]["offset"] <= max(sizes[-1], 0)
        assert len(store.read(session)["checkpoints"]) == index + 1
    assert len(set(sizes)) < 12
    assert json.loads(path.read_bytes())["journal"]["offset"] < store.journal(session).size()
    with store.edit(session) as draft:
        draft.log("status", to="running")
    assert json.loads(path.read_bytes()) == store.read(session)


def test_growing_to_5_mb_in_1000_checkpoints_writes_little_more_than_the_journal(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    write_atomic = drafts.write_atomic
    monkeypatch.setattr(
        drafts, "write_atomic", lambda path, data: (written.append(len(data)), write_atomic(path, data))
    )
    store.create(new_doc())
    for index in range(1000):
        with store.edit("s") as draft:
            draft.log("checkpoint", record=record(index, "x" * 4800))
    journal = store.journal("s").size()
    assert journal > 5_000_000
    assert sum(written) < 3.5 * journal
    assert len(written) < 100
    assert len(store.read("s")["checkpoints"]) == 1000


def test_the_same_session_with_every_old_snapshot_reads_the_same(store: SessionStore) -> None:
    """Whatever the journal holds beyond the JSON is folded in, once."""
    store.create(new_doc())
    path = store.sessions_dir / "s.json"
    snapshots = [path.read_bytes()]
    for event, fields in [
        ("status", {"to": "running"}),
        ("usage", {"input": 5, "output": 5, "cost_usd": 0.1}),
        ("phase", {"phase": "analysis", "done": True}),
        ("checkpoint", {"record": record(0)}),
        ("usage", {"input": 1, "output": 1, "cost_usd": 0.1}),
        ("checkpoint", {"record": record(1)}),
        ("status", {"to": "paused", "reason": "why"}),
    ]:
        with store.edit("s") as draft:
            draft.log(event, **fields)
            draft.save()
        snapshots.append(path.read_bytes())
    final = store.read("s")
    assert final == json.loads(snapshots[-1])
    for snapshot in snapshots:
        path.write_bytes(snapshot)
        assert SessionStore().read("s") == final


# What is loaded


def test_the_library_and_listing_load_none_of_the_heavy_packages(store: SessionStore, session: str, run: Run) -> None:
    with store.edit(session) as draft:
        draft.log("status", to="running")
    with store.own(session):
        done = run(
            """
assert [summary.alive for summary in store.summaries()] == [True]
heavy = {"click", "rich", "pygit2", "anthropic", "pydantic", "pydantic_core", "filelock", "psutil", "watchfiles"}
print(sorted(heavy & set(sys.modules)))
with store.edit("s") as draft:
    draft.log("note")
print(sorted(heavy & set(sys.modules)))
"""
        )
    assert (done.stdout, done.stderr) == ("[]\n[]\n", "")


def test_files_are_where_they_are_said_to_be(store: SessionStore, session: str) -> None:
    assert sorted(os.listdir(store.sessions_dir)) == ["s.journal", "s.json", "s.mutex"]
