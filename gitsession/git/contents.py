"""The exact bytes of what a plan names: those of the tree's blob, those kept beside the tree, or those git makes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Final

from gitsession.git import trees
from gitsession.git.filters import Filters, blob_id, crlf
from gitsession.git.objects import Objects
from gitsession.git.plan import State, Version
from gitsession.git.repo import Repo
from gitsession.git.trees import EXECUTABLE, FILE, GITLINK, Entry

# Blobs above this are streamed from the git program instead of read whole.
_LARGE: Final = 8 * 1024 * 1024
_CHUNK: Final = 1024 * 1024
_ATTRIBUTES: Final = b".gitattributes"


class Contents:
    """Finds and reads the bytes of versions in ``repo``."""

    def __init__(self, repo: Repo, objects: Objects) -> None:
        self._repo = repo
        self._objects = objects
        self._sizes: dict[str, int] = {}
        self._made: set[str] = set()
        self._reading = Lock()

    def find(self, versions: Mapping[bytes, Version], state: State) -> list[bytes]:
        """Make sure that the versions, which are of ``state``, can be read; the paths for which that fails.

        What git's filters made of a file is made once more, with the attributes of today, then with those of the
        state; it counts only if it is byte for byte what it was.
        """
        exact = {path: version.exact for path, version in versions.items()}
        self._look_up(entry.oid for entry in exact.values())
        lost = {path: version for path, version in versions.items() if not self._readable(version)}
        filtered = {path: version.entry for path, version in lost.items() if _is_made(version)}
        for places in (_own_worktree, self._worktree_of(state)):
            if filtered:
                with places(self._repo) as repo:
                    self._make(repo, filtered)
                filtered = {path: entry for path, entry in filtered.items() if exact[path].oid not in self._made}
        return [path for path in lost if exact[path].oid not in self._made]

    def read(self, version: Version) -> Iterator[bytes]:
        """The bytes as they are on disk, in pieces."""
        oid = version.exact.oid
        size = self._sizes.get(oid)
        if size is None and oid not in self._made and _is_made(version):
            yield crlf(self._blob(version.entry.oid))
        elif size is None or size <= _LARGE:
            yield self._blob(oid)
        else:
            with self._repo.start("cat-file", "blob", oid) as running:
                stream = running.process.stdout
                while stream is not None and (chunk := stream.read(_CHUNK)):
                    yield chunk
                running.finish()

    def _blob(self, oid: str) -> bytes:
        """Read whole; also from several threads, which the reader of objects does not promise."""
        with self._reading:
            return self._objects.read(oid)[1]

    def _look_up(self, ids: Iterable[str]) -> None:
        """Ask, in one go, which of these objects are there and how large they are."""
        new = sorted(set(ids) - self._sizes.keys())
        if not new:
            return
        asked = "".join(f"{oid}\n" for oid in new).encode()
        out = self._repo.git("cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer", input=asked)
        for line in out.splitlines():
            oid, size = line.split(b" ", 1)
            if size.isdigit():
                self._sizes[oid.decode()] = int(size)

    def _readable(self, version: Version) -> bool:
        oid = version.exact.oid
        if oid in self._sizes or oid in self._made:
            return True
        if not _is_made(version) or not self._objects.has(version.entry.oid):
            return False
        return blob_id(self._repo.object_format, crlf(self._objects.read(version.entry.oid)[1])) == oid

    def _make(self, repo: Repo, entries: Mapping[bytes, Entry]) -> None:
        """Let git check these files out, and keep what it makes with the other objects."""
        with Filters(repo).smudged(entries) as place:
            for path in entries:
                made = Path(os.fsdecode(place), os.fsdecode(path))
                if made.is_file():
                    with made.open("rb") as file:
                        size = os.fstat(file.fileno()).st_size
                        self._made.add(self._objects.add_file(file.fileno(), size))

    def _worktree_of(self, state: State) -> _Places:
        """The repository with a worktree of its own, which has the attributes files of ``state`` and nothing else."""

        @contextmanager
        def place(repo: Repo) -> Iterator[Repo]:
            with TemporaryDirectory(dir=repo.private_dir, prefix="smudged-") as directory:
                for path, entry in trees.walk(self._objects, state.tree):
                    if path.rpartition(b"/")[2] == _ATTRIBUTES and entry.mode in {FILE, EXECUTABLE}:
                        file = Path(directory, os.fsdecode(path))
                        file.parent.mkdir(parents=True, exist_ok=True)
                        file.write_bytes(self._objects.read(entry.oid)[1])
                yield replace(repo, worktree=Path(directory))

        return place


_Places = Callable[[Repo], AbstractContextManager[Repo]]


def _own_worktree(repo: Repo) -> AbstractContextManager[Repo]:
    return nullcontext(repo)


def _is_made(version: Version) -> bool:
    """Whether the bytes are not stored, but made from the tree's blob."""
    return version.raw is not None and version.raw.mode == GITLINK
