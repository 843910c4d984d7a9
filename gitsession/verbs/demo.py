"""The worked example, for real: a repository, a session that loses its network, and the way back.

Everything happens in one directory with a ``PINABLE_HOME`` of its own, through the same programs a user types; only the
network's failure is staged.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitsession import demo as package_data
from gitsession.errors import GitSessionError, UsageError
from gitsession.store.sessions import SessionStore

TASK: Final = (
    "Move the database access of the user, order and payment modules from direct SQL to the Repository pattern"
)
FILES: Final = ("src/user/db.go", "src/order/db.go", "src/payment/db.go")
LOSES_NETWORK_IN: Final = FILES[1]

_PAUSED: Final = 3
_ENTRIES: Final = {"codeagent-wrapper": "codeagent_wrapper", "pinable-agents": "pinable_agents"}


@dataclass(frozen=True)
class Note:
    """A sentence of the storyteller's."""

    text: str


@dataclass(frozen=True)
class Command:
    """What is about to be run, as a person would type it in the repository."""

    text: str


@dataclass(frozen=True)
class Line:
    """One line that the command printed, without its newline."""

    text: str


Shown = Note | Command | Line


def demo(keep: Path | None = None) -> Iterator[Shown]:
    """Play the example, in ``keep`` (new or empty) or in a temporary directory; it is left there to look at.

    ``UsageError`` when ``keep`` has something in it, ``GitSessionError`` when a command does not end as it should.
    """
    stage = _Stage(_empty_directory(keep))
    yield Note("A small repository: three Go modules, 15 functions that talk SQL to the database directly.")
    yield from stage.make_repository()

    yield Note("An agent (here a script) is to refactor them file by file. In the second file it loses its network.")
    agent = str(Path(package_data.__file__).with_name("agent.py"))
    command = [sys.executable, agent, "--lose-network-in", LOSES_NETWORK_IN]
    yield from stage.run(
        ["codeagent-wrapper", "--backend", "command", "--task", TASK, "--files", ",".join(FILES), "--", *command],
        expected=_PAUSED,
    )
    yield Note("The session is paused, its work is kept. What can be resumed, and where does it stand?")
    yield from stage.run(["pinable-agents", "session", "list", "--status", "paused"])
    yield from stage.run(["pinable-agents", "session", "inspect", "latest"])

    yield Note("The network is back. The agent goes on with the second file; the first is not done again.")
    yield from stage.run(["codeagent-wrapper", "--session-id", "latest"])

    yield Note("Every checkpoint is a record and a commit on a hidden ref; branch, index and HEAD are as they were.")
    yield from stage.run(["pinable-agents", "session", "checkpoints", "latest"])
    ref = "refs/pinable/" + SessionStore(stage.home).resolve("latest")
    yield from stage.run(["git", "log", "--first-parent", "--format=%h %s", ref])
    yield from stage.run(["git", "diff", "--stat", "HEAD", ref])
    yield from stage.run(["git", "diff", "HEAD", ref, "--", FILES[0]])

    yield Note(f"The repository is in {stage.repository}")
    yield Note(f"Its sessions are in {stage.home}; to look at them: export PINABLE_HOME={shlex.quote(str(stage.home))}")


class _Stage:
    """One directory with the example's repository and its ``PINABLE_HOME``."""

    def __init__(self, directory: Path) -> None:
        self.repository = directory / "shop"
        self.home = directory / "pinable-home"
        # Nothing of the user's git configuration (signing, hooks, templates) belongs to the example.
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PINABLE_"))
        } | {
            "PINABLE_HOME": str(self.home),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PAGER": "cat",
            "PYTHONUTF8": "1",
        }

    def make_repository(self) -> Iterator[Shown]:
        """The user's repository, with one commit of theirs."""
        shutil.copytree(Path(package_data.__file__).with_name("shop"), self.repository)
        user = ["-c", "user.name=Demo", "-c", "user.email=demo@localhost"]
        for arguments in (["init", "-q", "-b", "main"], ["add", "."], [*user, "commit", "-q", "-m", "A small shop"]):
            self._finish(["git", *arguments], expected=0)
        yield from self.run(["git", "log", "--oneline", "--stat"])

    def run(self, arguments: Sequence[str], expected: int = 0) -> Iterator[Shown]:
        """Run one command in the repository and show what it prints, line by line."""
        yield Command(shlex.join(arguments))
        with subprocess.Popen(
            _program(arguments),
            cwd=self.repository,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as process:
            for line in process.stdout or ():
                yield Line(line.rstrip("\n"))
        _check(arguments, process.returncode, expected, self.repository)

    def _finish(self, arguments: Sequence[str], expected: int) -> None:
        """Run a command that has nothing to show."""
        done = subprocess.run(arguments, cwd=self.repository, env=self._environment, check=False)
        _check(arguments, done.returncode, expected, self.repository)


def _empty_directory(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="pinable-demo-")).resolve()
    keep = keep.absolute()
    if keep.exists() and not (keep.is_dir() and not any(keep.iterdir())):
        raise UsageError(f"{keep} is not an empty directory", hint="name a directory that is new or empty")
    keep.mkdir(parents=True, exist_ok=True)
    return keep.resolve()


def _program(arguments: Sequence[str]) -> list[str]:
    """Our own programs run in this interpreter's environment, whatever the PATH says."""
    entry = _ENTRIES.get(arguments[0])
    if entry is None:
        return list(arguments)
    start = f"import sys; from gitsession.cli.boundary import {entry}; sys.exit({entry}())"
    return [sys.executable, "-P", "-c", start, *arguments[1:]]


def _check(arguments: Sequence[str], status: int, expected: int, where: Path) -> None:
    if status != expected:
        raise GitSessionError(
            f"the demo went wrong: {arguments[0]} ended with status {status}, not {expected}",
            hint=f"the repository is in {where}",
        )
