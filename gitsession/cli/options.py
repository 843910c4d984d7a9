"""Parameters that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from gitsession.store.sessions import SessionStore

F = TypeVar("F", bound=Callable[..., Any])


def here() -> Path:
    """The current directory; ``UsageError`` when it was removed under our feet."""
    from gitsession.errors import UsageError

    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current directory is not there any more", hint="cd somewhere") from None


def complete_sessions(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Ids for shell completion."""
    from gitsession.store.sessions import SessionStore

    return [known for known in ["latest", *SessionStore().ids()] if known.startswith(incomplete)]


def complete_backends(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of backends for shell completion."""
    from gitsession import backends

    return [name for name in backends.NAMES if name.startswith(incomplete)]


def session_argument(function: F) -> F:
    """``ID``: an id, the beginning of one, or ``latest``."""
    return click.argument("session", metavar="ID", shell_complete=complete_sessions)(function)


def json_option(function: F) -> F:
    """``--json``: the same as JSON, with field names that stay."""
    return click.option("--json", "as_json", is_flag=True, help="Write JSON.")(function)


def utc_option(function: F) -> F:
    """``--utc``: times of day in UTC."""

    def show(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value:
            from gitsession.cli.render import units

            units.show_utc()

    return click.option("--utc", is_flag=True, expose_value=False, callback=show, help="Show times in UTC.")(function)


def only_utf8(_ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """What was given for a parameter; ``BadValue`` if its bytes are not UTF-8, which no record can hold."""
    from gitsession.errors import BadValue
    from gitsession.unicode import is_unicode

    for text in value if isinstance(value, tuple) else (value or "",):
        if not is_unicode(text):
            name = param.opts[0] if isinstance(param, click.Option) else "the command's argument"
            raise BadValue(f"{name} {text!a} is not UTF-8", hint="convert it to UTF-8")
    return value


def days(text: str) -> float:
    """Seconds of ``30d``, ``12h``, ``0``."""
    from gitsession import config

    return 0.0 if text.strip() in {"0", "0d"} else config.duration(text)


def since_when(text: str, now: float) -> str:
    """The moment, as records write it, that ``7d``, ``12h``, ``2026-02-25`` (local) or a full time means at ``now``."""
    from datetime import UTC, datetime

    from gitsession.clock import timestamp
    from gitsession.errors import BadValue

    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            return timestamp(now - days(text))
        except (BadValue, OverflowError, OSError):
            raise BadValue(f"--since: {text!r} is no time", hint="write it like 7d, 12h or 2026-02-25") from None
    return timestamp(at.astimezone(UTC).timestamp())


def find(text: str) -> tuple[SessionStore, str]:
    """The store and the full id that ``text`` means in it; ``SessionNotFound`` says if it was deleted, or
    names the ids that look like it.
    """
    from gitsession.errors import GitSessionError, SessionNotFound
    from gitsession.store.sessions import SessionStore

    store = SessionStore()
    try:
        return store, store.resolve(text)
    except SessionNotFound as error:
        deleted = None
        with suppress(GitSessionError):
            deleted = store.last_trashed(text).session_id
        if deleted is not None:
            raise SessionNotFound(
                f"session {deleted} was deleted", hint=f"pinable-agents session undelete {deleted} brings it back"
            ) from None
        from difflib import get_close_matches

        near = get_close_matches(text, store.ids(), n=3)
        if near:
            raise SessionNotFound(str(error), hint=f"did you mean {' or '.join(near)}?") from None
        raise
