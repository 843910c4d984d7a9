"""See and change settings: what is in force, where it comes from, and ``config.toml`` with its comments kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gitsession import config
from gitsession.errors import BadValue, RepositoryError
from gitsession.git.repo import Repo
from gitsession.store.files import private_dir, write_atomic
from gitsession.store.locks import mutex

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

DEFAULT: Final = "default"
_TIMES: Final = (("d", 86400), ("h", 3600), ("m", 60))
_SIZES: Final = (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024))


@dataclass(frozen=True)
class Setting:
    """One setting in force: its value as it is spelled, and where it comes from: ``default``, a file, ``$VARIABLE``.

    ``problem`` is why the value cannot be read.
    """

    key: str
    value: str
    source: str
    problem: str | None = None


def path(home: Path) -> Path:
    """The person's file."""
    return home / "config.toml"


def prepare(home: Path) -> Path:
    """The person's file, made if it is not there."""
    file = path(home)
    if not file.exists():
        private_dir(home)
        write_atomic(file, b"")
    return file


def in_force(home: Path, start: Path) -> list[Setting]:
    """Every setting as it is for a program started in ``start``; ``BadValue`` for a file that cannot be read."""
    filed, there = config.from_file(path(home)), {}
    worktree = _worktree(start)
    if worktree is not None:
        there = config.from_repository(worktree)
    found = []
    for field in config.FIELDS:
        variable = config.variable_of(field)
        if variable in os.environ:
            value, source = os.environ[variable], f"${variable}"
        elif field in there:
            value, source = config.text_of(there[field]), str(Path(str(worktree), config.REPOSITORY_FILE))
        elif field in filed:
            value, source = config.text_of(filed[field]), str(path(home))
        else:
            value, source = spell(field, getattr(config.Settings, field)), DEFAULT
        found.append(Setting(config.key_of(field), value, source, _problem(field, value)))
    return found


def change(home: Path, key: str, text: str) -> None:
    """Write a setting into the person's file; ``BadValue`` for a key or a value that cannot be."""
    field = config.field_of(key)
    try:
        value = config.parse(field, text)
    except BadValue as error:
        raise BadValue(f"{key}: {error}", hint=error.hint) from None
    table, _, name = key.rpartition(".")

    def put(document: TOMLDocument) -> None:
        target: Any = document.setdefault(table, {}) if table else document
        if isinstance(value, tuple):
            target[name] = list(value)
        elif isinstance(value, bool):
            target[name] = value
        else:
            target[name] = value if isinstance(value, int) and str(value) == text.strip() else text.strip()

    _edit(home, put)


def remove(home: Path, key: str) -> bool:
    """Take a key out of the person's file; whether it was there.  ``BadValue`` if it is not, and is no setting."""
    if key not in config.keys(path(home)):
        config.field_of(key)
        return False
    table, dot, name = key.partition(".")

    def take(document: TOMLDocument) -> None:
        target: Any = document[table] if dot else document
        del target[name if dot else key]

    _edit(home, take)
    return True


def check(home: Path) -> None:
    """``BadValue`` if the person's file cannot be used as it is."""
    config.load(home, {})


def spell(field: str, value: Any) -> str:
    """A value as a person writes it: ``2m``, ``50MB``."""
    if isinstance(value, tuple):
        return config.text_of(value)
    if isinstance(value, bool):
        return str(value).lower()
    reader = type(getattr(config.Settings, field))
    if reader is float:
        return _spelled_time(value)
    units = _SIZES if field.endswith("_size") else ()
    return next((f"{value // size}{unit}" for unit, size in units if value and value % size == 0), str(value))


def _spelled_time(seconds: float) -> str:
    parts, rest = [], seconds
    for unit, size in _TIMES:
        whole, rest = divmod(rest, size)
        if whole:
            parts.append(f"{whole:.0f}{unit}")
    return "".join([*parts, *([f"{rest:g}s"] if rest or not parts else [])])


def _problem(field: str, text: str) -> str | None:
    try:
        config.parse(field, text)
    except BadValue as error:
        return str(error)
    return None


def _worktree(start: Path) -> Path | None:
    try:
        return Repo.discover(start).worktree
    except RepositoryError:
        return None


def _edit(home: Path, act: Callable[[TOMLDocument], None]) -> None:
    """Change the person's file; what else is in it, comments too, stays."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    private_dir(home)
    with mutex(home, "config"):
        file = path(home)
        config.from_file(file)  # says what is wrong with a file that is no TOML, and where
        try:
            document = tomlkit.parse(file.read_bytes().decode("utf-8")) if file.exists() else tomlkit.document()
            act(document)
        except (OSError, UnicodeDecodeError, TOMLKitError, TypeError, KeyError) as error:
            raise BadValue(f"cannot change {file}: {error}", hint="repair or remove the file") from None
        # A link, to where somebody keeps such files, stays one.
        write_atomic(file.resolve(), tomlkit.dumps(document).encode("utf-8"))
