"""Do what a plan says, path by path, so that it can be killed anywhere and done again.

Each step looks first: what stands at the path is what the plan goes from (then it is done), what it goes to (then it
was done before), or something else (somebody wrote there meanwhile: it is left alone and reported).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from gitsession import paths
from gitsession.errors import RepositoryError
from gitsession.git import trees
from gitsession.git.capture import Captured, Skipped
from gitsession.git.contents import Contents
from gitsession.git.objects import Objects
from gitsession.git.plan import Plan, State, Step, Version
from gitsession.git.trees import EXECUTABLE, LINK, TREE, parents
from gitsession.git.worktree import OTHER, Found, Obstructed, Worktree, reason_of

Progress = Callable[[int, int], None]
"""Called with how many paths are done and how many there are."""

MEANWHILE = "changed while the restore ran"
_RESUMED = "the session's next restore, undo or checkpoint finishes it first, and nothing is lost"
_MANY = 1000
"""Files from which on they are written side by side."""
_LANES = 4
# Not one path's trouble: going on would fail for every other one.
_FATAL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE}


@dataclass
class Applied:
    """``done`` paths hold what the target has (some did before); ``left`` ones do not, with the reason."""

    done: list[bytes] = field(default_factory=list)
    left: list[tuple[bytes, str]] = field(default_factory=list)


@dataclass
class Obstacles:
    """What no scan sees and a plan needs gone.

    ``unrecorded`` are files that no state knows (ignored ones) at a path to be written, ``hollow`` the empty
    directories in the place of one: they can be recorded, and then replaced.  A file that is right already counts, too:
    an undo would take it for the restore's work.  ``blocked`` can only be left alone, with the reason: the restore has
    to be refused.
    """

    unrecorded: list[bytes] = field(default_factory=list)
    hollow: list[bytes] = field(default_factory=list)
    blocked: list[tuple[bytes, str]] = field(default_factory=list)


def obstacles(plan: Plan, worktree: Worktree) -> Obstacles:
    """Look for them before anything is touched."""
    leaving = {step.path for step in plan.steps if step.new is None}
    found = Obstacles()
    for step in plan.steps:
        if step.old is not None or step.new is None:
            continue
        try:
            there = worktree.look(step.path)
        except Obstructed as obstruction:
            if obstruction.path not in leaving:
                found.blocked.append((obstruction.path, f"is in the way of {paths.encode(step.path)}"))
            continue
        if there is None:
            continue
        if there.mode == TREE:
            inside = [path for path in worktree.below(step.path) if path not in leaving]
            found.blocked += [(path, f"is in the way of the file {paths.encode(step.path)}") for path in inside[:10]]
            found.hollow += worktree.hollow(step.path)
        elif there.mode == OTHER:
            found.blocked.append((step.path, "is neither a file nor a link"))
        else:
            found.unrecorded.append(step.path)
    found.blocked += _in_place_of_directories(plan, worktree, leaving)
    return found


def _in_place_of_directories(plan: Plan, worktree: Worktree, leaving: Set[bytes]) -> Iterator[tuple[bytes, str]]:
    for path in plan.make_dirs:
        place = path
        try:
            found = worktree.look(path)
        except Obstructed as obstruction:
            place = obstruction.path
        else:
            if found is None or found.mode == TREE:
                continue
        if place not in leaving:
            yield place, f"is in the way of the directory {paths.encode(path)}"


def without_standing_directories(plan: Plan, worktree: Worktree) -> Plan:
    """``plan`` less the making of directories that stand: no scan tells of one with nothing but ignored files in it."""
    standing = {path for path in plan.make_dirs if worktree.is_directory(path)}
    return replace(
        plan, make_dirs=[path for path in plan.make_dirs if path not in standing], standing_dirs=sorted(standing)
    )


def missing(plan: Plan, target: State, contents: Contents) -> list[bytes]:
    """The paths whose bytes the object database does not have."""
    return contents.find({step.path: step.new for step in plan.steps if step.new is not None}, target)


def apply(plan: Plan, worktree: Worktree, contents: Contents, progress: Progress | None = None) -> Applied:
    """Carry out ``plan``; ``RepositoryError`` when nothing more can be written.

    The same plan can then be done again, as after a kill.
    """
    counter = count(1)

    def step_done() -> None:
        if progress is not None:
            progress(next(counter), len(plan.steps))

    lane = _Lane(worktree, contents, step_done)
    writing = [step for step in plan.steps if step.new is not None]
    try:
        # What leaves makes room for what comes: a file for a directory of its name, and the other way round.
        lane.remove([step for step in reversed(plan.steps) if step.new is None])
        for path in plan.drop_dirs:
            worktree.remove_directory(path)
        if len(writing) < _MANY:
            lane.write(writing)
        else:
            _write_side_by_side(lane, writing)
        lane.make_directories(plan.make_dirs)
        worktree.sync()
    except OSError as error:
        raise RepositoryError(
            f"the restore stopped half-way: {reason_of(error)}",
            hint=f"put that right; {_RESUMED}",
        ) from error
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"the restore stopped half-way; {_RESUMED}")
        raise
    return Applied([step.path for step in plan.steps if step.path not in lane.left], sorted(lane.left.items()))


def _write_side_by_side(lane: _Lane, steps: list[Step]) -> None:
    """Write many files in several threads: most of the time goes by in the file system."""
    share = -(-len(steps) // _LANES)
    with ExitStack() as stack, ThreadPoolExecutor(_LANES) as pool:
        lanes = [lane.another(stack.enter_context(lane.tree.another(number))) for number in range(_LANES)]
        parts = [steps[number * share : (number + 1) * share] for number in range(_LANES)]
        for written in [pool.submit(one.write, part) for one, part in zip(lanes, parts, strict=True)]:
            written.result()
        for one in lanes:
            lane.left.update(one.left)


class _Lane:
    """Does steps one after the other; ``left`` are those it could not do, with the reason."""

    def __init__(self, tree: Worktree, contents: Contents, step_done: Callable[[], None]) -> None:
        self.tree = tree
        self.left: dict[bytes, str] = {}
        self._contents = contents
        self._step_done = step_done

    def another(self, tree: Worktree) -> _Lane:
        """One that works beside this one."""
        return _Lane(tree, self._contents, self._step_done)

    def remove(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if step.old is not None:
                self._guarded(step.path, partial(self._remove, step.path, step.old))
            self._step_done()

    def write(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if step.new is not None:
                self._guarded(step.path, partial(self._write, step.path, step.old, step.new))
            self._step_done()
            if self.tree.batch_full:
                self.left.update(self.tree.place())
        self.left.update(self.tree.place())
        self.tree.sync()

    def make_directories(self, paths: Iterable[bytes]) -> None:
        for path in paths:
            self._guarded(path, partial(self.tree.make_directory, path))

    def _guarded(self, path: bytes, action: Callable[[], None]) -> None:
        try:
            action()
        except (OSError, Obstructed) as error:
            if isinstance(error, OSError) and error.errno in _FATAL:
                raise
            self.left[path] = reason_of(error)
        except RepositoryError as error:
            # A damaged object: there is no use in stopping, now or the next time.
            self.left[path] = str(error)

    def _remove(self, path: bytes, old: Version) -> None:
        with suppress(Obstructed):
            found = self.tree.look(path)
            if found is None or found.mode == TREE:
                return
            if not self._is(found, self.tree.blob_id(path, found), old):
                self.left[path] = MEANWHILE
            elif (reason := self.tree.remove(path, found)) is not None:
                self.left[path] = reason

    def _write(self, path: bytes, old: Version | None, new: Version) -> None:
        found = self._room(path)
        if found is not None:
            oid = self.tree.blob_id(path, found)
            if self._is(found, oid, new, ignore_mode=True):
                wanted = new.exact.mode
                if not self.tree.same_mode(found.mode, wanted):
                    self.tree.set_executable(path, wanted == EXECUTABLE)
                return
            if old is None or not self._is(found, oid, old, ignore_mode=True):
                self.left[path] = MEANWHILE
                return
        data, mode = self._contents.read(new), new.exact.mode
        if mode != LINK:
            self.tree.stage(path, data, mode, found)
        elif (reason := self.tree.place_link(path, b"".join(data), found)) is not None:
            self.left[path] = reason

    def _room(self, path: bytes) -> Found | None:
        """What stands where a file is to be written; directories without anything in them are taken away."""
        found = self.tree.look(path)
        if found is None or found.mode != TREE:
            return found
        self.tree.remove_empty(path)
        return self.tree.look(path)

    def _is(self, found: Found, oid: str | None, version: Version, *, ignore_mode: bool = False) -> bool:
        """Whether what was found is this version; ``ignore_mode``: or differs only in whether it may be executed."""
        expected = version.exact
        same_kind = found.mode >> 12 == expected.mode >> 12
        return oid == expected.oid and same_kind and (ignore_mode or self.tree.same_mode(found.mode, expected.mode))


def outcome(objects: Objects, before: State, plan: Plan, applied: Applied, worktree: Worktree) -> Captured:
    """The working tree after the restore, without reading again what was just written; ``before`` is the last record.

    What was left alone is as that says.  Whoever changed a file since has drifted from what the restore wrote.
    """
    done = set(applied.done)
    steps = [step for step in plan.steps if step.path in done]
    tree = trees.update(
        objects, before.tree, {step.path: None if step.new is None else step.new.entry for step in steps}
    )
    raw = {path: entry for path, entry in before.raw.items() if path not in done}
    raw |= {step.path: step.new.raw for step in steps if step.new is not None and step.new.raw is not None}
    changes = trees.diff(objects, before.tree, tree)
    same_blob = done - {change.path for change in changes}
    changes += [
        trees.TreeChange(step.path, step.new.entry, step.new.entry)
        for step in steps
        if step.new is not None and step.path in same_blob and before.raw.get(step.path) != raw.get(step.path)
    ]
    maybe_empty = {*before.empty_dirs, *plan.make_dirs, *plan.standing_dirs, *plan.drop_dirs}
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
    return {next(iter(parents(step.path)), b"") for step in plan.steps}
