"""``session recover`` as it is typed and as it answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import ID, MakeSession, document
from sessions import TestSession
from support import GitRepo, run_cli

from gitsession import SessionStore

SECOND = "sess_1740490000_d2e8f1a0"


def recover(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_cli("pinable-agents", "session", "recover", *arguments, cwd=cwd)


def paused(checkpoint: int, files: int) -> dict[str, Any]:
    records = [{**document()["checkpoints"][0], "index": index} for index in range(checkpoint + 1)]
    return {"checkpoints": records, "files": [f"f{number}" for number in range(files)]}


def test_the_published_layout_of_two(make_session: MakeSession) -> None:
    make_session(ID, task="重构用户模块", **paused(2, 4))
    make_session(SECOND, task="添加搜索功能", created_at="2026-02-25T12:00:00Z", **paused(1, 3))
    assert recover("--scan").stdout == (
        "Found 2 recoverable sessions:\n"
        '  sess_1740480000_a3f7b2c1  paused  "重构用户模块"     checkpoint 2/4\n'
        '  sess_1740490000_d2e8f1a0  paused  "添加搜索功能"     checkpoint 1/3\n'
    )


def test_the_published_layout_of_one(make_session: MakeSession) -> None:
    make_session(ID, task="重构为 Repository 模式", **paused(1, 3))
    assert recover("--scan").stdout == (
        'Found 1 recoverable session:\n  sess_1740480000_a3f7b2c1  paused  "重构为 Repository 模式"  checkpoint 1/3\n'
    )


def test_nothing_to_recover(make_session: MakeSession) -> None:
    make_session(ID, status="completed")
    done = recover("--scan")
    assert (done.stdout, done.returncode) == ("Found no recoverable sessions\n", 0)


def test_no_files_no_checkpoint_and_a_hostile_task(make_session: MakeSession) -> None:
    make_session("a", task="x\x1b[2J\n" + "y" * 100, files=[], checkpoints=paused(3, 0)["checkpoints"])
    make_session("b", task="short", status="created", checkpoints=[])
    assert recover("--scan").stdout.splitlines()[1:] == [
        f'  a  paused   "x^[[2J {"y" * 52}…"  checkpoint 3',
        f'  b  created  "short"{" " * 55}  no checkpoint',
    ]


def test_damaged_sessions_are_told_and_left_as_they_are(make_session: MakeSession, sessions_dir: Path) -> None:
    make_session(ID)
    (sessions_dir / f"{ID}.json").write_bytes(b"{x")
    done = recover("--scan")
    assert done.stdout.splitlines() == [
        "Found no recoverable sessions",
        "",
        "Not recoverable as it is: 1 session",
        f"  {ID}  {ID}.json is not valid JSON at byte 1 of 2",
        "To repair one and run it on: pinable-agents session recover ID",
    ]
    assert (sessions_dir / f"{ID}.json").read_bytes() == b"{x"
    shown = json.loads(recover("--scan", "--json").stdout)
    assert [one["id"] for one in shown["damaged"]] == [ID]


@pytest.mark.parametrize("arguments", [(), ("--scan", "--all"), (ID, "--scan"), ("--all", "--force")])
def test_what_does_not_go_together_is_refused(make_session: MakeSession, arguments: tuple[str, ...]) -> None:
    make_session(ID)
    done = recover(*arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 2


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    session = TestSession(repo)
    with session.store.edit("s1") as draft:
        draft.log("status", to="running")
        draft.log("settings", values={"command": ["sh", "-c", "echo '::checkpoint::the rest'; echo x > x"]})
    session.checkpoint("the first")
    return session


def test_one_is_repaired_and_runs_on_with_the_lines_of_a_run(session: TestSession) -> None:
    plan = recover("s1", "--dry-run")
    assert plan.stdout.splitlines() == [
        "s1: it says that it runs, and its process is gone",
        "  would pause it",
        "It would go on from checkpoint 0",
    ]
    assert session.doc["status"] == "running"
    done = recover("s1", cwd=session.user.path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Resuming from checkpoint 0 (the first)"
    assert "\nSession completed: s1\n" in done.stdout
    assert "  paused it" in done.stderr
    again = recover("s1")
    assert (again.stdout, again.returncode) == ("Session s1 is completed: there is nothing to run\n", 0)


def test_one_as_json(session: TestSession) -> None:
    shown = json.loads(recover("s1", "--json").stdout)
    assert shown["run"]["status"] == "completed"
    assert [step["kind"] for step in shown["repair"]["steps"]] == ["owner-died"]
    assert json.loads(recover("s1", "--json").stdout)["run"] is None


def test_a_lost_session_is_found_by_its_ref(session: TestSession, tmp_path: Path) -> None:
    for file in session.store.sessions_dir.iterdir():
        file.unlink()
    assert recover("s1", cwd=tmp_path).returncode == 2
    done = recover("s1", cwd=session.user.path)
    assert "rebuild" not in done.stdout
    assert "wrote it anew from its checkpoints' commits" in done.stderr


def test_all_with_a_summary(session: TestSession, sessions_dir: Path) -> None:
    TestSession(session.user, "s2")
    store = SessionStore()
    with store.edit("s2") as draft:
        draft.log("settings", values={"command": ["sh", "-c", "exit 7"]})
    plan = recover("--all", "--dry-run")
    assert plan.stdout.splitlines()[0] == "Found 2 recoverable sessions:"
    done = recover("--all")
    assert done.returncode == 3
    assert done.stdout.splitlines()[-3:] == [
        "Recovered 1 of 2 sessions:",
        "  s1  completed",
        "  s2  paused: sh exited with status 7",
    ]
    shown = json.loads(recover("--all", "--json").stdout)
    assert [(one["session_id"], one["run"]["status"]) for one in shown["sessions"]] == [("s2", "paused")]


def test_every_start_pauses_what_was_killed(session: TestSession) -> None:
    store = session.store
    lock = store.own("s1")
    lock.acquire()
    facts = store.owner_file("s1").read_bytes()
    assert run_cli("pinable-agents", "session", "list").stdout.splitlines()[1].split()[1] == "running"
    lock.release()
    store.owner_file("s1").write_bytes(facts)  # as a killed one leaves them
    assert run_cli("pinable-agents", "session", "list").stdout.splitlines()[1].split()[1] == "paused"


def test_a_newer_session_is_neither_damaged_nor_recovered(make_session: MakeSession, sessions_dir: Path) -> None:
    make_session("new")
    path = sessions_dir / "new.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    scan = run_cli("pinable-agents", "session", "recover", "--scan").stdout
    assert "Not recoverable" not in scan
    assert "To repair" not in scan
    assert "Left alone: 1 session, for a newer gitsession\n  new  written by a newer version (schema 9)\n" in scan
    everything = run_cli("pinable-agents", "session", "recover", "--all")
    assert everything.stdout == "Found no recoverable sessions\n"
    assert "new: left alone" in everything.stderr
    one = run_cli("pinable-agents", "session", "recover", "new")
    assert one.returncode == 1
    assert "damaged" not in one.stderr
    assert one.stderr.count("upgrade gitsession") == 1


def test_damage_that_stays_is_no_success(session: TestSession) -> None:
    with session.store.edit("s1") as draft:
        draft.log("status", to="completed")
    session.user.git("update-ref", "refs/pinable/s1", "HEAD")
    for arguments in (["s1"], ["s1", "--json"]):
        done = run_cli("pinable-agents", "session", "recover", *arguments, cwd=session.user.path)
        assert done.returncode == 1, done.stdout + done.stderr
