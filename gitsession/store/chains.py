"""Chains: sessions in an order, ``chains/<name>.json``, mode 0600, written as session files are.

::

    {"schema_version": 1, "name": "my-refactor", "sessions": ["sess_analysis", "sess_impl"],
     "created_at": "2026-02-25T10:00:00Z"}

A chain only names its sessions; they need not exist, and may be in several chains.  Names follow the rule of session
ids.  A chain never changes: to have another order, delete it and create it anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitsession.clock import timestamp
from gitsession.errors import BadSessionId, BadValue, ChainNotFound, StoreError
from gitsession.ids import check_session_id
from gitsession.store.files import explained, private_dir, write_atomic
from gitsession.store.locks import mutex

_SCHEMA: Final = 1
_JSON: Final = ".json"


@dataclass(frozen=True)
class Chain:
    """One chain; ``created_at`` is UTC, ISO 8601."""

    name: str
    sessions: tuple[str, ...]
    created_at: str

    def before(self, session_id: str) -> str | None:
        """The member that ``session_id``, a member too, comes after; ``None`` for the first."""
        place = self.sessions.index(session_id)
        return self.sessions[place - 1] if place else None


class ChainStore:
    """The chains of the sessions below ``home``; safe for several processes.  Nothing is made before it is needed."""

    def __init__(self, home: Path) -> None:
        self._directory = home / "chains"

    def names(self) -> list[str]:
        """The names of all chains, sorted; damaged ones are among them."""
        try:
            with explained("read", self._directory, but=(FileNotFoundError,)):
                files = os.listdir(self._directory)  # noqa: PTH208 - names are all that is wanted
        except FileNotFoundError:
            return []
        return sorted(file.removesuffix(_JSON) for file in files if file.endswith(_JSON))

    def create(self, name: str, sessions: Sequence[str]) -> Chain:
        """Add a chain; ``BadValue`` for a name or a member that cannot be, ``BadSessionId`` for what is no id."""
        _check_name(name)
        chain = Chain(name, _checked(sessions), timestamp())
        private_dir(self._directory.parent)
        private_dir(self._directory)
        document = {"schema_version": _SCHEMA, **vars(chain)}
        with mutex(self._directory, name):
            twin = next((known for known in self.names() if known.lower() == name.lower()), None)
            if twin is not None:
                raise BadValue(
                    f"there is a chain {twin!r} already (case does not count)",
                    hint=f"take another name, or first: pinable-agents session chain delete {twin}",
                )
            data = json.dumps(document, indent=2, ensure_ascii=False)
            write_atomic(self._path(name), data.encode("utf-8") + b"\n")
        return chain

    def read(self, name: str) -> Chain:
        """The chain; ``ChainNotFound``, or ``StoreError`` where its file is no chain."""
        _check_name(name)
        path = self._path(name)
        try:
            with explained("read", path, but=(FileNotFoundError,)):
                data = path.read_bytes()
        except FileNotFoundError:
            raise _not_found(name) from None
        return _parsed(name, data, path)

    def delete(self, name: str) -> None:
        """Remove the chain, also one that cannot be read; its sessions stay.  ``ChainNotFound``."""
        _check_name(name)
        path = self._path(name)
        try:
            with explained("remove", path, but=(FileNotFoundError,)):
                path.unlink()
        except FileNotFoundError:
            raise _not_found(name) from None

    def all(self) -> Iterator[Chain]:
        """Every chain; ``StoreError`` for one that cannot be read: nobody knows what it says."""
        for name in self.names():
            with suppress(ChainNotFound):  # deleted meanwhile
                yield self.read(name)

    def holding(self, session_id: str) -> list[Chain]:
        """The chains that a session, by its full id, is a member of."""
        return [chain for chain in self.all() if session_id in chain.sessions]

    def members(self) -> set[str]:
        """The ids of all sessions that some chain names."""
        return {session_id for chain in self.all() for session_id in chain.sessions}

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}{_JSON}"


def _check_name(name: str) -> None:
    try:
        check_session_id(name)
    except BadSessionId as error:
        raise BadValue(str(error).replace("a session id", "a chain's name"), hint=error.hint) from None


def _checked(sessions: Sequence[str]) -> tuple[str, ...]:
    """The members, each an id, none twice."""
    if not sessions:
        raise BadValue("a chain needs sessions", hint='name them in their order: --sessions "a,b,c"')
    seen: set[str] = set()
    for session_id in sessions:
        check_session_id(session_id)
        if session_id.lower() in seen:
            raise BadValue(f"{session_id!r} is in the chain twice", hint="name each session once")
        seen.add(session_id.lower())
    return tuple(sessions)


def _parsed(name: str, data: bytes, path: Path) -> Chain:
    hint = f"remove it: pinable-agents session chain delete {name}"
    try:
        document: Any = json.loads(data)
        version = document.get("schema_version", _SCHEMA)
        if version != _SCHEMA:
            raise StoreError(f"{path} was written by a newer version (schema {version})", hint=hint)
        good = document["name"] == name and isinstance(document["created_at"], str)
        chain = Chain(name, _checked(document["sessions"]), document["created_at"])
    except (BadValue, BadSessionId, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        good = False
    if not good:
        raise StoreError(f"{path} is not a chain", hint=hint)
    return chain


def _not_found(name: str) -> ChainNotFound:
    return ChainNotFound(f"there is no chain {name!r}", hint="pinable-agents session chain list shows those there are")
