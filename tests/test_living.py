"""A noted process is the same one later, or it is gone; and who started a hook is found through shells."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gitsession import living

WHO = "from gitsession import living; print(*living.starter())"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def started(pid: int) -> str:
    facts = living._facts(pid)
    assert facts is not None
    return facts.process.started


def test_a_process_lives_until_it_is_killed_though_nobody_waits_for_it(sleeper: subprocess.Popen[bytes]) -> None:
    since = started(sleeper.pid)
    assert living.lives(sleeper.pid, since)
    sleeper.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # it is dead, and still in the table
    assert not living.lives(sleeper.pid, since)
    sleeper.wait()
    assert not living.lives(sleeper.pid, since)


def test_another_process_of_the_same_id_is_not_the_one(sleeper: subprocess.Popen[bytes]) -> None:
    assert not living.lives(sleeper.pid, "1")
    assert started(sleeper.pid) != started(os.getpid())


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**40])
def test_what_is_no_process_does_not_live(pid: int) -> None:
    assert not living.lives(pid, "1")


@pytest.mark.parametrize("shell", [[], ["sh", "-c"], ["bash", "-c"]])
def test_the_starter_is_found_through_a_shell(shell: list[str]) -> None:
    command = [sys.executable, "-c", WHO]
    if shell:
        command = [*shell, f'"{sys.executable}" -c "{WHO}"; exit 0']
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert out[:2] == [str(os.getpid()), started(os.getpid())]


def test_a_name_may_hold_anything() -> None:
    facts = subprocess.run(
        [sys.executable, "-c", "open('/proc/self/comm', 'w').write(') x ('); " + WHO.replace("starter", "_facts")
         .replace("_facts()", "_facts(__import__('os').getpid()).process")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert ") x (" in facts
