"""``session list``: filters, order, and nothing left out without a word."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import run_cli

from gitsession import SessionStore

MakeSession = Callable[..., dict[str, object]]


@pytest.fixture
def three(make_session: MakeSession) -> None:
    make_session("first", created_at="2026-02-25T10:00:00Z", updated_at="2026-02-28T10:00:00Z", backend="codex")
    make_session("second", created_at="2026-02-26T10:00:00Z", updated_at="2026-02-27T10:00:00Z", status="completed")
    make_session("third", created_at="2026-02-27T10:00:00Z", updated_at="2026-02-27T10:00:00Z", priority=5)


def ids(*arguments: str) -> list[str]:
    done = run_cli("pinable-agents", "session", "list", *arguments)
    assert done.returncode == 0, done.stderr
    return [line.split()[0] for line in done.stdout.splitlines()[1:]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["third", "second", "first"]),
        (["--reverse"], ["first", "second", "third"]),
        (["--limit", "2"], ["third", "second"]),
        (["--status", "paused"], ["third", "first"]),
        (["--status", "completed"], ["second"]),
        (["--status", "running"], []),
        (["--backend", "codex"], ["first"]),
        (["--backend", "claude", "--status", "paused"], ["third"]),
        (["--sort", "id"], ["first", "second", "third"]),
        (["--sort", "status"], ["second", "first", "third"]),
    ],
)
def test_filters_and_order(three: None, arguments: list[str], expected: list[str]) -> None:
    assert ids(*arguments) == expected


def test_a_line_says_what_a_person_wants(make_session: MakeSession) -> None:
    make_session()
    make_session("bare", checkpoints=[], files=[], created_at="2020-01-01T00:00:00Z", task="two\nlines")
    done = run_cli("pinable-agents", "session", "list")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["ID", "STATUS", "BACKEND", "CHECKPOINT", "AGE", "TASK"]
    cells = lines[1].split(maxsplit=5)
    assert cells[:4] == ["sess_1740480000_a3f7b2c1", "paused", "claude", "1/3"]
    assert cells[5] == "将用户、订单、支付三个模块的数据库访问从直接 SQL 重构为 Repository 模式"
    assert lines[2].split()[:4] == ["bare", "paused", "claude", "-"]
    assert lines[2].endswith("two lines")


def test_the_task_is_cut_to_the_terminal(make_session: MakeSession) -> None:
    make_session()
    done = run_cli("pinable-agents", "session", "list", env={"COLUMNS": "80"})
    assert done.stdout.splitlines()[1].endswith("…")


def test_a_running_session_without_an_owner_is_not_what_it_says(make_session: MakeSession) -> None:
    make_session("dead", status="running")
    make_session("alive", status="running")
    with SessionStore().own("alive"):
        done = run_cli("pinable-agents", "session", "list", "--sort", "id")
        objects = json.loads(run_cli("pinable-agents", "session", "list", "--sort", "id", "--json").stdout)
    assert "running  " in done.stdout.splitlines()[1]
    assert "running (owner gone)" in done.stdout.splitlines()[2]
    assert [one["alive"] for one in objects] == [True, False]


def test_what_cannot_be_read_is_shown_with_its_problem(make_session: MakeSession, sessions_dir: Path) -> None:
    make_session("good")
    (sessions_dir / "broken.json").write_text('{"id": "broken", "sta')
    (sessions_dir / "newer.json").write_text('{"schema_version": 99, "id": "newer", "status": "dancing"}')
    done = run_cli("pinable-agents", "session", "list", "--sort", "id")
    broken, good, newer = done.stdout.splitlines()[1:]
    assert broken.split()[:2] == ["broken", "corrupted"]
    assert "not valid JSON" in broken
    assert good.startswith("good")
    assert newer.split()[:2] == ["newer", "dancing"]
    assert "newer version" in newer
    assert ids("--status", "corrupted") == ["broken"]
    assert "cannot be read and not shown: 1" in run_cli("pinable-agents", "session", "list", "--limit", "1").stderr
    assert (
        "cannot be read and not shown: 1" in run_cli("pinable-agents", "session", "list", "--status", "paused").stderr
    )


def test_json_is_an_array_of_objects(make_session: MakeSession, sessions_dir: Path) -> None:
    make_session()
    (sessions_dir / "broken.json").write_text("")
    first, second = json.loads(run_cli("pinable-agents", "session", "list", "--json").stdout)
    assert first == {
        "id": "sess_1740480000_a3f7b2c1",
        "status": "paused",
        "alive": None,
        "backend": "claude",
        "model": "claude-opus-4-6",
        "task": "将用户、订单、支付三个模块的数据库访问从直接 SQL 重构为 Repository 模式",
        "created_at": "2026-02-25T10:00:00Z",
        "updated_at": first["updated_at"],
        "checkpoint": 1,
        "files_count": 3,
        "worktree": None,
        "priority": 0,
        "problem": None,
    }
    assert (second["id"], second["status"], second["task"]) == ("broken", "corrupted", None)
    assert "empty" in second["problem"]


def test_no_sessions(pinable_home: Path) -> None:
    done = run_cli("pinable-agents", "session", "list")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"no sessions in {pinable_home}/sessions\n"
    assert run_cli("pinable-agents", "session", "list", "--json").stdout == "[]\n"
    assert not pinable_home.exists()


def test_foreign_text_is_harmless(make_session: MakeSession) -> None:
    make_session("evil", task="clear \x1b[2J and \u202e turn", backend="b\x9b")
    done = run_cli("pinable-agents", "session", "list")
    assert "clear ^[[2J and <U+202E> turn" in done.stdout
    assert "b<U+009B>" in done.stdout


def test_listing_loads_little(make_session: MakeSession) -> None:
    """Each of these would take as long as the listing itself, or nearly."""
    make_session()
    code = (
        "import sys; from gitsession.cli.boundary import pinable_agents\n"
        "sys.argv = ['pinable-agents', 'session', 'list']\n"
        "pinable_agents()\n"
        "print(sorted({'anthropic', 'filelock', 'pydantic', 'pygit2', 'rich', 'secrets', 'subprocess', 'watchfiles'}\n"
        "             & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, encoding="utf-8")
    assert done.stderr == "[]\n"
