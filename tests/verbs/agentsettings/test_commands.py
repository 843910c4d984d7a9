"""The command is what a shell starts, and is known again."""

from __future__ import annotations

import os
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


@pytest.mark.parametrize("python", ["/usr/bin/python3", ODD])
def test_known_again(python: str) -> None:
    command = Command("gemini", python)
    assert known_again("gemini", command.line) == command
    assert known_again("codex", command.line) is None
    assert known_again("gemini", shared("gemini").line) == shared("gemini")
    assert known_again("codex", shared("gemini").line) is None


@pytest.mark.parametrize("line", ["", "'", "x -I -m gitsession.agenthook", f"{shared('codex').line} ", None, 3, []])
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
    assert (done.returncode, done.stdout) == (3, b"claude-code\n{}")


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
