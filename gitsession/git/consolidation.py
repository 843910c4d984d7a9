"""One pack in place of many.

A checkpoint of more than a few files is a pack of its own.  Many packs slow every git down, and past
``gc.autoPackLimit`` (50) they would set off the user's automatic gc.  So the names of our packs are kept in
``pinable/packs`` of the common directory, and when there are ``MANY`` the git program makes one of them, beside the
work.  The small ones go when every object of theirs is in the new one, on the disk.  A kill at any point leaves
objects twice at worst.

A pack that no ref leads to yet has a ``.keep`` file, or a ``git repack -a -d`` beside us would drop it.  What ours say,
``gitsession <process id>``, tells them from the user's, so that those of killed processes can be removed.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gitsession import seam
from gitsession.errors import GitFailed
from gitsession.git.packs import PackIndex
from gitsession.git.repo import Repo, Running

MANY: Final = 20
_ABANDONED: Final = 3600.0  # seconds after which a file that holds others off is a dead process's
_MARK: Final = "gitsession "
_DURABLE: Final = ("-c", "core.fsync=loose-object,reference,pack,pack-metadata")


def note(repo: Repo, name: str) -> None:
    """Remember that pack ``name`` (``pack-<hash>``) is ours; if that is lost it is merely never consolidated."""
    with _list(repo).open("a", encoding="ascii") as file:
        file.write(name + "\n")


def hold(directory: Path, name: str) -> Path | None:
    """Make git keep the pack ``name``, which need not be there yet: the file to remove; None if another one does it."""
    keep = directory / f"{name}.keep"
    return keep if _mark(keep) else None


class Consolidation:
    """Consolidates the packs of ``repo`` while its owner does something else."""

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._directory = repo.common_dir / "objects" / "pack"
        self._running: Running | None = None
        self._midx = self._directory / "multi-pack-index"
        self._midx_lock = self._directory / "multi-pack-index.lock"
        self._small: list[PackIndex] = []

    def tend(self) -> None:
        """Begin if there are ``MANY``, finish if the git that was begun is done; never waits."""
        if self._running is None:
            self._begin()
        elif self._running.process.poll() is not None:
            self._finish()

    def close(self) -> None:
        """Finish what was begun, and remove what killed processes left in the user's way."""
        if self._running is not None:
            self._finish()
        for path in (*self._directory.glob("pack-*.keep"), self._midx_lock):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED and path.read_bytes().startswith(_MARK.encode()):
                    path.unlink()

    def _begin(self) -> None:
        names = _names(self._repo)
        if len(names) < MANY or self._midx_lock.exists():
            return
        there = [path for name in names if (path := self._directory / f"{name}.idx").exists()]
        if len(there) < len(names):  # a gc of the user's has been here
            _rewrite(self._repo, [path.stem for path in there])
        there = [path for path in there if not path.with_suffix(".keep").exists()]
        if len(there) < MANY:
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
        self._small = []
        with suppress(OSError):  # then there are merely more packs than need be
            self._replace(small, large)

    def _replace(self, small: list[PackIndex], large: PackIndex) -> None:
        note(self._repo, large.pack.stem)
        keep = hold(self._directory, large.pack.stem)
        try:
            # A repack that did not see the file yet may have taken the pack away.
            if large.pack.exists():
                self._drop(small)
        finally:
            if keep is not None:
                keep.unlink(missing_ok=True)
        _rewrite(self._repo, [name for name in _names(self._repo) if (self._directory / f"{name}.idx").exists()])

    def _drop(self, small: list[PackIndex]) -> None:
        """Remove the packs, but those that somebody keeps; none while another git writes a multi-pack-index."""
        with self._midx_locked() as locked:
            free = [index.pack for index in small if not index.pack.with_suffix(".keep").exists()]
            if not locked or not free:
                return
            self._clear_midx(free)
            for pack in free:
                seam.reach("pack.drop")
                # The index first: nobody must find one whose pack is gone.
                for ending in (".idx", ".rev", ".pack"):
                    pack.with_suffix(ending).unlink(missing_ok=True)

    @contextmanager
    def _midx_locked(self) -> Iterator[bool]:
        """Keep others from writing a multi-pack-index, as git does; False if they keep us from it."""
        locked = _mark(self._midx_lock)
        try:
            yield locked
        finally:
            if locked:
                self._midx_lock.unlink(missing_ok=True)

    def _clear_midx(self, packs: Collection[Path]) -> None:
        """Remove a multi-pack-index that lists one of ``packs``: git would not find the objects anywhere else."""
        chain = self._directory / "multi-pack-index.d"
        names = [pack.with_suffix(".idx").name.encode() for pack in packs]
        if _contains_any(self._midx, names):
            self._midx.unlink(missing_ok=True)
            _remove_all(self._directory)
        if any(_contains_any(layer, names) for layer in chain.glob("multi-pack-index-*.midx")):
            (chain / "multi-pack-index-chain").unlink(missing_ok=True)
            _remove_all(chain)


def _remove_all(directory: Path) -> None:
    """Remove what belongs to a multi-pack-index that is gone."""
    for ending in ("midx", "rev", "bitmap"):
        for path in directory.glob(f"multi-pack-index-*.{ending}"):
            path.unlink(missing_ok=True)


def _contains_any(path: Path, words: Collection[bytes]) -> bool:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(word) >= 0 for word in words)
    except (FileNotFoundError, ValueError):  # none, or an empty one
        return False


def _mark(path: Path) -> bool:
    """Make a file of ours that holds others off; False if there is one."""
    try:
        file = path.open("x", encoding="ascii")
    except FileExistsError:
        return False
    try:
        with file:
            file.write(f"{_MARK}{os.getpid()}\n")
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return True


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
