"""Which agents have a shell command open: for git's hooks, which may run in one.

``.git/pinable/open/<session>`` (in the common directory) is there from the moment at which an agent, whose hooks feed
the session, tells that it wants to run a command to the one at which it tells that it did, or that the turn is over.
It holds the agent's process, id and start (``gitsession.living``).  This module is loaded by git hooks: it imports
nothing that takes time, unless a command is open.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitsession.living import Process


def note(common_dir: str | os.PathLike[str], session: str, agent: Process) -> None:
    """Note that the agent of a session has a command open; an ``OSError`` if that fails."""
    os.makedirs(_place(common_dir), 0o700, exist_ok=True)
    with open(_place(common_dir, session), "w", encoding="ascii") as file:
        file.write(f"{agent.pid} {agent.started}\n")


def forget(common_dir: str | os.PathLike[str], session: str) -> None:
    """Note that it has none."""
    try:
        os.unlink(_place(common_dir, session))
    except OSError:
        pass


def around(common_dir: str | os.PathLike[str]) -> str | None:
    """The session in whose agent's command this process runs; None if there is none, or more than one may be it."""
    try:
        sessions = os.listdir(_place(common_dir))
    except OSError:
        return None
    if not sessions:
        return None
    from gitsession import living

    above = {(process.pid, process.started) for process in living.ancestors()}
    found = []
    for session in sessions:
        agent = _read(_place(common_dir, session))
        if agent in above:
            found.append(session)
        elif agent is None or not living.lives(*agent):  # it was killed in the middle
            forget(common_dir, session)
    return found[0] if len(found) == 1 else None


def _read(path: str) -> tuple[int, str] | None:
    try:
        with open(path, encoding="ascii") as file:
            pid, started = file.read().split()
            return int(pid), started
    except (OSError, ValueError):
        return None


def _place(common_dir: str | os.PathLike[str], *session: str) -> str:
    return os.path.join(common_dir, "pinable", "open", *session)
