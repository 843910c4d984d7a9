"""Which version of an agent's program is installed.

Asking the program takes up to two seconds (it is a large script to load); where it was installed by npm, the package
beside it says the same at once.
"""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

TIMEOUT: Final = 10.0  # seconds; the first start of some takes a few
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?")
_LEVELS: Final = 3


def version_of(program: str) -> str | None:
    """The version of the program at this path, ``None`` if it does not say."""
    return _packaged(program) or _asked(program)


def _packaged(program: str) -> str | None:
    """What the npm package says that has this program among its own."""
    real = Path(program).resolve()
    for directory in list(real.parents)[:_LEVELS]:
        with suppress(OSError, ValueError, AttributeError):
            package = json.loads((directory / "package.json").read_bytes())
            bins = package.get("bin") or {}
            named = [bins] if isinstance(bins, str) else list(bins.values())
            if any((directory / name).resolve() == real for name in named):
                return str(package["version"]) if _VERSION.fullmatch(str(package.get("version"))) else None
    return None


def _asked(program: str) -> str | None:
    try:
        done = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stdout.decode("utf-8", "replace"))
    return found[0] if found else None
