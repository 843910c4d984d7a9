"""A command that a model asked for; most of it is tested where the model is told (``test_claude.py``)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gitsession.backends import shell


def told(place: Path, command: str) -> str:
    run = shell.Command(command, place, "sess_shell", 60)
    for _ in run.run(shell.StopRequest()):
        pass
    return run.text


def test_what_a_busy_machine_reads_late_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = shell._Output._read

    def late(output: shell._Output) -> None:
        time.sleep(2 * shell._PIPE_GRACE)
        read(output)

    monkeypatch.setattr(shell._Output, "_read", late)
    assert told(tmp_path, "echo out; exit 3") == "out\n[exit status 3]"


def test_who_holds_the_output_and_says_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "_REST", 600)
    text = told(tmp_path, "setsid sleep 60 & echo $!")
    assert text.endswith("[exit status 0]") or "processes it had left behind were ended" in text
    assert text.splitlines()[0].isdigit()
    from gitsession.backends.processes import ending, finish

    finish(ending("sess_shell"))
