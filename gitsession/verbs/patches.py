"""What a patch in Codex's format leaves in the files that it names.

Codex carries out a patch that it finds in a shell command itself, and tells nobody whether it did; a person may have
refused it.  The files tell: they hold what the patch leaves, or they do not.

::

    *** Begin Patch
    *** Add File: new.txt
    +its lines
    *** Delete File: old.txt
    *** Update File: app.py
    *** Move to: main.py
    @@ a line above what changes
     kept
    -before
    +after
    *** End of File
    *** End Patch
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gitsession.git.repo import Repo
from gitsession.paths import decode, encode
from gitsession.verbs.toolcalls import PATCH, inside

_END: Final = "*** End Patch"
_SECTIONS: Final = ("*** Add File: ", "*** Delete File: ", "*** Update File: ")
_MOVE: Final = "*** Move to: "
_HUNK: Final = "@@"
_LAST: Final = "*** End of File"


def foreseen(repo: Repo, directory: Path, text: str) -> dict[str, str | None]:
    """The SHA-256 of what each file in the worktree holds once the patch ``text`` is carried out in ``directory``.

    By path, as in JSON; None for a file that is gone; nothing if the patch does not fit.
    """

    def read(name: str) -> str | None:
        content = _held(directory / name)
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError:
            return None

    left: dict[str, str | None] = {}
    for name, content in outcome(text, read).items():
        digest = None if content is None else _digest(content.encode("utf-8", "replace"))
        left |= {encode(path): digest for path in inside(repo, directory, [name])}
    return left


def is_carried_out(repo: Repo, leaves: Mapping[str, str | None]) -> bool:
    """Whether the files hold what was ``foreseen``."""
    return all(_digest(_held(repo.worktree / os.fsdecode(decode(path)))) == left for path, left in leaves.items())


def _held(place: Path) -> bytes | None:
    with suppress(OSError, ValueError):
        return place.read_bytes() if place.is_file() else None
    return None


def _digest(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()


def outcome(text: str, read: Callable[[str], str | None]) -> dict[str, str | None]:
    """The contents by name, None for a file that is gone; nothing if the patch does not fit, line by line.

    ``read`` gives what a file holds now.  Codex also takes lines that differ in their blanks for the same: what it
    makes of such a patch is not foreseen.
    """
    left: dict[str, str | None] = {}
    for kind, name, body in _sections(text):
        if kind.startswith("*** Add"):
            left[name] = "".join(f"{line[1:]}\n" for line in body)
        elif kind.startswith("*** Delete"):
            left[name] = None
        else:
            moved = body.pop(0).removeprefix(_MOVE).strip() if body and body[0].startswith(_MOVE) else name
            before = read(name)
            after = None if before is None else _updated(before, body)
            if after is None:
                return {}
            left |= {name: None, moved: after}
    return left


def _sections(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Each file's heading, name and lines."""
    kind, name, body = "", "", list[str]()
    for line in text.partition(PATCH)[2].partition(_END)[0].split("\n")[1:-1]:
        heading = next((one for one in _SECTIONS if line.startswith(one)), None)
        if heading is None:
            body.append(line)
            continue
        if kind:
            yield kind, name, body
        kind, name, body = heading, line.removeprefix(heading).strip(), []
    if kind:
        yield kind, name, body


def _updated(content: str, body: list[str]) -> str | None:
    lines = content.removesuffix("\n").split("\n") if content else []
    place = 0
    for heading, hunk in _hunks(body):
        if heading:
            found = _find(lines, [heading], place)
            if found is None:
                return None
            place = found + 1
        is_last = hunk[-1:] == [_LAST]
        hunk = [line or " " for line in hunk if line != _LAST]
        old = [line[1:] for line in hunk if line[0] != "+"]
        new = [line[1:] for line in hunk if line[0] != "-"]
        start = max(place, len(lines) - len(old)) if is_last else place
        found = _find(lines, old, start) if old else len(lines)
        if found is None:
            return None
        lines[found : found + len(old)] = new
        place = found + len(new)
    return "".join(f"{line}\n" for line in lines)


def _hunks(body: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Each hunk's line to look for above it, empty if there is none, and its own lines."""
    heading, hunk = "", list[str]()
    for line in body:
        if line.startswith(_HUNK):
            if hunk:
                yield heading, hunk
            heading, hunk = line.removeprefix(_HUNK).removeprefix(" "), []
        else:
            hunk.append(line)
    if hunk:
        yield heading, hunk


def _find(lines: list[str], wanted: list[str], place: int) -> int | None:
    """Where the lines stand, at ``place`` or after it."""
    ends = range(place, len(lines) - len(wanted) + 1)
    return next((start for start in ends if lines[start : start + len(wanted)] == wanted), None)
