"""A kill, a power cut or a full disk at every point of every write: the old state or the new one, and it goes on."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store.building import Fault, contents, new_doc, record
from store.conftest import Run

from gitsession import SessionStore, seam
from gitsession.errors import StoreError
from gitsession.store import draft as drafts

# Forks a process for each home and lets it die at the n-th point.  With "cut", what was not yet fsynced is torn.
DRIVER = """
from pathlib import Path
operation, mode, homes = sys.argv[1], sys.argv[2], sys.argv[3:]
def kill_at(left, home):
    def hook(point):
        nonlocal left
        if left == 0:
            if mode == "cut" and point.endswith(".fsync"):
                ending = "*.journal" if point.startswith("journal") else "*.json.tmp"
                for path in Path(home, "sessions").glob(ending):
                    os.truncate(path, max(path.stat().st_size - 9, 0))
            os._exit(9)
        left -= 1
    return hook
for number, home in enumerate(homes):
    child = os.fork()
    if child == 0:
        seam.hook = kill_at(number, home)
        exec(operation, {"store": SessionStore(Path(home))})
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

CREATE = f"store.create({new_doc()!r})"
EDIT = f"""
with store.edit("s") as draft:
    draft.log("checkpoint", record={record(2)!r})
    draft.log("usage", input=3, output=4, cost_usd=None)
    draft.log("status", to="running")
"""
SAVE = """
with store.edit("s") as draft:
    draft.save()
"""
TRASH = "store.trash('s')"
UNTRASH = "store.untrash('s')"

Copies = Callable[[int], list[Path]]


@pytest.fixture
def lagging(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """A paused session of two checkpoints whose snapshot still says that it is created."""
    monkeypatch.setattr(drafts.Draft, "close", lambda draft: None)
    store.create(new_doc())
    with store.edit("s") as draft:
        draft.log("status", to="running")
        for index in range(2):
            draft.log("checkpoint", record=record(index))
        draft.log("status", to="paused", reason="network")
    monkeypatch.undo()
    return "s"


@pytest.fixture
def copies(store: SessionStore, tmp_path: Path) -> Copies:
    """Makes copies of the store's home."""

    def copies(count: int) -> list[Path]:
        homes = [tmp_path / f"home{number}" for number in range(count)]
        for home in homes:
            if store.home.exists():
                shutil.copytree(store.home, home)
        return homes

    return copies


def killed(run: Run, operation: str, mode: str, homes: list[Path]) -> list[SessionStore]:
    """The stores in which ``operation`` died, one for each of its points; it had no more than there are homes."""
    done = run(DRIVER, operation, mode, *map(str, homes))
    assert done.stderr == ""
    statuses = done.stdout.split()
    count = statuses.count("9")
    assert 0 < count < len(homes), "more homes are needed"
    assert statuses == ["9"] * count + ["0"] * (len(homes) - count)
    return [SessionStore(home) for home in homes[:count]]


def told(doc: dict[str, Any]) -> tuple[Any, ...]:
    """What the operations change, without the moments."""
    return doc["status"], len(doc["checkpoints"]), doc["cost"]["total_tokens"]


def check_goes_on(store: SessionStore) -> None:
    """The session can be written, and everything says the same afterwards."""
    before = store.read("s")
    with store.edit("s") as draft:
        entry = draft.log("note")
        assert entry["seq"] == before["journal"]["seq"] + 1
        draft.save()
    fresh = SessionStore(store.home)
    assert told(fresh.read("s")) == told(before)
    entries, end = fresh.journal("s").read()
    assert entries[-1] == entry
    assert fresh.read("s")["journal"] == {"seq": entry["seq"], "offset": end}
    assert [summary.problem for summary in fresh.summaries()] == [None]
    assert [path for path in contents(store.sessions_dir) if path.endswith(".json.tmp")] == []


@pytest.mark.parametrize("mode", ["kill", "cut"])
def test_killed_while_creating_there_is_a_session_or_none(mode: str, run: Run, copies: Copies) -> None:
    made = []
    for store in killed(run, CREATE, mode, copies(16)):
        made.append(store.exists("s"))
        assert store.ids() == (["s"] if made[-1] else [])
        assert len(list(store.summaries())) == made[-1]
        if not made[-1]:
            store.create(new_doc())
        assert told(store.read("s")) == ("created", 0, 0)
        check_goes_on(store)
    assert made == sorted(made)
    assert set(made) == {False, True}


@pytest.mark.parametrize("mode", ["kill", "cut"])
def test_killed_while_editing_each_entry_is_there_or_not(mode: str, session: str, run: Run, copies: Copies) -> None:
    states = [("paused", 2, 0), ("paused", 3, 0), ("paused", 3, 7), ("running", 3, 7)]
    reached = []
    for store in killed(run, EDIT, mode, copies(14)):
        reached.append(states.index(told(store.read("s"))))
        check_goes_on(store)
    assert reached == sorted(reached)
    assert set(reached) == {0, 1, 2, 3}


@pytest.mark.parametrize("mode", ["kill", "cut"])
def test_killed_while_saving_nothing_is_lost(mode: str, lagging: str, run: Run, copies: Copies) -> None:
    for store in killed(run, SAVE, mode, copies(6)):
        assert told(store.read("s")) == ("paused", 2, 0)
        check_goes_on(store)


def test_killed_while_deleting_it_is_whole_here_or_whole_in_the_trash(
    store: SessionStore, lagging: str, run: Run, copies: Copies
) -> None:
    entries, _ = store.journal("s").read()
    here = []
    for store in killed(run, TRASH, "kill", copies(24)):
        here.append(store.exists("s"))
        if here[-1]:
            assert told(store.read("s")) == ("paused", 2, 0)
            assert [summary.status for summary in store.summaries()] == ["paused"]
            store.trash("s")
        else:
            assert store.ids() == []
        assert store.ids() == []
        store.untrash("s")
        assert told(store.read("s")) == ("paused", 2, 0)
        assert store.journal("s").read()[0] == entries
        check_goes_on(store)
    assert here == sorted(here, reverse=True)
    assert set(here) == {False, True}


def test_killed_while_deleting_the_next_write_takes_the_journal_back(
    store: SessionStore, lagging: str, run: Run, copies: Copies
) -> None:
    entries, _ = store.journal("s").read()
    parted = 0
    for store in killed(run, TRASH, "kill", copies(24)):
        if store.exists("s"):
            parted += not store.journal("s").path.exists()
            check_goes_on(store)
            assert store.journal("s").read()[0][:-1] == entries
            assert contents(store.trash_dir) == {}
    assert parted


def test_killed_while_bringing_back_it_is_in_the_trash_or_whole_here(
    store: SessionStore, lagging: str, run: Run, copies: Copies
) -> None:
    entries, _ = store.journal("s").read()
    store.trash("s")
    for store in killed(run, UNTRASH, "kill", copies(12)):
        if not store.exists("s"):
            assert (store.ids(), list(store.summaries())) == ([], [])
            store.untrash("s")
        assert told(store.read("s")) == ("paused", 2, 0)
        assert store.journal("s").read()[0] == entries
        check_goes_on(store)


def each_fault(operation: str, copies: Copies, error: int) -> list[tuple[str, SessionStore]]:
    """The operation once for each of its points, failing there: the points, and the stores afterwards."""
    found = []
    for number, home in enumerate(copies(24)):
        store = SessionStore(home)
        seam.hook = fault = Fault(number, error)
        failure: StoreError | None = None
        try:
            exec(operation, {"store": store})
        except StoreError as error_of_ours:
            failure = error_of_ours
        if failure is None:
            assert not fault.point
            seam.hook = None
            return found
        assert fault.point
        assert str(failure).startswith("cannot ")
        assert "\n" not in str(failure)
        seam.hook = None
        found.append((fault.point, store))
    raise AssertionError("more homes are needed")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failure_while_creating_leaves_no_session_and_it_can_be_repeated(error: int, copies: Copies) -> None:
    for _, store in each_fault(CREATE, copies, error):
        assert contents(store.home) == {}
        assert store.ids() == []
        store.create(new_doc())
        assert told(store.read("s")) == ("created", 0, 0)
        check_goes_on(store)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failure_while_editing_keeps_what_was_logged_and_nothing_else(
    error: int, session: str, copies: Copies
) -> None:
    states = [("paused", 2, 0), ("paused", 3, 0), ("paused", 3, 7), ("running", 3, 7)]
    failures = each_fault(EDIT, copies, error)
    assert [point for point, _ in failures] == [
        *["journal.append", "journal.fsync"] * 3, "file.write", "file.fsync", "file.replace", "file.sync-dir"
    ]  # fmt: skip
    for number, (_, store) in enumerate(failures):
        expected = states[min(number // 2, 3)]
        assert told(store.read("s")) == expected
        assert told(SessionStore(store.home).read("s")) == expected
        check_goes_on(store)


def test_a_draft_takes_nothing_more_after_a_failure(store: SessionStore, session: str) -> None:
    with store.edit(session) as draft:
        seam.hook = Fault(0, errno.ENOSPC)
        with pytest.raises(StoreError, match="No space left on device"):
            draft.log("checkpoint", record=record(2))
        with pytest.raises(StoreError, match="not written further"):
            draft.log("note")
        with pytest.raises(StoreError, match="not written further"):
            draft.save()
    assert told(store.read(session)) == ("paused", 2, 0)
    with store.edit(session) as draft:
        assert told(draft.doc) == ("paused", 2, 0)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_a_failure_while_deleting_loses_nothing_and_it_can_be_repeated(
    error: int, store: SessionStore, lagging: str, copies: Copies
) -> None:
    entries, _ = store.journal("s").read()
    for _, store in each_fault(TRASH, copies, error):
        assert store.owner("s") is None
        if store.exists("s"):
            assert told(store.read("s")) == ("paused", 2, 0)
            store.trash("s")
        store.untrash("s")
        assert told(store.read("s")) == ("paused", 2, 0)
        assert store.journal("s").read()[0] == entries
        check_goes_on(store)


def test_a_real_limit_in_the_middle_of_a_line_leaves_no_trace(store: SessionStore, session: str, run: Run) -> None:
    before = contents(store.home)
    done = run(
        """
import resource
from gitsession.errors import StoreError
limit = store.journal("s").size() + 50
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    with store.edit("s") as draft:
        draft.log("note", text="x" * 1000)
except StoreError as error:
    print(error)
"""
    )
    assert (done.stdout, done.stderr) == (f"cannot write {store.journal('s').path}: File too large\n", "")
    assert contents(store.home) == before
    check_goes_on(store)
