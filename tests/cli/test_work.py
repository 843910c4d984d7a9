"""The main job at the command line: run, lose the network, look, go on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import GitRepo, run_cli, start_cli

from gitsession.store.sessions import SessionStore

AGENT = """\
#!/bin/sh
if [ -z "$PINABLE_RESUME" ]; then
    echo '::phase::analysis::Analyzing 2 files...'
    echo '::tokens::in=12500,out=3200,cost=0.5'
    echo '::done::Identified 15 functions to refactor'
    echo '::checkpoint::analysis results'
    echo '::phase::implementation::Refactoring src/app.py...'
    echo new > src/repository.py
    echo changed >> src/app.py
    echo '::done::Created src/repository.py'
    echo '::checkpoint::user module changes'
    printf 'plain output\\n'
    printf '\\033[31mcoloured\\n' >&2
    echo '::error::CONNECTION ERROR: network timeout after 30s'
    exit 1
fi
echo '::phase::implementation::Refactoring src/util.py...'
echo changed >> src/util.py
echo '::checkpoint::order module changes'
"""
WAITS = """\
#!/bin/sh
echo half > half.txt
echo '::phase::analysis::waiting'
exec sleep 60
"""
RUN = ["codeagent-wrapper", "--task", "重构 src", "--files", "src/app.py,src/util.py"]


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow an agent is, what it has changed so far is not checkpointed by itself."""
    monkeypatch.setenv("PINABLE_CHECKPOINT__SETTLE", "1h")


@pytest.fixture
def agent(tmp_path: Path) -> str:
    return _program(tmp_path / "agent.sh", AGENT)


def _program(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_a_run_that_loses_its_network_goes_on_later(repo: GitRepo, agent: str) -> None:
    state = repo.user_state()
    first = run_cli(*RUN, "--", agent, cwd=repo.path)
    session_id = first.stdout.splitlines()[0].removeprefix("Session created: ")
    assert first.returncode == 3
    assert first.stdout.splitlines()[1:] == [
        "[Phase: analysis] Analyzing 2 files...",
        "[Phase: analysis] DONE - Identified 15 functions to refactor",
        "[Checkpoint 0] Saved analysis results",
        "[Phase: implementation] Refactoring src/app.py...",
        "[Phase: implementation] DONE - Created src/repository.py",
        "[Checkpoint 1] Saved user module changes",
        "plain output",
        "CONNECTION ERROR: network timeout after 30s",
        f"Session paused: {session_id} (checkpoint 1)",
    ]
    assert first.stderr == "^[[31mcoloured\n"

    assert f"{session_id}  paused  command  1/2" in run_cli("pinable-agents", "session", "list").stdout
    inspected = run_cli("pinable-agents", "session", "inspect", "latest").stdout
    assert inspected.endswith(
        "Files changed so far:\n  + src/repository.py  (new)\n  ~ src/app.py         (modified)\n\n"
        "Remaining work:\n  - src/util.py  (not started)\n"
    )

    second = run_cli("codeagent-wrapper", "--session-id", session_id, cwd=repo.path)
    assert second.returncode == 0
    lines = second.stdout.splitlines()
    assert lines[:4] == [
        "Resuming from checkpoint 1 (user module changes)",
        "[Phase: implementation] Refactoring src/util.py...",
        "[Checkpoint 2] Saved order module changes",
        "",
    ]
    assert lines[4] == f"Session completed: {session_id}"
    assert re.fullmatch(r"Total time: \d+s( \(excluding .* pause\))?", lines[5])
    assert lines[6:] == ["Total cost: $0.50", "Files created: 1, Files modified: 2"]

    third = run_cli("codeagent-wrapper", "--session-id", "latest", cwd=repo.path)
    assert third.returncode == 2
    assert "is completed" in third.stderr
    assert repo.user_state() == state


def test_json_and_stream_json(repo: GitRepo, agent: str) -> None:
    first = run_cli(*RUN, "--output", "stream-json", "--", agent, cwd=repo.path)
    told = [json.loads(line) for line in first.stdout.splitlines()]
    assert first.returncode == 3
    assert told[0]["type"] == "session_created"
    assert told[-1]["type"] == "ended"
    assert (told[-1]["status"], told[-1]["exit_status"], told[-1]["checkpoint"]) == ("paused", 3, 1)
    second = run_cli("codeagent-wrapper", "--session-id", "latest", "--output", "json", cwd=repo.path)
    result = json.loads(second.stdout)
    assert second.returncode == 0
    assert (result["status"], result["checkpoint"]) == ("completed", 2)
    assert result["checkpoints"][0]["files_changed"] == ["src/util.py"]


@pytest.fixture
def waiting(repo: GitRepo, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A run whose agent waits, begun so far that its phase was told."""
    process = start_cli(*RUN, "--session-id", "work", "--", _program(tmp_path / "waits.sh", WAITS), cwd=repo.path)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("[Phase"):
            break
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_pause(waiting: subprocess.Popen[str], number: signal.Signals) -> None:
    waiting.send_signal(number)
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 130, err
    assert out.splitlines()[-1] == "Session paused: work (checkpoint 0)"
    assert "Status:   paused\n" in run_cli("pinable-agents", "session", "inspect", "work").stdout


def test_pause_checkpoint_and_delete_from_another_terminal(waiting: subprocess.Popen[str], repo: GitRepo) -> None:
    def session(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_cli("pinable-agents", "session", *arguments)

    assert session("list").stdout.splitlines()[1].split()[:2] == ["work", "running"]
    busy = session("delete", "work")
    assert busy.returncode == 4
    assert "pinable-agents session pause work" in busy.stderr
    refused = session("checkpoint", "work", "--description", "caf\udce9")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--description 'caf\\udce9' is not UTF-8" in refused.stderr
    taken = session("checkpoint", "work", "--description", "完成数据库迁移脚本")
    assert (taken.returncode, taken.stderr) == (0, "")
    assert re.fullmatch(r"\[Checkpoint \d\] Saved 完成数据库迁移脚本\n", taken.stdout)
    paused = session("pause", "work")
    assert paused.returncode == 0
    out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 3
    assert out.splitlines()[-1] == paused.stdout.strip()
    assert re.fullmatch(r"Session paused: work \(checkpoint \d\)\n", paused.stdout)
    again = session("pause", "work")
    assert (again.returncode, again.stdout, again.stderr) == (0, paused.stdout, "it was paused already\n")
    deleted = session("delete", "work")
    assert (deleted.returncode, deleted.stdout) == (0, "Session deleted: work\n")
    assert deleted.stderr.startswith("kept in ")
    assert session("inspect", "work").returncode == 2
    assert repo.at("half.txt").read_text() == "half\n"


def test_output_that_nobody_reads_does_not_end_the_run(repo: GitRepo, agent: str) -> None:
    process = start_cli(*RUN, "--session-id", "work", "--", agent, cwd=repo.path)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    assert process.wait(timeout=60) == 3
    process.stderr.close()
    assert '"user module changes"' in run_cli("pinable-agents", "session", "inspect", "work").stdout


@pytest.mark.parametrize(("place", "words"), [("plain", "is not in a git repository"), ("bare.git", "bare repository")])
def test_a_place_without_files_to_track(tmp_path: Path, place: str, words: str) -> None:
    (tmp_path / "plain").mkdir()
    GitRepo.init(tmp_path / "bare.git", "--bare")
    done = run_cli(*RUN, "--", "true", cwd=tmp_path / place)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_a_missing_program_and_a_path_outside(repo: GitRepo, pinable_home: Path) -> None:
    missing = run_cli(*RUN, "--", "./no-such-agent", cwd=repo.path)
    assert missing.returncode == 127
    outside = run_cli("codeagent-wrapper", "--task", "a", "--files", "../x", "--", "true", cwd=repo.path)
    assert outside.returncode == 2
    assert "../x" in outside.stderr
    assert not (pinable_home / "sessions").exists()


def test_markdown_is_the_report_and_nothing_else(repo: GitRepo) -> None:
    """What the agent prints and what is told meanwhile go to standard error."""
    done = run_cli(*RUN, "--output", "markdown", "--", "sh", "-c", "echo hello; echo new > new.txt", cwd=repo.path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Session ")
    assert "### Checkpoint 0: End of run" in done.stdout
    assert "`new.txt`" in done.stdout
    assert "\nhello" not in done.stdout
    assert done.stderr.splitlines()[0].startswith("Session created: ")
    assert "hello" in done.stderr.splitlines()


def test_a_repository_and_a_branch_whose_names_are_no_utf8(tmp_path: Path) -> None:
    repo = GitRepo.init(tmp_path / os.fsdecode(b"r\xff"))
    repo.write("one.txt", "one\n")
    repo.commit()
    repo.git("branch", "-m", b"b\xe9")
    done = run_cli(*RUN, "--session-id", "work", "--", "sh", "-c", "echo two > two.txt; exit 1", cwd=repo.path)
    assert done.returncode == 3, done.stderr
    doc = SessionStore().read("work")
    place = os.fsdecode(str(tmp_path / "r").encode() + b"\xff")
    assert doc["repository"]["worktree"] == doc["metadata"]["working_dir"] == f'"{tmp_path}/r\\377"'
    assert (doc["metadata"]["git_branch"], doc["runs"][0]["branch"]) == ('"b\\351"', '"b\\351"')
    listed = run_cli("pinable-agents", "session", "list", "--repo", place, "--json")
    assert [one["id"] for one in json.loads(listed.stdout)] == ["work"]
    assert run_cli("pinable-agents", "session", "checkpoint", "work").returncode == 0
    repo.at("two.txt").unlink()
    back = run_cli("pinable-agents", "session", "restore", "work", "1", "--force", "--yes", cwd=repo.path)
    assert (back.returncode, repo.at("two.txt").read_text()) == (0, "two\n"), back.stderr
    again = run_cli("codeagent-wrapper", "--session-id", "latest", "--", "true", cwd=repo.path)
    assert again.returncode == 0, again.stderr
    assert "the branch is" not in again.stderr
    for path in SessionStore().sessions_dir.glob("work.*"):
        path.unlink()
    fixed = run_cli("pinable-agents", "doctor", "--fix", cwd=repo.path)
    assert fixed.returncode == 0, fixed.stdout
    assert SessionStore().read("work")["repository"] == doc["repository"]
    assert "repository" in run_cli("pinable-agents", "session", "stats").stdout
