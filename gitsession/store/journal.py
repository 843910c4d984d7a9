"""A session's journal: ``<id>.journal``, append-only, one JSON object a line, fsynced line by line.

Each line is compact UTF-8 JSON ending in a newline::

    {"seq":7,"at":"2026-02-25T10:03:45Z","event":"checkpoint",…}

``seq`` rises from line to line, ``at`` is UTC, ``event`` says which further fields there are
(``gitsession.lifecycle``).  A last line without its newline, or one that is not such an object, is what a crash left of
a write nobody was told had succeeded: it does not count.  Anything else that cannot be read is corruption.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from gitsession import seam
from gitsession.errors import SessionCorrupted, StoreError
from gitsession.lifecycle import Entry
from gitsession.store.files import explained, open_private, sync_directory, write_all
from gitsession.store.record import KEPT, read_bytes, repair_with
from gitsession.unicode import told_in_unicode

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Journal:
    """The journal at ``path``; a missing file reads as an empty one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        """Bytes in the file now, a torn last line included."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def read(self, offset: int = 0) -> tuple[list[Entry], int]:
        """The entries from byte ``offset`` (where a line starts) on, and the byte after the last good one."""
        return self._entries(self._bytes(offset), offset)

    def read_beyond(self, offset: int) -> tuple[list[Entry], int]:
        """The same where the file may no longer be the one ``offset`` was measured in.

        If no line can start there it is read from its start; ``seq`` tells the entries that are known.
        """
        if offset == 0:
            return self.read()
        data = self._bytes(offset - 1)
        return self._entries(data[1:], offset) if data.startswith(b"\n") else self.read()

    def append(self, line: bytes, end: int) -> int:
        """Write ``line`` (see ``encode``) at byte ``end``, fsync, and return the byte after it.

        ``end`` is what ``read`` returned, the session's mutex held since; bytes beyond it are a torn line and go.
        On ``StoreError`` the journal is as it was.
        """
        with explained("write", self.path):
            seam.reach("journal.append")
            descriptor = open_private(self.path, os.O_RDWR | os.O_CREAT)
            try:
                size = os.fstat(descriptor).st_size
                if size < end:
                    raise self._corrupted(size, "is missing: the file became shorter")
                if size > end:
                    os.ftruncate(descriptor, end)
                os.lseek(descriptor, end, os.SEEK_SET)
                try:
                    write_all(descriptor, line)
                    seam.reach("journal.fsync")
                    os.fsync(descriptor)
                    if size == 0:
                        sync_directory(self.path.parent)
                except OSError:
                    with suppress(OSError):
                        os.ftruncate(descriptor, end)
                    raise
            finally:
                os.close(descriptor)
        return end + len(line)

    def follow(self, offset: int = 0, interval: float = 0.25) -> Iterator[Entry]:
        """Entries from ``offset`` on as they are written, looking every ``interval`` seconds.

        Ends when the journal is moved away.
        """
        while self.path.exists():
            entries, offset = self.read(offset)
            yield from entries
            if not entries:
                time.sleep(interval)

    def _entries(self, data: bytes, offset: int) -> tuple[list[Entry], int]:
        """Parse ``data``, which begins at byte ``offset``."""
        entries: list[Entry] = []
        position, seq = 0, 0
        while (newline := data.find(b"\n", position)) >= 0:
            entry = parse_line(data[position:newline])
            if entry is None:
                if newline + 1 == len(data):
                    break
                raise self._corrupted(offset + position, "is not a journal entry")
            if entry["seq"] <= seq:
                raise self._corrupted(offset + position, f"is entry {entry['seq']} after entry {seq}")
            seq = entry["seq"]
            entries.append(entry)
            position = newline + 1
        return entries, offset + position

    def _bytes(self, offset: int) -> bytes:
        try:
            return read_bytes(self.path, offset)
        except FileNotFoundError:
            return b""

    def _corrupted(self, offset: int, what: str) -> SessionCorrupted:
        line = self._bytes(0).count(b"\n", 0, offset) + 1
        return SessionCorrupted(
            f"{self.path}: line {line} (byte {offset}) {what}", hint=f"{KEPT}; {repair_with(self.path.stem)}"
        )


def encode(entry: Entry) -> bytes:
    """The line of ``entry``; ``StoreError`` for text that is not Unicode."""
    try:
        return _encoder.encode(entry).encode("utf-8") + b"\n"
    except UnicodeEncodeError as error:
        raise StoreError(f"cannot record {entry['event']}: its text is not valid Unicode") from error


def decode(line: bytes) -> Entry:
    """The entry of a line that ``encode`` made."""
    entry: Entry = json.loads(line)
    return entry


def parse_line(line: bytes) -> Entry | None:
    """The entry of a line without its newline; ``None`` if it is none."""
    try:
        entry: Any = decode(line)
    except (ValueError, RecursionError):
        return None
    good = (
        isinstance(entry, dict)
        and type(entry.get("seq")) is int
        and isinstance(entry.get("at"), str)
        and isinstance(entry.get("event"), str)
        and told_in_unicode(line, entry)
    )
    return entry if good else None
