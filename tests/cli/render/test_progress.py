"""On a terminal a status line stands below the lines, and nothing of it stays."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from support import cli_environment

pty = pytest.importorskip("pty")

SCRIPT = """
from gitsession.cli.render.run import TextRun
from gitsession.verbs import events
run = TextRun()
run(events.SessionCreated("sess_1"))
run(events.PhaseChanged("analysis", "[bold]not markup[/bold] :smile: 12", done=False))
run(events.AgentOutput("x" * 200 + "\\n", "stdout"))
run(events.AgentOutput("open \\x1b[31m", "stdout"))
run(events.AgentOutput("line\\n", "stdout"))
run(events.AgentOutput("aside\\n", "stderr"))
run(events.CheckpointSaved(0, "重构", (), (), "agent"))
run(events.AgentOutput("left open", "stdout"))
run.close()
"""


def on_a_terminal(code: str, **env: str) -> str:
    """What a Python program writes to a terminal of 80 columns, standard error included."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=its,
        stdout=its,
        stderr=its,
        env=cli_environment({"TERM": "xterm", "COLUMNS": "80", **env}),
    )
    os.close(its)
    written = b""
    try:
        while piece := os.read(ours, 65536):
            written += piece
    except OSError:  # how Linux says that the other side is closed
        pass
    finally:
        os.close(ours)
        assert process.wait() == 0, written
    return written.decode().replace("\r\n", "\n")


def test_lines_stand_above_the_status_line() -> None:
    written = on_a_terminal(SCRIPT)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    for line in (
        "Session created: sess_1",
        "[Phase: analysis] [bold]not markup[/bold] :smile: 12",
        "x" * 200,
        "open ^[[31mline",
        "aside",
        "[Checkpoint 0] Saved 重构",
        "left open",
    ):
        assert line + "\n" in plain
    assert "phase analysis, checkpoint 0" in plain
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h")  # the cursor comes back


def test_a_dumb_terminal_gets_plain_lines() -> None:
    written = on_a_terminal(SCRIPT, TERM="dumb")
    assert "\x1b" not in written
    assert written.endswith("[Checkpoint 0] Saved 重构\nleft open\n")
