"""Our own indexes of a worktree, by which git finds changed files without reading the others.

Git compares the files with an index, whose stat data spare it reading what nobody touched.  Ours is made from the
user's, which is neither written nor relied on to stay as it is:
``<worktree's git directory>/pinable/index.<tree>.<signature>``, where ``tree`` is the tree that the index holds and
``signature`` tells which state of the user's index it was made from.  File and meaning change in one rename, and a lock
file that a kill left behind is never in the way, because every new index is made under a new name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from gitsession.errors import GitFailed
from gitsession.git import trees
from gitsession.git.filters import Filters
from gitsession.git.objects import Objects, sync
from gitsession.git.program import Argument
from gitsession.git.repo import Repo, Running
from gitsession.git.trees import Entry

# What makes an index of ours complete in one file, and its stat data worth the most.
_CONFIG: Final = (
    "-c", "core.splitIndex=false", "-c", "core.untrackedCache=false", "-c", "index.sparse=false",
    "-c", "sparse.expectFilesOutsideOfPatterns=false",
    "-c", "core.trustctime=true", "-c", "core.checkStat=default", "-c", "core.ignoreStat=false",
    "-c", "core.safecrlf=false",
)  # fmt: skip
# Hash large files in pieces, and without deflating them in vain.
_STREAMED: Final = ("-c", "core.bigFileThreshold=8m", "-c", "pack.compression=0")
_KEPT: Final = 4  # indexes made from the same state of the user's
_ABANDONED: Final = 3600.0  # seconds after which a temporary file is nobody's
_PART: Final = 1 << 20  # bytes


class Index(NamedTuple):
    """A private index: its file, the tree it holds, and the state of the user's index it was made from."""

    path: Path
    tree: str
    signature: str


class Indexes:
    """The private indexes of the worktree of ``repo``."""

    def __init__(self, repo: Repo, filters: Filters) -> None:
        self._repo = repo
        self._filters = filters

    def git(self, index: Path, *args: Argument, input: bytes | None = None) -> bytes:  # noqa: A002 - subprocess's name
        """Run git on an index of ours."""
        return self._repo.git(*_CONFIG, *self._filters.options, *args, input=input, index=index)

    def start(self, index: Path, *args: Argument) -> Running:
        """The same, without waiting."""
        return self._repo.start(*_CONFIG, *self._filters.options, *args, index=index)

    def current(self, there: Callable[[str], bool]) -> tuple[Index, Index | None]:
        """The newest index that fits the user's as it is now: it knows most of the files as they are.

        One whose tree is not ``there`` is removed.  If none is left, a new one is made; then the second value is the
        newest of those that do not fit.
        """
        signature = self._signature()
        indexes = self._all()
        fitting = [index for index in indexes if index.signature == signature]
        for index in fitting:
            if there(index.tree):
                return index, None
            index.path.unlink(missing_ok=True)
        others = (index for index in indexes if index.signature != signature)
        return self._seed(signature), next(others, None)

    def heal(
        self, objects: Objects, index: Index, found: Mapping[bytes, Entry | None], unchanged: Callable[[], bool]
    ) -> None:
        """Enter ``found``, which was just read, into a new index, so that it need not be read again.

        If anything of it changed meanwhile, the index is not kept; ``unchanged`` is asked about what git cannot tell.
        """
        tree = trees.update(objects, index.tree, found)
        objects.flush()
        gone = [_line(0, "0" * len(tree), path) for path, entry in found.items() if entry is None]
        there = [path + b"\0" for path, entry in found.items() if entry is not None]
        with self.fresh(index.path) as temporary, suppress(GitFailed):
            if gone:
                self.git(temporary, "update-index", "-z", "--index-info", input=b"".join(gone))
            self.git(
                temporary, *_STREAMED, "update-index", "--add", "--replace", "--info-only", "-z", "--stdin",
                input=b"".join(there),
            )  # fmt: skip
            differing = self.git(temporary, "diff-index", "--cached", "--raw", "-z", "--ignore-submodules=none", tree)
            if not differing and unchanged():
                _put(temporary, self._name(tree, index.signature))

    def tidy(self, current: Index) -> None:
        """Remove indexes that fit no longer and what killed processes left."""
        fitting = 0
        for index in self._all():
            fitting += index.signature == current.signature
            if index.path != current.path and (index.signature != current.signature or fitting > _KEPT):
                index.path.unlink(missing_ok=True)
        for pattern in ("new-*", "scratch-*", "smudged-*"):
            for path in self._repo.private_dir.glob(pattern):
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > _ABANDONED:
                        _remove(path)

    @contextmanager
    def fresh(self, original: Path) -> Iterator[Path]:
        """A copy of an index under a new name; if it still bears it afterwards, it is removed.

        It has the original's time, by which git tells whose stat data may be too young to be trusted.  There is no
        copy where there is no original: to git that is an empty index.
        """
        path = self._repo.private_dir / f"new-{os.urandom(8).hex()}"
        try:
            with suppress(FileNotFoundError), original.open("rb") as source:
                with path.open("xb") as target:
                    while part := source.read(_PART):
                        target.write(part)
                facts = os.fstat(source.fileno())
                os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
            yield path
        finally:
            for leftover in (path, path.with_name(path.name + ".lock")):
                leftover.unlink(missing_ok=True)

    def _all(self) -> list[Index]:
        """Those there are, the newest first."""
        found = []
        for path in self._repo.private_dir.glob("index.*.*"):
            _, tree, signature = path.name.split(".", 2)
            with suppress(OSError):
                found.append((path.stat().st_ctime_ns, Index(path, tree, signature)))
        return [index for _, index in sorted(found, reverse=True)]

    def _signature(self) -> str:
        """Which state the user's index is in: git writes a new file each time."""
        try:
            facts = (self._repo.git_dir / "index").stat()
        except FileNotFoundError:
            return "none"
        return f"{facts.st_mtime_ns:x}-{facts.st_ctime_ns:x}-{facts.st_size:x}-{facts.st_ino:x}"

    def _seed(self, signature: str) -> Index:
        """An index that says what the user's says, without what would hide files from a scan."""
        with self.fresh(self._repo.git_dir / "index") as temporary:
            if next(self._repo.git_dir.glob("sharedindex.*"), None) is not None:
                self.git(temporary, "update-index", "--no-split-index")
            listing = self.git(temporary, "ls-files", "-s", "-v", "-z").split(b"\0")[:-1]
            odd = [line for line in listing if not line.startswith(b"H ")]
            if odd:
                self._straighten(temporary, odd)
            tree = self.git(temporary, "write-tree", "--missing-ok").decode().strip()
            if not temporary.exists():
                self.git(temporary, "read-tree", "--empty")
            path = self._name(tree, signature)
            _put(temporary, path)
        return Index(path, tree, signature)

    def _straighten(self, index: Path, lines: Iterable[bytes]) -> None:
        """Take the marks off entries that keep git from looking at files, and resolve conflicts, no matter how.

        ``lines`` are of ``git ls-files -s -v``: ``<letter> <mode> <id> <stage>\\t<path>``, a small letter for a file
        that is assumed unchanged, ``S`` for one that a sparse checkout leaves away.
        """
        assumed, hidden = [], []
        conflicts: dict[bytes, tuple[int, str]] = {}
        for line in lines:
            facts, path = line.split(b"\t", 1)
            letter, mode, oid, stage = facts.split(b" ")
            if stage != b"0":
                # Ours if there is one.  The entry gets no stat data, so git reports it until it is read.
                if stage == b"2" or path not in conflicts:
                    conflicts[path] = (int(mode, 8), oid.decode())
                continue
            if letter.islower():
                assumed.append(path)
            if letter.upper() == b"S" and not (self._filters.sparse and self._is_absent(path)):
                hidden.append(path)
        for option, paths in (("--no-assume-unchanged", assumed), ("--no-skip-worktree", hidden)):
            if paths:
                self.git(index, "update-index", option, "-z", "--stdin", input=b"".join(path + b"\0" for path in paths))
        if conflicts:
            resolved = [
                _line(0, "0" * len(oid), path) + _line(mode, oid, path) for path, (mode, oid) in conflicts.items()
            ]
            self.git(index, "update-index", "-z", "--index-info", input=b"".join(resolved))

    def _is_absent(self, path: bytes) -> bool:
        return not os.path.lexists(os.fsencode(self._repo.worktree) + b"/" + path)

    def _name(self, tree: str, signature: str) -> Path:
        return self._repo.private_dir / f"index.{tree}.{signature}"


def _remove(path: Path) -> None:
    if path.is_dir():
        import shutil

        shutil.rmtree(path)
    else:
        path.unlink()


def _put(temporary: Path, path: Path) -> None:
    """Give an index its name, its bytes on the disk first: a power failure must not leave one cut short."""
    sync(temporary)
    temporary.replace(path)


def in_users_index(repo: Repo, path: bytes) -> bool:
    """Whether the user's index has the file."""
    return repo.git("ls-files", "-z", "--", path) != b""


def _line(mode: int, oid: str, path: bytes) -> bytes:
    """What ``git update-index -z --index-info`` reads; mode 0 takes a path out."""
    return b"%o %b\t%b\0" % (mode, oid.encode(), path)
