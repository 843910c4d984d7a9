"""``session inspect`` and ``session checkpoints``: the published layout."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import run_cli

from gitsession import SessionStore

MakeSession = Callable[..., dict[str, Any]]
HEAD = """\
ID:       sess_1740480000_a3f7b2c1
Status:   paused
Backend:  claude (claude-opus-4-6)
Task:     将用户、订单、支付三个模块的数据库访问从直接 SQL 重构为 Repository 模式
Created:  2026-02-25 10:00:00
Paused:   2026-02-25 10:05:32

Checkpoints:
  [0] 10:01:15  analysis        "完成代码分析，识别出 15 个函数"
  [1] 10:03:45  implementation  "完成 user 模块重构"

Files changed so far:
  + src/user/repository.go  (new)
  ~ src/user/db.go          (modified)

Remaining work:
  - src/order/db.go    (not started)
  - src/payment/db.go  (not started)
"""
RUNS = [{"started_at": "2026-02-25T10:00:00Z", "ended_at": "2026-02-25T10:05:32Z", "end": "network"}]


def inspect(*arguments: str) -> str:
    done = run_cli("pinable-agents", "session", "inspect", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_published_layout(make_session: MakeSession) -> None:
    make_session(runs=RUNS)
    assert inspect("sess_1740480000_a3f7b2c1") == HEAD
    assert inspect("sess_17") == HEAD
    assert inspect("latest") == HEAD


def test_a_restore_that_was_cut_short_is_said(make_session: MakeSession) -> None:
    make_session(runs=RUNS, restoring={"target": None, "paths": [], "force": False})
    assert "\nRestore:  begun and not finished; the next restore, undo," in inspect("latest")


def test_tokens_that_no_checkpoint_has_counted_yet_are_counted(make_session: MakeSession) -> None:
    cost = {"total_tokens": 40134, "estimated_cost_usd": None, "pending": {"input": 1000, "output": 34}}
    make_session(cost=cost)
    assert "tokens     31,800 tokens in, 8,334 tokens out" in inspect("latest", "--verbose")


def test_verbose_adds_what_else_is_known(make_session: MakeSession) -> None:
    make_session(runs=RUNS, pause_reason="network timeout after 30s", command=["./agent.sh", "-v"])
    text = inspect("latest", "--verbose")
    assert text.startswith(HEAD)
    for line in (
        "paused because    network timeout after 30s",
        "time              5m 32s at work, 0s paused",
        "tokens     30,800 tokens in, 8,300 tokens out",
        "estimated  $0.58",
        "git_commit       a7e37ab",
        "branch        refactor/user-microservice",
        "arguments  ['-v']",
        "huge^[.bin  too large (61 MB)",
    ):
        assert f"  {line}\n" in text


def test_empty_parts_are_not_there(make_session: MakeSession) -> None:
    make_session("fresh", status="created", checkpoints=[], files=[], context={}, model=None)
    assert inspect("fresh").splitlines() == [
        "ID:       fresh",
        "Status:   created",
        "Backend:  claude",
        "Task:     将用户、订单、支付三个模块的数据库访问从直接 SQL 重构为 Repository 模式",
        "Created:  2026-02-25 10:00:00",
        "",
        "Checkpoints:",
        "  (none)",
    ]


def test_more_than_one_day_shows_dates(make_session: MakeSession) -> None:
    doc = make_session("template")
    late = doc["checkpoints"][1] | {"timestamp": "2026-02-27T10:03:45Z"}
    make_session("long", checkpoints=[doc["checkpoints"][0], late])
    assert "  [1] 2026-02-27 10:03:45  implementation  " in inspect("long")


def test_every_kind_of_change_and_a_word_about_the_rest(make_session: MakeSession) -> None:
    changes = [{"path": f"new{n:02}", "status": "added"} for n in range(49)]
    changes += [{"path": "gone\x07", "status": "deleted"}, {"path": "link", "status": "type"}]
    make_session(context={"accumulated_changes": changes})
    assert "  ~ link   (type changed)\n  … and 1 more (--verbose shows them)\n" in inspect("latest")
    assert "  - gone^G  (deleted)\n" in inspect("latest", "-v")


def test_a_dead_owner_shows(make_session: MakeSession) -> None:
    make_session("dead", status="running")
    assert "Status:   running (owner gone)\n" in inspect("dead")
    with SessionStore().own("dead"):
        assert "Status:   running\n" in inspect("dead")


def test_json_holds_the_whole_record(make_session: MakeSession) -> None:
    doc = make_session(future="kept")
    found = json.loads(inspect("latest", "--json"))
    assert found["session"]["future"] == "kept"
    assert found["session"]["checkpoints"][1]["tokens_used"] == doc["checkpoints"][1]["tokens_used"]
    assert found["remaining"] == ["src/order/db.go", "src/payment/db.go"]
    assert {"alive", "changed", "active_seconds", "paused_seconds"} <= set(found)


def test_a_damaged_file_is_an_error_and_stays(make_session: MakeSession, sessions_dir: Path) -> None:
    make_session("good")
    (sessions_dir / "broken.json").write_text("{")
    for command in ("inspect", "checkpoints"):
        done = run_cli("pinable-agents", "session", command, "broken")
        assert (done.returncode, done.stdout) == (1, "")
        assert "broken.json is not valid JSON at byte 1" in done.stderr
    assert (sessions_dir / "broken.json").read_text() == "{"


def test_a_name_that_is_nearly_right(make_session: MakeSession) -> None:
    make_session("my-refactor")
    done = run_cli("pinable-agents", "session", "inspect", "my-refcator")
    assert done.returncode == 2
    assert done.stderr.endswith("hint: did you mean my-refactor?\n")


def test_a_beginning_that_fits_two(make_session: MakeSession) -> None:
    make_session("sess_1")
    make_session("sess_2")
    done = run_cli("pinable-agents", "session", "checkpoints", "sess_")
    assert done.returncode == 2
    assert "fits 2 sessions: sess_1, sess_2" in done.stderr


def test_checkpoints_are_listed(make_session: MakeSession) -> None:
    make_session()
    lines = run_cli("pinable-agents", "session", "checkpoints", "latest").stdout.splitlines()
    assert lines[0].split() == ["TIME", "PHASE", "FILES", "TOKENS", "COMMIT", "DESCRIPTION"]
    assert lines[1].split(maxsplit=7)[:6] == ["[0]", "2026-02-25", "10:01:15", "analysis", "0", "15,700"]
    assert lines[2].split(maxsplit=7) == [
        "[1]",
        "2026-02-25",
        "10:03:45",
        "implementation",
        "2",
        "23,400",
        "0123456789",
        "完成 user 模块重构",
    ]
    objects = json.loads(run_cli("pinable-agents", "session", "checkpoints", "latest", "--json").stdout)
    assert [one["index"] for one in objects] == [0, 1]
    assert objects[1]["skipped"] == [{"path": "huge\x1b.bin", "reason": "too large (61 MB)"}]


def test_no_checkpoint_yet(make_session: MakeSession) -> None:
    make_session("fresh", checkpoints=[])
    done = run_cli("pinable-agents", "session", "checkpoints", "fresh")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "session fresh has no checkpoint yet\n"


def test_the_end_is_in_line_with_the_rest(make_session: MakeSession) -> None:
    make_session(status="completed", runs=[{**RUNS[0], "end": "completed"}])
    assert "\nCreated:  2026-02-25 10:00:00\nEnded:    2026-02-25 10:05:32\n" in inspect("latest")
