"""``codeagent-wrapper``: its flags, its task, its signals."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import GitRepo, cli_environment, program, run_cli

from gitsession.cli import wrapper
from gitsession.errors import BadValue, SessionNotFound, UsageError
from gitsession.store.sessions import SessionStore


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--restore-checkpoint", "1", "--session-id", "x"], "--restore-checkpoint is for a session that is there"),
        (["--context-from", "sess_1"], "no session 'sess_1'"),
        (["--max-cost", "0.5"], "--max-cost means nothing to the command backend"),
        (["--max-turns", "3"], "--max-turns means nothing to the command backend"),
        (["--workflow", "dance"], "there is no workflow 'dance'"),
        (["--timeout", "soon"], "--timeout: 'soon' is not a duration"),
        (["--timeout", "0"], "--timeout: '0' is no time at all"),
        (["--output", "yaml"], "'yaml' is not one of"),
        (["--priority", "high"], "'high' is not a valid integer"),
        (["--max-cost", "-1"], "-1.0 is not in the range"),
        (["--bakend", "claude"], "no such option '--bakend'. Did you mean '--backend'"),
        (["--backend", "clause"], "clause"),
        (["--backend", "claude", "--", "do", "it"], "'do' is left over"),
        (["--backend", "foo", "--", "./agent.sh"], "there is no backend 'foo'"),
        (["--task", "b", "--task-file", "f"], "--task and --task-file cannot be given together"),
        (["--task-file", "not-there"], "cannot read the task file not-there: No such file or directory"),
        (["--model", "m\udcff"], "--model 'm\\udcff' is not UTF-8"),
        (["--", "echo", "\udcff"], "the command's argument '\\udcff' is not UTF-8"),
        (["--session-id", "../x"], "'../x' cannot be a session id"),
        (["--session-id", "latest"], "session"),
    ],
)
def test_bad_requests_are_usage_errors(repo: object, tmp_path: Path, arguments: list[str], words: str) -> None:
    task = [] if {"--task", "--task-file"} & set(arguments) else ["--task", "a"]
    done = run_cli("codeagent-wrapper", *task, *arguments, cwd=tmp_path / "repo")
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("codeagent-wrapper: ")
    assert words in lines[0]
    assert [line[:6] for line in lines[1:]] in ([], ["hint: "])


def test_no_task(repo: object, tmp_path: Path) -> None:
    done = run_cli("codeagent-wrapper", cwd=tmp_path / "repo")
    assert done.returncode == 2
    assert "--task" in done.stderr


def test_a_flag_of_the_program_is_not_ours(repo: object, tmp_path: Path) -> None:
    """What follows ``--`` belongs to the program, also what looks like a flag we refuse."""
    done = run_cli(
        "codeagent-wrapper", "--task", "a", "--", "no-such-program", "--max-cost", "1", cwd=tmp_path / "repo"
    )
    assert "--max-cost" not in done.stderr


class _Input:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


@pytest.mark.parametrize(
    ("data", "task"),
    [
        (b"do it\n", "do it"),
        (b"two\nlines\r\n\n", "two\nlines"),
        ("重构\n".encode(), "重构"),
        (b"  kept  \n", "  kept  "),
    ],
)
def test_the_task_from_standard_input_or_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: bytes, task: str
) -> None:
    monkeypatch.setattr(sys, "stdin", _Input(data))
    assert wrapper.given_task("-", None) == task
    (tmp_path / "task").write_bytes(data)
    assert wrapper.given_task(None, tmp_path / "task") == task


@pytest.mark.parametrize("task", ["do it", "ends with a newline\n", "重构 😀"])
def test_a_task_on_the_command_line_is_exact(task: str) -> None:
    assert wrapper.given_task(task, None) == task


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"caf\xe9", "is not UTF-8 (byte 3)"),
        (b"a\0b", "holds a NUL byte"),
        (b" \n", "is empty"),
        (b"", "is empty"),
    ],
)
def test_a_task_that_is_no_text(monkeypatch: pytest.MonkeyPatch, data: bytes, words: str) -> None:
    monkeypatch.setattr(sys, "stdin", _Input(data))
    with pytest.raises(BadValue) as caught:
        wrapper.given_task("-", None)
    assert str(caught.value) == f"the task in standard input {words}"
    assert caught.value.hint
    with pytest.raises(BadValue):
        wrapper.given_task(os.fsdecode(data), None)


def test_a_task_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Is a directory"):
        wrapper.given_task(None, tmp_path)


class _Runner:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def request_stop(self, reason: str) -> None:
        self.reasons.append(reason)


def test_signals_ask_the_run_to_stop_and_are_given_back() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    runner = _Runner()
    with wrapper.stopped_by_signals(runner):  # type: ignore[arg-type]
        for number in before:
            signal.raise_signal(number)
    assert runner.reasons == ["interrupted (Ctrl-C)", "terminated (SIGTERM)", "the terminal went away"]
    assert {number: signal.getsignal(number) for number in before} == before


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    runner = _Runner()
    try:
        with wrapper.stopped_by_signals(runner):  # type: ignore[arg-type]
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert runner.reasons == []


def test_latest_is_of_the_repository_that_one_stands_in(repo: GitRepo, tmp_path: Path) -> None:
    other = GitRepo.init(tmp_path / "other")
    for session_id, place in (("mine", repo), ("theirs", other)):
        arguments = ["--session-id", session_id, "--task", "x", "--", "false"]
        assert run_cli("codeagent-wrapper", *arguments, cwd=place.path).returncode == 3
    store = SessionStore()
    assert wrapper.given_session(store, "latest", repo.path) == "mine"
    assert wrapper.given_session(store, "latest", repo.at("src")) == "mine"
    assert wrapper.given_session(store, "latest", other.path) == "theirs"
    assert wrapper.given_session(store, "latest", tmp_path) == store.resolve("latest")
    assert wrapper.given_session(store, "theirs", repo.path) == "theirs"
    empty = GitRepo.init(tmp_path / "empty")
    with pytest.raises(SessionNotFound, match="there is no session of"):
        wrapper.given_session(store, "latest", empty.path)


def test_a_stored_program_is_not_said_to_be_given(repo: GitRepo) -> None:
    run_cli("codeagent-wrapper", "--session-id", "KK", "--task", "x", "--", "false", cwd=repo.path)
    env = {"ANTHROPIC_API_KEY": "sk-x", "ANTHROPIC_BASE_URL": "nowhere"}
    done = run_cli("codeagent-wrapper", "--session-id", "KK", "--backend", "claude", cwd=repo.path, env=env)
    assert "ANTHROPIC_BASE_URL is 'nowhere'" in done.stderr  # the next thing that is wrong


def test_a_reader_that_goes_away_does_not_change_how_a_run_ended(repo: GitRepo) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [program("codeagent-wrapper"), "--task", "x", "--", "true"],
        cwd=repo.path,
        stdout=writer,
        stderr=subprocess.PIPE,
        env=cli_environment(),
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("verb", ["run", "checkpoint"])
def test_records_inside_the_working_tree_are_refused(repo: GitRepo, verb: str) -> None:
    """A restore would take other sessions' records back; ignored, or in the git directory, they are no files of it."""
    env = {"PINABLE_HOME": "state"}

    def done(home: str = "state") -> subprocess.CompletedProcess[str]:
        env = {"PINABLE_HOME": home}
        if verb == "run":
            return run_cli("codeagent-wrapper", "--task", "x", "--", "true", cwd=repo.path, env=env)
        return run_cli("pinable-agents", "session", "checkpoint", "s1", cwd=repo.path, env=env)

    if verb == "checkpoint":
        repo.write(".gitignore", "state/\n")
        arguments = ["--session-id", "s1", "--task", "x", "--", "true"]
        assert run_cli("codeagent-wrapper", *arguments, cwd=repo.path, env=env).returncode == 0
        repo.at(".gitignore").unlink()
    refused = done()
    name = "codeagent-wrapper" if verb == "run" else "pinable-agents"
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-2:] == [
        f"{name}: the sessions' place {repo.path}/state is inside the working tree {repo.path}",
        "hint: set PINABLE_HOME to a place outside of it, or have git ignore it",
    ]
    repo.write(".gitignore", "state/\n")
    assert done().returncode == 0
    if verb == "run":
        assert done(".git/state").returncode == 0
