"""How the pipes are made through which a program is heard (``gitsession.backends.program``)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from backends.agents import command_job, python_script, quick_backend

from gitsession.backends.base import Done, Output

HELD = 512 * 1024
LIMIT = Path("/proc/sys/fs/pipe-max-size")


@pytest.mark.skipif(sys.platform != "linux" or int(LIMIT.read_text()) < HELD, reason="pipes here hold no more")
def test_last_words_are_not_lost_that_a_program_does_not_wait_for(tmp_path: Path) -> None:
    """It prints without waiting for a reader, and ends; what does not fit into the pipe is gone."""
    program = python_script(
        tmp_path,
        f"""
        import os
        os.set_blocking(1, False)
        written = os.write(1, b"x" * {HELD})
        os.write(2, str(written).encode())
        os._exit(0)
        """,
    )
    events = list(quick_backend().run(command_job(tmp_path, command=(str(program),))))
    printed = [event for event in events if isinstance(event, Output)]
    assert "".join(event.text for event in printed if event.stream == "stderr") == str(HELD)
    assert sum(len(event.text) for event in printed if event.stream == "stdout") == HELD
    assert events[-1] == Done()
