"""What recovery tells and keeps.

``reports/<id>.txt`` is a session's last diagnosis, ``reports/<id>/`` holds its damaged files as they were.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from gitsession.clock import timestamp
from gitsession.errors import StoreError
from gitsession.store.files import TEMPORARY, explained, private_dir, sync_directory, write_atomic
from gitsession.store.record import read_bytes


class Reports:
    """The reports of a store whose home is ``home``."""

    def __init__(self, home: Path) -> None:
        self.directory = home / "reports"

    def path(self, session_id: str) -> Path:
        """Where the session's diagnosis is, if there is one."""
        return self.directory / f"{session_id}.txt"

    def write(self, session_id: str, text: str) -> Path:
        """Keep the diagnosis; the one before gives way."""
        private_dir(self.directory.parent)
        private_dir(self.directory)
        write_atomic(self.path(session_id), text.encode("utf-8", "backslashreplace"))
        return self.path(session_id)

    def keep(self, session_id: str, file: Path) -> Path | None:
        """Copy a file's bytes aside, the same bytes once; where they are, ``None`` if nobody can read such a file."""
        try:
            data = read_bytes(file)
        except (FileNotFoundError, StoreError):
            return None
        for kept in sorted(self._place(session_id).glob(f"*{file.name}")):
            with suppress(FileNotFoundError, StoreError):
                if kept.suffix != TEMPORARY and read_bytes(kept) == data:
                    return kept
        target = self._free(session_id, file.name)
        write_atomic(target, data)
        return target

    def take(self, session_id: str, place: Path) -> Path:
        """Move aside what stands at ``place``, whatever it is; where it is now."""
        target = self._free(session_id, place.name)
        with explained("move", place):
            place.rename(target)
            sync_directory(target.parent)
            sync_directory(place.parent)
        return target

    def _place(self, session_id: str) -> Path:
        private_dir(self.directory.parent)
        private_dir(self.directory)
        return private_dir(self.directory / session_id)

    def _free(self, session_id: str, name: str) -> Path:
        """Where something of this name can go."""
        stamp = timestamp().replace("-", "").replace(":", "")
        number = 1
        while os.path.lexists(target := self._place(session_id) / f"{stamp}-{number}-{name}"):
            number += 1
        return target
