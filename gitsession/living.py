"""Processes that are noted for later: which one it was, and whether that very one still lives.

An id alone does not tell: the system gives it out again.  With the moment of its start, as the system counts it, it
does.  On Linux ``/proc`` says both; elsewhere psutil, which takes three times as long to load as all of this takes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

# What may stand between an agent and the hook that it starts.
_BETWEEN: Final = frozenset({
    "sh", "bash", "dash", "zsh", "ash", "ksh", "mksh", "fish", "busybox", "env", "timeout", "setsid", "nice",
    "cmd.exe", "powershell.exe", "pwsh", "pwsh.exe", "conhost.exe", "pinable-hook.exe", "python.exe",
})  # fmt: skip
_FAR: Final = 32  # ancestors


class Process(NamedTuple):
    """A process: its id, its start (only to be compared), and the name of its program."""

    pid: int
    started: str
    name: str


class _Facts(NamedTuple):
    process: Process
    parent: int
    ended: bool


def ancestors() -> Iterator[Process]:
    """What started this process, what started that, and so on, as far as that can be told."""
    facts = _facts(os.getpid())
    for _ in range(_FAR):
        if facts is None or facts.parent <= 1:
            return
        facts = _facts(facts.parent)
        if facts is not None:
            yield facts.process


def starter() -> Process | None:
    """The program that started this process, through a shell or not; None if that cannot be told."""
    return next((process for process in ancestors() if process.name.lower() not in _BETWEEN), None)


def lives(pid: int, started: str) -> bool:
    """Whether the process of this id that started then is still there; one that nobody has waited for is not."""
    facts = _facts(pid)
    return facts is not None and facts.process.started == started and not facts.ended


if sys.platform == "linux":

    def _facts(pid: int) -> _Facts | None:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                line = file.read()
        except OSError:
            return None
        # "<pid> (<name>) <state> <parent> …": the name may hold anything, also a parenthesis.
        head, _, rest = line.rpartition(b")")
        fields = rest.split()
        name = head.partition(b"(")[2].decode("utf-8", "replace")
        return _Facts(
            Process(pid, fields[19].decode(), name), parent=int(fields[1]), ended=fields[0] in (b"Z", b"X", b"x")
        )

else:

    def _facts(pid: int) -> _Facts | None:
        import psutil

        try:
            process = psutil.Process(pid)
            with process.oneshot():
                found = Process(pid, f"{process.create_time():.2f}", process.name())
                return _Facts(found, process.ppid(), ended=process.status() == psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return None
