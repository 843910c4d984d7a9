"""What went wrong in agents' hooks, which nobody sees while it does: ``$PINABLE_HOME/agent-hooks.log``, mode 0600.

One JSON object a line: ``at`` (UTC), ``agent``, ``event`` (the agent's name for it), ``problem`` (one line).  The
same problem again is not noted again; above 64 KB the older half goes.  No words of the person or the agent are in it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gitsession.clock import timestamp
from gitsession.store.files import open_private, write_all

_LIMIT: Final = 64 * 1024  # bytes
_LONGEST: Final = 500  # characters of a problem


def note(home: Path, agent: str, event: str, problem: str) -> None:
    """Add a problem; an ``OSError`` is nobody's trouble any more."""
    with suppress(OSError):
        before = read(home)
        entry = {"agent": agent[:100], "event": event[:100], "problem": " ".join(problem.split())[:_LONGEST]}
        if before and {**before[-1], "at": None} == {**entry, "at": None}:
            return
        line = json.dumps({"at": timestamp(), **entry}).encode() + b"\n"
        path = place(home)
        keep = b""
        if path.exists() and path.stat().st_size + len(line) > _LIMIT:
            keep = path.read_bytes()[-_LIMIT // 2 :].partition(b"\n")[2]
            path.unlink()
        descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            write_all(descriptor, keep + line)
        finally:
            os.close(descriptor)


def read(home: Path) -> list[dict[str, Any]]:
    """The problems there are, oldest first; what is not an entry is passed over."""
    try:
        with place(home).open("rb") as file:
            lines = file.read(2 * _LIMIT).splitlines()
    except OSError:
        return []
    entries = []
    for line in lines:
        with suppress(ValueError, RecursionError):
            entry = json.loads(line)
            if isinstance(entry, dict) and {"at", "agent", "event", "problem"} <= entry.keys():
                entries.append(entry)
    return entries


def place(home: Path) -> Path:
    """The file."""
    return home / "agent-hooks.log"
