"""Processes that belong to a session, found by the mark in their environment and by parentage.

A backend that starts programs gives each the session's id in ``PINABLE_SESSION_ID``, which their children inherit.
Ids are unique only within one ``PINABLE_HOME``, so that is given, too, and has to be the same place.  Never counted:
this process, its ancestors (a session may be resumed from inside itself), and other users' processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gitsession.errors import StoreError
from gitsession.home import VARIABLE, home_of

if TYPE_CHECKING:
    from psutil import Process

MARK: Final = "PINABLE_SESSION_ID"
_ROUNDS: Final = 3
_AFTER_KILL: Final = 2.0
_EXEC: Final = 0.5  # seconds
_LOOKS: Final = 5  # at a process without variables that has arguments: it may have become what it is meanwhile


@dataclass(frozen=True)
class ProcessFacts:
    """A process that was seen: its id, program name and start (Unix seconds, as the kernel counts)."""

    pid: int
    name: str
    started: float


def mark(session_id: str) -> dict[str, str]:
    """The variables by which a process is known to be the session's."""
    return {MARK: session_id, VARIABLE: home_of()}


def find_survivors(session_id: str) -> list[ProcessFacts]:
    """Living processes of the session that this process did not start: what a run that died left behind."""
    return marked(session_id, spared=_own())


def all_survivors() -> dict[str, list[ProcessFacts]]:
    """The same of every session, by id."""
    found: dict[str, list[Process]] = {}
    for session_id, process in _all_marked(spared=_own()):
        found.setdefault(session_id, []).append(process)
    return {session_id: facts for session_id, processes in found.items() if (facts := _facts(_alive(processes)))}


def marked(session_id: str, *, spared: Collection[int] = ()) -> list[ProcessFacts]:
    """Living processes of the session, whoever started them."""
    return _facts(_marked(session_id, spared))


def end_survivors(session_id: str, *, wait: float = 3.0) -> list[ProcessFacts]:
    """End what ``find_survivors`` finds, and its children; the processes that were met.

    Each is terminated, and killed if it is still there after ``wait`` seconds.  Ask ``find_survivors`` afterwards
    to know that none withstood.
    """
    return finish(ending(session_id, spared=_own(), wait=wait))


def finish(work: Generator[None, None, list[ProcessFacts]]) -> list[ProcessFacts]:
    """Run ``ending`` to its end."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            met: list[ProcessFacts] = end.value
            return met
        time.sleep(0.02)


def ending(
    session_id: str, known: Iterable[Process] = (), *, spared: Collection[int] = (), wait: float = 3.0
) -> Generator[None, None, list[ProcessFacts]]:
    """End the session's processes, and those ``known`` to be of it, in small steps that never block.

    Processes can start others while they are being ended, so it looks again until none is left, a few times.
    """
    import psutil

    met: set[ProcessFacts] = set()
    known = list(known)
    for _ in range(_ROUNDS):
        found = set(_marked(session_id, spared)) | set(known)
        targets = _alive(found | {child for process in found for child in descendants_of(process)})
        # A shell whose command is ended first would go on with its next one.
        targets.sort(key=_age)
        if not targets:
            break
        met.update(_facts(targets))
        for send, patience in ((psutil.Process.terminate, wait), (psutil.Process.kill, _AFTER_KILL)):
            for process in targets:
                # A number that was given to another process since is noticed by psutil, and left alone.
                with suppress(psutil.Error):
                    send(process)
            deadline = time.monotonic() + patience
            while (targets := _alive(targets)) and time.monotonic() < deadline:
                yield
    return sorted(met, key=lambda process: (process.started, process.pid))


def descendants_of(parent: Process | int) -> list[Process]:
    """The living children of a process, theirs, and so on."""
    import psutil

    try:
        process = psutil.Process(parent) if isinstance(parent, int) else parent
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _marked(session_id: str, spared: Collection[int] = ()) -> list[Process]:
    return _alive(process for found, process in _all_marked(spared) if found == session_id)


def _all_marked(spared: Collection[int] = ()) -> Iterator[tuple[str, Process]]:
    """Every process of a session of this home, with the session's id."""
    import psutil

    own, home = psutil.Process(), os.path.realpath(home_of())
    never = {own.pid, *(process.pid for process in own.parents()), *spared}
    for process in psutil.process_iter():
        if process.pid in never:
            continue
        with suppress(psutil.Error, OSError, StoreError):  # also of a process that has another home, and no right one
            environ = _environment(process)
            if MARK in environ and process.username() == own.username() and os.path.realpath(home_of(environ)) == home:
                yield environ[MARK], process


def _environment(process: Process) -> dict[str, str]:
    """Its variables.

    A process that is just becoming another program (exec) shows none for a moment, and no arguments either.  Threads of
    Linux's kernel never have any: they have no file that they run.
    """
    until = time.monotonic() + _EXEC
    looks = 0
    while not (environ := process.environ()) and looks < _LOOKS and time.monotonic() < until and process.exe():
        looks += bool(process.cmdline())
        time.sleep(0.001)
    return environ


def _own() -> set[int]:
    return {process.pid for process in descendants_of(os.getpid())}


def _alive(processes: Iterable[Process]) -> list[Process]:
    """Those that still run; a dead process that nobody has collected does not."""
    import psutil

    alive = []
    for process in processes:
        with suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


def _age(process: Process) -> tuple[float, int]:
    """What sorts parents before their children."""
    import psutil

    try:
        return process.create_time(), process.pid
    except psutil.Error:
        return 0.0, process.pid


def _facts(processes: Iterable[Process]) -> list[ProcessFacts]:
    import psutil

    facts = []
    for process in processes:
        with suppress(psutil.Error):
            facts.append(ProcessFacts(process.pid, process.name(), process.create_time()))
    return facts
