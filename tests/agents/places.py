"""A place for a real agent to work in under ``codeagent-wrapper``: a repository, a home, a server with a script."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from agents import installed
from backends.model_server import ModelServer, Step, Wire, wait_for
from support import GitRepo, program

from gitsession.backends.processes import MARK
from gitsession.store.sessions import SessionStore

KEY = "sk-test-0123456789abcdef"
TASK = "Improve the adder, please."
WAITS = "sleep 600; echo late > late.txt"
"""A command that does not come to an end: see ``Place.wait_for_its_command``."""
PATIENCE = 240  # seconds; a run takes about five, on a machine that has nothing else to do


class Place:
    """``settle`` makes the agent's home for a server's address, and gives the variables the agent is to see."""

    def __init__(
        self, backend: str, wire: Wire, repo: GitRepo, home: Path, settle: Callable[[Path, str], dict[str, str]]
    ) -> None:
        self.backend = backend
        self.repo = repo
        self.home = home
        self.store = home / ".pinable-agents"
        self.more: dict[str, str] = {}
        self.address = ""
        """Where the agent is to look for its model, if not at the server."""
        self._wire = wire
        self._settle = settle
        self.server: ModelServer | None = None
        self._started: list[subprocess.Popen[str]] = []
        (home / "tmp").mkdir()

    def serve(self, script: Sequence[Step] | Mapping[str, Sequence[Step]]) -> ModelServer:
        return self.serve_by(ModelServer(script, self._wire))

    def serve_by(self, server: ModelServer) -> ModelServer:
        """Let this server take the place of the one before."""
        if self.server is not None:
            self.server.__exit__()
        self.server = server
        server.saved = self.checkpoints
        return server.__enter__()

    def close(self) -> None:
        """Processes of the session that are left are ended, and counted as a mistake."""
        if self.server is not None:
            self.server.__exit__()
        for started in self._started:
            if started.poll() is None:
                started.kill()
                started.communicate()
        left = self.processes()
        for process in left:
            process.kill()
        assert not left, "no process is left behind"

    def path(self, name: str) -> str:
        return str(self.repo.path / name)

    def environment(self) -> dict[str, str]:
        address = self.address
        if not address:
            assert self.server is not None
            address = self.server.url
        return installed.environment(
            self.home,
            GIT_CONFIG_GLOBAL=os.environ["GIT_CONFIG_GLOBAL"],
            PINABLE_CHECKPOINT__SETTLE="1h",
            PINABLE_CHECKPOINT__INTERVAL="1h",
            PINABLE_STOP__GRACE="60s",
            TMPDIR=str(self.home / "tmp"),
            PWD="/",
            **self._settle(self.home, address),
            **self.more,
        )

    def begin(self, *flags: str, task: str = TASK, session: str = "one") -> subprocess.CompletedProcess[str]:
        return self.run("--backend", self.backend, "--task", task, "--session-id", session, *flags)

    def go_on(self, *flags: str) -> subprocess.CompletedProcess[str]:
        """From a directory that is not the session's."""
        return self.run("--session-id", "one", *flags, cwd=self.home)

    def run(self, *flags: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program("codeagent-wrapper"), *flags],
            cwd=cwd or self.repo.path,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def start(self, *flags: str) -> subprocess.Popen[str]:
        begin = ("--backend", self.backend, "--task", TASK, "--session-id", "one")
        started = subprocess.Popen(
            [program("codeagent-wrapper"), *begin, *flags],
            cwd=self.repo.path,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(started)
        return started

    def read(self, session: str = "one") -> dict[str, Any]:
        return SessionStore(self.store).read(session)

    def checkpoints(self) -> int:
        """How many the session ``one`` has."""
        return len(self.read()["checkpoints"])

    def told(self, request: int = -1) -> str:
        """A request to the model, as JSON."""
        assert self.server is not None
        return json.dumps(self.server.requests[request], ensure_ascii=False)

    def processes(self, session: str = "one") -> list[psutil.Process]:
        """Living processes of a session, other than zombies."""
        found = []
        for process in psutil.process_iter():
            try:
                environment = process.environ()
                zombie = process.status() == psutil.STATUS_ZOMBIE
            except (psutil.Error, OSError):
                continue
            if not zombie and (environment.get(MARK), environment.get("PINABLE_HOME")) == (session, str(self.store)):
                found.append(process)
        return found

    def wait_for_its_command(self) -> None:
        """Until ``WAITS`` runs, to its ``sleep``: not while the shell only begins it.

        The edit before it has its checkpoint then, which the agent does not wait for.
        """
        wait_for(lambda: any(named(process, "sleep") for process in self.processes()), PATIENCE)
        wait_for(self.checkpoints, PATIENCE)

    def assert_private(self) -> None:
        """The key is nowhere in what we keep, and nobody else can read any of it."""
        kept = [self.store, *self.store.rglob("*")]
        assert not any(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) for path in kept)
        assert not any(KEY in path.read_text("utf-8", "replace") for path in kept if path.is_file())
        assert KEY.encode() not in self.repo.git_bytes("cat-file", "--batch-all-objects", "--batch")

    def assert_nobody_else_sees(self, listing: str, flag: str) -> None:
        """In a list of processes (``ps -eo args``) the agent's has neither the key nor the task."""
        agents = [line for line in listing.splitlines() if flag in line and "codeagent-wrapper" not in line]
        assert agents
        assert KEY not in listing
        assert not any(TASK in line for line in agents)


def named(process: psutil.Process, name: str) -> bool:
    """A process that has ended meanwhile has no name."""
    try:
        return process.name() == name
    except psutil.Error:
        return False
