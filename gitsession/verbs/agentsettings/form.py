"""What every kind of settings file can do with our hooks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from gitsession.verbs.agentsettings.commands import Command
from gitsession.verbs.agentsettings.jsontext import Edit

Keys = tuple[str, ...]
"""A place in a file of keys: ``("hooks",)``, ``("hooks", "Stop")``."""


class NotOurs(Exception):
    """Why a file that would be ours alone is left to a person, and what he can do about it."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


@dataclass(frozen=True)
class Inserted:
    """``text`` has our hooks; ``undo`` makes of it what it was, ``made`` is what there was not before."""

    text: str
    undo: tuple[Edit, ...]
    made: tuple[Keys, ...] = ()


class Form(Protocol):
    """All raise ``Problem`` for a text that cannot be read, and ``NotOurs`` for one that is not to be touched.  A text
    is ``""`` where there is no file."""

    def commands(self, text: str) -> list[Command]:
        """Those of our hooks in it."""

    def is_current(self, text: str, command: Command) -> bool:
        """Whether exactly what ``insert`` would put in is there."""

    def insert(self, text: str, command: Command) -> Inserted:
        """Put our hooks into a text that has none of them."""

    def take_out(self, text: str, made: Collection[Keys] | None) -> str:
        """``text`` without our hooks.

        Of what held them, ``made`` goes if it is empty then; ``None``: nobody knows, and whatever is empty goes.
        """
