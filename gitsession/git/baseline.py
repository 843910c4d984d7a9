"""Make sure, at a first checkpoint, that the bytes of unchanged tracked files can be had back.

Their blobs are what git stored, which need not be what is on the disk: git may have converted the files when it wrote
or took them, by a configuration that may be another one by now.  Nor need git's smudging give them: a file with mixed
line ends, once added, has a blob that says nothing of them.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gitsession.git.filters import Filters, blob_id, crlf
from gitsession.git.objects import LARGE, Objects, SizeChanged
from gitsession.git.repo import Repo
from gitsession.git.trees import EXECUTABLE, FILE, GITLINK, Entry

_CHUNK: Final = 1024 * 1024
_OPEN: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
# Of files that a filter driver made: larger ones are not stored twice if the driver makes them again, and of
# smaller ones only so much.
_SMALL: Final = 1024 * 1024
_BUDGET: Final = 64 * 1024 * 1024
# Bytes of files that are smudged together, beside one another on the disk.
_TOGETHER: Final = 64 * 1024 * 1024


def beside_unchanged(
    repo: Repo, objects: Objects, filters: Filters, index: Path, read: Collection[bytes]
) -> dict[bytes, Entry]:
    """What a first checkpoint keeps beside its tree (see ``gitsession.git.filters``) of the files that it did not read.

    These are the files of ``index`` that are not among ``read``.
    """
    checking = _Checking(repo, objects)
    on_disk: dict[bytes, int] = {}
    entries: dict[bytes, Entry] = {}
    for path, entry in _files(repo, index):
        size = checking.size(path) if path not in read else None
        if size is not None:
            entries[path], on_disk[path] = entry, size
    stored = _sizes(repo, {path: entry.oid for path, entry in entries.items()})
    deep = filters.deep(entries)
    for path, entry in entries.items():
        # Git only ever takes bytes away where it changes line ends: the same size means the same bytes.
        if path in deep or on_disk[path] != stored.get(path):
            checking.check(path, entry, on_disk[path])
    checking.check_smudged()
    return checking.beside


class _Checking:
    """Compares files with their blobs; ``beside`` is what that came to."""

    def __init__(self, repo: Repo, objects: Objects) -> None:
        self.beside: dict[bytes, Entry] = {}
        self._repo = repo
        self._objects = objects
        self._root = os.fsencode(repo.worktree)
        self._budget = _BUDGET
        self._to_smudge: dict[bytes, tuple[Entry, int]] = {}

    def size(self, path: bytes) -> int | None:
        """In bytes; None if no file stands there."""
        try:
            status = os.lstat(self._place(path))
        except OSError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def check(self, path: bytes, entry: Entry, size: int) -> None:
        """See whether the file's bytes follow from its blob; what takes git to see is put off."""
        if size <= LARGE:
            with open(os.open(self._place(path), _OPEN), "rb") as file:
                data = file.read()
            stored = self._objects.read(entry.oid)[1]
            if data == stored:
                return
            if data == crlf(stored):
                self._note(path, entry, blob_id(self._repo.object_format, data), stored=False)
                return
        if size > _SMALL or size > self._budget:
            self._to_smudge[path] = (entry, size)
        else:
            self._budget -= size
            self._keep(path, entry)

    def check_smudged(self) -> None:
        """Look at what was put off: keep what git does not give back."""
        for batch in self._batches():
            with Filters(self._repo).smudged(batch) as place:
                for path, entry in batch.items():
                    on_disk = self._file_id(self._place(path))
                    if on_disk is not None and on_disk == self._file_id(place + b"/" + path):
                        if on_disk != entry.oid:
                            self._note(path, entry, on_disk, stored=False)
                    else:
                        self._keep(path, entry)

    def _batches(self) -> Iterator[Mapping[bytes, Entry]]:
        batch: dict[bytes, Entry] = {}
        together = 0
        for path, (entry, size) in self._to_smudge.items():
            if batch and together + size > _TOGETHER:
                yield batch
                batch, together = {}, 0
            batch[path] = entry
            together += size
        if batch:
            yield batch

    def _keep(self, path: bytes, entry: Entry) -> None:
        """Store the file's own bytes.  One that is being written now is read at the next scan."""
        with suppress(FileNotFoundError, SizeChanged), open(os.open(self._place(path), _OPEN), "rb") as file:
            oid = self._objects.add_file(file.fileno(), os.fstat(file.fileno()).st_size)
            if oid != entry.oid:
                self._note(path, entry, oid, stored=True)

    def _note(self, path: bytes, entry: Entry, oid: str, *, stored: bool) -> None:
        self.beside[path] = Entry(entry.mode if stored else GITLINK, oid)

    def _file_id(self, place: bytes) -> str | None:
        with suppress(OSError), open(os.open(place, _OPEN), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            digest = hashlib.new(self._repo.object_format, b"blob %d\0" % size, usedforsecurity=False)
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
            return digest.hexdigest()
        return None

    def _place(self, path: bytes) -> bytes:
        return self._root + b"/" + path


def _files(repo: Repo, index: Path) -> Iterator[tuple[bytes, Entry]]:
    for line in repo.git("ls-files", "-s", "-z", index=index).split(b"\0")[:-1]:
        facts, path = line.split(b"\t", 1)
        mode, oid, _ = facts.split(b" ")
        if int(mode, 8) in (FILE, EXECUTABLE):
            yield path, Entry(int(mode, 8), oid.decode())


def _sizes(repo: Repo, oids: Mapping[bytes, str]) -> dict[bytes, int]:
    """The sizes of blobs in bytes; those that are not there are left out."""
    asked = "".join(f"{oid}\n" for oid in oids.values()).encode()
    answers = repo.git("cat-file", "--batch-check=%(objectsize)", "--buffer", input=asked).splitlines()
    return {path: int(answer) for path, answer in zip(oids, answers, strict=True) if answer.isdigit()}
