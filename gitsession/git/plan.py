"""What a restore would do, decided from trees alone.

Three states of the working tree take part: ``target`` is the checkpoint to go to, ``now`` is what the scan before the
restore found, ``known`` is the newest checkpoint the session had before that scan.  A path that differs between
``now`` and ``target`` is

- *written* or *removed* where ``now`` is what ``known`` says: a checkpoint holds those bytes;
- *drift* where somebody changed it since ``known``: refused, or with ``force`` done like the others, for ``now`` is
  recorded before anything is touched;
- *kept* where it appeared since ``known`` and the target does not have it: no checkpoint ever held it, so nobody
  asked for its end; where it is reserved for somebody else; and where the target had to leave it out, so that nobody
  knows what it was then.  Only when the target needs its place is it drift.

Submodules, and what the scan had to leave out, are never touched.  The same states give the same plan, so a restore
that was killed is finished by planning it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gitsession.git import trees
from gitsession.git.trees import GITLINK, TREE, Entry, parents

_SPECIAL: Final = ("fifo", "socket", "device")
Wanted = Callable[[bytes], bool]
Reserved = Callable[[bytes], str | None]
"""Why a path is not to be touched though it is wanted, if it is not."""


@dataclass(frozen=True)
class State:
    """A working tree as a checkpoint records it.

    ``raw`` has the exact bytes of paths for which git's filters would not give them back from the tree's blob;
    ``skipped`` says why a path was left out, or may have been.
    """

    tree: str
    raw: Mapping[bytes, Entry] = field(default_factory=dict)
    empty_dirs: frozenset[bytes] = frozenset()
    skipped: Mapping[bytes, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Version:
    """One file of a state: what the tree says, and the exact bytes kept beside it, if they are."""

    entry: Entry
    raw: Entry | None

    @property
    def kind(self) -> int:
        return self.entry.mode >> 12

    @property
    def exact(self) -> Entry:
        """Mode, and the id of the bytes as they are on disk."""
        return self.entry if self.raw is None else Entry(self.entry.mode, self.raw.oid)


@dataclass(frozen=True)
class Step:
    """One path that becomes ``new`` (``None``: goes away) from ``old`` (``None``: is not there)."""

    path: bytes
    old: Version | None
    new: Version | None
    drift: bool = False

    @property
    def action(self) -> str:
        """``create``, ``delete``, ``mode`` (only whether it may be executed), ``type`` or ``replace``."""
        if self.old is None:
            return "create"
        if self.new is None:
            return "delete"
        if self.old.kind != self.new.kind:
            return "type"
        return "mode" if self.old.exact.oid == self.new.exact.oid else "replace"


@dataclass
class Plan:
    """Steps sorted by path, directories to make and (deepest first) to drop, and what is not done, with reasons.

    ``standing_dirs`` are directories to make of which a look at the disk has shown that they stand.
    """

    steps: list[Step] = field(default_factory=list)
    make_dirs: list[bytes] = field(default_factory=list)
    standing_dirs: list[bytes] = field(default_factory=list)
    drop_dirs: list[bytes] = field(default_factory=list)
    kept: list[tuple[bytes, str]] = field(default_factory=list)
    drift: list[tuple[bytes, str]] = field(default_factory=list)
    blocked: list[tuple[bytes, str]] = field(default_factory=list)

    @property
    def changes_nothing(self) -> bool:
        return not (self.steps or self.make_dirs or self.drop_dirs)


def everything(_path: bytes) -> bool:
    """The ``wanted`` of a restore without limits."""
    return True


def nothing(_path: bytes) -> None:
    """The ``reserved`` of a restore that may touch all that is wanted."""


def make_plan(
    objects: trees.Store,
    *,
    known: State,
    now: State,
    target: State,
    wanted: Wanted = everything,
    reserved: Reserved = nothing,
    force: bool = False,
) -> Plan:
    """The plan from ``now`` to ``target`` for what is ``wanted`` and not ``reserved``; see the module for the rules."""
    plan = Plan()
    untouchable = {path: _in_words(reason) for path, reason in now.skipped.items()}
    differing = dict(_differing(objects, now, target))
    before = _Lookup(objects, known, now)
    for path, (old, new) in sorted(differing.items()):
        if not wanted(path):
            continue
        reason = reserved(path) or (_left_out(objects, target, path) if new is None else None)
        if reason is not None:
            plan.kept.append((path, reason))
            continue
        if GITLINK in {side.entry.mode for side in (old, new) if side is not None}:
            untouchable[path] = "submodule"
            plan.kept.append((path, "a submodule's commit is not moved"))
            continue
        _classify(plan, Step(path, old, new), before.version(path, old), force)
    _clear_the_way(plan, objects, target, differing, force)
    _leave_untouchable(plan, untouchable)

    def free(path: bytes) -> bool:
        return wanted(path) and reserved(path) is None

    # The tree has there what the last checkpoint had that could look, which may be what the target has.
    unseen = [path for path in untouchable.keys() - differing.keys() if free(path)]
    plan.kept += [(path, untouchable[path]) for path in unseen if _is_file_or_directory(objects, target, path)]
    _plan_directories(plan, objects, known, now, target, free)
    return plan


def _classify(plan: Plan, step: Step, known: Version | None, force: bool) -> None:
    path, old, new = step.path, step.old, step.new
    if old is None or _alike(old, known):
        plan.steps.append(step)
    elif new is None and known is None:
        plan.kept.append((path, "appeared since the last checkpoint"))
    elif force:
        plan.steps.append(Step(path, old, new, drift=True))
    else:
        plan.drift.append((path, "changed since the last checkpoint"))


def _clear_the_way(
    plan: Plan,
    objects: trees.Store,
    target: State,
    differing: Mapping[bytes, tuple[Version | None, Version | None]],
    force: bool,
) -> None:
    """Kept files that stand where the target has a directory, or in a directory where it has a file."""
    still_kept = []
    for path, reason in plan.kept:
        old, _ = differing[path]
        if old is None or old.entry.mode == GITLINK or not _in_the_way(objects, target, path):
            still_kept.append((path, reason))
        elif force:
            plan.steps.append(Step(path, old, None, drift=True))
        else:
            plan.drift.append((path, f"{reason}, and the checkpoint needs its place"))
    plan.kept = still_kept
    plan.steps.sort(key=lambda step: step.path)


def _in_the_way(objects: trees.Store, target: State, path: bytes) -> bool:
    """Whether the target has a directory at ``path``, or a file at a parent of it."""
    entry = trees.lookup(objects, target.tree, path)
    if entry is not None:
        return entry.mode == TREE
    above = (trees.lookup(objects, target.tree, parent) for parent in parents(path))
    return path in _with_parents(target.empty_dirs) or any(one is not None and one.mode != TREE for one in above)


def _leave_untouchable(plan: Plan, untouchable: Mapping[bytes, str]) -> None:
    """Take out the steps at or below what must not be touched."""
    steps, plan.steps = plan.steps, []
    for step in steps:
        reason = next((untouchable[path] for path in (step.path, *parents(step.path)) if path in untouchable), None)
        if reason is None:
            plan.steps.append(step)
        elif step.new is None:
            plan.kept.append((step.path, reason))
        else:
            plan.blocked.append((step.path, reason))


def _left_out(objects: trees.Store, target: State, path: bytes) -> str | None:
    """Why the target does not have a file that may have been there."""
    found = next((target.skipped[one] for one in (path, *parents(path)) if one in target.skipped), None)
    if found is None or _in_the_way(objects, target, path):
        return None
    return f"may have been there, but left out: {found}"


def _in_words(reason: str) -> str:
    return f"a {reason} is in its place" if reason in _SPECIAL else reason


def _is_file_or_directory(objects: trees.Store, state: State, path: bytes) -> bool:
    entry = trees.lookup(objects, state.tree, path)
    return entry is not None and entry.mode != GITLINK


def _plan_directories(
    plan: Plan, objects: trees.Store, known: State, now: State, target: State, wanted: Wanted
) -> None:
    """Empty directories the target has, and directories it does not have that this restore empties."""
    plan.make_dirs = sorted(path for path in target.empty_dirs - now.empty_dirs if wanted(path))
    emptied = {parent for step in plan.steps if step.new is None for parent in parents(step.path)}
    for path in now.empty_dirs & known.empty_dirs:
        if wanted(path):
            emptied |= {path, *(parent for parent in parents(path) if wanted(parent))}
    unneeded = [path for path in emptied - _with_parents(target.empty_dirs) if not _is_directory(objects, target, path)]
    plan.drop_dirs = sorted(unneeded, reverse=True)


def _is_directory(objects: trees.Store, state: State, path: bytes) -> bool:
    entry = trees.lookup(objects, state.tree, path)
    return entry is not None and entry.mode == TREE


def _with_parents(paths: Iterable[bytes]) -> set[bytes]:
    return {above for path in paths for above in (path, *parents(path))}


def _differing(
    objects: trees.Store, a: State, b: State
) -> Iterator[tuple[bytes, tuple[Version | None, Version | None]]]:
    """Each path at which not the same stands on disk in two states."""
    entries = {change.path: (change.old, change.new) for change in trees.diff(objects, a.tree, b.tree)}
    for path in {path for path, _ in a.raw.items() ^ b.raw.items()} - entries.keys():
        entry = trees.lookup(objects, a.tree, path)
        entries[path] = entry, entry
    for path, (one, other) in entries.items():
        old, new = _version(a, path, one), _version(b, path, other)
        if not _alike(old, new):
            yield path, (old, new)


class _Lookup:
    """What ``known`` has at a path, given what ``now`` has there: only where they differ are trees asked."""

    def __init__(self, objects: trees.Store, known: State, now: State) -> None:
        self._known = known
        self._changed = {change.path: change.new for change in trees.diff(objects, now.tree, known.tree)}

    def version(self, path: bytes, now: Version | None) -> Version | None:
        entry = self._changed.get(path, now.entry if now is not None else None)
        return _version(self._known, path, entry)


def _version(state: State, path: bytes, entry: Entry | None) -> Version | None:
    return None if entry is None else Version(entry, state.raw.get(path))


def _alike(a: Version | None, b: Version | None) -> bool:
    """Whether the same stands on disk: git may have stored it as another blob under other settings."""
    return a == b or (a is not None and b is not None and a.exact == b.exact)


def below(paths: Iterable[bytes]) -> Wanted:
    """``wanted`` for these paths and everything below them; ``b""`` is everything."""
    chosen = frozenset(paths)
    if b"" in chosen:
        return everything
    return lambda path: path in chosen or any(parent in chosen for parent in parents(path))
