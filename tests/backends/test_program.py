"""Running a program: what it reads, and what its listener says of how it went.

Most of it is tested where a user meets it: ``test_command.py`` and ``test_conformance.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from backends.agents import script

from gitsession.backends.base import Done, Event, Failed, Output, Tick
from gitsession.backends.processes import marked
from gitsession.backends.program import Program, ProgramBackend


class Listening:
    """A listener that keeps what it hears, and says that the work went as it is told to."""

    def __init__(self, *, failed: bool = False, ends: Done | Failed | None = None) -> None:
        self.failed = failed
        self.heard = b""
        self.told: tuple[int, str] | None = None
        self._ends = ends or Done()

    def feed(self, data: bytes) -> Iterator[Event]:
        self.heard += data
        yield Output("heard")

    def end(self, *, interrupted: bool) -> Iterator[Event]:
        yield Output("interrupted" if interrupted else "ended")

    def verdict(self, status: int, why: str) -> Done | Failed:
        self.told = status, why
        return self._ends


def run(place: Path, text: str, listener: Listening, given: bytes = b"") -> list[Event]:
    backend = ProgramBackend(stop_grace=0.3, terminate_grace=0.3, pipe_grace=0.3)
    environment = {**os.environ, "PINABLE_SESSION_ID": f"sess_{place.name}"}
    started = Program((str(script(place, text)),), environment, place, given)
    with backend.attended(f"sess_{place.name}", started, listener) as events:
        return [event for event in events if not isinstance(event, Tick)]


def test_it_reads_what_it_is_given_and_then_the_end(tmp_path: Path) -> None:
    given = "ä long prompt\n".encode() * 30_000
    listener = Listening()
    assert run(tmp_path, "cat", listener, given)[-1] == Done()
    assert listener.heard == given


def test_without_anything_given_its_input_is_at_its_end(tmp_path: Path) -> None:
    listener = Listening()
    run(tmp_path, "cat; echo over", listener)
    assert listener.heard == b"over\n"


def test_a_program_that_does_not_read_is_no_trouble(tmp_path: Path) -> None:
    assert run(tmp_path, "exit 0", Listening(), b"x" * 1_000_000)[-1] == Done()


@pytest.mark.parametrize(
    ("text", "status", "why"),
    [
        ("exit 0", 0, "agent.sh exited with status 0"),
        ("echo first >&2; echo last words >&2; exit 7", 7, "agent.sh exited with status 7: last words"),
        ("kill -9 $$", -9, "agent.sh was killed by SIGKILL"),
    ],
)
def test_the_listener_has_the_last_word_and_knows_how_the_program_ended(
    tmp_path: Path, text: str, status: int, why: str
) -> None:
    listener = Listening(ends=Failed("no", "denied"))
    assert run(tmp_path, text, listener)[-1] == Failed("no", "denied")
    assert listener.told == (status, why)


def test_keys_are_kept_out_of_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-12345678")
    refused = Failed("wrong key: sk-12345678", "refused")
    assert run(tmp_path, "exit 1", Listening(ends=refused))[-1] == Failed("wrong key: ***", "refused")


def test_a_run_whose_work_failed_leaves_nothing_behind_whatever_its_status(tmp_path: Path) -> None:
    text = "sleep 60 >/dev/null 2>&1 & exit 0"
    run(tmp_path, text, Listening(failed=True))
    assert marked(f"sess_{tmp_path.name}") == []
    run(tmp_path, text, Listening())
    left = marked(f"sess_{tmp_path.name}")
    assert [process.name for process in left] == ["sleep"]
    os.kill(left[0].pid, 9)
