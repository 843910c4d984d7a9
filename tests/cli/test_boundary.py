"""Errors become a line, a next step and an exit status; nothing else."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from sessions import TestSession
from support import GitRepo, cli_environment, program, run_cli

from gitsession import SessionStore
from gitsession.cli import boundary
from gitsession.errors import BackendMissing, GitSessionError, SessionBusy, UsageError

Enter = Callable[..., int]


@pytest.fixture
def enter(monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Runs a function as a program of that name would, on arguments."""

    def run(function: Callable[..., object], *arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["program", *arguments])
        return boundary.guarded("program", lambda: click.Command("program", callback=function))

    return run


def raising(error: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (GitSessionError("it broke"), 1, "program: it broke\n"),
        (UsageError("bad request", hint="ask nicely"), 2, "program: bad request\nhint: ask nicely\n"),
        (SessionBusy("taken"), 4, "program: taken\n"),
        (BackendMissing("no claude"), 127, "program: no claude\n"),
        (GitSessionError("two\nlines \x1b[2J"), 1, "program: two lines ^[[2J\n"),
        (KeyError("x"), 1, "program: internal error: KeyError: 'x'; run with --debug for the traceback\n"),
        (click.UsageError("Nothing to do."), 2, "program: nothing to do\nhint: program --help lists what it takes\n"),
        (BrokenPipeError(), 141, ""),
        (KeyboardInterrupt(), 130, "\n"),
        (click.Abort(), 130, ""),
    ],
)
def test_each_end_has_its_words_and_status(
    enter: Enter, capsys: pytest.CaptureFixture[str], error: BaseException, status: int, words: str
) -> None:
    assert enter(raising(error)) == status
    assert capsys.readouterr() == ("", words)


def test_what_ctrl_c_stopped_half_way_says_so(enter: Enter, capsys: pytest.CaptureFixture[str]) -> None:
    interrupt = KeyboardInterrupt()
    interrupt.add_note("it stopped\nhalf-way")
    assert enter(raising(interrupt)) == 130
    assert capsys.readouterr() == ("", "\nprogram: it stopped half-way\n")


@pytest.mark.parametrize(("result", "status"), [(None, 0), (0, 0), (3, 3)])
def test_the_command_gives_the_status(enter: Enter, result: int | None, status: int) -> None:
    assert enter(lambda: result) == status


@pytest.mark.parametrize("error", [GitSessionError("it broke"), KeyError("x")])
def test_debug_gives_the_traceback(enter: Enter, capsys: pytest.CaptureFixture[str], error: Exception) -> None:
    assert enter(raising(error), "--debug") == 1
    assert "Traceback (most recent call last):" in capsys.readouterr().err


def test_the_traceback_sends_nothing_to_the_terminal(enter: Enter, capsys: pytest.CaptureFixture[str]) -> None:
    enter(raising(GitSessionError("it \x1b[2J broke")), "--debug")
    words = capsys.readouterr().err
    assert "\x1b" not in words
    assert "GitSessionError: it ^[[2J broke\n" in words


def test_debug_after_two_dashes_is_the_commands() -> None:
    assert boundary._without_debug(["--debug", "a", "--", "x", "--debug"]) == (["a", "--", "x", "--debug"], True)
    assert boundary._without_debug(["a", "--", "--debug"]) == (["a", "--", "--debug"], False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["session", "lisst"], "no such command 'lisst'. Did you mean"),
        (["sesion"], "no such command 'sesion'. Did you mean"),
        (["session", "list", "--limitt", "3"], "no such option '--limitt'. Did you mean"),
        (["session", "list", "--limit", "many"], "'many' is not a valid integer"),
        (["session", "list", "--status", "pausd"], "'pausd' is not one of"),
        (["session", "inspect"], "missing argument 'ID'"),
        (["session", "inspect", "zz"], "zz"),
        (["session", "inspect", "../../etc/passwd"], "session"),
    ],
)
def test_bad_requests_are_one_line_and_a_hint(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = run_cli("pinable-agents", *arguments, cwd=tmp_path)  # never in the checkout, should one be taken for good
    lines = done.stderr.splitlines()
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in lines[0]
    assert lines[0].startswith("pinable-agents: ")
    assert [line[:6] for line in lines[1:]] in ([], ["hint: "])


@pytest.mark.parametrize("arguments", [[], ["session"]])
def test_a_group_alone_shows_its_help(arguments: list[str]) -> None:
    done = run_cli("pinable-agents", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: pinable-agents")


@pytest.mark.parametrize("name", ["pinable-agents", "codeagent-wrapper", "git-pinable"])
def test_help_and_version(name: str) -> None:
    assert run_cli(name, "--help").stdout.startswith(f"Usage: {name.replace('git-', 'git ')}")
    assert run_cli(name, "--version").stdout == f"{name.replace('git-', 'git ')} 0.1.0\n"


def test_completion_names_commands_and_sessions(make_session: Callable[..., object]) -> None:
    make_session("my-refactor")
    asked = {
        "_PINABLE_AGENTS_COMPLETE": "bash_complete",
        "COMP_WORDS": "pinable-agents session insp",
        "COMP_CWORD": "2",
    }
    assert run_cli("pinable-agents", env=asked).stdout == "plain,inspect\n"
    asked |= {"COMP_WORDS": "pinable-agents session inspect my", "COMP_CWORD": "3"}
    assert run_cli("pinable-agents", env=asked).stdout == "plain,my-refactor\n"


def test_a_terminal_that_cannot_show_it_gets_an_escape(make_session: Callable[..., object]) -> None:
    make_session()
    done = run_cli("pinable-agents", "session", "list", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "\\u5c06" in done.stdout


def test_a_reader_that_goes_away_is_not_worth_a_word(make_session: Callable[..., object]) -> None:
    make_session()
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [program("pinable-agents"), "session", "list"], stdout=writer, stderr=subprocess.PIPE, env=cli_environment()
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    "arguments",
    [
        ["session", "list"],
        ["session", "export", "s1", "--format", "json"],
        ["session", "diff", "s1"],
        ["session", "diff", "s1", "--stat"],
        ["--help"],
        ["--version"],
    ],
)
def test_output_that_cannot_be_written_is_an_error(repo: GitRepo, arguments: list[str]) -> None:
    session = TestSession(repo)
    repo.write("long.txt", "a line\n" * 10_000)  # more than a buffer holds
    session.checkpoint()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [program("pinable-agents"), *arguments], stdout=full, stderr=subprocess.PIPE, env=cli_environment()
        )
    assert done.stderr == b"pinable-agents: cannot write the output: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.parametrize(
    "command",
    [
        "codeagent-wrapper --task x -- true",
        "pinable-agents doctor",
        "pinable-agents why HEAD",
        "pinable-agents config list",
        "pinable-agents hooks status",
        "pinable-agents session list --repo .",
    ],
)
def test_a_directory_that_is_gone_is_said(tmp_path: Path, command: str) -> None:
    (tmp_path / "gone").mkdir()
    name, *arguments = command.split()
    line = shlex.join([program(name), *arguments])
    done = subprocess.run(
        ["sh", "-c", f"rmdir ../gone; exec {line}"],
        cwd=tmp_path / "gone",
        env=cli_environment(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (
        2,
        f"{name}: the current directory is not there any more\nhint: cd somewhere\n",
    )


def test_a_deleted_session_is_said_to_be_in_the_trash(make_session: Callable[..., object]) -> None:
    make_session("my-refactor")
    SessionStore().trash("my-refactor")
    for text in ("my-refactor", "my-re"):
        done = run_cli("pinable-agents", "session", "inspect", text)
        assert (done.returncode, done.stderr.splitlines()) == (
            2,
            [
                "pinable-agents: session my-refactor was deleted",
                "hint: pinable-agents session undelete my-refactor brings it back",
            ],
        )


def test_a_closed_stream_leads_nowhere(make_session: Callable[..., object]) -> None:
    make_session()
    command = f"{program('pinable-agents')} session list <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], env=cli_environment()).returncode == 0
