"""Changing a session: every change is an entry in the journal, durable when ``log`` returns."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from gitsession import lifecycle
from gitsession.clock import timestamp
from gitsession.errors import IllegalTransition, StoreError
from gitsession.lifecycle import Doc, Entry
from gitsession.store.files import write_atomic
from gitsession.store.journal import Journal, decode, encode
from gitsession.store.record import serialize
from gitsession.store.state import State

# Bytes up to which every edit rewrites the snapshot; a larger one waits until the journal has grown by as much.
# Measured: growing to 5 MB in 1,000 entries costs 2.7 times the bare appending and fsyncing of the same bytes, and no
# single edit takes more than 35 ms.
SMALL = 1 << 18


class Draft:
    """A session while its write lock is held; see ``SessionStore.edit``."""

    def __init__(self, path: Path, journal: Journal, state: State) -> None:
        self._path = path
        self._journal = journal
        self._state = state
        self._logged = False
        self._must_save = False
        self.failed = False
        self.may_wait = False
        """Whether a small snapshot, too, is written only when the journal has grown by as much as it is large."""

    @property
    def doc(self) -> Doc:
        """The record as it is now.  It changes by ``log``; any other change is lost with the next crash."""
        return self._state.doc

    @staticmethod
    def now() -> str:
        """The moment as entries and records write it."""
        return timestamp()

    def log(self, event: str, **fields: Any) -> Entry:
        """Append an entry, fsynced, fold it into ``doc``, and return it.

        ``IllegalTransition`` changes nothing.  After a ``StoreError`` the session on disk is as it was and the draft
        takes nothing more.
        """
        self._refuse_after_failure()
        line = encode({"seq": self.doc["journal"]["seq"] + 1, "at": timestamp(), "event": event, **fields})
        # What is folded is what a reader will find: the line, not the caller's objects.
        entry = decode(line)
        self.failed = True
        try:
            lifecycle.fold(self.doc, entry)
        except IllegalTransition:
            self.failed = False
            raise
        if self.doc["status"] == lifecycle.COMPLETED:
            # ``gitsession.store.index`` counts on it.
            with suppress(OSError):
                os.utime(self._path)
        self.doc["journal"]["offset"] = self._journal.append(line, self._state.end)
        self.failed = False
        self._logged = True
        self._must_save = self._must_save or event == "status"
        return entry

    def save(self) -> None:
        """Write the snapshot now."""
        self._refuse_after_failure()
        data = serialize(self.doc, max(self._state.saved_size, self._state.written))
        write_atomic(self._path, data)
        self._state.written += len(data)
        self._state.saved_size = len(data)
        self._state.saved_end = self._state.end
        self._logged = self._must_save = False

    def close(self) -> None:
        """Write the snapshot if it is due: small, far behind, ahead of a journal that was cut, or of another status."""
        if self.failed or not self._logged:
            return
        grown = self._state.end - self._state.saved_end
        size = self._state.saved_size
        due = size < SMALL and not self.may_wait
        if self._must_save or due or grown > size or grown < 0:
            self.save()

    def _refuse_after_failure(self) -> None:
        if self.failed:
            raise StoreError(f"session {self.doc['id']} is not written further after the failure before")
