"""The agents' real programs, at the versions the tests were written with.

They are looked for in the directory that ``$GITSESSION_AGENTS`` names, else in a cache of their own, into which

    python tests/agents/installed.py

installs them from the npm registry, once.  Where one is not there the tests that need it are skipped, and say so; what
the programs said is recorded (``tests/data/streams``) and replayed in every run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

PINNED = {
    "claude-code": ("claude", "@anthropic-ai/claude-code", "2.1.197"),
    "codex": ("codex", "@openai/codex", "0.171.0"),
    "gemini": ("gemini", "@google/gemini-cli", "0.61.0"),
    "opencode": ("opencode", "opencode-ai", "1.18.33"),
}
"""Of each backend: the program, its npm package, the version."""
INSTALL_TIMEOUT = 600  # seconds
TEST_TIMEOUT = 900  # seconds; a test takes half a minute at most, on a machine that has nothing else to do
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gitsession-tests" / "agents"
# conftest imports this before the tests are sealed from the machine, and leaves the word for their other processes.
PLACE = Path(os.environ.get("GITSESSION_AGENTS") or _CACHE / "node_modules" / ".bin")


def program(backend: str) -> Path | None:
    """The real program of a backend, ``None`` if it is not installed."""
    found = PLACE / PINNED[backend][0]
    return found if found.exists() else None


def needed(*backends: str) -> list[pytest.MarkDecorator]:
    """The marks of tests that run the real programs of these backends."""
    import pytest  # not there yet where the programs are only installed

    missing = [backend for backend in backends if program(backend) is None]
    reason = f"not installed here: {', '.join(missing)} (python tests/agents/installed.py)"
    return [
        pytest.mark.agents,
        pytest.mark.timeout(TEST_TIMEOUT),
        pytest.mark.skipif(bool(missing), reason=reason),
    ]


def environment(home: Path, **more: str) -> dict[str, str]:
    """All that a real agent gets to see: a home of its own, a path to the programs, and what ``more`` says."""
    node = shutil.which("node")
    path = [str(PLACE), *([str(Path(node).parent)] if node else []), "/usr/local/bin", "/usr/bin", "/bin"]
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join(path),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "PINABLE_HOME": str(home / ".pinable-agents"),
        **more,
    }


def install() -> int:
    """Bring the pinned versions into the cache; an exit status."""
    if all(program(backend) for backend in PINNED):
        return 0
    if shutil.which("npm") is None:
        print("agents not installed: there is no npm here", file=sys.stderr)
        return 0
    _CACHE.mkdir(parents=True, exist_ok=True)
    packages = [f"{package}@{version}" for _, package, version in PINNED.values()]
    quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
    try:
        command = ["npm", "install", *quiet, "--prefix", str(_CACHE), *packages]
        subprocess.run(command, timeout=INSTALL_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"agents not installed: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(install())
