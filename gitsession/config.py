"""Settings: built-in defaults < ``$PINABLE_HOME/config.toml`` < the repository < environment < flags.

A key ``table.name`` is ``[table] name = …`` in the file and ``PINABLE_TABLE__NAME`` in the environment.  A repository
says in ``.pinable.toml``, at the top of the working tree, what is harmless (``HARMLESS``): whoever wrote it is not the
person who works in it, so nothing there may run a program or move data.
Durations are written ``90s``, ``10m``, ``1h30m``, ``2d`` (a bare number is seconds); sizes ``50MB``,
``512KB``, ``1GB`` with 1 KB = 1024 bytes (a bare number is bytes).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gitsession.errors import BadValue

WORKFLOWS = ("do",)
REPOSITORY_FILE = ".pinable.toml"
HARMLESS = ("capture_max_file_size", "capture_exclude", "workflow")
_LARGEST_FILE = 1 << 20  # bytes of a repository's file: whoever wrote it is not to be trusted
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


def count(text: str) -> int:
    """A whole number, 0 or more; ``BadValue`` otherwise."""
    if not re.fullmatch(r"\d{1,6}", text.strip()):
        raise BadValue(f"{text!r} is not a number", hint="write it like 3")
    return int(text)


def switch(text: str) -> bool:
    """``true`` or ``false``; ``BadValue`` otherwise."""
    spelled = text.strip().lower()
    if spelled not in ("true", "false"):
        raise BadValue(f"{text!r} is neither true nor false", hint="write it like true")
    return spelled == "true"


def patterns(text: str) -> tuple[str, ...]:
    """Ignore patterns, one a line or between commas; ``BadValue`` for one that would take an exclusion back."""
    found = tuple(part.strip() for part in re.split(r"[,\n]", text) if part.strip())
    for pattern in found:
        if pattern.startswith("!") or "\0" in pattern:
            raise BadValue(f"{pattern!r} does not exclude anything", hint="write them like build/, *.log")
    return found


def workflow(text: str) -> str:
    """The name of a workflow; ``BadValue`` otherwise."""
    if text not in WORKFLOWS:
        raise BadValue(f"there is no workflow {text!r}", hint="workflows: " + ", ".join(WORKFLOWS))
    return text


@dataclass(frozen=True)
class Settings:
    """All settings with their defaults; times in seconds, sizes in bytes."""

    checkpoint_interval: float = 120.0
    """Longest time between two looks at the working tree during a run."""
    checkpoint_settle: float = 2.0
    """How long files must be quiet after a burst of changes before they are checkpointed."""
    capture_max_file_size: int = 50 * 1024**2
    """Untracked files above this are left out of checkpoints, and said so."""
    capture_exclude: tuple[str, ...] = ()
    """Untracked files that are left out like ignored ones: patterns as in ``.gitignore``."""
    stop_grace: float = 5.0
    """How long an interrupted agent may take before it is terminated, then killed."""
    claude_timeout: float = 30.0
    """How long the Messages API may give no sign of life before a request counts as lost."""
    claude_max_retries: int = 3
    """How often a request that failed for the moment is made again."""
    session_auto_cleanup_days: int = 30
    """Days after which a completed session goes to the trash by itself; 0: never."""
    session_trash_days: int = 14
    """Days after which what is in the trash is removed for good; 0: never."""
    transcripts_keep: bool = False
    """Whether what is said in an agent whose hooks feed a session is kept, redacted."""
    workflow: str = "do"
    """The phases that a task goes through."""


_READERS: Mapping[str, Callable[[str], Any]] = {
    "checkpoint_interval": duration,
    "checkpoint_settle": duration,
    "capture_max_file_size": size,
    "capture_exclude": patterns,
    "stop_grace": duration,
    "claude_timeout": duration,
    "claude_max_retries": count,
    "session_auto_cleanup_days": count,
    "session_trash_days": count,
    "transcripts_keep": switch,
    "workflow": workflow,
}
_TABLES = ("checkpoint", "capture", "stop", "claude", "session", "transcripts")
_OTHER_TABLES = ("prices",)  # of the same file, and read elsewhere


FIELDS = tuple(field.name for field in fields(Settings))


def key_of(field: str) -> str:
    """``checkpoint_interval`` -> ``checkpoint.interval``."""
    return field.replace("_", ".", 1)


def variable_of(field: str) -> str:
    """``checkpoint_interval`` -> ``PINABLE_CHECKPOINT__INTERVAL``."""
    return "PINABLE_" + field.upper().replace("_", "__", 1)


def field_of(key: str) -> str:
    """``checkpoint.interval`` -> ``checkpoint_interval``; ``BadValue`` for what is no setting, with the nearest one."""
    known = {key_of(field): field for field in FIELDS}
    if key in known:
        return known[key]
    from difflib import get_close_matches

    near = get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"settings: {', '.join(known)}"
    raise BadValue(f"there is no setting {key!r}", hint=hint)


def text_of(value: Any) -> str:
    """A value of a file as ``parse`` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def parse(field: str, text: str) -> Any:
    """The value of a setting as ``text`` spells it; ``BadValue``."""
    return _READERS[field](text)


def load(home: Path, environ: Mapping[str, str] = os.environ, *, pass_over_unknown: bool = False) -> Settings:
    """The settings in force; ``BadValue`` names the key, its source and the value that cannot be read.

    So does one that is no setting, unless it is to be passed over.
    """
    settings = Settings()
    file = home / "config.toml"
    document = _document(file)
    filed = _values(document)
    for field in FIELDS:
        variable = variable_of(field)
        if variable in environ:
            settings = _with(settings, field, environ[variable], f"${variable}")
        elif field in filed:
            settings = _with(settings, field, text_of(filed[field]), str(file))
    if not pass_over_unknown:
        for error in _unknown(document):
            raise BadValue(f"{error} (in {file})", hint=error.hint)
        _refuse_unknown(environ)
    return settings


def keys(path: Path) -> list[str]:
    """The keys that a file sets, settings or not."""
    return list(_keys(_document(path)))


def unknown(path: Path) -> list[BadValue]:
    """What a person's file sets that is no setting, each as the error that setting it would be."""
    return list(_unknown(_document(path)))


def _unknown(document: Mapping[str, Any]) -> Iterator[BadValue]:
    for key in _keys(document):
        if key.partition(".")[0] not in _OTHER_TABLES:
            try:
                field_of(key)
            except BadValue as error:
                from shlex import quote

                out = f"to take it out: pinable-agents config unset {quote(key)}"
                yield BadValue(str(error), hint=f"{error.hint} ({out})" if error.hint else out)


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    """``BadValue`` for a variable that is named like a setting's and is none's: it would do nothing, unnoticed."""
    known = {variable_of(field) for field in FIELDS}
    for variable in environ:
        if variable.startswith("PINABLE_") and "__" in variable and variable not in known:
            try:
                field_of(variable.removeprefix("PINABLE_").replace("__", ".").lower())
            except BadValue as error:
                raise BadValue(f"${variable}: {error}", hint=error.hint) from None


def in_repository(settings: Settings, worktree: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """``settings`` with what the repository says of them; ``BadValue`` if it says more than it may."""
    for field, value in from_repository(worktree).items():
        if variable_of(field) not in environ:
            settings = _with(settings, field, text_of(value), str(worktree / REPOSITORY_FILE))
    return settings


def from_repository(worktree: Path) -> dict[str, Any]:
    """The values in the repository's file by field name, all harmless; ``BadValue`` if any other is there."""
    path = worktree / REPOSITORY_FILE
    if not path.is_file():  # no link to a device, no FIFO
        return {}
    if path.stat().st_size > _LARGEST_FILE:
        raise BadValue(f"{path} is too large", hint="repair or remove the file")
    for key in _keys(_document(path)):
        if key not in map(key_of, HARMLESS):
            allowed = ", ".join(map(key_of, HARMLESS))
            raise BadValue(
                f"{path} sets {key}, which a repository may not",
                hint=f"a repository may set {allowed}; put anything else into your own config.toml",
            )
    return from_file(path)


def _keys(document: Mapping[str, Any]) -> Iterator[str]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield name


def _with(settings: Settings, field: str, value: str, source: str) -> Settings:
    try:
        return replace(settings, **{field: parse(field, value)})
    except BadValue as error:
        raise BadValue(f"{key_of(field)} in {source}: {error}", hint=error.hint) from None


def from_file(path: Path) -> dict[str, Any]:
    """The file's values by field name; what is no setting may be among them (``unknown``)."""
    return _values(_document(path))


def _values(document: Mapping[str, Any]) -> dict[str, Any]:
    values = {field: document[field] for field in FIELDS if field in document and "_" not in field}
    for table in _TABLES:
        if isinstance(document.get(table), dict):
            values |= {f"{table}_{name}": value for name, value in document[table].items()}
    return values


def _document(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadValue(f"cannot read {path}: {error.strerror}", hint="check its permissions and its owner") from None
    import tomllib

    try:
        return tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadValue(f"cannot read {path}: {error}", hint="repair or remove the file") from None
    except RecursionError:
        raise BadValue(f"cannot read {path}: it is nested too deeply", hint="repair or remove the file") from None
    except ValueError:
        raise BadValue(f"cannot read {path}: a number has too many digits", hint="repair or remove the file") from None
