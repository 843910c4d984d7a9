"""``session cleanup`` and ``undelete`` as typed, and the cleaning up that nobody asked for."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo, run_cli

from gitsession import SessionStore

MakeSession = Callable[..., dict[str, object]]


@pytest.fixture
def old(make_session: MakeSession, sessions_dir: Path) -> None:
    """Two completed sessions, ``old`` and ``new``, and ``paused``, an old one."""
    make_session("new", status="completed")
    make_session("old", status="completed", updated_at="2020-01-01T00:00:00Z")
    make_session("paused", updated_at="2020-01-01T00:00:00Z")
    for name, moment in (("old", "2020-01-01T00:00:00Z"), ("paused", "2020-01-01T00:00:00Z"), ("new", now())):
        path = sessions_dir / f"{name}.json"
        doc = json.loads(path.read_text())
        doc["journal"] = {"seq": 1, "offset": (sessions_dir / f"{name}.journal").stat().st_size}
        doc["updated_at"] = moment
        path.write_text(json.dumps(doc))


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def test_the_published_commands(old: None) -> None:
    done = run_cli("pinable-agents", "session", "cleanup", "--older-than", "30d", "--dry-run")
    assert done.stdout.splitlines()[0].startswith("Would delete: old  completed  ")
    assert done.stdout.splitlines()[1] == "1 session would be moved to the trash"
    assert len(SessionStore().ids()) == 3
    done = run_cli("pinable-agents", "session", "cleanup", "--status", "completed", "--older-than", "7d")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "Session deleted: old\n1 session moved to the trash; 'pinable-agents session undelete ID' brings one back\n"
    )
    assert SessionStore().ids() == ["new", "paused"]


def test_without_an_age_it_is_the_settings(old: None) -> None:
    env = {"PINABLE_SESSION__AUTO_CLEANUP_DAYS": "0"}
    done = run_cli("pinable-agents", "session", "cleanup", env=env)
    assert done.returncode == 2
    assert "say it: --older-than 30d" in done.stderr
    found = json.loads(run_cli("pinable-agents", "session", "cleanup", "--json").stdout)
    assert found == {"dry_run": False, "deleted": ["old"], "kept": [], "failed": [], "purged": []}


def test_another_state_only_when_asked(old: None) -> None:
    done = run_cli("pinable-agents", "session", "cleanup", "--status", "paused", "--older-than", "30d", "--json")
    assert json.loads(done.stdout)["deleted"] == ["paused"]
    assert run_cli("pinable-agents", "session", "cleanup", "--status", "running").returncode == 2


def test_a_session_in_a_chain_stays_and_is_named(old: None) -> None:
    run_cli("pinable-agents", "session", "chain", "create", "refactor", "--sessions", "old,next")
    done = run_cli("pinable-agents", "session", "cleanup")
    assert done.stdout == "0 sessions moved to the trash\n"
    assert done.stderr == "kept: old (in chain refactor)\n"


def test_undelete_and_what_is_in_the_trash(repo: GitRepo) -> None:
    TestSession(repo, "work-1").checkpoint()
    assert run_cli("pinable-agents", "session", "undelete", "--list").stderr == "the trash is empty\n"
    run_cli("pinable-agents", "session", "delete", "work-1")
    lines = run_cli("pinable-agents", "session", "undelete", "--list").stdout.splitlines()
    assert lines[0].split() == ["DELETED", "ID"]
    assert lines[1].endswith("  work-1")
    asked = {
        "_PINABLE_AGENTS_COMPLETE": "bash_complete",
        "COMP_WORDS": "pinable-agents session undelete wo",
        "COMP_CWORD": "3",
    }
    assert run_cli("pinable-agents", env=asked).stdout == "plain,work-1\n"
    done = run_cli("pinable-agents", "session", "undelete", "work")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Session undeleted: work-1\n", "")
    done = run_cli("pinable-agents", "session", "undelete", "work")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no session 'work' in the trash" in done.stderr
    assert run_cli("pinable-agents", "session", "undelete").returncode == 2


def test_by_itself_in_the_background_and_told_by_the_next_program(old: None, sessions_dir: Path, repo: GitRepo) -> None:
    os.utime(sessions_dir / "old.json", (0, 0))
    first = run_cli("pinable-agents", "session", "list")
    assert first.stderr == ""
    until = time.monotonic() + 60
    while "news" not in (sessions_dir.parent / "tidied.json").read_text():
        assert time.monotonic() < until
        time.sleep(0.02)
    told = (
        "cleaned up: 1 session moved to the trash (pinable-agents session undelete --list; session.auto_cleanup_days)\n"
    )
    second = run_cli("codeagent-wrapper", "--task", "x", "--", "true", cwd=repo.path)
    assert second.stderr == told
    assert run_cli("pinable-agents", "session", "list").stderr == ""
    assert "old" not in SessionStore().ids()
    assert {"new", "paused"} <= set(SessionStore().ids())


def test_of_several_deleted_under_one_id_each_can_be_named(repo: GitRepo) -> None:
    for task in ("first", "second"):
        run_cli("codeagent-wrapper", "--task", task, "--session-id", "work", "--", "true", cwd=repo.path)
        assert run_cli("pinable-agents", "session", "delete", "work", cwd=repo.path).returncode == 0
    lines = run_cli("pinable-agents", "session", "undelete", "--list").stdout.splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["work~2", "work~1"]
    assert run_cli("pinable-agents", "session", "undelete", "work~1", cwd=repo.path).returncode == 0
    assert SessionStore().read("work")["task"] == "first"
