"""One pack in place of many.

A checkpoint of more than a few files is a pack of its own.  Many packs slow every git down, and past
``gc.autoPackLimit`` (50) they would set off the user's automatic gc.  So the names of our packs are kept in
``pinable/packs`` of the common directory, and when there are ``MANY`` the git program makes one of them, beside the
work.  The small ones go when every object of theirs is in the new one, on the disk.  A kill at any point leaves
objects twice at worst.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from gitsession import seam
from gitsession.errors import GitFailed
from gitsession.git.packs import PackIndex
from gitsession.git.repo import Repo, Running

MANY: Final = 20
_DURABLE: Final = ("-c", "core.fsync=loose-object,reference,pack,pack-metadata")


def note(repo: Repo, name: str) -> None:
    """Remember that pack ``name`` (``pack-<hash>``) is ours; if that is lost it is merely never consolidated."""
    with _list(repo).open("a", encoding="ascii") as file:
        file.write(name + "\n")


class Consolidation:
    """Consolidates the packs of ``repo`` while its owner does something else."""

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._directory = repo.common_dir / "objects" / "pack"
        self._running: Running | None = None
        self._small: list[PackIndex] = []

    def tend(self) -> None:
        """Begin if there are ``MANY``, finish if the git that was begun is done; never waits."""
        if self._running is None:
            self._begin()
        elif self._running.process.poll() is not None:
            self._finish()

    def close(self) -> None:
        """Finish what was begun."""
        if self._running is not None:
            self._finish()

    def _begin(self) -> None:
        names = _names(self._repo)
        if len(names) < MANY:
            return
        there = [path for name in names if (path := self._directory / f"{name}.idx").exists()]
        if len(there) < MANY:  # a gc of the user's has been here
            _rewrite(self._repo, [path.stem for path in there])
            return
        id_size = 32 if self._repo.object_format == "sha256" else 20
        with suppress(OSError, ValueError):
            self._small = [PackIndex(path, id_size) for path in there]
            ids = {oid for index in self._small for oid in index}
            self._running = self._repo.start(
                *_DURABLE, "pack-objects", "--quiet", "--threads=1", "--non-empty", self._directory / "pack"
            )
            self._running.feed(b"".join(oid.hex().encode() + b"\n" for oid in sorted(ids)))

    def _finish(self) -> None:
        running, self._running = self._running, None
        assert running is not None  # noqa: S101 - the callers look
        try:
            with running:
                made = running.finish().decode().strip()
            large = PackIndex(self._directory / f"pack-{made}.idx", self._small[0].id_size)
        except (GitFailed, OSError, ValueError):
            return  # another process was quicker, or the disk is full: the small ones are still there
        small = [index for index in self._small if index.pack.stem != f"pack-{made}"]
        if not all(oid in large for index in small for oid in index):
            return
        note(self._repo, f"pack-{made}")
        for index in small:
            seam.reach("pack.drop")
            # The index first: nobody must find one whose pack is gone.
            for ending in (".idx", ".rev", ".pack"):
                index.pack.with_suffix(ending).unlink(missing_ok=True)
        self._small = []
        _rewrite(self._repo, [name for name in _names(self._repo) if (self._directory / f"{name}.idx").exists()])


def _list(repo: Repo) -> Path:
    directory = repo.common_dir / "pinable"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory / "packs"


def _names(repo: Repo) -> list[str]:
    """Our packs' names; a torn or foreign line is nobody's."""
    try:
        lines = _list(repo).read_text(encoding="ascii", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return list(dict.fromkeys(line for line in lines if line.startswith("pack-") and line[5:].isalnum()))


def _rewrite(repo: Repo, names: list[str]) -> None:
    path = _list(repo)
    temporary = path.with_name(f"packs-{os.getpid()}")
    temporary.write_text("".join(name + "\n" for name in names), encoding="ascii")
    temporary.replace(path)
