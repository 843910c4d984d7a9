"""How the pipes are made through which a program is heard (``gitsession.backends.program``)."""

from __future__ import annotations

import errno
import sys
import time
from pathlib import Path

import pytest
from backends.agents import command_job, python_script, quick_backend

from gitsession.backends import program as attending
from gitsession.backends.base import Done, Output, Tick

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


@pytest.mark.skipif(sys.platform != "linux", reason="pipes have one size here")
def test_where_pipes_may_hold_no_more_a_program_is_heard_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EPERM, "too many pages in the user's pipes")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    events = quick_backend().run(command_job(tmp_path, "echo heard"))
    assert [event for event in events if not isinstance(event, Tick)] == [Output("heard\n"), Done()]


@pytest.mark.skipif(sys.platform != "linux" or int(LIMIT.read_text()) < attending._PIPE, reason="pipes here hold less")
def test_all_is_heard_of_a_program_that_ended_with_everything_full(tmp_path: Path) -> None:
    """The pipe, the queue, and what the reading thread and its listener have in their hands meanwhile."""
    size = (attending._CHUNKS_AHEAD + 2) * attending._CHUNK + attending._PIPE
    ended = tmp_path / "ended"
    agent = python_script(
        tmp_path,
        f"""
        import os
        for _ in range({size // attending._CHUNK}):
            os.write(1, b"x" * {attending._CHUNK})
        os.open({str(ended)!r}, os.O_CREAT)
        """,
    )
    heard = 0
    for event in quick_backend().run(command_job(tmp_path, command=(str(agent),))):
        if not isinstance(event, Output):
            continue
        heard += len(event.text)
        while not heard > attending._CHUNK and not ended.exists():
            time.sleep(0.01)
    assert heard == size
