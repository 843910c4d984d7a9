"""Captures and checkpoints of one repository, each on top of the one before, as a session makes them."""

from __future__ import annotations

from collections.abc import Collection

from support import GitRepo

from gitsession.git import trees
from gitsession.git.capture import Captured, capture
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.git.trees import Entry


class Session:
    """What a session does to a repository, and no more; ``commits`` are its checkpoints, the base first."""

    def __init__(self, user: GitRepo, name: str = "s") -> None:
        self.user = user
        self.repo = Repo.discover(user.path)
        self.objects = Objects(self.repo)
        self.ledger = Ledger(self.repo, self.objects, name)
        self.last: Captured | None = None
        self.commits: list[str] = []

    def close(self) -> None:
        self.objects.close()

    def scan(self, *, keep: bool = True, **options: int) -> Captured:
        """Capture by scan; unless ``keep`` is off, the next one goes on from it."""
        return self._capture(None, keep, options)

    def known(self, *paths: bytes, keep: bool = True) -> Captured:
        """Capture these paths."""
        return self._capture(paths, keep, {})

    def _capture(self, paths: Collection[bytes] | None, keep: bool, options: dict[str, int]) -> Captured:
        last = self.last
        captured = capture(
            self.repo,
            self.objects,
            last.tree if last else None,
            paths=paths,
            previous_raw=last.raw if last else None,
            previous_empty=last.empty_dirs if last else (),
            **options,
        )
        self.objects.flush()
        if keep:
            self.last = captured
        return captured

    def checkpoint(self, **options: int) -> Captured:
        """Scan, and record it in the ledger."""
        captured = self.scan(**options)
        tip = self.commits[-1] if self.commits else None
        parent = tip or self.repo.head().oid
        subject = f"checkpoint {len(self.commits) - 1}" if tip else "base"
        self.commits.append(
            self.ledger.append(
                captured.tree,
                tip=tip,
                parent=parent,
                subject=subject,
                record={},
                index=len(self.commits) - 1 if tip else None,
            )
        )
        return captured

    def entries(self, captured: Captured) -> dict[bytes, Entry]:
        """Everything in the tree."""
        return dict(trees.walk(self.objects, captured.tree))

    def files(self, captured: Captured) -> dict[bytes, tuple[int, bytes]]:
        """The same with the blobs' bytes."""
        return {
            path: (entry.mode, self.objects.read(entry.oid)[1])
            for path, entry in self.entries(captured).items()
            if entry.mode != trees.GITLINK
        }


def paths_of(captured: Captured) -> list[bytes]:
    """The changed paths."""
    return [change.path for change in captured.changes]


def skipped(captured: Captured) -> dict[bytes, str]:
    """Path to reason of what was left out."""
    return {left.path: left.reason for left in captured.skipped}
