"""What changed between two checkpoints of a session."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gitsession.errors import BadValue, CheckpointNotFound, OutsideRepository
from gitsession.git import diff
from gitsession.git.diff import FileChange, PatchOptions
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.plan import State, below
from gitsession.git.repo import Repo
from gitsession.ids import CHECKPOINT
from gitsession.lifecycle import Doc
from gitsession.store.sessions import SessionStore
from gitsession.verbs.checkpoint import repository_of

BASE = "base"
_SIDE = rf"(?:{CHECKPOINT}|{BASE})"
_RANGE = re.compile(rf"(?P<from>{_SIDE})?\.\.(?P<to>{_SIDE})?|(?P<one>{CHECKPOINT})")


@dataclass(frozen=True)
class Side:
    """One end of a comparison: a checkpoint, or with ``index`` ``None`` the base.

    ``meta`` is the commit with what the tree does not say of the files' bytes, if there is one.
    """

    index: int | None
    commit: str
    tree: str
    meta: str | None
    description: str

    @property
    def name(self) -> str:
        return BASE if self.index is None else str(self.index)


def is_range(text: str) -> bool:
    """Whether ``text`` can only mean checkpoints: ``2``, ``1..3``, ``base..3``, ``1..``, ``..3``."""
    return _RANGE.fullmatch(text) is not None


class Comparison:
    """Two sides of one session, in its repository; ``paths`` (relative to ``start``) limit it."""

    def __init__(
        self,
        store: SessionStore,
        session_id: str,
        spec: str | None,
        paths: Sequence[str] = (),
        start: Path | None = None,
    ) -> None:
        doc = store.read(session_id)
        self.session_id = session_id
        self.old, self.new = sides(doc, spec)
        self._repo = repository_of(doc)
        self._paths = [_relative(self._repo, path, start or Path.cwd()) for path in paths]

    def changes(self, *, ignore_space: bool = False) -> list[FileChange]:
        """The files that differ, with those that no patch has."""
        with Objects(self._repo) as objects:
            seen = diff.changes(
                self._repo, objects, self.old.tree, self.new.tree, self._limits, ignore_space=ignore_space
            )
            unseen = self._unseen(objects, ignore_space)
            return sorted([*seen, *unseen], key=lambda change: change.path)

    def unseen(self, *, ignore_space: bool = False) -> list[FileChange]:
        """The files that differ only in what git's filters take away."""
        with Objects(self._repo) as objects:
            return self._unseen(objects, ignore_space)

    def _unseen(self, objects: Objects, ignore_space: bool) -> list[FileChange]:
        if self.old.meta == self.new.meta:
            return []
        ledger = Ledger(self._repo, objects, self.session_id)
        old, new = (State(side.tree, ledger.raw(side.meta)) for side in (self.old, self.new))
        wanted = below(self._paths or (b"",))
        return diff.unseen(self._repo, objects, old, new, wanted, ignore_space=ignore_space)

    def patch(self, options: PatchOptions) -> bytes:
        """The unified diff, as git writes it."""
        return diff.patch(self._repo, self.old.tree, self.new.tree, self._limits, options)

    @property
    def _limits(self) -> list[bytes]:
        """The paths as git takes them."""
        return [path or b"." for path in self._paths]

    def encodings(self, paths: Sequence[bytes]) -> dict[bytes, str]:
        """The encodings that attributes declare for these files."""
        return diff.attributes(self._repo, paths)

    def pager(self) -> str:
        """The user's pager, by git's rules: a shell command."""
        return os.fsdecode(self._repo.git("var", "GIT_PAGER").strip())


def sides(doc: Doc, spec: str | None) -> tuple[Side, Side]:
    """What ``spec`` compares: ``N`` with the checkpoint before, ``A..B``; without one the base with the last.

    ``BadValue`` for anything else, ``CheckpointNotFound`` for a number there is no checkpoint of.
    """
    last = len(doc["checkpoints"]) - 1
    if spec is None:
        return _side(doc, BASE), _side(doc, str(last) if last >= 0 else BASE)
    match = _RANGE.fullmatch(spec)
    if match is None:
        raise BadValue(f"{spec!r} names no checkpoints", hint="write N, A..B or base..N")
    if match["one"] is not None:
        after = _side(doc, match["one"])
        return _side(doc, str(after.index - 1) if after.index else BASE), after
    return _side(doc, match["from"] or BASE), _side(doc, match["to"] or (str(last) if last >= 0 else BASE))


def _side(doc: Doc, name: str) -> Side:
    checkpoints = doc["checkpoints"]
    index = None if name == BASE else int(name)
    record = doc.get("base") if index is None else checkpoints[index] if index < len(checkpoints) else None
    if record is None or record.get("commit") is None:
        has = f"0 to {len(checkpoints) - 1}" if checkpoints else "none yet"
        what = "no base yet" if index is None else f"no checkpoint {index}; its checkpoints: {has}"
        raise CheckpointNotFound(
            f"session {doc['id']} has {what}", hint=f"pinable-agents session checkpoints {doc['id']} lists them"
        )
    return Side(
        index,
        record["commit"],
        record["tree"],
        record.get("meta"),
        record.get("description", "before the first change"),
    )


def _relative(repo: Repo, path: str, start: Path) -> bytes:
    """A path relative to where the user stands if that is in the worktree, else to the worktree."""
    here = start.resolve()
    found = repo.path_named(path, here if here.is_relative_to(repo.worktree) else repo.worktree)
    if found is None:
        raise OutsideRepository(f"{path} is not in {repo.worktree}", hint="name paths of the session's repository")
    return found
