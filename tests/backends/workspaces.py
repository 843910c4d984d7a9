"""A working tree in memory."""

from __future__ import annotations

import hashlib
import re

from gitsession.backends.base import FileProblem, FileSeen


class MemoryWorkspace:
    """Files by path; what is not in it is not there."""

    def __init__(self, **files: bytes) -> None:
        self.held = {name.encode(): data for name, data in files.items()}
        self.executable: set[bytes] = set()

    def files(self) -> list[bytes]:
        return sorted(self.held)

    def read(self, path: bytes, limit: int) -> FileSeen | None:
        if path not in self.held:
            return None
        data = self.held[path]
        if len(data) > limit:
            raise FileProblem("too large")
        return FileSeen(data, hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(), path in self.executable)

    def search(self, pattern: str, below: bytes, ignore_case: bool, limit: int) -> bytes:
        found = [
            b"%s:%d:%s" % (path, number, line)
            for path, data in sorted(self.held.items())
            if path.startswith(below)
            for number, line in enumerate(data.splitlines(), 1)
            if re.search(pattern.encode(), line, re.IGNORECASE if ignore_case else 0)
        ]
        return b"\n".join(found)[:limit]
