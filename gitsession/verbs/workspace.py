"""The working tree as a model may see it: files that git would see, no link followed, nothing of git's."""

from __future__ import annotations

import os
from contextlib import suppress

from gitsession import paths
from gitsession.backends.base import FileProblem, FileSeen
from gitsession.errors import GitFailed
from gitsession.git.repo import Repo
from gitsession.git.trees import EXECUTABLE, FILE, LINK, TREE
from gitsession.git.worktree import Found, Obstructed, Worktree, reason_of

_TOKEN = "read"  # noqa: S105 - nothing is written under it


class Workspace:
    """See ``gitsession.backends.base.Workspace``; safe to be asked from another thread."""

    def __init__(self, repo: Repo) -> None:
        self._repo = repo

    def files(self) -> list[bytes]:
        """Tracked files that are there, and untracked ones that are not ignored."""
        listed = self._repo.git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        root = os.fsencode(self._repo.worktree)
        return [
            path
            for path in sorted(set(listed.split(b"\0")) - {b""})
            if os.path.lexists(os.path.join(root, path))  # noqa: PTH118 - bytes
        ]

    def read(self, path: bytes, limit: int) -> FileSeen | None:
        """A file's bytes; ``FileProblem`` says why they cannot be had."""
        name = paths.encode(path)
        try:
            with Worktree(self._repo.worktree, _TOKEN, object_format=self._repo.object_format) as worktree:
                found = worktree.look(path)
                if found is None:
                    return None
                _refuse_what_is_no_file(worktree, name, path, found)
                size = found.status.st_size
                if size > limit:
                    raise FileProblem(f"{name} is too large ({size:,} bytes, at most {limit // 1024**2} MB are read)")
                data, oid = worktree.read(path)
        except Obstructed as obstruction:
            raise FileProblem(f"{name}: {paths.encode(obstruction.path)} is no directory, or a link to one") from None
        except OSError as error:
            raise FileProblem(f"{name} cannot be read: {reason_of(error)}") from None
        return FileSeen(data, oid, found.mode == EXECUTABLE)

    def search(self, pattern: str, below: bytes, ignore_case: bool, limit: int) -> bytes:
        """Matching lines, as ``git grep`` finds them, at most ``limit`` bytes."""
        options = ["-i"] if ignore_case else []
        where = [below] if below else []
        running = self._repo.start(
            "grep", "--untracked", "-n", "-I", "-E", "--no-color", *options, "-e", pattern, "--", *where
        )
        with running:
            stream = running.process.stdout
            found = stream.read(limit) if stream is not None else b""
            if len(found) >= limit:
                return found[:limit]
            try:
                running.finish(ok=(0, 1))
            except GitFailed as error:
                raise FileProblem(f"the search failed: {error}") from None
        return found


def _refuse_what_is_no_file(worktree: Worktree, name: str, path: bytes, found: Found) -> None:
    if found.mode in (FILE, EXECUTABLE):
        return
    if found.mode == LINK:
        target = b""
        with suppress(OSError):
            target = worktree.target(path)
        raise FileProblem(f"{name} is a symbolic link (to {paths.encode(target)}), and links are not followed")
    if found.mode == TREE:
        raise FileProblem(f"{name} is a directory")
    raise FileProblem(f"{name} is no regular file")
