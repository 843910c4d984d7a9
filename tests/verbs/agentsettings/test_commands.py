"""The command is what a shell starts, and is known again."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gitsession.errors import BadValue
from gitsession.verbs.agentsettings.commands import Command, known_again, local, shared

ODD = '/a b/it\'s/"x"/$HOME/${PATH}/`id`/\\n/é/*'


@pytest.mark.parametrize("shell", [["sh", "-c"], ["bash", "-c"]])
def test_a_shell_starts_the_very_program(tmp_path: Path, shell: list[str]) -> None:
    program = tmp_path / ODD.strip("/") / "python"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    done = subprocess.run([*shell, Command("codex", str(program)).line], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["-I", "-m", "gitsession.agenthook", "codex"], "")


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish"])
@pytest.mark.parametrize("text", [None, "#!/no/such/program\n", "#!/bin/sh\necho Traceback >&2; exit 1\n", "exit 2\n"])
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_program_that_is_gone_or_fails_is_a_silent_success(
    tmp_path: Path, shell: str, text: str | None, is_shared: bool
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    program = tmp_path / ("pinable-hook" if is_shared else "it's python3")
    if text is not None:
        program.write_text(text)
        program.chmod(0o755)
    command = Command("gemini", None if is_shared else str(program))
    path = os.pathsep.join((str(tmp_path), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path)}
    done = subprocess.run([str(shutil.which(shell)), "-c", command.line], env=environment, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_key_that_is_meant_for_the_agent_ends_nothing(tmp_path: Path) -> None:
    program = tmp_path / "python3"
    program.write_text('#!/bin/sh\ntrap "" INT\necho begun; read -r word; echo "$word"\n')
    program.chmod(0o755)
    command = ["bash", "-c", Command("codex", str(program)).line]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, start_new_session=True, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate("done\n") == ("done\n", None)
    assert process.returncode == 0


@pytest.mark.parametrize("python", ["/usr/bin/python3", ODD])
def test_known_again(python: str) -> None:
    command = Command("gemini", python)
    assert known_again("gemini", command.line) == command
    assert known_again("codex", command.line) is None
    assert known_again("gemini", shared("gemini").line) == shared("gemini")
    assert known_again("codex", shared("gemini").line) is None


@pytest.mark.parametrize("python", ["/usr/bin/python3", ODD])
def test_what_an_older_version_wrote_is_known_again(python: str) -> None:
    local = shlex.join([python, "-I", "-m", "gitsession.agenthook", "codex"]).replace("$", "$''")
    shared = "sh -c 'command -v pinable-hook >/dev/null 2>&1 || exit 0; exec pinable-hook codex'"
    for line, command in ((local, Command("codex", python)), (shared, Command("codex", None))):
        assert line != command.line
        assert known_again("codex", line) == command
        assert known_again("gemini", line) is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "'",
        "sh -c",
        "sh -c 'pinable-hook codex'",
        "x -I -m gitsession.agenthook",
        f"{shared('codex').line} ",
        None,
        3,
        [],
    ],
)
def test_not_ours(line: object) -> None:
    assert known_again("codex", line) is None


def test_gemini_finds_no_variable_in_it() -> None:
    """It puts ``$NAME`` and ``${NAME}`` in before the shell sees the line."""
    line = Command("gemini", ODD).line
    assert "$H" not in line
    assert "${" not in line


def test_a_shared_one_does_nothing_where_it_is_not_installed(tmp_path: Path) -> None:
    line = shared("claude-code").line
    assert str(Path(sys.prefix)) not in line
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, input=b"{}")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    program = tmp_path / "pinable-hook"
    program.write_text('#!/bin/sh\necho "$@"; cat; exit 3\n')
    program.chmod(0o755)
    done = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, input=b"{}")
    assert (done.returncode, done.stdout) == (0, b"claude-code\n{}")


def test_a_path_that_no_json_file_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", os.fsdecode(b"/\xff/python"))
    with pytest.raises(BadValue, match="UTF-8"):
        local("codex")


def test_the_same_name_however_it_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("python3.11", "python3"):
        (tmp_path / name).symlink_to(sys.executable)
    for name in ("python3.11", "python3"):
        monkeypatch.setattr(sys, "executable", str(tmp_path / name))
        assert local("codex") == Command("codex", str(tmp_path / "python3"))
    (tmp_path / "python3").unlink()
    (tmp_path / "python3").write_text("another one")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3.11"))
    assert local("codex") == Command("codex", str(tmp_path / "python3.11"))
