"""Deleted sessions: ``trash/<id>/`` holds the files that ``sessions/`` held.

The session is where its JSON is, so that moves last, in both directions: a move cut short leaves the session where it
was, at most without its journal, and the snapshot is complete before the journal goes.  Whoever next writes or deletes
the session takes the journal back (``take_back``); bringing it back again goes on where it stopped.

A second session deleted under the same id goes to ``trash/<id>~2/``, and so on; ``~`` is in no id.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gitsession import seam
from gitsession.errors import SessionBusy
from gitsession.store.files import explained, open_private, private_dir, sync_directory, write_atomic

_MOVED = (".json.tmp", ".journal", ".json")


def move_out(sessions: Path, trash: Path, session_id: str) -> Path:
    """Move a session's files to the trash and return their directory.  The caller holds the session's locks."""
    newest = _newest(trash, session_id)
    place = trash / (session_id if newest is None else f"{session_id}~{_number(newest) + 1}")
    private_dir(trash)
    _move(sessions, private_dir(place), session_id)
    return place


def move_back(sessions: Path, trash: Path, session_id: str, place: Path | None = None) -> bool:
    """Move the session at ``place``, else the one last deleted under this id, back; False if there is none.

    The caller holds its write lock.  ``SessionBusy`` when another one of this id is half-way back: its journal is in
    the way.
    """
    place = place or _newest(trash, session_id)
    if place is None or not _holds_files(place):
        return False
    _refuse_half_way(sessions, trash, place, session_id)
    _move(place, sessions, session_id)
    with explained("remove", place):
        place.rmdir()
    return True


def _refuse_half_way(sessions: Path, trash: Path, place: Path, session_id: str) -> None:
    name = f"{session_id}.journal"
    if (sessions / name).exists() and (place / name).exists():
        parted = [one for one in _places(trash, session_id) if _is_without_journal(one, session_id)]
        first = f"{session_id}~{_number(parted[0])}" if parted else session_id
        raise SessionBusy(
            f"another deleted session {session_id} is half-way back",
            hint=f"first: pinable-agents session undelete {first}",
        )


def take_back(sessions: Path, trash: Path, session_id: str) -> None:
    """Undo a ``move_out`` that was cut short: the JSON still here, the journal there."""
    if is_parted(sessions, trash, session_id):
        move_back(sessions, trash, session_id)


def is_parted(sessions: Path, trash: Path, session_id: str) -> bool:
    """Whether a ``move_out`` was cut short: the JSON still here, the journal there."""
    place = _newest(trash, session_id)
    cut_short = place is not None and not (place / f"{session_id}.json").exists()
    return cut_short and not (sessions / f"{session_id}.journal").exists()


def is_coming_back(trash: Path, session_id: str) -> bool:
    """Whether files in ``sessions/`` without a JSON may be those of a ``move_back`` cut short."""
    place = _newest(trash, session_id)
    return place is not None and (place / f"{session_id}.json").exists()


class Trashed(NamedTuple):
    """A deleted session: where its files are, and since when (Unix seconds)."""

    session_id: str
    place: Path
    since: float

    @property
    def name(self) -> str:
        """What tells it from others deleted under the same id: ``<id>~1``, ``<id>~2``, …"""
        return f"{self.session_id}~{_number(self.place)}"

    @property
    def snapshot(self) -> Path:
        return self.place / f"{self.session_id}.json"

    @property
    def journal(self) -> Path:
        return self.place / f"{self.session_id}.journal"


def trashed(trash: Path) -> list[Trashed]:
    """What the trash holds, the last deleted first; a session that is only half there is not deleted."""
    found = []
    with explained("read", trash, but=(FileNotFoundError,)), suppress(FileNotFoundError):
        for place in trash.iterdir():
            session_id = place.name.partition("~")[0]
            with suppress(FileNotFoundError, NotADirectoryError):  # brought back meanwhile
                if not place.is_symlink() and (place / f"{session_id}.json").exists():
                    found.append(Trashed(session_id, place, place.stat().st_mtime))
    return sorted(found, key=lambda one: (one.since, _number(one.place)), reverse=True)


def accept(trash: Path, session_id: str, snapshot: bytes, journal: Path) -> None:
    """Put the files of a session that came from elsewhere where those of the last deleted one are: ``move_back``.

    The caller holds the session's write lock.
    """
    from shutil import copyfileobj  # a listing does without

    newest = _newest(trash, session_id)
    private_dir(trash)
    place = private_dir(trash / (session_id if newest is None else f"{session_id}~{_number(newest) + 1}"))
    with explained("write", place):
        copy = place / f"{session_id}.journal"
        with journal.open("rb") as source, os.fdopen(open_private(copy, os.O_WRONLY | os.O_CREAT), "wb") as target:
            copyfileobj(source, target)
            target.flush()
            os.fsync(target.fileno())
    write_atomic(place / f"{session_id}.json", snapshot)


def remove(one: Trashed) -> None:
    """Remove a deleted session's files for good.  The caller holds the session's write lock."""
    with explained("remove", one.place):
        # The snapshot last: it tells which session this was.
        for file in sorted(one.place.iterdir(), key=lambda file: file == one.snapshot):
            seam.reach("trash.remove")
            file.unlink(missing_ok=True)
        one.place.rmdir()
        sync_directory(one.place.parent)


def _newest(trash: Path, session_id: str) -> Path | None:
    return max(filter(_holds_files, _places(trash, session_id)), key=_number, default=None)


def _places(trash: Path, session_id: str) -> list[Path]:
    return [trash / session_id, *trash.glob(f"{session_id}~*")]


def _is_without_journal(place: Path, session_id: str) -> bool:
    return (place / f"{session_id}.json").exists() and not (place / f"{session_id}.journal").exists()


def _holds_files(place: Path) -> bool:
    try:
        return any(place.iterdir())
    except (FileNotFoundError, NotADirectoryError):  # it may go while we look
        return False


def _number(place: Path) -> int:
    number = place.name.partition("~")[2]
    return int(number) if number.isdecimal() else 1


def _move(source: Path, target: Path, session_id: str) -> None:
    for ending in _MOVED:
        name = session_id + ending
        with explained("move", source / name):
            if (source / name).exists():
                seam.reach(f"trash.move{ending}")
                (source / name).rename(target / name)
                sync_directory(target)
                sync_directory(source)
