"""``session stats``: the published four lines, and what follows them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from support import run_cli

from gitsession import SessionStore

MakeSession = Callable[..., dict[str, object]]


def test_the_published_layout(make_session: MakeSession, sessions_dir: Path) -> None:
    for number in range(2):
        make_session(f"active{number}", status="running")
    for number in range(3):
        make_session(f"paused{number}", created_at=f"2026-01-{15 + number}T10:00:00Z")
    for number in range(12):
        make_session(f"done{number}", status="completed", task="x" * 3000)
    for number in range(3):
        (sessions_dir / f"bad{number}.json").write_text("{")
    store = SessionStore()
    with store.own("active0"), store.own("active1"):
        done = run_cli("pinable-agents", "session", "stats")
    assert (done.returncode, done.stderr) == (0, "")
    size = sum(path.stat().st_size for path in sessions_dir.glob("*.j*")) / 1024
    lines = done.stdout.splitlines()
    assert lines[:4] == [
        "Total sessions: 20",
        "Active: 2, Paused: 3, Completed: 12, Corrupted: 3",
        f"Disk usage: {size:.1f} KB",
        "Oldest session: 2026-01-15",
    ]
    assert lines[4:] == [
        "Git objects: 0 B in 0 repositories",
        "Trash: 0 sessions, 0 B",
        "Tokens: 664,700",
        "Cost: $9.86",
        "",
        "By backend:",
        "  claude  17 sessions, 664,700 tokens, $9.86",
    ]


def test_what_is_rare_is_told_where_it_is(make_session: MakeSession) -> None:
    make_session("fresh", status="created", cost={"total_tokens": 5, "estimated_cost_usd": None})
    text = run_cli("pinable-agents", "session", "stats", "--no-git").stdout
    assert "Active: 0, Paused: 0, Completed: 0, Corrupted: 0, Created: 1\n" in text
    assert "Cost: unknown\n" in text
    make_session("priced", cost={"total_tokens": 5, "estimated_cost_usd": 0.5})
    text = run_cli("pinable-agents", "session", "stats", "--no-git").stdout
    assert "Cost: $0.50 and what 1 session cost, which is unknown\n" in text
    assert "Git objects" not in text


def test_no_sessions(pinable_home: Path) -> None:
    lines = run_cli("pinable-agents", "session", "stats").stdout.splitlines()
    assert lines[0] == "Total sessions: 0"
    assert lines[3] == "Oldest session: none"
    assert not pinable_home.exists()


def test_json(make_session: MakeSession) -> None:
    make_session()
    found = json.loads(run_cli("pinable-agents", "session", "stats", "--json").stdout)
    assert found == {
        "total": 1,
        "states": {
            "active": 0,
            "paused": 1,
            "completed": 0,
            "corrupted": 0,
            "created": 0,
            "interrupted": 0,
            "other": 0,
        },
        "disk_bytes": found["disk_bytes"],
        "oldest": "2026-02-25T10:00:00Z",
        "trash": {"sessions": 0, "bytes": 0},
        "tokens": 39100,
        "cost_usd": 0.58,
        "unpriced_sessions": 0,
        "backends": {"claude": {"sessions": 1, "tokens": 39100, "cost_usd": 0.58, "unpriced_sessions": 0}},
        "git_bytes": 0,
        "repositories": 0,
    }


def test_the_day_is_local_or_utc(make_session: MakeSession) -> None:
    make_session(created_at="2026-02-25T23:30:00Z")
    env = {"TZ": "Asia/Shanghai"}
    assert "Oldest session: 2026-02-26\n" in run_cli("pinable-agents", "session", "stats", env=env).stdout
    assert "Oldest session: 2026-02-25\n" in run_cli("pinable-agents", "session", "stats", "--utc", env=env).stdout


def test_what_nothing_tells_the_cost_of_is_unknown_as_after_a_run(make_session: MakeSession) -> None:
    make_session("quiet", status="completed", cost={"total_tokens": 0, "estimated_cost_usd": None})
    assert "Cost: unknown\n" in run_cli("pinable-agents", "session", "stats", "--no-git").stdout
    found = json.loads(run_cli("pinable-agents", "session", "stats", "--no-git", "--json").stdout)
    assert (found["cost_usd"], found["unpriced_sessions"]) == (None, 0)
