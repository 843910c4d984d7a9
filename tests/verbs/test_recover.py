"""Sessions whose files, refs or runs came to harm: found, told, repaired, and the same again changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo, program, start_cli

from gitsession.config import Settings
from gitsession.errors import ConflictError, RefMoved, SessionBusy, SessionCorrupted, SessionNotFound
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.store.sessions import SessionStore
from gitsession.verbs import recover
from gitsession.verbs.checkpoint import entries_ahead
from gitsession.verbs.deaths import bury_all
from gitsession.verbs.interrupted import scan
from gitsession.verbs.repair import Repair, repair
from gitsession.verbs.restore import restore
from gitsession.verbs.run import Runner, RunRequest
from gitsession.verbs.verify import verify

SETTINGS = Settings()


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    """A paused session with a base and two checkpoints."""
    session = TestSession(repo)
    with session.store.edit("s1") as draft:
        draft.log("status", to="running")
    for step in ("one", "two"):
        repo.write(f"{step}.txt", f"{step}\n")
        session.checkpoint(f"step {step}")
    with session.store.edit("s1") as draft:
        draft.log("usage", input=5, output=6, cost_usd=0.5)
        draft.log("status", to="paused", reason="network")
    return session


def files(session: TestSession) -> dict[str, Path]:
    directory = session.store.sessions_dir
    return {ending: directory / f"s1.{ending}" for ending in ("json", "journal", "json.tmp")}


def mended(session: TestSession, *, here: Path | None = None) -> Repair:
    """Repair, check that it is sound and that doing it again changes nothing."""
    done = repair(session.store, "s1", SETTINGS, here or session.user.path)
    assert done.left == ()
    assert done.steps
    before = {path: path.read_bytes() for path in session.store.home.rglob("*") if path.is_file()}
    again = repair(session.store, "s1", SETTINGS, here or session.user.path)
    assert (again.steps, again.left) == ((), ())
    assert {path: path.read_bytes() for path in session.store.home.rglob("*") if path.is_file()} == before
    assert [one.id for one in scan(session.store).recoverable] == ["s1"]
    return done


def told(doc: dict[str, object]) -> dict[str, object]:
    """A record without what every write changes."""
    return {name: value for name, value in doc.items() if name not in ("journal", "updated_at")}


def cut(path: Path, size: int = 300) -> bytes:
    data = path.read_bytes()
    path.write_bytes(data[:size])
    return data[:size]


# The files


@pytest.mark.parametrize("damage", ["cut", "zeroed", "empty", "gone", "garbage", "a wrong field", "a gap"])
def test_a_damaged_session_file_is_written_anew_from_the_journal(session: TestSession, damage: str) -> None:
    before = session.doc
    path = files(session)["json"]
    if damage == "gone":
        path.unlink()
    elif damage in ("a wrong field", "a gap"):
        doc = json.loads(path.read_bytes())
        doc |= {"task_hash": 7} if damage == "a wrong field" else {"checkpoints": doc["checkpoints"][1:]}
        path.write_text(json.dumps(doc))
    else:
        size = path.stat().st_size
        path.write_bytes(
            {"cut": path.read_bytes()[:200], "zeroed": bytes(size), "empty": b"", "garbage": b"{x"}[damage]
        )
    bad = path.read_bytes() if path.exists() else None
    done = mended(session)
    assert told(session.doc) == told(before)
    assert done.report is not None
    assert "s1.json" in done.report.read_text()
    kept = [place.read_bytes() for place in (session.store.home / "reports" / "s1").glob("*s1.json")]
    assert kept == ([] if bad is None else [bad])


def loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [os.mkdir, loop, os.mkfifo], ids=["directory", "loop", "pipe"])
@pytest.mark.parametrize("ending", ["json", "journal", "json.tmp"])
def test_what_stands_in_place_of_a_file_is_moved_aside(
    session: TestSession, ending: str, make: Callable[[Path], None]
) -> None:
    before = session.doc
    path = files(session)[ending]
    path.unlink(missing_ok=True)
    make(path)
    if ending == "json.tmp":
        cut(files(session)["json"])
    done = mended(session)
    if ending != "json.tmp":
        assert [step.finding.text for step in done.steps] == [f"s1.{ending} is not a regular file"]
    assert told(session.doc) == told(before)
    kept = session.store.home / "reports" / "s1"
    assert [os.path.lexists(place) and not place.is_file() for place in kept.glob(f"*-s1.{ending}")] == [True]


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_moved_aside(session: TestSession) -> None:
    files(session)["json"].chmod(0)
    rights = "-dac_override,-dac_read_search"  # what makes root read everything
    bound = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", program("pinable-agents")]
    listed = subprocess.run([*bound, "session", "inspect", "s1"], capture_output=True, text=True)
    assert listed.stderr.splitlines() == [
        f"pinable-agents: cannot read {files(session)['json']}: Permission denied",
        f"hint: make {files(session)['json']} readable",
    ]
    done = subprocess.run([*bound, "session", "recover", "s1"], capture_output=True, text=True, cwd=session.user.path)
    assert "s1.json cannot be read: Permission denied" in done.stderr
    assert "wrote it anew from the journal" in done.stderr
    assert len(session.records) == 2
    [kept] = (session.store.home / "reports" / "s1").glob("*-s1.json")
    assert kept.stat().st_mode & 0o777 == 0


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_line_that_is_missing_from_the_journal_is_told(session: TestSession, lost: int) -> None:
    before = session.doc
    path = files(session)["journal"]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:lost], *lines[lost + 1 :]]))
    done = mended(session)
    assert [step.finding.text for step in done.steps] == [f"s1.journal lacks the entries {lost + 1} to {lost + 1}"]
    assert told(session.doc) == told(before)
    files(session)["json"].unlink()
    mended(session)
    assert told(session.doc) == told(before)


@pytest.mark.parametrize("name", ["s1.lock", "s1.mutex"])
def test_a_directory_in_place_of_a_lock_is_moved_away(session: TestSession, name: str) -> None:
    place = session.store.sessions_dir / name
    place.unlink(missing_ok=True)
    place.mkdir()
    done = mended(session)
    assert [step.finding.kind for step in done.steps] == ["unlockable"]
    with session.store.own("s1"), session.store.edit("s1") as draft:
        draft.log("note")


def test_text_that_is_no_unicode_is_damage(session: TestSession) -> None:
    before = session.doc
    path = files(session)["json"]
    path.write_bytes(path.read_bytes().replace(b'"task": "task"', b'"task": "ta\\ud800sk"'))
    mended(session)
    assert told(session.doc) == told(before)


def test_fragments_that_are_no_json_are_passed_over(session: TestSession) -> None:
    before = session.doc
    paths = files(session)
    text = paths["json"].read_bytes().replace(b'"priority": 0', b'"priority": ' + b"1" * 5000)
    assert b"1" * 5000 in text
    paths["json"].write_bytes(text)
    paths["journal"].unlink()
    mended(session)
    assert session.doc["task"] == before["task"]


def test_a_torn_last_journal_line_is_nothing_to_repair(session: TestSession) -> None:
    with files(session)["journal"].open("ab") as journal:
        journal.write(b'{"seq":99,"at":"2026')
    assert verify(session.store, "s1") == []


def test_garbage_in_the_journal_is_told_with_its_place_and_the_rest_is_kept(session: TestSession) -> None:
    before = session.doc
    journal = files(session)["journal"]
    lines = journal.read_bytes().splitlines(keepends=True)
    offset = sum(map(len, lines[:3]))
    journal.write_bytes(b"".join([*lines[:3], b"x" * len(lines[3][:-1]) + b"\n", *lines[4:]]))
    done = mended(session)
    assert done.steps[0].finding.text == f"s1.journal: line 4 (byte {offset}) is not a journal entry"
    assert told(session.doc) == told(before)
    entries, _ = session.store.journal("s1").read()
    assert [entry["event"] for entry in entries][-2:] == ["status", "repaired"]


@pytest.mark.parametrize("lost", [3, 4, 5, 6])
def test_lost_entries_are_made_good_from_the_checkpoints(session: TestSession, lost: int) -> None:
    before = session.doc
    paths = files(session)
    lines = paths["journal"].read_bytes().splitlines(keepends=True)
    paths["journal"].write_bytes(b"".join([*lines[:lost], b"garbage\n", *lines[lost + 1 :]]))
    paths["json"].unlink()
    mended(session)
    doc = session.doc
    assert doc["status"] == "paused"
    assert [record["commit"] for record in doc["checkpoints"]] == [r["commit"] for r in before["checkpoints"]]
    assert doc["cost"]["total_tokens"] == (0 if b'"usage"' in lines[lost] else 11)


def test_the_temporary_file_is_taken_when_nothing_else_can_be_read(session: TestSession) -> None:
    before = session.doc
    paths = files(session)
    paths["json.tmp"].write_bytes(paths["json"].read_bytes())
    cut(paths["json"])
    paths["journal"].unlink()
    mended(session)
    assert told(session.doc) == told(before)


def test_a_temporary_file_that_is_older_or_torn_is_not_taken(session: TestSession) -> None:
    paths = files(session)
    old = paths["json"].read_bytes()
    session.checkpoint("three")
    before = session.doc
    for text in (old, old[:100]):
        paths["json.tmp"].write_bytes(text)
        cut(paths["json"])
        mended(session)
        assert told(session.doc) == told(before)


def test_a_session_whose_files_are_all_lost_is_rebuilt_from_its_commits(session: TestSession) -> None:
    before = session.doc
    for path in session.store.sessions_dir.glob("s1.*"):
        path.unlink()
    mended(session)
    after = session.doc
    for doc in (before, after):
        doc["metadata"].pop("start_time", None)  # came after the commit that tells the rest
    same = (
        "id",
        "task",
        "task_hash",
        "backend",
        "files",
        "created_at",
        "base",
        "checkpoints",
        "metadata",
        "repository",
    )
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert after["status"] == "paused"
    assert after["cost"]["total_tokens"] == 0


def test_a_cut_file_leads_to_its_repository_from_anywhere(session: TestSession, tmp_path: Path) -> None:
    paths = files(session)
    data = paths["json"].read_bytes()
    cut(paths["json"], data.index(b'"base"'))
    paths["journal"].unlink()
    mended(session, here=tmp_path)
    assert len(session.records) == 2


def test_what_cannot_be_repaired_is_reported_and_kept(session: TestSession, tmp_path: Path) -> None:
    paths = files(session)
    bad = cut(paths["json"], 30)
    paths["journal"].write_bytes(b"nothing\nof use\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    session.user.path.rename(tmp_path / "moved")
    for _ in range(2):
        done = repair(session.store, "s1", SETTINGS, elsewhere)
        assert not done.is_sound
        assert done.report is not None
        text = done.report.read_text()
        assert "s1.json is not valid JSON at byte" in text
        assert "What was tried" in text
        assert "pinable-agents session recover s1" in text
        assert paths["json"].read_bytes() == bad
        assert paths["journal"].read_bytes() == b"nothing\nof use\n"
    assert [one.id for one in scan(session.store).damaged] == ["s1"]


def test_a_file_of_a_newer_version_is_left_alone(session: TestSession) -> None:
    path = files(session)["json"]
    text = path.read_text().replace('"schema_version": 1', '"schema_version": 99')
    path.write_text(text)
    done = repair(session.store, "s1", SETTINGS, session.user.path)
    assert [finding.kind for finding in done.left] == ["newer"]
    assert path.read_text() == text


def test_a_deletion_cut_short_is_taken_back(session: TestSession) -> None:
    trash = session.store.trash_dir / "s1"
    trash.mkdir(parents=True)
    files(session)["journal"].rename(trash / "s1.journal")
    done = mended(session)
    assert done.steps[0].finding.kind == "deletion"
    assert files(session)["journal"].exists()


def test_dry_run_changes_nothing(session: TestSession) -> None:
    cut(files(session)["json"])
    before = {path: path.read_bytes() for path in session.store.home.rglob("*") if path.is_file()}
    plan = repair(session.store, "s1", SETTINGS, session.user.path, dry_run=True)
    assert [step.finding.remedy for step in plan.steps] == ["write it anew from the journal"]
    assert {path: path.read_bytes() for path in session.store.home.rglob("*") if path.is_file()} == before


# The ref and the objects


def test_a_ref_ahead_of_the_record_is_adopted(session: TestSession) -> None:
    repo = Repo.discover(session.user.path)
    session.user.write("three.txt", "three\n")
    paths = files(session)
    saved = {path: path.read_bytes() for path in (paths["json"], paths["journal"])}
    session.checkpoint("three")
    for path, data in saved.items():
        path.write_bytes(data)
    assert [finding.kind for finding in verify(session.store, "s1")] == ["ref-ahead"]
    mended(session)
    assert [record["description"] for record in session.records] == ["step one", "step two", "three"]
    with Objects(repo) as objects:
        assert Ledger(repo, objects, "s1").tip() == session.records[-1]["commit"]


@pytest.mark.parametrize("damage", ["gone", "back", "unreadable"])
def test_a_ref_that_went_back_or_away_is_put_back(session: TestSession, damage: str) -> None:
    newest = session.records[-1]["commit"]
    if damage == "gone":
        session.user.git("update-ref", "-d", "refs/pinable/s1")
    elif damage == "back":
        session.user.git("update-ref", "refs/pinable/s1", session.records[0]["commit"])
    else:
        (session.user.common_dir / "refs" / "pinable" / "s1").write_bytes(b"")
    mended(session)
    assert session.user.git("rev-parse", "refs/pinable/s1") == newest


def test_what_is_to_be_typed_moves_no_branch_and_deletes_nothing(session: TestSession) -> None:
    git = session.user.git
    newest, main = session.records[-1]["commit"], git("rev-parse", "refs/heads/main")
    git("symbolic-ref", "refs/pinable/s1", "refs/heads/main")
    [finding] = repair(session.store, "s1", SETTINGS, session.user.path).left
    assert finding.hint is not None
    git(*finding.hint.partition("git ")[2].split())
    assert (git("rev-parse", "refs/pinable/s1"), git("rev-parse", "refs/heads/main")) == (newest, main)
    git("update-ref", "--no-deref", "refs/pinable/s1", main)
    doc = session.store.read("s1")
    doc["checkpoints"][-1]["commit"] = "0" * 40
    with Objects(Repo.discover(session.user.path)) as objects, pytest.raises(RefMoved) as moved:
        entries_ahead(Ledger(objects.repo, objects, "s1"), doc)
    assert "update-ref" not in str(moved.value.hint)


def test_a_ref_that_somebody_moved_elsewhere_is_left_to_them(session: TestSession) -> None:
    give_command(session, "true")
    head = session.user.git("rev-parse", "HEAD")
    session.user.git("update-ref", "refs/pinable/s1", head)
    done = repair(session.store, "s1", SETTINGS, session.user.path)
    assert [finding.kind for finding in done.left] == ["ref"]
    assert done.left[0].hint is not None
    newest = session.records[-1]["commit"]
    assert f"git update-ref --no-deref refs/pinable/s1 {newest}" in done.left[0].hint
    assert session.user.git("rev-parse", "refs/pinable/s1") == head
    with pytest.raises(RefMoved):
        recoverer(session).recover("s1")


def test_a_stale_lock_is_removed_after_it_stayed_the_same(session: TestSession) -> None:
    lock = session.user.common_dir / "refs" / "pinable" / "s1.lock"
    lock.touch()
    began = time.monotonic()
    mended(session)
    assert time.monotonic() - began > 2
    assert not lock.exists()


def test_a_lost_file_of_a_checkpoint_is_named_and_stored_again(session: TestSession) -> None:
    blob = session.user.git("rev-parse", "refs/pinable/s1:two.txt")
    loose = session.user.common_dir / "objects" / blob[:2] / blob[2:]
    loose.unlink()
    assert [finding.text for finding in verify(session.store, "s1")] == [
        "the repository has lost files of checkpoint 1: two.txt"
    ]
    mended(session)
    assert session.user.git("cat-file", "blob", blob) == "two"


def test_a_lost_file_that_the_working_tree_has_not_either_is_told(session: TestSession) -> None:
    blob = session.user.git("rev-parse", "refs/pinable/s1:two.txt")
    (session.user.common_dir / "objects" / blob[:2] / blob[2:]).unlink()
    session.user.write("two.txt", "other\n")
    done = repair(session.store, "s1", SETTINGS, session.user.path)
    assert [finding.kind for finding in done.left] == ["objects"]
    assert done.steps[0].failure == "nothing here has any of them as they were"


@pytest.mark.parametrize("what", ["fifo", "linked parent"])
def test_a_lost_file_is_not_looked_for_where_it_cannot_be(session: TestSession, tmp_path: Path, what: str) -> None:
    """Reading a FIFO would wait for ever, and what is beyond a link is not the working tree's."""
    session.user.write("d/three.txt", "three\n")
    session.checkpoint()
    blob = session.user.git("rev-parse", "refs/pinable/s1:d/three.txt")
    (session.user.common_dir / "objects" / blob[:2] / blob[2:]).unlink()
    if what == "fifo":
        session.user.at("d/three.txt").unlink()
        os.mkfifo(session.user.at("d/three.txt"))
        reader = os.open(session.user.at("d/three.txt"), os.O_RDWR | os.O_NONBLOCK)
    else:
        session.user.at("d").rename(tmp_path / "elsewhere")
        session.user.at("d").symlink_to(tmp_path / "elsewhere")
        reader = os.open(os.devnull, os.O_RDONLY)
    ender = threading.Timer(60, os.close, [reader])
    ender.start()
    done = repair(session.store, "s1", SETTINGS, session.user.path)
    assert ender.is_alive(), "it waited for somebody to write"
    ender.cancel()
    os.close(reader)
    assert done.steps[0].failure == "nothing here has any of them as they were"


def test_the_absence_of_files_is_explained(session: TestSession) -> None:
    session.user.at("two.txt").unlink()
    with session.store.edit("s1") as draft:
        draft.log("settings", values={"files": ["one.txt", "later.txt"]})
    notes = [finding.text for finding in verify(session.store, "s1")]
    assert notes == ["later.txt: not there yet", "two.txt: deleted since the newest checkpoint, which has it"]


def test_a_restore_that_was_killed_is_finished(session: TestSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from gitsession.verbs import restore as restores

    monkeypatch.setattr(restores, "apply", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        restore(session.store, "s1", 0, settings=SETTINGS, start=session.user.path)
    monkeypatch.undo()
    assert session.user.at("two.txt").exists()
    mended(session)
    assert not session.user.at("two.txt").exists()
    assert session.records[-1]["restored_from"] == 0


# Owners


RUN = """
import os, sys, time
from gitsession import SessionStore
store = SessionStore()
with store.own("s1"):
    with store.edit("s1") as draft:
        draft.log("status", to="running")
    print("runs", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def running(session: TestSession) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs the session."""
    process = subprocess.Popen([sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"runs\n"
    yield process
    process.kill()
    process.communicate()


def test_a_running_session_is_not_judged(session: TestSession, running: subprocess.Popen[bytes]) -> None:
    found = scan(session.store)
    assert (found.recoverable, found.damaged, found.paused) == ((), (), ())
    assert bury_all(session.store) == []
    with pytest.raises(SessionBusy, match=f"process {running.pid}"):
        recoverer(session).recover("s1")
    assert session.doc["status"] == "running"


def test_a_killed_session_is_paused_and_tells_whose_it_was(
    session: TestSession, running: subprocess.Popen[bytes]
) -> None:
    running.kill()
    running.wait()
    plan = scan(session.store, dry_run=True)
    assert ([one.status for one in plan.recoverable], plan.paused) == (["running"], ())
    found = scan(session.store)
    assert ([one.status for one in found.recoverable], found.paused) == (["paused"], ("s1",))
    assert scan(session.store).paused == ()
    entry = session.store.journal("s1").read()[0][-1]
    assert (entry["to"], entry["owner"]["pid"]) == ("paused", running.pid)
    assert session.store.unended() == []


def test_at_start_up_only_runs_that_did_not_end_are_looked_at(
    session: TestSession, running: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        doc = {**session.doc, "id": f"done{number}", "status": "completed"}
        session.store.create(doc)
    running.kill()
    running.wait()
    looked_at: list[str] = []
    owner = SessionStore.owner
    monkeypatch.setattr(SessionStore, "owner", lambda store, name: looked_at.append(name) or owner(store, name))
    assert bury_all(session.store) == ["s1"]
    assert set(looked_at) == {"s1"}
    assert bury_all(session.store) == []


def test_a_session_on_another_machine_is_not_judged(session: TestSession) -> None:
    with session.store.edit("s1") as draft:
        draft.log("status", to="running")
    facts = {"pid": 1, "host": "elsewhere", "boot_id": "x", "since": "2026-02-25T10:00:00Z"}
    session.store.owner_file("s1").parent.mkdir(exist_ok=True)
    session.store.owner_file("s1").write_text(json.dumps(facts))
    assert scan(session.store).recoverable == ()
    assert bury_all(session.store) == []
    assert session.doc["status"] == "running"
    with pytest.raises(SessionBusy, match="elsewhere") as caught:
        recover.take_over(session.store, "s1", lambda _: None)
    assert str(session.store.owner_file("s1")) in str(caught.value.hint)


def test_force_ends_an_owner_that_hangs(
    session: TestSession, running: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recover, "_GRACE", 0.3)
    monkeypatch.setattr(recover, "_AFTER_KILL", 60.0)
    os.kill(running.pid, signal.SIGSTOP)
    words: list[str] = []
    recover.take_over(session.store, "s1", words.append)
    assert running.wait(60) in (-signal.SIGKILL, -signal.SIGTERM)  # whichever of the two it meets first
    assert words[0].startswith(f"ending process {running.pid}")
    assert session.store.owner("s1") is None


def test_survivors_of_a_killed_run_are_ended(session: TestSession, running: subprocess.Popen[bytes]) -> None:
    left = subprocess.Popen(["sleep", "600"], env={**os.environ, "PINABLE_SESSION_ID": "s1"}, start_new_session=True)
    try:
        running.kill()
        running.wait()
        # Found by an own process, which is not its parent.
        code = "import pathlib; from gitsession import SessionStore, config; "
        code += "from gitsession.verbs.repair import repair; "
        code += "print(repair(SessionStore(), 's1', config.Settings(), pathlib.Path.cwd()).steps[0].done)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == f"paused it, and ended what it left running (sleep {left.pid})\n"
        assert left.wait(60) == -signal.SIGTERM
    finally:
        left.kill()
        left.wait()


# Running on


def recoverer(session: TestSession, listener: Callable[[object], None] = lambda _: None) -> recover.Recoverer:
    return recover.Recoverer(session.store, SETTINGS, session.user.path, listener, lambda _: None)


def give_command(session: TestSession, script: str, name: str = "s1", **values: object) -> None:
    with session.store.edit(name) as draft:
        draft.log("settings", values={"command": ["sh", "-c", script], **values})


def test_a_recovered_session_runs_to_its_end(session: TestSession) -> None:
    give_command(session, "echo three > three.txt")
    cut(files(session)["json"])
    result = recoverer(session).recover("s1")
    assert result.repair is not None
    assert result.repair.steps
    assert result.outcome is not None
    assert (result.outcome.status, result.exit_status) == ("completed", 0)
    assert session.records[-1]["files_changed"] == ["three.txt"]
    again = recoverer(session).recover("s1")
    assert (again.outcome, again.exit_status) == (None, 0)


def test_all_are_recovered_by_priority_then_age_and_one_that_fails_stops_no_other(repo: GitRepo) -> None:
    made = {name: TestSession(repo, name) for name in ("a", "b", "c", "d")}
    ages = {"a": "2026-01-04T00:00:00Z", "b": "2026-01-03T00:00:00Z", "c": "2026-01-02T00:00:00Z"}
    for name, priority in (("a", 0), ("b", 0), ("c", 0), ("d", 9)):
        script = "exit 7" if name == "b" else f"echo {name} >> ran"
        give_command(made[name], script, name, priority=priority, created_at=ages.get(name, "2026-01-05T00:00:00Z"))
    store = made["a"].store
    (store.sessions_dir / "c.json").write_bytes(b"")
    (store.sessions_dir / "c.journal").write_bytes(b"garbage\n\n")
    repo.git("update-ref", "-d", "refs/pinable/c")
    found = scan(store)
    assert [one.id for one in found.recoverable] == ["d", "b", "a"]
    ids = [*(one.id for one in found.damaged), *(one.id for one in found.recoverable)]
    results = list(recoverer(made["a"]).recover_all(ids))
    assert [(result.session_id, result.exit_status) for result in results] == [("c", 1), ("d", 0), ("b", 3), ("a", 0)]
    assert isinstance(results[0].error, SessionCorrupted)
    assert repo.at("ran").read_text() == "d\na\n"


def test_a_stop_ends_the_run_and_begins_no_other(repo: GitRepo) -> None:
    made = [TestSession(repo, name) for name in ("a", "b")]
    for session in made:
        give_command(session, "exit 0", session.id)
    recovering = recoverer(made[0])
    recovering.request_stop("interrupted")
    assert list(recovering.recover_all(["a", "b"])) == []
    assert made[0].doc["status"] == "created"


def test_an_unknown_session_is_not_found(repo: GitRepo) -> None:
    with pytest.raises((SessionNotFound, SessionCorrupted)):
        recover.Recoverer(SessionStore(), SETTINGS, repo.path, lambda _: None, lambda _: None).recover("nobody")


def test_killed_with_its_agent_the_program_recovers_on_its_own_terms(repo: GitRepo, pinable_home: Path) -> None:
    """A real run, really killed: paused at the next start of any program, and recovered to its end."""
    script = "echo ::checkpoint::one; [ -e go ] || sleep 600; echo done > done.txt"
    run = start_cli("codeagent-wrapper", "--session-id", "r", "--task", "t", "--", "sh", "-c", script, cwd=repo.path)
    assert run.stdout is not None
    try:
        assert next(line for line in run.stdout if line.startswith("[Checkpoint 0]"))
    finally:
        run.kill()
        run.communicate()
    repo.write("go", "")
    store = SessionStore(pinable_home)
    assert bury_all(store) == ["r"]
    result = recover.Recoverer(store, replace(SETTINGS), repo.path, lambda _: None, lambda _: None).recover("r")
    assert result.exit_status == 0
    assert repo.at("done.txt").read_text() == "done\n"


def test_a_program_that_only_a_repository_tells_of_is_offered_and_not_run(repo: GitRepo, tmp_path: Path) -> None:
    owned = tmp_path / "owned"
    request = RunRequest(start=repo.path, task="t", session_id="r1", command=("sh", "-c", f"echo x >>{owned}; exit 3"))
    store = SessionStore()
    Runner(store, request, lambda _: None, SETTINGS).run()
    for file in store.sessions_dir.glob("r1.*"):
        file.unlink()
    owned.unlink()
    recoverer = recover.Recoverer(store, SETTINGS, repo.path, lambda _: None, lambda _: None)
    (result,) = recoverer.recover_all(["r1"])
    assert isinstance(result.error, ConflictError)
    assert str(owned) in (result.error.hint or "")
    assert store.read("r1")["command"] is None
    assert not owned.exists()
