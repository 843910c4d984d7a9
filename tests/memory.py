"""An object database in a dictionary."""

from __future__ import annotations

import hashlib

from gitsession.git.trees import Unpacked


class Memory:
    """It counts what is read."""

    def __init__(self, object_format: str = "sha1") -> None:
        self.objects: dict[str, tuple[str, bytes]] = {}
        self.object_format = object_format
        self.reads: list[str] = []
        self.unpacked = Unpacked()

    def read(self, oid: str) -> tuple[str, bytes]:
        self.reads.append(oid)
        return self.objects[oid]

    def add(self, kind: str, data: bytes) -> str:
        oid = hashlib.new(self.object_format, b"%s %d\0%s" % (kind.encode(), len(data), data)).hexdigest()
        self.objects[oid] = (kind, data)
        return oid
