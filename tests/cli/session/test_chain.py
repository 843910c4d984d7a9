"""``session chain``: the layouts of the published examples, and a chain run from its beginning to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support import GitRepo, run_cli

from gitsession import SessionStore

EXAMPLE = """\
Chain: my-refactor
[1] sess_analysis  COMPLETED  (2026-02-25 10:00)
[2] sess_design    COMPLETED  (2026-02-25 11:30)
[3] sess_impl      RUNNING    (2026-02-25 14:00)
[4] sess_review    PENDING    (waiting for sess_impl)
"""
MakeSession = Callable[..., dict[str, Any]]


def chain(*arguments: str, status: int = 0, **more: Any) -> str:
    done = run_cli("pinable-agents", "session", "chain", *arguments, **more)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def at(time: str, ended: bool) -> list[dict[str, Any]]:
    moment = f"2026-02-25T{time}:00Z"
    return [{"started_at": moment, "ended_at": moment if ended else None, "end": "completed" if ended else None}]


@pytest.fixture
def example(make_session: MakeSession) -> None:
    """The published example: two sessions completed, one running, one not begun."""
    chain("create", "my-refactor", "--sessions", "sess_analysis,sess_design,sess_impl,sess_review")
    make_session("sess_analysis", status="completed", runs=at("10:00", True))
    make_session("sess_design", status="completed", runs=at("11:30", True))
    make_session("sess_impl", status="running", runs=at("14:00", False))


def test_status_is_the_published_example(example: None) -> None:
    with SessionStore().own("sess_impl"):
        assert chain("status", "my-refactor") == EXAMPLE
        assert (
            chain("status", "my-refactor", env={"TZ": "Asia/Shanghai"}).splitlines()[1].endswith("(2026-02-25 18:00)")
        )
        assert chain("status", "my-refactor", "--utc", env={"TZ": "Asia/Shanghai"}) == EXAMPLE


def test_status_as_json(example: None) -> None:
    with SessionStore().own("sess_impl"):
        found = json.loads(chain("status", "my-refactor", "--json"))
    assert (found["name"], found["completed"]) == ("my-refactor", 2)
    assert found["sessions"][2:] == [
        {"id": "sess_impl", "state": "running", "since": "2026-02-25T14:00:00Z", "waits_for": None, "problem": None},
        {"id": "sess_review", "state": "pending", "since": None, "waits_for": "sess_impl", "problem": None},
    ]


def test_create_shows_what_it_made() -> None:
    assert chain("create", "c", "--sessions", "a, b,", "--sessions", "c") == (
        "Chain: c\n"
        "[1] a  PENDING    (ready to begin)\n[2] b  PENDING    (waiting for a)\n[3] c  PENDING    (waiting for b)\n"
    )
    words = chain("create", "c", "--sessions", "a", status=2)
    assert words.startswith("pinable-agents: there is a chain 'c' already")


def test_more_than_nine_line_up() -> None:
    shown = chain("create", "c", "--sessions", ",".join(f"s{number}" for number in range(1, 11))).splitlines()
    assert (shown[1], shown[10]) == ("[1]  s1   PENDING    (ready to begin)", "[10] s10  PENDING    (waiting for s9)")


def test_a_session_that_cannot_be_read_is_shown_as_such(example: None) -> None:
    (SessionStore().sessions_dir / "sess_design.json").write_text("{")
    shown = chain("status", "my-refactor").splitlines()
    assert shown[2].startswith("[2] sess_design    CORRUPTED  (")
    assert "is not valid JSON at byte 1" in shown[2]


def test_list_and_delete(example: None) -> None:
    with SessionStore().own("sess_impl"):
        assert chain("list").splitlines() == [
            "NAME         COMPLETED  NEXT       SESSIONS",
            "my-refactor  2/4        sess_impl  sess_analysis, sess_design, sess_impl, sess_review",
        ]
        assert [one["name"] for one in json.loads(chain("list", "--json"))] == ["my-refactor"]
        assert chain("delete", "my-refactor") == "Chain deleted: my-refactor (its sessions stay)\n"
    assert chain("list") == "no chains\n"
    assert SessionStore().exists("sess_design")
    for command in ("status", "delete", "run"):
        assert "there is no chain 'my-refactor'\nhint: " in chain(command, "my-refactor", status=2)


def test_a_damaged_chain_is_told_in_the_list(example: None) -> None:
    (SessionStore().home / "chains" / "bad.json").write_text("")
    shown = chain("list")
    assert "my-refactor" in shown
    assert "bad.json is not a chain" in shown


def test_a_chain_runs_to_its_end(repo: GitRepo) -> None:
    chain("create", "c", "--sessions", "a,b,d")
    (repo.path.parent / "tasks").write_text("## a\nfirst\n## b\nsecond\n## d\nthird\n")
    script = 'echo "$PINABLE_TASK" | tee -a log; [ -n "$PINABLE_CONTEXT" ] || [ $PINABLE_SESSION_ID = a ]'
    arguments = ("run", "c", "--task-file", "../tasks", "--", "sh", "-c", script)
    shown = chain(*arguments, cwd=repo.path)
    assert repo.at("log").read_text() == "first\nsecond\nthird\n"
    assert [line for line in shown.splitlines() if line.startswith("Session ")] == [
        f"Session {what}: {name}" for name in "abd" for what in ("created", "completed")
    ]
    assert [line.split()[2] for line in shown.splitlines()[-3:]] == ["COMPLETED"] * 3
    again = chain(*arguments, cwd=repo.path)
    assert again.splitlines() == shown.splitlines()[-4:]


def test_a_chain_stops_and_says_how_as_json(repo: GitRepo) -> None:
    chain("create", "c", "--sessions", "a,b,d")
    (repo.path.parent / "task").write_text("do it")
    script = "[ $PINABLE_SESSION_ID != b ]"
    done = run_cli(
        "pinable-agents", "session", "chain", "run", "c", "--task-file", "../task", "--json", "--", "sh", "-c", script,
        cwd=repo.path,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert [(run["session_id"], run["status"]) for run in found["runs"]] == [("a", "completed"), ("b", "paused")]
    assert [one["state"] for one in found["sessions"]] == ["completed", "paused", "pending"]


def test_a_run_without_a_task_is_refused(repo: GitRepo) -> None:
    chain("create", "c", "--sessions", "a")
    assert "there is no task for a" in chain("run", "c", "--", "true", status=2, cwd=repo.path)


def test_a_member_started_before_its_turn_is_refused(repo: GitRepo) -> None:
    chain("create", "c", "--sessions", "a,b")
    done = run_cli("codeagent-wrapper", "--session-id", "b", "--task", "x", "--", "true", cwd=repo.path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "codeagent-wrapper: session b waits for a, which does not exist yet (chain c)\n"
        "hint: complete a first, or begin without it: --force\n"
    )
