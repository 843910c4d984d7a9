"""What an agent's program says, brought into one short line for a person, and into what can be relied upon.

An agent's words are data of another program's, in versions that are not known yet: a field may be missing, or be
something else than it was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gitsession.backends.base import FailureKind
from gitsession.secrets import without_secrets

UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_RETRIED: Final = (408, 409)  # of the 4xx, which else say that the request itself is wrong
_WIDTH: Final = 100
_REASON: Final = 300
_ABOUT: Final = ("description", "command", "pattern", "query", "url", "name")
_PATHS: Final = ("filePath", "file_path", "absolute_path", "notebook_path", "dir_path", "path")


def table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def number(value: Any) -> int:
    """A count; nothing else is one."""
    return value if type(value) is int and value > 0 else 0


def amount(value: Any) -> float | None:
    """Money: a finite number of at least 0."""
    try:
        money = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:
        return None
    return money if math.isfinite(money) and money >= 0 else None


def first_line(words: str) -> str:
    return next((line.strip() for line in words.splitlines() if line.strip()), "")


def kind_of(status: Any) -> FailureKind | None:
    """What an API's HTTP status means for who asked; ``None`` if it is no status."""
    if type(status) is not int or status < 400:
        return None
    if status == 429:
        return "limit"
    return "refused" if status < 500 and status not in _RETRIED else "network"


def what(given: Mapping[str, Any], worktree: Path) -> str:
    """What a tool call with these arguments is about: a file, or what a command is for; never what is written."""
    path = next((text(given[key]) for key in _PATHS if text(given.get(key))), None)
    if path is not None:
        inside = Path(path).is_absolute() and Path(path).is_relative_to(worktree)
        return short(str(Path(path).relative_to(worktree)) if inside else path)
    about = next((text(given[key]) for key in _ABOUT if text(given.get(key)).strip()), "")
    return short(without_secrets(first_line(about)))


def short(words: str) -> str:
    return _cut(words, _WIDTH)


def reason(words: str) -> str:
    return _cut(words, _REASON)


def _cut(words: str, width: int) -> str:
    line = " ".join(words.split())
    return line if len(line) <= width else line[:width] + "…"
