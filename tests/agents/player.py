"""A program that plays what an agent's real one said once, for tests that need its words and not itself.

It takes the place of the agent's on ``PATH``.  Called with ``--version`` it prints one; called otherwise it notes how
(``Player.calls``), prints the recorded lines, and ends as it is told.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STREAMS = Path(__file__).resolve().parent.parent / "data" / "streams"

_SCRIPT = """\
#!{python}
import json, os, signal, sys, time
plan = json.load(open({plan!r}))
if "--version" in sys.argv:
    print(plan["version"])
    sys.exit(0)
with open({calls!r}, "a") as log:
    given = sys.stdin.buffer.read().decode()
    log.write(json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ), "given": given, "cwd": os.getcwd()}}) + "\\n")
number = sum(1 for _ in open({calls!r})) - 1
act = plan["acts"][min(number, len(plan["acts"]) - 1)]
if act["stubborn"]:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in act["lines"]:
    for path, text in (line.get("write") or {{}}).items() if isinstance(line, dict) else ():
        open(path, "w").write(text)
    if isinstance(line, str):
        sys.stdout.write(line + "\\n")
        sys.stdout.flush()
sys.stderr.write(act["stderr"])
sys.stderr.flush()
while act["stays"]:
    time.sleep(0.05)
if act["status"] < 0:
    os.kill(os.getpid(), -act["status"])
sys.exit(act["status"])
"""


class Player:
    """The program ``name`` in the directory ``place``, which has to be put on ``PATH``."""

    def __init__(self, place: Path, name: str, version: str) -> None:
        self._plan = place / f"{name}.plan"
        self._calls = place / f"{name}.calls"
        self._version = version
        self._acts: list[dict[str, Any]] = []
        self.program = place / name
        text = _SCRIPT.format(python=sys.executable, plan=str(self._plan), calls=str(self._calls))
        self.program.write_text(text)
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)

    def act(
        self,
        lines: Sequence[str | dict[str, Any]] | Path,
        *,
        status: int = 0,
        stderr: str = "",
        stays: bool = False,
        stubborn: bool = False,
    ) -> Player:
        """What it does the next time it is called; the last act is repeated.

        ``lines`` are printed; ``{"write": {path: text}}`` among them writes files.  A negative ``status`` is the signal
        it dies of; with ``stays`` it does not end by itself, ``stubborn`` not even when asked to.
        """
        if isinstance(lines, Path):
            lines = lines.read_text().splitlines()
        self._acts.append(
            {"lines": list(lines), "status": status, "stderr": stderr, "stays": stays or stubborn, "stubborn": stubborn}
        )
        self._plan.write_text(json.dumps({"version": self._version, "acts": self._acts}))
        return self

    @property
    def calls(self) -> list[dict[str, Any]]:
        """``argv``, ``env``, ``given`` (standard input) and ``cwd`` of each call so far."""
        return [json.loads(line) for line in self._calls.read_text().splitlines()] if self._calls.exists() else []


def path_with(place: Path) -> str:
    """``PATH`` with ``place`` before everything else."""
    return os.pathsep.join([str(place), os.environ["PATH"]])
