"""``session list``: filters, order, and nothing left out without a word."""

from __future__ import annotations

import codecs
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.conftest import document
from sessions import TestSession
from support import GitRepo, cli_environment, program, run_cli

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
        (["--since", "2026-02-28"], ["third", "second", "first"]),
        (["--since", "1d"], ["third", "second", "first"]),
        (["--since", "2100-01-01T10:00:00Z"], []),
    ],
)
def test_filters_and_order(three: None, arguments: list[str], expected: list[str]) -> None:
    assert ids(*arguments) == expected


def test_nothing_that_fits_is_said(three: None) -> None:
    done = run_cli("pinable-agents", "session", "list", "--repo", "/nowhere")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "no session fits; there are 3 of other kinds\n"


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


def test_a_task_as_long_as_a_book_is_cut_anyway(make_session: MakeSession) -> None:
    make_session("long", task="word " * 100_000)
    make_session("short", task="b")
    done = run_cli("pinable-agents", "session", "list")
    [long] = [line for line in done.stdout.splitlines() if line.startswith("long")]
    assert len(long) < 1_200
    assert long.endswith("word word…")
    whole = json.loads(run_cli("pinable-agents", "session", "list", "--json").stdout)
    assert len(next(one["task"] for one in whole if one["id"] == "long")) == 500_000


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


def test_since_must_be_a_time() -> None:
    done = run_cli("pinable-agents", "session", "list", "--since", "yesterday")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1] == "hint: write it like 7d, 12h or 2026-02-25"


def test_only_sessions_of_a_repository_in_any_of_its_worktrees(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "--quiet", tmp_path / "linked")
    other = GitRepo.init(tmp_path / "other")
    TestSession(repo, "here")
    TestSession(GitRepo(tmp_path / "linked"), "linked")
    TestSession(other, "other")
    assert sorted(ids("--repo", str(repo.path / "src"))) == ["here", "linked"]
    assert sorted(ids("--repo", str(tmp_path / "linked"))) == ["here", "linked"]
    assert ids("--repo", str(other.path)) == ["other"]
    shutil.rmtree(other.path)
    assert ids("--repo", str(other.path)) == ["other"]
    assert ids("--repo", str(tmp_path)) == []


def test_watching_follows_a_session_and_leaves_the_terminal_as_it_was(make_session: MakeSession) -> None:
    make_session("work", status="created", current_phase="analysis", checkpoints=[])
    for number in range(30):
        make_session(f"z{number:02}", created_at="2020-01-01T00:00:00Z")
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [program("pinable-agents"), "session", "list", "--watch"],
        stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
        env=cli_environment({"TERM": "xterm", "COLUMNS": "100", "LINES": "12"}),
    )  # fmt: skip
    os.close(follower)
    seen, decoder = "", codecs.getincrementaldecoder("utf-8")()  # what is read may end within a character

    def read_until(text: str) -> None:
        nonlocal seen
        while text not in seen:
            seen += decoder.decode(os.read(leader, 65536))

    try:
        read_until("more\x1b[K")
        assert seen.startswith("\x1b[?1049h\x1b[?25l\x1b[H")
        screen = seen.split("\x1b[H", 1)[1].replace("\x1b[K", "").replace("\r", "").splitlines()
        assert screen[0].split() == ["ID", "STATUS", "BACKEND", "CHECKPOINT", "PHASE", "TOUCHED", "TASK"]
        assert screen[1].split()[:5] == ["work", "created", "claude", "-", "analysis"]
        assert screen[10] == "… and 22 more"
        with SessionStore().own("work"):
            with SessionStore().edit("work") as draft:
                draft.log("status", to="running")
                draft.log("phase", phase="implementation")
            read_until("work  running")
            read_until("implementation")
        process.send_signal(signal.SIGINT)
        read_until("\x1b[?25h\x1b[?1049l")
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def test_watching_needs_a_terminal() -> None:
    for arguments in (["--watch"], ["--watch", "--json"]):
        done = run_cli("pinable-agents", "session", "list", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "--watch needs a terminal" in done.stderr


def test_a_reader_that_has_enough(make_session: MakeSession) -> None:
    for number in range(300):
        make_session(f"s{number}", task="long " * 300)
    command = f"{program('pinable-agents')} session list | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, encoding="utf-8", env=cli_environment())
    assert done.stderr == ""
    assert done.stdout.splitlines()[0].startswith("ID ")


@pytest.mark.slow
def test_ten_thousand_sessions_take_little_memory(sessions_dir: Path) -> None:
    """The peak of the whole process; how long it takes is for the benchmark to say."""
    sessions_dir.mkdir(parents=True)
    text = json.dumps({**document("NAME"), "schema_version": 1, "journal": {"seq": 0, "offset": 0}})
    for number in range(10_000):
        name = f"sess_{1740000000 + number}_a3f7b2c1"
        (sessions_dir / f"{name}.json").write_text(text.replace("NAME", name))
    code = (
        "import re, sys; from pathlib import Path; from gitsession.cli.boundary import pinable_agents\n"
        "sys.argv = ['pinable-agents', 'session', 'list']\n"
        "pinable_agents()\n"
        # What the system counts as this process's highest also counts the one that started it.
        "highest = re.search('VmHWM: *\\t *([0-9]+)', Path('/proc/self/status').read_text())[1]\n"
        "print(int(highest) // 1024, file=sys.stderr)\n"
    )
    for _ in range(2):  # without an index, and with one
        done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, encoding="utf-8")
        assert len(done.stdout.splitlines()) == 10_001
        assert int(done.stderr) <= 120
