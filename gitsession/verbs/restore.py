"""Go to a checkpoint's files and back.

The order makes every kill harmless: look (one scan) and plan; refuse while nothing is touched; record the files as they
are (the safety checkpoint); journal the plan; write; record the result; journal that it is done.  From the journalled
plan on, whoever touches the session next finishes the restore (``finish_interrupted``).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gitsession import paths as texts
from gitsession.config import Settings
from gitsession.errors import (
    CheckpointNotFound,
    ConflictError,
    DriftError,
    GitSessionError,
    OutsideRepository,
    RepositoryError,
    UsageError,
)
from gitsession.git import plan as planning
from gitsession.git import trees
from gitsession.git.capture import Captured, capture
from gitsession.git.contents import Contents
from gitsession.git.filters import Filters
from gitsession.git.ignoring import ignored_in
from gitsession.git.plan import Plan, State
from gitsession.git.repo import Repo
from gitsession.git.restore import (
    Progress,
    apply,
    directories,
    missing,
    obstacles,
    outcome,
    without_standing_directories,
)
from gitsession.git.worktree import Worktree
from gitsession.lifecycle import Doc, newest
from gitsession.store.draft import Draft
from gitsession.store.sessions import SessionStore
from gitsession.verbs.checkpoint import Recorder, repository_of
from gitsession.verbs.heads import head_at, moves_since
from gitsession.verbs.neighbours import directories_of_others, reserved_for

BASE: Final = "base"
"""How the state before the first change is named where a checkpoint's index is wanted."""

Index = int | None
"""A checkpoint's index; ``None`` is the base."""


@dataclass(frozen=True)
class FileAction:
    """What happens to one path, and why.

    ``action`` is create, replace, mode, type or delete, for directories mkdir or rmdir (if it is empty by then), and
    for what is not done keep (meant so) or leave (it could not be done).
    """

    path: str
    action: str
    reason: str


@dataclass(frozen=True)
class RestoreReport:
    """What a restore did, or with ``dry_run`` would do.

    ``target`` is the checkpoint whose files these are now, ``safety`` the one that holds what was before (``None`` is
    the base for both), ``checkpoint`` the one that records the result (``None`` when nothing had to be done).
    ``paths`` is what it was limited to, relative to the worktree (empty: everything).
    ``left`` are paths that changed while we worked, or could not be written: they do not hold what the target has.
    ``interrupted``: this is no answer to what was asked, but an earlier restore that was killed half-way, and that has
    to be finished before anything can be said of another one.
    """

    session_id: str
    target: Index
    description: str
    dry_run: bool
    files: tuple[FileAction, ...]
    left: tuple[FileAction, ...] = ()
    warnings: tuple[str, ...] = ()
    safety: Index = None
    checkpoint: Index = None
    interrupted: bool = False
    paths: tuple[str, ...] = ()

    @property
    def changes_nothing(self) -> bool:
        return not any(file.action != "keep" for file in self.files)


def restore(
    store: SessionStore,
    session_id: str,
    index: Index,
    *,
    settings: Settings,
    paths: Sequence[str] = (),
    start: Path | None = None,
    dry_run: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> RestoreReport:
    """Make the files what checkpoint ``index`` (``None``: the base) has; ``paths``, relative to ``start``, limit it.

    A path that names a directory means all below it.  Before anything is touched: ``CheckpointNotFound``,
    ``OutsideRepository`` and ``UsageError`` (a path that is in neither state; another repository than the one one
    stands in), ``SessionBusy`` (it runs), ``DriftError`` (files changed since the last checkpoint, unless ``force``;
    something that may not be removed is in the way), ``ConflictError`` (the repository or objects of it are gone).
    A restore that was interrupted is finished first, and an error has a note that says so; a dry run only tells of it.
    """
    with _opened(store, session_id, settings, progress, finish=not dry_run) as work:
        if dry_run and (interrupted := work.interrupted()) is not None:
            return interrupted
        here = start or Path.cwd()
        _refuse_other_repository(work.repo, session_id, here)
        chosen = _repository_paths(work.repo, paths, here)
        return work.go(_Request(index, chosen, force), dry_run)


def undo(
    store: SessionStore,
    session_id: str,
    *,
    settings: Settings,
    start: Path | None = None,
    dry_run: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> RestoreReport:
    """Take the last restore back: a restore of its safety checkpoint, so an undo can be undone.  Errors as there."""
    with _opened(store, session_id, settings, progress, finish=not dry_run) as work:
        if dry_run and (interrupted := work.interrupted()) is not None:
            return interrupted
        _refuse_other_repository(work.repo, session_id, start or Path.cwd())
        doc = store.read(session_id)
        last = next((record for record in reversed(doc["checkpoints"]) if "safety" in record), None)
        if last is None:
            raise UsageError(
                "nothing to undo: no restore was made in this session",
                hint=f"to go to a checkpoint: pinable-agents session restore {session_id} N",
            )
        later = len(doc["checkpoints"]) - last["index"] - 1
        warnings = [f"what {_count(later, 'later checkpoint')} recorded is taken back, too"] if later else []
        chosen = tuple(texts.decode(path) for path in last["restored_paths"])
        return work.go(_Request(last["safety"], chosen, force), dry_run, warnings)


def finish_interrupted(
    store: SessionStore, session_id: str, settings: Settings, progress: Progress | None = None
) -> RestoreReport | None:
    """Finish a restore that was killed half-way; ``None`` if there is none.

    Paths that somebody changed since are left alone and reported.
    """
    if store.read(session_id).get("restoring") is None:
        return None
    with _opened(store, session_id, settings, progress, finish=False) as work:
        return work.finish()


@contextmanager
def _opened(
    store: SessionStore, session_id: str, settings: Settings, progress: Progress | None, *, finish: bool = True
) -> Iterator[_Restorer]:
    try:
        repo = repository_of(store.read(session_id))
    except RepositoryError as error:
        raise ConflictError(str(error), hint=error.hint) from error
    open_in = _open_in(store, session_id)
    with store.own(session_id, beside_tracked=open_in is not None):
        recorder = Recorder(store, session_id, repo, settings)
        try:
            work = _Restorer(recorder, recorder.settings, progress)
            finished = work.finish() if finish else None
            work.told += finished.warnings if finished else ()
            if open_in is not None:
                work.told.append(f"{open_in} is open, and does not know of it: tell it that files were put back")
            try:
                yield work
            except GitSessionError as error:
                for told in work.told if finished else ():
                    error.add_note(told)
                raise
        finally:
            recorder.close()


def _open_in(store: SessionStore, session_id: str) -> str | None:
    """The agent in which a person has the session open, and which waits for them: only then is it not in the way."""
    tracked = store.read(session_id).get("tracked") or {}
    owner = store.owner(session_id)
    if owner is None or owner.tracked is None or tracked.get("turn", True):
        return None
    return str(owner.tracked)


@dataclass(frozen=True)
class _Request:
    """What is asked for: the checkpoint, the only paths (none: all), and whether drift is overwritten."""

    target: Index
    paths: tuple[bytes, ...]
    force: bool

    def as_json(self) -> Doc:
        return {"target": self.target, "paths": [texts.encode(path) for path in self.paths], "force": self.force}

    @classmethod
    def from_json(cls, doc: Doc) -> _Request:
        return cls(doc["target"], tuple(texts.decode(path) for path in doc["paths"]), doc["force"])


@dataclass(frozen=True)
class _Journalled:
    """A restore whose end is not in the journal; ``token`` is in the names of its temporary files."""

    request: _Request
    token: str
    plan: Plan
    report: RestoreReport


class _Restorer:
    """Restores in one session whose owner lock is held."""

    def __init__(self, recorder: Recorder, settings: Settings, progress: Progress | None) -> None:
        self.repo = recorder.repo
        self._recorder = recorder
        self._store = recorder.store
        self._id = recorder.session_id
        self._settings = settings
        self._progress = progress
        self._contents = Contents(self.repo, recorder.objects)
        self._executable_bits = Filters(self.repo).executable_bits
        self.told: list[str] = []
        """What the next report has to say first."""

    def go(self, request: _Request, dry_run: bool, warnings: Sequence[str] = ()) -> RestoreReport:
        """Plan, refuse or record, write, record."""
        token = secrets.token_hex(4)
        with self._store.edit(self._id) as draft, self._worktree(token) as worktree:
            target = _record_of(draft.doc, request.target)
            captured = self._recorder.look_in(draft)
            known = newest(draft.doc)
            theirs = directories_of_others(self._store, draft.doc, self.repo)
            reserved = reserved_for(theirs, request.paths)
            plan, captured = self._agreed_plan(draft.doc, captured, request, reserved, worktree)
            report = RestoreReport(
                session_id=self._id,
                target=request.target,
                description=_description(draft.doc, request.target),
                dry_run=dry_run,
                paths=tuple(map(texts.encode, request.paths)),
                files=_actions(plan, request.target),
                warnings=(
                    *self.told,
                    *warnings,
                    *_head_warnings(self.repo, draft.doc, request.target),
                    *moves_since(draft.doc, target.get("timestamp")),
                ),
            )
            if dry_run or plan.changes_nothing:
                return report
            safety = self._safety(draft, known, captured, request)
            draft.log(
                "restore_planned",
                plan={
                    **request.as_json(),
                    "token": token,
                    "known": known.get("index"),
                    "safety": safety,
                    "theirs": {texts.encode(path): owner for path, owner in theirs.items()},
                },
            )
        return self._carry_out(plan, replace(report, safety=safety), request, token)

    def interrupted(self) -> RestoreReport | None:
        """What a restore that was journalled and not done comes to; ``None`` if there is none."""
        found = self._journalled()
        if found is None:
            return None
        report = found.report
        said = (
            f"a restore of {_name(report.target)} was interrupted: this is what it comes to, and part of it is done; "
            "it is finished first, and only then can be told what comes after"
        )
        return replace(report, dry_run=True, interrupted=True, warnings=(said,))

    def finish(self) -> RestoreReport | None:
        """The rest of a restore that was journalled and not done; ``None`` if there is none."""
        found = self._journalled()
        if found is None:
            return None
        with self._worktree(found.token) as worktree:
            worktree.sweep(directories(found.plan))
        report = self._carry_out(found.plan, found.report, found.request, found.token)
        said = f"a restore of {_name(report.target)} that was interrupted has been finished"
        if report.left:
            left = [(texts.decode(file.path), file.reason) for file in report.left]
            said += f", but for {_some(left)}"
        return replace(report, warnings=(said,))

    def _journalled(self) -> _Journalled | None:
        """The restore that was begun and not done, planned once more."""
        if self._store.read(self._id).get("restoring") is None:
            return None
        self._recorder.adopt()
        doc = self._store.read(self._id)
        journalled = doc["restoring"]
        request = _Request.from_json(journalled)
        theirs = {texts.decode(path): owner for path, owner in journalled.get("theirs", {}).items()}
        target = _record_of(doc, request.target)
        now = self._state(_record_of(doc, journalled["safety"]))
        plan = planning.make_plan(
            self._recorder.objects,
            known=self._state(_record_of(doc, journalled["known"])),
            now=now,
            target=self._target(doc, request.target, now),
            wanted=planning.below(request.paths or (b"",)),
            reserved=reserved_for(theirs, request.paths),
            force=request.force,
        )
        self._refuse_missing(plan, target)
        report = RestoreReport(
            session_id=self._id,
            target=request.target,
            description=_description(doc, request.target),
            dry_run=False,
            paths=tuple(map(texts.encode, request.paths)),
            files=_actions(plan, request.target),
            safety=journalled["safety"],
        )
        return _Journalled(request, journalled["token"], plan, report)

    # -- before anything is touched ------------------------------------------------------------------------

    def _agreed_plan(
        self,
        doc: Doc,
        captured: Captured,
        request: _Request,
        reserved: planning.Reserved,
        worktree: Worktree,
    ) -> tuple[Plan, Captured]:
        """The plan, and what was captured, with files that only ``force`` makes us record; or the refusal."""

        target = _record_of(doc, request.target)

        def planned(captured: Captured) -> Plan:
            now = _state_of(captured)
            return planning.make_plan(
                self._recorder.objects,
                known=self._state(newest(doc)),
                now=now,
                target=self._target(doc, request.target, now),
                wanted=planning.below(request.paths or (b"",)),
                reserved=reserved,
                force=request.force,
            )

        plan = planned(captured)
        self._refuse_unknown(request, (captured.tree, target["tree"]), plan)
        self._refuse_missing(plan, target)
        found = obstacles(plan, worktree)
        hollow = set(found.hollow).difference(captured.empty_dirs)
        if found.unrecorded or hollow:
            captured = self._also(captured, found.unrecorded, hollow)
            plan = planned(captured)
        # What could not be recorded is blocked by the plan now, instead of unrecorded.
        blocked = [*found.blocked, *plan.blocked]
        if blocked:
            raise DriftError(
                f"{_count(len(blocked), 'path')} cannot be restored: {_some(blocked)}",
                [path for path, _ in blocked],
                hint="move what is in the way, or leave it out with --path",
            )
        ignored = dict.fromkeys(found.unrecorded, "ignored, and no checkpoint holds it")
        drift = [(path, ignored.get(path, reason)) for path, reason in plan.drift]
        if drift:
            raise DriftError(
                f"{_count(len(drift), 'file')} would be overwritten that no checkpoint holds: {_some(drift)}",
                [path for path, _ in drift],
                hint="--force saves them in a checkpoint first, then overwrites them",
            )
        return without_standing_directories(plan, worktree), captured

    def _also(self, captured: Captured, unrecorded: Sequence[bytes], hollow: Set[bytes]) -> Captured:
        """``captured`` with files and empty directories that its scan passed over."""
        more = capture(
            self.repo,
            self._recorder.objects,
            captured.tree,
            paths=unrecorded,
            max_file_size=self._settings.capture_max_file_size,
            previous_raw=captured.raw,
            previous_empty=captured.empty_dirs,
        )
        return replace(
            captured,
            tree=more.tree,
            raw=more.raw,
            changes=sorted([*captured.changes, *more.changes], key=lambda change: change.path),
            skipped=[*captured.skipped, *more.skipped],
            empty_dirs=sorted({*captured.empty_dirs, *hollow}),
            differs=captured.differs or more.differs or bool(hollow),
        )

    def _refuse_unknown(self, request: _Request, states: Sequence[str], plan: Plan) -> None:
        """A path that neither the target nor the working tree has is a slip."""
        empty = {*plan.make_dirs, *plan.drop_dirs}
        for path in request.paths:
            there = (trees.lookup(self._recorder.objects, tree, path) for tree in states)
            if path and path not in empty and not any(there):
                raise UsageError(
                    f"{texts.encode(path)} is neither in {_name(request.target)} nor among the files now",
                    hint="paths are relative to where you are",
                )

    def _refuse_missing(self, plan: Plan, target: Doc) -> None:
        lost = missing(plan, self._state(target), self._contents)
        if lost:
            raise ConflictError(
                f"the repository has lost the bytes of {_some([(path, '') for path in lost])}",
                hint="nothing was touched; 'git fsck' says more, and --path restores what is there",
            )

    def _safety(self, draft: Draft, known: Doc, captured: Captured, request: _Request) -> Index:
        """The checkpoint that holds what is there now; a new one unless the newest does."""
        record = self._recorder.take_in(
            draft, "restore", f"Before restoring {_name(request.target)}", captured=captured
        )
        index: Index = (record or known).get("index")
        return index

    # -- touching ------------------------------------------------------------------------------------------

    def _carry_out(self, plan: Plan, report: RestoreReport, request: _Request, token: str) -> RestoreReport:
        with self._worktree(token) as worktree:
            applied = apply(plan, worktree, self._contents, self._progress)
            with self._store.edit(self._id) as draft:
                last = newest(draft.doc)
                # The restore's own checkpoint is there already when only its last word was lost.
                if last.get("safety", BASE) != report.safety:
                    now = outcome(self._recorder.objects, self._state(last), plan, applied, worktree)
                    last = self._record(draft, now, report, request)
                left = [{"path": texts.encode(path), "reason": reason} for path, reason in applied.left]
                draft.log("restore_done", checkpoint=last["index"], left=left)
        unfinished = tuple(FileAction(texts.encode(path), "leave", reason) for path, reason in applied.left)
        return replace(report, left=unfinished, checkpoint=last["index"])

    def _record(self, draft: Draft, now: Captured, report: RestoreReport, request: _Request) -> Doc:
        extra = {
            "restored_from": report.target,
            "restored_paths": [texts.encode(path) for path in request.paths],
            "safety": report.safety,
        }
        said = f"Restored {_name(report.target)}" + (f" ({report.description})" if report.target is not None else "")
        record = self._recorder.take_in(draft, "restore", said, captured=now, extra=extra)
        assert record is not None  # noqa: S101 - it differs, it says
        return record

    # -- reading -------------------------------------------------------------------------------------------

    def _worktree(self, token: str) -> Worktree:
        return Worktree(
            self.repo.worktree,
            token,
            object_format=self.repo.object_format,
            executable_bits=self._executable_bits,
        )

    def _state(self, record: Doc) -> State:
        return State(
            tree=record["tree"],
            raw=self._recorder.ledger.raw(record.get("meta")),
            empty_dirs=frozenset(texts.decode(path) for path in record.get("empty_dirs", [])),
            skipped={texts.decode(item["path"]): item["reason"] for item in record.get("skipped", [])},
        )

    def _target(self, doc: Doc, index: Index, now: State) -> State:
        """The state to go to.  It may have had files of which it says nothing, for its own ignore rules name them.

        Not those that the checkpoint right before it holds: what was captured is followed, ignored or not.  Nor those
        that the restore right after it made.
        """
        target, objects = self._state(_record_of(doc, index)), self._recorder.objects
        gone = [change.path for change in trees.diff(objects, now.tree, target.tree) if change.new is None]
        ignored = ignored_in(self.repo, objects, target.tree, gone)
        neighbours = [] if index is None else [_record_of(doc, index - 1 if index else None)]
        later = doc["checkpoints"][0 if index is None else index + 1 :][:1]
        neighbours += [record for record in later if record.get("safety", BASE) == index]
        unsure = [path for path in ignored if not any(self._has_file(one, path) for one in neighbours)]
        return replace(target, skipped={**dict.fromkeys(unsure, "ignored"), **target.skipped})

    def _has_file(self, record: Doc, path: bytes) -> bool:
        """Whether a checkpoint holds a file or link there: a directory is not what may stand there now."""
        entry = trees.lookup(self._recorder.objects, record["tree"], path)
        return entry is not None and entry.mode != trees.TREE


def _state_of(captured: Captured) -> State:
    return State(
        tree=captured.tree,
        raw=captured.raw,
        empty_dirs=frozenset(captured.empty_dirs),
        skipped={item.path: item.reason for item in captured.skipped},
    )


def _record_of(doc: Doc, index: Index) -> Doc:
    """The record of a checkpoint, or the base's."""
    checkpoints: list[Doc] = doc["checkpoints"]
    record: Doc | None = None
    if index is None:
        record = doc.get("base")
    elif 0 <= index < len(checkpoints):
        record = checkpoints[index]
    if record is None or record.get("tree") is None:
        has = f"0 to {len(checkpoints) - 1}" if checkpoints else "none yet"
        raise CheckpointNotFound(
            f"session {doc['id']} has no {_name(index)}; its checkpoints: {has}",
            hint=f"pinable-agents session checkpoints {doc['id']} lists them",
        )
    return record


def _description(doc: Doc, index: Index) -> str:
    """What a checkpoint is, in words; of one that a restore of everything made, what that went back to."""
    record = _record_of(doc, index)
    while "restored_from" in record and not record["restored_paths"]:
        origin = record["restored_from"]
        if origin is not None and origin >= record["index"]:  # not one of ours
            break
        record = _record_of(doc, origin)
    said: str = record.get("description", "before the first change")
    return said


def _actions(plan: Plan, target: Index) -> tuple[FileAction, ...]:
    """What the plan does and does not do, by path, in words."""
    name = _name(target)
    reasons = {
        "create": f"{name} has it",
        "replace": f"{name} has other bytes",
        "mode": f"{name} has another mode",
        "type": f"{name} has another kind of file",
        "delete": f"{name} does not have it",
    }
    saved = "; changed since the last checkpoint, saved in the safety checkpoint"
    found = [
        FileAction(texts.encode(step.path), step.action, reasons[step.action] + (saved if step.drift else ""))
        for step in plan.steps
    ]
    found += [FileAction(texts.encode(path), "mkdir", f"{name} has it, empty") for path in plan.make_dirs]
    found += [FileAction(texts.encode(path), "rmdir", f"{name} does not have it") for path in plan.drop_dirs]
    found += [FileAction(texts.encode(path), "keep", reason) for path, reason in plan.kept]
    return tuple(sorted(found, key=lambda action: action.path))


def _head_warnings(repo: Repo, doc: Doc, target: Index) -> list[str]:
    """A word when HEAD is not where it was when the checkpoint was taken; it stays where it is."""
    now, then = repo.head().oid, head_at(repo, doc, target, _record_of(doc, target))
    if then is None or then == now:
        return []
    at = now[:7] if now else "no commit"
    return [f"HEAD was {then[:7]} at that checkpoint and is {at} now: commits and branches stay, only files change"]


def _name(index: Index) -> str:
    return "the base" if index is None else f"checkpoint {index}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _some(items: Sequence[tuple[bytes, str]]) -> str:
    """A few paths with their reasons, for a message of one line."""
    shown = [texts.encode(path) + (f" ({reason})" if reason else "") for path, reason in items[:5]]
    return ", ".join(shown) + (f" and {len(items) - 5} more" if len(items) > 5 else "")


def _refuse_other_repository(repo: Repo, session_id: str, here: Path) -> None:
    """Standing in one repository and restoring another is a mistake in the id or in the place."""
    if here.resolve().is_relative_to(repo.worktree):
        return
    try:
        other = Repo.discover(here)
    except RepositoryError:
        return
    raise UsageError(
        f"session {session_id} belongs to {repo.worktree}, and this is {other.worktree}",
        hint=f"cd {repo.worktree}",
    )


def _repository_paths(repo: Repo, named: Sequence[str], start: Path) -> tuple[bytes, ...]:
    """Paths as the user names them, relative to the worktree; ``OutsideRepository`` for any other place."""
    found = []
    for name in named:
        path = repo.path_named(name, start)
        if path is None:
            raise OutsideRepository(
                f"{name} is not in the working tree {repo.worktree}", hint="name paths of this repository"
            )
        found.append(path)
    return tuple(found)
