"""Runs ``mounts.py`` in a mount namespace, so that nothing stays mounted whatever happens to the test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from faults.harness import compiler


def _no_mounts() -> str | None:
    if compiler() is None:
        return "no C compiler to build the shim with"
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "mounting needs root, and unshare"
    can = subprocess.run(["unshare", "--mount", "mount", "--make-rprivate", "/"], capture_output=True)
    return None if can.returncode == 0 else "mounting is not allowed here"


NO_MOUNTS = _no_mounts()
"""Why these tests cannot run here."""


def in_a_space_of_its_own(directory: Path, mode: str, share: int) -> None:
    """Try ``share`` points of each operation (0: all); all must be survived."""
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, Path(__file__).with_name("mounts.py"), directory, mode, str(share)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    survived, _, tried = done.stdout.split()
    assert survived == tried
    assert int(tried) > 0
