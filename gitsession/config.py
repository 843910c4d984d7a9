"""Settings: built-in defaults < ``$PINABLE_HOME/config.toml`` < environment < flags.

A key ``table.name`` is ``[table] name = …`` in the file and ``PINABLE_TABLE__NAME`` in the environment.
Durations are written ``90s``, ``10m``, ``1h30m``, ``2d`` (a bare number is seconds); sizes ``50MB``,
``512KB``, ``1GB`` with 1 KB = 1024 bytes (a bare number is bytes).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gitsession.errors import BadValue

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?)I?B?", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def duration(text: str) -> float:
    """Seconds of ``10m``, ``90s``, ``1h30m``, ``2d`` or ``45``; ``BadValue`` otherwise, and for zero."""
    spelled = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", spelled):
        seconds = float(spelled)
    else:
        match = _DURATION.fullmatch(spelled)
        if not spelled or match is None:
            raise BadValue(f"{text!r} is not a duration", hint="write it like 90s, 10m, 1h30m or 2d")
        seconds = sum(float(part) * unit for part, unit in zip(match.groups("0"), _UNITS.values(), strict=True))
    if seconds <= 0:
        raise BadValue(f"{text!r} is no time at all", hint="write a duration like 90s, 10m, 1h30m or 2d")
    return seconds


def size(text: str) -> int:
    """Bytes of ``50MB``, ``512KB``, ``1GB`` or ``4096``; ``BadValue`` otherwise."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise BadValue(f"{text!r} is not a size", hint="write it like 512KB, 50MB or 1GB")
    return int(float(match.group(1)) * _SIZE_UNITS[match.group(2).upper()])


@dataclass(frozen=True)
class Settings:
    """All settings with their defaults; times in seconds, sizes in bytes."""

    checkpoint_interval: float = 120.0
    """Longest time between two looks at the working tree during a run."""
    checkpoint_settle: float = 2.0
    """How long files must be quiet after a burst of changes before they are checkpointed."""
    capture_max_file_size: int = 50 * 1024**2
    """Untracked files above this are left out of checkpoints, and said so."""
    stop_grace: float = 5.0
    """How long an interrupted agent may take before it is terminated, then killed."""


_READERS: Mapping[str, Callable[[str], Any]] = {
    "checkpoint_interval": duration,
    "checkpoint_settle": duration,
    "capture_max_file_size": size,
    "stop_grace": duration,
}
_TABLES = ("checkpoint", "capture", "stop")


def key_of(field: str) -> str:
    """``checkpoint_interval`` -> ``checkpoint.interval``."""
    return field.replace("_", ".", 1)


def load(home: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force; ``BadValue`` names the key, its source and the value that cannot be read."""
    settings = Settings()
    filed = _from_file(home / "config.toml")
    for field in fields(Settings):
        variable = "PINABLE_" + field.name.upper().replace("_", "__", 1)
        if variable in environ:
            value, source = environ[variable], f"${variable}"
        elif field.name in filed:
            value, source = str(filed[field.name]), str(home / "config.toml")
        else:
            continue
        try:
            settings = replace(settings, **{field.name: _READERS[field.name](value)})
        except BadValue as error:
            raise BadValue(f"{key_of(field.name)} in {source}: {error}", hint=error.hint) from None
    return settings


def _from_file(path: Path) -> dict[str, Any]:
    """The file's values by field name; tables and keys that are not ours yet are left alone."""
    if not path.exists():
        return {}
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadValue(f"cannot read {path}: {error}", hint="repair or remove the file") from None
    return {
        f"{table}_{name}": value
        for table in _TABLES
        if isinstance(document.get(table), dict)
        for name, value in document[table].items()
    }
