"""Lets the N-th file-system call of an operation fail, and looks at what is left."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import GitRepo, Snapshot

HERE = Path(__file__).parent
SHARED = struct.Struct("6l4096s64s4096s")  # struct shared of shim.c
COUNT, KILL, ONCE, FROM_THEN_ON, CUT = range(5)
MODES = {
    "kill": (KILL, 0),
    "ENOSPC": (FROM_THEN_ON, errno.ENOSPC),
    "EIO": (ONCE, errno.EIO),
    "EROFS": (FROM_THEN_ON, errno.EROFS),
}
POWER = "power cut"
"""A kill that takes the file system with it; it has to be one of its own, and ext4."""
ID = "s1"


def compiler() -> str | None:
    """A C compiler, if there is one."""
    return shutil.which("gcc") or shutil.which("cc")


def build_shim(directory: Path) -> Path:
    """The shim as a library in ``directory``."""
    library = directory / "shim.so"
    gcc = compiler()
    assert gcc is not None
    subprocess.run(
        [gcc, "-O2", "-shared", "-fPIC", "-U_FORTIFY_SOURCE", "-o", library, HERE / "shim.c", "-ldl"], check=True
    )
    return library


@dataclass
class Done:
    """How a process ended: ``status`` is None when it hung."""

    status: int | None
    out: str
    err: str
    calls: int = 0
    struck: str = ""
    """The call that failed, and on what."""


@dataclass
class Ground:
    """A place with a user's repository and a store, that can be put back to how it was."""

    place: Path
    shim: Path
    kept: dict[str, Path] = field(default_factory=dict)
    undisturbed: dict[str, Snapshot] = field(default_factory=dict)
    """By operation: the files after it, when nothing disturbs it."""

    def __post_init__(self) -> None:
        self.live = self.place / "live"
        self.home = self.live / "home"
        self.repo = GitRepo(self.live / "work")
        self._fault_file = self.place / "fault"
        self._zygote: subprocess.Popen[str] | None = None

    # Processes

    def start(self) -> None:
        self._zygote = subprocess.Popen(
            [sys.executable, HERE / "zygote.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": str(self.shim)},
        )

    def stop(self) -> None:
        if self._zygote is not None:
            self._zygote.communicate()

    def run(
        self, *argv: str, code: str | None = None, fault: tuple[int, str] | None = None, cwd: Path | None = None
    ) -> Done:
        """Run a program of ours (or Python code); its ``fault[0]``-th call fails in the way ``fault[1]``.

        Number 0 only counts; without ``fault`` nothing is counted.
        """
        zygote = self._zygote
        assert zygote is not None
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        out, err = self.place / "out", self.place / "err"
        env = {**os.environ, "PINABLE_HOME": str(self.home), "PINABLE_CHECKPOINT__SETTLE": "1h"}
        env["PATH"] = f"{sysconfig.get_path('scripts')}:{env['PATH']}"
        if fault is not None:
            self._arm(*fault)
            env |= {"FAULT_FILE": str(self._fault_file), "LD_PRELOAD": str(self.shim)}
        request = {"argv": list(argv), "cwd": str(cwd or self.repo.path), "env": env, "out": str(out), "err": str(err)}
        request |= {"seconds": 60} | ({} if code is None else {"code": code})
        zygote.stdin.write(json.dumps(request) + "\n")
        zygote.stdin.flush()
        status = json.loads(zygote.stdout.readline())
        calls, struck = self._seen() if fault is not None else (0, "")
        return Done(status, out.read_text(errors="replace"), err.read_text(errors="replace"), calls, struck)

    def _arm(self, number: int, mode: str) -> None:
        kind, error = (MODES | {POWER: (CUT, 0)})[mode] if number else (COUNT, 0)
        root = os.fsencode(self.live)
        self._fault_file.write_bytes(SHARED.pack(0, number, kind, error, 0, 0, root, b"", b""))

    def _seen(self) -> tuple[int, str]:
        calls, *_, call, path = SHARED.unpack(self._fault_file.read_bytes())
        name = os.fsdecode(path.rstrip(b"\0")).replace(str(self.live), "…")
        return calls, f"{call.rstrip(bytes(1)).decode()} {name}".strip()

    # States

    def keep(self, name: str) -> None:
        """Remember how everything is now."""
        self.kept[name] = self.place / f"kept-{name}"
        _copy(self.live, self.kept[name])

    def put_back(self, name: str) -> None:
        """Make everything what it was."""
        for place in self.live.iterdir():
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        _copy(self.kept[name], self.live)

    # Looking

    def doc(self) -> dict[str, Any]:
        from gitsession import SessionStore

        return SessionStore(self.home).read(ID)

    def files(self) -> Snapshot:
        return self.repo.snapshot()

    def home_files(self) -> dict[str, bytes]:
        """The store's files that say something."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in sorted(self.home.rglob("*"))
            if path.is_file() and path.suffix not in {".lock", ".mutex"}
        }


def _copy(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", f"{source}/.", target], check=True)


@contextmanager
def ground(place: Path, shim: Path) -> Iterator[Ground]:
    """A ``Ground`` in ``place`` whose processes end with the block."""
    made = Ground(place, shim)
    made.live.mkdir(parents=True)
    made.home.mkdir(mode=0o700)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def points(total: int, share: tuple[int, int] | None = None) -> list[int]:
    """All calls from 1 to ``total``, or (``share`` = part, of) every ``of``-th, the ``part``-th of them first."""
    if share is None:
        return list(range(1, total + 1))
    part, of = share
    return list(range(1 + part % of, total + 1, of))
