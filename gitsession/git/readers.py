"""Reading git objects: libgit2 where it opens the repository, else one ``git cat-file`` that stays open."""

from __future__ import annotations

import subprocess
import zlib
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Protocol, cast

from gitsession.git.repo import Repo

if TYPE_CHECKING:
    import pygit2

_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}


class Reader(Protocol):
    """What reads objects by their id in hex."""

    def read(self, oid: str) -> tuple[str, bytes] | None:
        """Kind and bytes; None when the object is missing or damaged."""

    def has(self, oid: str) -> bool:
        """Whether there is such an object."""

    def close(self) -> None:
        """End what runs on its behalf; it may be used again afterwards."""


def open_reader(repo: Repo) -> Reader:
    """The fastest reader that can read ``repo``."""
    libgit = repo.libgit()
    return ProgramReader(repo) if libgit is None else LibgitReader(repo, libgit)


class LibgitReader:
    """Reads in this process; what it does not find or cannot read it asks git for, which also fetches.

    Loose objects are read here: libgit2 up to 1.9 never returns from reading one that is cut short, as a power failure
    may leave it (libgit2 issue 7342).
    """

    def __init__(self, repo: Repo, libgit: pygit2.Repository) -> None:
        self._odb = libgit.odb
        self._directory = repo.common_dir / "objects"
        self._program = ProgramReader(repo)

    def read(self, oid: str) -> tuple[str, bytes] | None:
        from pygit2 import GitError

        try:
            return _inflate(self._directory.joinpath(oid[:2], oid[2:]).read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, ValueError):
            return self._program.read(oid)
        try:
            kind, data = self._odb.read(oid)
        except (KeyError, GitError, OSError):  # a 'git gc' beside us removes packs under its hands
            return self._program.read(oid)
        return _KINDS[kind], data

    def has(self, oid: str) -> bool:
        from pygit2 import GitError

        try:
            return oid in self._odb
        except (GitError, OSError):
            return self._program.has(oid)

    def close(self) -> None:
        self._program.close()


def _inflate(packed: bytes) -> tuple[str, bytes]:
    """What a loose object's file holds; ``ValueError`` if that is damaged."""
    try:
        header, _, data = zlib.decompress(packed).partition(b"\0")
    except zlib.error as error:
        raise ValueError(str(error)) from error
    kind, size = header.split()
    if int(size) != len(data):
        raise ValueError("wrong size")
    return kind.decode(), data


class ProgramReader:
    """Reads through ``git cat-file --batch``, started when first needed; what is loose and sound it reads itself."""

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._directory = repo.common_dir / "objects"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def read(self, oid: str) -> tuple[str, bytes] | None:
        with suppress(OSError, ValueError):
            return _inflate(self._directory.joinpath(oid[:2], oid[2:]).read_bytes())
        answer, out = self._ask("--batch", oid)
        if len(answer) != 3:
            return None
        _oid, kind, size = answer
        data = out.read(int(size) + 1)  # and a newline
        if len(data) <= int(size):
            self._died("--batch")
            return None
        return kind.decode(), data[:-1]

    def has(self, oid: str) -> bool:
        return len(self._ask("--batch-check", oid)[0]) == 3

    def close(self) -> None:
        for process in self._running.values():
            process.communicate()
        self._running.clear()

    def _ask(self, mode: str, oid: str) -> tuple[list[bytes], IO[bytes]]:
        """The answer, ``<id> <kind> <size>`` or ``<id> missing``, in words, and the stream that goes on with bytes."""
        if mode not in self._running:
            self._running[mode] = self._repo.converse("cat-file", mode)
        process = self._running[mode]
        question, out = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        question.write(oid.encode() + b"\n")
        with suppress(BrokenPipeError):
            question.flush()
        answer = out.readline().split()
        if not answer:
            self._died(mode)
        return answer, out

    def _died(self, mode: str) -> None:
        """git ends at a damaged object; the next question goes to a new one."""
        self._running.pop(mode).communicate()
