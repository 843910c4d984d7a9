"""Keys stay out of what is stored and shown, and out of others' reach."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gitsession import secrets


def test_values_of_secret_variables_are_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "correct horse")
    monkeypatch.setenv("SHORT_TOKEN", "abc")
    assert secrets.without_secrets("a correct horse, abc") == "a ***, abc"
    assert "SOME_PASSWORD" not in secrets.clean_environment()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is Linux's")
def test_nobody_reads_the_memory_of_a_guarded_process() -> None:
    """``PR_GET_DUMPABLE`` (3): 0 makes everything in ``/proc/<pid>`` that is the owner's the administrator's."""
    ask = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)"
    code = f"{ask}; from gitsession.secrets import guard_memory; guard_memory(); {ask}; import subprocess, sys; "
    code += f"subprocess.run([sys.executable, '-c', {ask!r}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0", "1"], "before, after, and in a program that is started then"


def test_a_command_of_the_model_s_is_not_started_without_that() -> None:
    code = (
        "import ctypes; from pathlib import Path; from gitsession.backends.shell import Command, StopRequest;"
        "command = Command('echo out', Path('/'), 'x', 10.0);"
        "[None for _ in command.run(StopRequest())];"
        "print(command.text, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["out", "[exit status 0] 0"]
