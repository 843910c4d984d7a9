"""What session files said when they were last read: ``$PINABLE_HOME/index``, a cache that saves reading them again.

A row counts only while both files of its session are as they were when it was made: moments of the last change, size
and inode, which one pass over the directory gives.  So the files are always right; whatever happens to the index costs
time and nothing else, and it may be deleted at any moment.  Of a completed session only the session file is looked at,
which halves the time for those that are many: who adds to its journal touches the session file before, and
a power cut, which may keep the one and lose the other, ends what the index is good for.

The file is a line that says who wrote it and since when the machine runs, four bytes of CRC-32, and the rows as
``marshal`` writes them: JSON would take five times as long to read (25 ms against 5 for 10,000 sessions).  Another
version's file, a damaged or a torn one, counts as none.  It is written when that takes less time than the reading that
it saves the next time.
"""

from __future__ import annotations

import marshal
import os
import struct
import sys
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from gitsession import __version__
from gitsession.lifecycle import COMPLETED
from gitsession.store.files import explained, open_private, write_all
from gitsession.store.owner import boot_id
from gitsession.store.summaries import Summary

State = tuple[int, int, int]
"""What changes when a file does: the moment of its last change (nanoseconds), size, inode."""
Row = tuple[State, bytes | None, tuple[Any, ...]]
"""The states of a session file and its journal (``None``: there is none), and the fields of their summary.

The journal's is packed, because it is seldom wanted: numbers take longer to read than all the rest.
"""
_pack: Final = struct.Struct("=qqQ").pack

ANY: Final[State] = (0, 0, 0)
"""The state of a file that was not looked at."""

_HEADER: Final = (
    f"gitsession {__version__} {sys.implementation.cache_tag} {boot_id()} {','.join(Summary._fields)}\n".encode()
)
_CRC_SIZE: Final = 4
_WINDOWS: Final = os.name == "nt"
_REPEATED: Final = {"status", "backend", "model", "worktree", "phase", "repository"}  # written and read once
# Nanoseconds: a file that changed so shortly ago can change once more without its times telling.
_FRESH: Final = 2_000_000_000
_ABANDONED: Final = 60.0  # seconds after which a temporary file is a dead process's
# Measured, in microseconds: reading a session and each 128 bytes of it; writing an index and each of its rows.
_READ, _BYTES, _WRITE, _ROW = 100, 128, 1000, 2


class Look(NamedTuple):
    """What a directory held: states by session of its snapshots and journals, and the sessions that left other files.

    The state is ``None`` where the system would not tell it; whoever opens the file will say why.
    """

    snapshots: dict[str, State | None]
    journals: dict[str, State | None]
    temporaries: set[str]


def look(directory: Path, final: Collection[str] = ()) -> Look:
    """The files of sessions in ``directory``; none if there is no such directory.

    The journals of the sessions that are ``final`` are not asked: their state is ``ANY``.
    """
    found = Look({}, {}, set())
    with explained("read", directory, but=(FileNotFoundError,)), suppress(FileNotFoundError):
        # By descriptor: the system need not walk the whole path for every file.
        descriptor = os.open(directory, os.O_RDONLY) if os.scandir in os.supports_fd else None
        try:
            with os.scandir(directory if descriptor is None else descriptor) as entries:
                _sort_in(entries, final, *found)
        finally:
            if descriptor is not None:
                os.close(descriptor)
    return found


def _sort_in(
    entries: Iterable[os.DirEntry[str]],
    final: Collection[str],
    snapshots: dict[str, State | None],
    journals: dict[str, State | None],
    temporaries: set[str],
) -> None:
    for entry in entries:
        name = entry.name
        if name[-5:] == ".json":
            snapshots[name[:-5]] = _asked(entry)
        elif name[-8:] == ".journal":
            session = name[:-8]
            journals[session] = ANY if session in final else _asked(entry)
        elif name.endswith(".json.tmp"):
            temporaries.add(name[:-9])


def _asked(entry: os.DirEntry[str] | Path) -> State | None:
    try:
        status = entry.stat()
    except OSError:
        return None
    # On POSIX nobody can set ctime by hand; on Windows it is the file's birth.
    return (status.st_mtime_ns if _WINDOWS else status.st_ctime_ns, status.st_size, status.st_ino)


class Index:
    """The index of one listing: what is known from the last one, and what is learned in this one."""

    def __init__(self, home: Path) -> None:
        self._path = home / "index"
        self._sessions = home / "sessions"
        self._rows = _load(self._path)
        self._settled = time.time_ns() - _FRESH
        self._spent = 0  # microseconds of reading that the index did not save

    def final(self) -> Set[str]:
        """The sessions that were completed when they were last read."""
        place = Summary._fields.index("status")
        return {name for name, (_, _, fields) in self._rows.items() if fields[place] == COMPLETED}

    def known(self, names: Iterable[str], seen: Look) -> Iterator[tuple[str, Summary | None]]:
        """Each session with the summary of its files as they were seen, if that is known."""
        row, snapshot, journal = self._rows.get, seen.snapshots.get, seen.journals.get
        for name in names:
            then, now = row(name), snapshot(name)
            if then is None or now is None or then[0] != now or not _same(then[1], journal(name)):
                yield name, None
            else:
                yield name, _summary(then[2])

    def learn(self, seen: Look, summary: Summary) -> None:
        """Remember what the files of a session said that were read after they were seen."""
        snapshot, journal = seen.snapshots.get(summary.id), seen.journals.get(summary.id)
        if journal is ANY:
            journal = _asked(self._sessions / f"{summary.id}.journal")
        states = [state for state in (snapshot, journal) if state is not None]
        if snapshot is None or summary.problem is not None or max(state[0] for state in states) > self._settled:
            return
        fields = (sys.intern(value) if name in _REPEATED and value else value for name, value in _pairs(summary))
        self._rows[summary.id] = (snapshot, journal and _pack(*journal), tuple(fields))
        self._spent += _READ + sum(state[1] for state in states) // _BYTES

    def save(self, names: Collection[str]) -> None:
        """Write what is known of the sessions ``names``, if that pays; where it cannot be written, it is not."""
        gone = max(0, len(self._rows) - len(names))
        if self._spent + gone <= _WRITE + _ROW * len(names):
            return
        rows = marshal.dumps({name: self._rows[name] for name in names if name in self._rows})
        with suppress(OSError):
            _replace(self._path, _HEADER + zlib.crc32(rows).to_bytes(_CRC_SIZE, "big") + rows)


def _same(then: bytes | None, now: State | None) -> bool:
    """Whether a journal is as it was."""
    if then is None or now is None:
        return then is None and now is None
    return now is ANY or then == _pack(*now)


_summary = partial(tuple.__new__, Summary)


def _pairs(summary: Summary) -> Iterable[tuple[str, Any]]:
    return zip(Summary._fields, summary, strict=True)


def _load(path: Path) -> dict[str, Row]:
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    start = len(_HEADER) + _CRC_SIZE
    rows = memoryview(data)[start:]
    if not data.startswith(_HEADER) or zlib.crc32(rows).to_bytes(_CRC_SIZE, "big") != data[len(_HEADER) : start]:
        return {}
    known: dict[str, Row] = marshal.loads(rows)  # noqa: S302 - our own, and whole
    return known


def _replace(path: Path, data: bytes) -> None:
    """A new file in one step, not fsynced: a torn one is found out.  Of several writers the first does it."""
    temporary = path.with_name(f"{path.name}.tmp")
    with suppress(FileNotFoundError):
        if time.time() - temporary.stat().st_mtime > _ABANDONED:
            temporary.unlink()
    descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
