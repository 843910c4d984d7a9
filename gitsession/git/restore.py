"""Do what a plan says, path by path, so that it can be killed anywhere and done again.

Each step looks first: what stands at the path is what the plan goes from (then it is done), what it goes to (then it
was done before), or something else (somebody wrote there meanwhile: it is left alone and reported).
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from gitsession import paths
from gitsession.errors import RepositoryError
from gitsession.git import trees
from gitsession.git.capture import Captured, Skipped
from gitsession.git.contents import Contents, exact_entry
from gitsession.git.objects import Objects
from gitsession.git.plan import Plan, State, Version, parents
from gitsession.git.trees import LINK, TREE
from gitsession.git.worktree import OTHER, Found, Obstructed, Worktree, reason_of

Progress = Callable[[int, int], None]
"""Called with how many paths are done and how many there are."""

MEANWHILE = "changed while the restore ran"
# Not one path's trouble: going on would fail for every other one.
_FATAL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE}


@dataclass
class Applied:
    """``done`` paths hold what the target has (some did before); ``left`` ones do not, with the reason."""

    done: list[bytes] = field(default_factory=list)
    left: list[tuple[bytes, str]] = field(default_factory=list)


def obstacles(plan: Plan, worktree: Worktree) -> tuple[list[bytes], list[tuple[bytes, str]]]:
    """What no scan sees and the plan would need gone: looked for before anything is touched.

    First files with bytes that no state knows (ignored ones) at a path to be written: they can be recorded, and then
    replaced.  Then what can only be left alone, with the reason: the restore has to be refused.
    """
    leaving = {step.path for step in plan.steps if step.new is None}
    unrecorded: list[bytes] = []
    blocked: list[tuple[bytes, str]] = []
    for step in plan.steps:
        if step.old is not None or step.new is None:
            continue
        try:
            found = worktree.look(step.path)
        except Obstructed as obstruction:
            if obstruction.path not in leaving:
                blocked.append((obstruction.path, f"is in the way of {paths.encode(step.path)}"))
            continue
        if found is None:
            continue
        if found.mode == TREE:
            inside = [path for path in worktree.below(step.path) if path not in leaving]
            blocked += [(path, f"is in the way of the file {paths.encode(step.path)}") for path in inside[:10]]
        elif found.mode == OTHER:
            blocked.append((step.path, "is neither a file nor a link"))
        elif worktree.blob_id(step.path, found) != exact_entry(step.new).oid:
            unrecorded.append(step.path)
    return unrecorded, blocked


def missing(plan: Plan, target: State, contents: Contents) -> list[bytes]:
    """The paths whose bytes the object database does not have."""
    return contents.find({step.path: step.new for step in plan.steps if step.new is not None}, target)


def apply(plan: Plan, worktree: Worktree, contents: Contents, progress: Progress | None = None) -> Applied:
    """Carry out ``plan``; ``RepositoryError`` when nothing more can be written.

    The same plan can then be done again, as after a kill.
    """
    return _Application(plan, worktree, contents, progress).run()


class _Application:
    def __init__(self, plan: Plan, worktree: Worktree, contents: Contents, progress: Progress | None) -> None:
        self._plan = plan
        self._tree = worktree
        self._contents = contents
        self._progress = progress
        self._left: dict[bytes, str] = {}
        self._count = 0

    def run(self) -> Applied:
        steps = self._plan.steps
        try:
            # What leaves makes room for what comes: a file for a directory of its name, and the other way round.
            for step in reversed(steps):
                if step.old is not None and step.new is None:
                    self._do(step.path, partial(self._remove, step.path, step.old))
            for path in self._plan.drop_dirs:
                self._tree.remove_directory(path)
            for step in steps:
                if step.new is not None:
                    self._do(step.path, partial(self._write, step.path, step.old, step.new))
                    if self._tree.batch_full:
                        self._place()
            self._place()
            for path in self._plan.make_dirs:
                self._guarded(path, partial(self._tree.make_directory, path))
            self._tree.sync()
        except OSError as error:
            raise RepositoryError(
                f"the restore stopped half-way: {reason_of(error)}",
                hint="put that right, then give the command again: it finishes what was begun, and nothing is lost",
            ) from error
        return Applied([step.path for step in steps if step.path not in self._left], sorted(self._left.items()))

    def _do(self, path: bytes, action: Callable[[], None]) -> None:
        self._guarded(path, action)
        self._count += 1
        if self._progress is not None:
            self._progress(self._count, len(self._plan.steps))

    def _guarded(self, path: bytes, action: Callable[[], None]) -> None:
        try:
            action()
        except (OSError, Obstructed) as error:
            if isinstance(error, OSError) and error.errno in _FATAL:
                raise
            self._left[path] = reason_of(error)

    def _place(self) -> None:
        self._left.update(self._tree.place())

    def _remove(self, path: bytes, old: Version) -> None:
        with suppress(Obstructed):
            found = self._tree.look(path)
            if found is None or found.mode == TREE:
                return
            if not self._is(path, found, old):
                self._left[path] = MEANWHILE
                return
            self._tree.remove(path)

    def _write(self, path: bytes, old: Version | None, version: Version) -> None:
        new = exact_entry(version)
        found = self._room(path)
        if found is not None:
            oid = self._tree.blob_id(path, found)
            if oid == new.oid and _kind(found.mode) == _kind(new.mode):
                if not self._tree.same_mode(found.mode, new.mode):
                    self._tree.set_executable(path, new.mode & 0o100 != 0)
                return
            if old is None or oid != exact_entry(old).oid:
                self._left[path] = MEANWHILE
                return
        if new.mode == LINK:
            reason = self._tree.place_link(path, b"".join(self._contents.read(version)), found)
            if reason is not None:
                self._left[path] = reason
        else:
            self._tree.stage(path, self._contents.read(version), new.mode, found)

    def _room(self, path: bytes) -> Found | None:
        """What stands where a file is to be written; directories without anything in them are taken away."""
        found = self._tree.look(path)
        if found is None or found.mode != TREE:
            return found
        self._tree.remove_empty(path)
        return self._tree.look(path)

    def _is(self, path: bytes, found: Found, version: Version) -> bool:
        expected = exact_entry(version)
        return self._tree.same_mode(found.mode, expected.mode) and self._tree.blob_id(path, found) == expected.oid


def outcome(objects: Objects, before: State, plan: Plan, applied: Applied, worktree: Worktree) -> Captured:
    """The working tree after the restore, without reading again what was just written; ``before`` is the last record.

    What was left alone is as that says.  Whoever changed a file since has drifted from what the restore wrote.
    """
    done = set(applied.done)
    steps = [step for step in plan.steps if step.path in done]
    tree = trees.update(objects, before.tree, {step.path: step.new and step.new.entry for step in steps})
    raw = {path: entry for path, entry in before.raw.items() if path not in done}
    raw |= {step.path: step.new.raw for step in steps if step.new is not None and step.new.raw is not None}
    changes = trees.diff(objects, before.tree, tree)
    same_blob = done - {change.path for change in changes}
    changes += [
        trees.TreeChange(step.path, step.new.entry, step.new.entry)
        for step in steps
        if step.new is not None and step.path in same_blob and before.raw.get(step.path) != raw.get(step.path)
    ]
    maybe_empty = {*before.empty_dirs, *plan.make_dirs, *plan.drop_dirs}
    return Captured(
        tree=tree,
        changes=sorted(changes, key=lambda change: change.path),
        skipped=[Skipped(path, reason) for path, reason in before.skipped.items()],
        raw=raw,
        empty_dirs=sorted(path for path in maybe_empty if worktree.is_empty(path)),
        method="paths",
        differs=True,
    )


def directories(plan: Plan) -> set[bytes]:
    """Every directory in which the plan may have left a temporary file."""
    return {next(iter(parents(step.path)), b"") for step in plan.steps if step.new is not None}


def _kind(mode: int) -> int:
    return stat.S_IFMT(mode)
