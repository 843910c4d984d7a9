"""What recovery tells and keeps.

``reports/<id>.txt`` is a session's last diagnosis, ``reports/<id>/`` holds its damaged files as they were.
"""

from __future__ import annotations

from pathlib import Path

from gitsession.clock import timestamp
from gitsession.store.files import TEMPORARY, private_dir, write_atomic
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
        """Copy a file's bytes aside, the same bytes once; where they are, ``None`` if there is no such file."""
        try:
            data = read_bytes(file)
        except FileNotFoundError:
            return None
        private_dir(self.directory.parent)
        private_dir(self.directory)
        place = private_dir(self.directory / session_id)
        for kept in sorted(place.glob(f"*{file.name}")):
            if kept.suffix != TEMPORARY and kept.read_bytes() == data:
                return kept
        stamp = timestamp().replace("-", "").replace(":", "")
        number = 1
        while (target := place / f"{stamp}-{number}-{file.name}").exists():
            number += 1
        write_atomic(target, data)
        return target
