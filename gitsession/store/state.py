"""A session as read: the snapshot with what its journal holds beyond it folded in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gitsession.errors import IllegalTransition
from gitsession.lifecycle import Doc, Entry, fold
from gitsession.store import record
from gitsession.store.journal import Journal

# Entries that hold a whole record in ``session``: what came before them is not needed.
WHOLE = ("created", "repaired")


@dataclass
class State:
    """``doc`` is the record; its ``journal.offset`` is where the journal's good lines end."""

    doc: Doc
    saved_size: int  # bytes of the snapshot
    saved_end: int  # bytes of the journal that the snapshot holds
    written: int = 0  # bytes of snapshots that were written from here

    @property
    def end(self) -> int:
        offset: int = self.doc["journal"]["offset"]
        return offset


def read_state(path: Path, journal: Journal) -> State:
    """Read the session file ``path``; ``FileNotFoundError``, ``SessionCorrupted``, ``StoreError``.

    A writer at work does no harm: the snapshot changes in one step, and the journal, read after it, only grows.
    What a newer version wrote is not folded: its entries may mean something else.
    """
    data = record.read_bytes(path)
    doc = record.parse(data, path)
    if record.is_too_new(doc):
        return State(doc, len(data), 0)
    place = doc["journal"]
    saved_end = place["offset"]
    entries, place["offset"] = journal.read_beyond(saved_end)
    for entry in entries:
        _fold(doc, entry, journal.path)
    return State(doc, len(data), saved_end)


def _fold(doc: Doc, entry: Entry, path: Path) -> None:
    seq, folded = entry["seq"], doc["journal"]["seq"]
    if seq > folded + 1 and entry["event"] not in WHOLE:
        raise record.corrupted(path, f"lacks the entries {folded + 1} to {seq - 1}")
    try:
        fold(doc, entry)
    except (IllegalTransition, LookupError, TypeError, ValueError, AttributeError) as error:
        raise record.corrupted(path, f"has an entry {seq} ({entry['event']}) that does not fit: {error}") from error
