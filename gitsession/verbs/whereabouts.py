"""How far an agent's conversation has come, by the agent's own record of it.

Claude Code writes a line of JSON for each message, with a ``uuid`` by which it can go back there later.  The record may
lag behind the hooks, so a call is looked for by its name, and what is not there yet is not known.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from gitsession.agentevents import CLAUDE_CODE
from gitsession.verbs.toolcalls import text

_TAIL: Final = 256 * 1024  # bytes at the end of a record that are looked at
_LONGEST: Final = 200  # characters


class Whereabouts(NamedTuple):
    """``at`` is the agent's name for a message of its own; its ``version`` and ``model`` then."""

    at: str | None = None
    version: str | None = None
    model: str | None = None


def whereabouts(agent: str, record: str | None, call: str | None = None) -> Whereabouts:
    """The newest message of the agent's, or the one that asked for ``call``; nothing where that cannot be told."""
    if agent == CLAUDE_CODE and record is not None:
        with suppress(OSError, ValueError):
            for line in _newest_first(record):
                message = line.get("message")
                if not isinstance(message, dict) or (call is not None and not _asks_for(message, call)):
                    continue
                return Whereabouts(*(text(said, _LONGEST) for said in _said(line, message)))
    return Whereabouts()


def _said(line: dict[str, Any], message: dict[str, Any]) -> tuple[object, ...]:
    return line.get("uuid"), line.get("version"), message.get("model")


def _asks_for(message: dict[str, Any], call: str) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, dict) and block.get("id") == call for block in blocks)


def _newest_first(record: str) -> Iterator[dict[str, Any]]:
    """The agent's own messages in the last lines; a subagent's are not its."""
    for data in reversed(_tail(record).split(b"\n")):
        if b'"assistant"' in data:
            with suppress(ValueError, RecursionError):
                line = json.loads(data)
                if isinstance(line, dict) and line.get("type") == "assistant" and not line.get("isSidechain"):
                    yield line


def _tail(record: str) -> bytes:
    descriptor = os.open(record, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return b""
        os.lseek(descriptor, max(0, facts.st_size - _TAIL), os.SEEK_SET)
        return os.read(descriptor, _TAIL)
    finally:
        os.close(descriptor)
