"""What an agent's hook event says of a tool call: which it is, and which files it is about.

Nothing in an event is trusted.  What is of another type or size than it should be is as if it were not there, and a
path counts only if it is in the worktree.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from gitsession.agentevents import EDITING
from gitsession.config import Settings
from gitsession.git import trees
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo, real_place

_PATHS: Final = ("file_path", "filePath", "notebook_path", "path")
_PATCHES: Final = ("command", "input", "patch", "patchText")
_PATCHED: Final = r"(?m)^[ \t]*\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)[ \t\r]*$"
PATCH: Final = "*** Begin Patch"
"""What a patch begins with."""
_MOST: Final = 1000  # files of one call
_LONGEST: Final = 4096  # characters of a path
_ID: Final = 200  # characters


class Call(NamedTuple):
    """A call of a tool: ``edits`` if that says which files it changes, and ``named`` what it says, None for nothing.

    ``patch`` is the text that holds one: Codex carries out what it finds in a shell command, too.  ``key`` is the same
    before and after the call, and may be the same of two calls; ``id`` is another one for each.
    """

    id: str
    key: str
    tool: str
    edits: bool
    named: tuple[str, ...] | None
    patch: str | None


def call_of(agent: str, event: Mapping[str, Any]) -> Call:
    """The call that an event is about."""
    tool = text(event.get("tool_name"), _ID) or "?"
    given = event.get("tool_input")
    given = given if isinstance(given, dict) else {}
    named = tuple(_named(given))
    # Gemini CLI gives a call no name: what was asked, and when, make one.
    asked = [event.get(name) for name in ("session_id", "tool_name", "tool_input")]
    given_id = text(event.get("tool_use_id"), _ID)
    return Call(
        id=given_id or _digest([*asked, event.get("timestamp")]),
        key=given_id or _digest(asked),
        tool=tool,
        edits=tool in EDITING.get(agent, ()),
        named=named or None,
        patch=next(_patches(given), None),
    )


def text(value: object, longest: int) -> str | None:
    """``value`` if it is text that is not empty, cut, and can be written as UTF-8."""
    if not isinstance(value, str) or not value:
        return None
    return value[:longest].encode("utf-8", "replace").decode("utf-8")


def inside(repo: Repo, directory: Path, names: Iterable[str]) -> list[bytes]:
    """Those of the named files that are in the worktree, as git's paths; names are relative to ``directory``.

    Of a link the file that it leads to is one, too: a tool writes through it.
    """
    found = dict[bytes, None]()
    for name in names:
        for path in _places(repo, directory, name):
            if path and trees.storable(path):
                found[path] = None
    return [*found]


def wanted(repo: Repo, objects: Objects, newest: str, known: Iterable[bytes], settings: Settings) -> list[bytes]:
    """Those of ``known`` that a scan would look at: captured before, or not ignored."""
    kept, new = list[bytes](), list[bytes]()
    for path in known:
        (kept if trees.lookup(objects, newest, path) is not None else new).append(path)
    if new:
        exclude = [f"--exclude={pattern}" for pattern in settings.capture_exclude]
        listed = repo.git("ls-files", "-z", "-c", "-o", "--exclude-standard", *exclude, "--", *new)
        kept += sorted({*listed.split(b"\0")} & {*new})
    return kept


def _places(repo: Repo, directory: Path, name: str) -> Iterator[bytes | None]:
    try:
        place = directory / name
        yield repo.path_of(real_place(place))
        if place.is_symlink():
            yield repo.path_of(place.resolve())
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, links that go round in circles
        return


def _named(given: Mapping[str, Any]) -> Iterator[str]:
    for key in _PATHS:
        if (path := text(given.get(key), _LONGEST)) is not None:
            yield path
    for patch in _patches(given):
        for number, match in enumerate(re.finditer(_PATCHED, patch)):
            if number < _MOST and (path := text(match.group(1), _LONGEST)) is not None:
                yield path


def _patches(given: Mapping[str, Any]) -> Iterator[str]:
    texts = (given.get(key) for key in _PATCHES)
    return (one for one in texts if isinstance(one, str) and PATCH in one)


def _digest(value: object) -> str:
    return "call_" + hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:24]
