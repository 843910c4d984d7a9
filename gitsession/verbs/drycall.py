"""Calling a hook without effect, to prove that it runs: with the variable set it only answers."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitsession.git.program import scrubbed_environment
from gitsession.githook import CHECK

_PATIENCE: Final = 20  # seconds


@dataclass(frozen=True)
class Reply:
    """What it printed; ``failure`` says why it could not even be started, or took too long."""

    output: str
    failure: str | None = None

    @property
    def last_line(self) -> str:
        return next(iter(reversed(self.output.strip().splitlines())), "")


def call(command: Sequence[str], directory: Path) -> Reply:
    """Run a hook dry."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=scrubbed_environment() | {CHECK: "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Reply("", f"it cannot be run: {error}")
    return Reply((done.stderr + done.stdout).decode("utf-8", "replace"))
