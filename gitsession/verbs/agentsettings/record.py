"""What was done to a settings file: ``pinable-hooks/<agent>-<its name>.json`` in this worktree's git directory.

::

    {"sum": <SHA-256 of the file as it was left>, "existed": <whether there was one before>,
     "undo": [[<start>, <end>, <what stood there>], …], "made": [["hooks"], ["hooks", "Stop"], …],
     "directories": [".claude", …]}

``undo`` holds nothing of the file but blanks, whatever secrets are in it.  Places are characters, without the byte
order mark.  As long as the file has the sum, undoing restores every byte; later, ``made`` tells what may go.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitsession.store.files import explained, write_atomic
from gitsession.verbs.agentsettings.files import Content
from gitsession.verbs.agentsettings.form import Keys
from gitsession.verbs.agentsettings.jsontext import Edit

DIRECTORY: Final = "pinable-hooks"


@dataclass(frozen=True)
class Record:
    sum: str
    existed: bool
    undo: tuple[Edit, ...] = ()
    made: tuple[Keys, ...] = ()
    directories: tuple[str, ...] = ()

    def is_of(self, content: Content) -> bool:
        """Whether the file is as it was left."""
        return content.text is not None and self.sum == sum_of(content)


def sum_of(content: Content) -> str:
    return hashlib.sha256(content.data).hexdigest()


def place_of(git_dir: Path, agent: str, relative: str) -> Path:
    """Where the record of the file ``relative`` is."""
    return git_dir / DIRECTORY / f"{agent}-{Path(relative).stem}.json"


def read(place: Path) -> Record | None:
    """``None`` if there is none, or it says nothing sensible."""
    try:
        found = json.loads(place.read_bytes())
        return Record(
            str(found["sum"]),
            bool(found["existed"]),
            tuple(Edit(int(start), int(end), str(old)) for start, end, old in found["undo"]),
            tuple(tuple(map(str, keys)) for keys in found["made"]),
            tuple(map(str, found["directories"])),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(place: Path, record: Record) -> None:
    document = {
        "sum": record.sum,
        "existed": record.existed,
        "undo": record.undo,
        "made": record.made,
        "directories": record.directories,
    }
    with explained("make the directory", place.parent):
        place.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(place, json.dumps(document, indent=2).encode() + b"\n")


def remove(place: Path) -> None:
    """Also the directory, if it is empty then."""
    with suppress(OSError):
        place.unlink()
    with suppress(OSError):
        place.parent.rmdir()
