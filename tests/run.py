"""Run the tests as a user's machine would: on the built wheel, in a new virtual environment.

``python3 tests/run.py [PYTEST ARGUMENTS]`` needs Python 3.11 or newer and a package index, and leaves nothing behind.
Without ``-n`` it uses all processors.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="gitsession-tests-") as scratch:
        environment = Path(scratch, "venv")
        python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", scratch, ROOT], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        subprocess.run([*pip, "install", f"{wheel}[test]"], check=True)
        if not any(argument.startswith(("-n", "--numprocesses")) for argument in arguments):
            arguments = ["-n", "auto", "--dist", "worksteal", *arguments]
        # -P keeps the checkout off the module path: the wheel is what gets tested.
        return subprocess.run([python, "-P", "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
