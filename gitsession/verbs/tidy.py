"""Cleaning up by itself: once a day, when a program starts, without keeping it.

The program that starts only looks whether there may be something to do (``begin``, 20 ms at most).  Another process
does it (``tidy``), and the next program that starts says what was done; in between ``$PINABLE_HOME/tidied.json`` holds
it::

    {"looked": 1740480000,               when anybody last looked, Unix seconds
     "news": {"deleted": [id], "purged": 2, "problem": null}}
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gitsession import lifecycle
from gitsession.errors import BadValue, GitSessionError
from gitsession.store.files import open_private, write_all
from gitsession.store.sessions import SessionStore

if TYPE_CHECKING:
    from gitsession.config import Settings

_DAY: Final = 86400.0
_BUDGET: Final = 0.02  # seconds
_MANY: Final = 256  # files to look at between two looks at the clock


class News(NamedTuple):
    """What was done: the sessions moved to the trash, how many were removed from it, what kept it from doing more."""

    deleted: tuple[str, ...] = ()
    purged: int = 0
    problem: str | None = None


def begin(store: SessionStore, start: Callable[[], None], now: float) -> News | None:
    """Call ``start``, which runs ``tidy`` elsewhere, if that is due; what was done the last time, told once."""
    memo = _read(store.home)
    news = _news(memo.pop("news", None))
    if news is not None:
        _write(store.home, memo)
    looked = memo.get("looked")
    if isinstance(looked, int | float) and 0 <= now - looked < _DAY:
        return news
    until = time.monotonic() + _BUDGET
    session, deleted = _oldest(store.sessions_dir, ".json", until), _oldest(store.trash_dir, "", until)
    if min(session, deleted) > now - _DAY:
        return news
    _write(store.home, {"looked": int(now)})
    with suppress(BadValue):
        from gitsession import config

        settings = config.load(store.home)
        if any(
            days and moment <= now - days * _DAY
            for moment, days in ((session, settings.session_auto_cleanup_days), (deleted, settings.session_trash_days))
        ):
            start()
    return news


def tidy(store: SessionStore, settings: Settings, now: float) -> News:
    """Move completed sessions to the trash that are old enough, and remove for good what was in it for long."""
    from gitsession.verbs.cleanup import choose, purge_old, remove

    deleted: list[str] = []
    problem = None
    try:
        if settings.session_auto_cleanup_days:
            age = settings.session_auto_cleanup_days * _DAY
            chosen = choose(store, lifecycle.COMPLETED, age, now).chosen
            deleted = [done.session_id for done in remove(store, chosen) if done.error is None]
    except GitSessionError as error:
        problem = str(error)
    purged = sum(done.error is None for done in purge_old(store, settings.session_trash_days, now))
    news = News(tuple(deleted), purged, problem)
    _write(store.home, {"looked": int(now), **({"news": news._asdict()} if any(news) else {})})
    return news


def _oldest(directory: Path, ending: str, until: float) -> float:
    """When the oldest of the files with this ending was last written; if there is no time to look at all, long ago."""
    oldest = math.inf
    with suppress(OSError), os.scandir(directory) as entries:
        for number, entry in enumerate(entries):
            if number % _MANY == _MANY - 1 and time.monotonic() > until:
                return 0.0
            if entry.name.endswith(ending):
                oldest = min(oldest, entry.stat(follow_symlinks=False).st_mtime)
    return oldest


def _path(home: Path) -> Path:
    return home / "tidied.json"


def _read(home: Path) -> dict[str, Any]:
    try:
        memo = json.loads(_path(home).read_bytes())
    except (OSError, ValueError):
        return {}
    return memo if isinstance(memo, dict) else {}


def _write(home: Path, memo: dict[str, Any]) -> None:
    """Where it cannot be written, or is torn, somebody looks once more."""
    with suppress(OSError):
        descriptor = open_private(_path(home), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_all(descriptor, json.dumps(memo).encode())
        finally:
            os.close(descriptor)


def _news(value: Any) -> News | None:
    try:
        return (
            None if value is None else News(tuple(map(str, value["deleted"])), int(value["purged"]), value["problem"])
        )
    except (KeyError, TypeError, ValueError):
        return None
