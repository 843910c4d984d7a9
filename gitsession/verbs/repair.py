"""Bring a session back to a state in which it can be resumed.

Look (``verify``), do what can be done about each thing found, look again.  Whatever is replaced is kept aside first,
and nothing is deleted.  Doing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gitsession.backends.processes import end_survivors
from gitsession.clock import timestamp
from gitsession.config import Settings, in_repository
from gitsession.errors import GitSessionError, RefMoved, RepositoryError, SessionNotFound, StoreError
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.lifecycle import Doc
from gitsession.store import trash
from gitsession.store.mend import keep_aside, make_way, mend
from gitsession.store.reports import Reports
from gitsession.store.salvage import Salvage, fold_stray, salvage
from gitsession.store.sessions import SessionStore
from gitsession.verbs import verify as look
from gitsession.verbs.checkpoint import Recorder, repository_of
from gitsession.verbs.deaths import bury
from gitsession.verbs.edits import Edits
from gitsession.verbs.rebuild import complete, rebuild
from gitsession.verbs.restock import store_again
from gitsession.verbs.restore import finish_interrupted
from gitsession.verbs.verify import Finding, newest_commit, sound, verify

_ROUNDS: Final = 6  # one thing repaired can show another: files, death, ref, restore


@dataclass(frozen=True)
class Step:
    """What was done (or would be) about a finding; ``failure`` is why it could not be."""

    finding: Finding
    done: str | None
    failure: str | None = None


@dataclass(frozen=True)
class Repair:
    """A session looked at and, unless ``dry_run``, repaired.

    ``left`` is what is still wrong, ``notes`` what only explains.  ``report`` is the diagnosis, if one was written.
    """

    session_id: str
    dry_run: bool
    steps: tuple[Step, ...]
    left: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    report: Path | None = None

    @property
    def is_sound(self) -> bool:
        return not self.left


def repair(store: SessionStore, session_id: str, settings: Settings, here: Path, *, dry_run: bool = False) -> Repair:
    """Repair one session; ``here`` is where its repository is looked for when its files no longer tell.

    A session with a living owner is only looked at.  ``SessionNotFound`` if there is none, not even in a repository.
    """
    _refuse_deleted(store, session_id)
    findings = verify(store, session_id)
    notes = tuple(finding for finding in findings if finding.harmless)
    wrong = [finding for finding in findings if not finding.harmless]
    if dry_run or not any(finding.remedy for finding in wrong) or store.owner(session_id) is not None:
        steps = tuple(Step(finding, finding.remedy) for finding in wrong if finding.remedy)
        left = tuple(finding for finding in wrong if not finding.remedy or not dry_run)
        return Repair(session_id, dry_run, steps, left, notes)
    steps_taken: list[Step] = []
    for _ in range(_ROUNDS):
        kinds = dict.fromkeys(finding.kind for finding in wrong if finding.remedy)
        failed = {step.finding for step in steps_taken if step.failure}
        todo = [finding for finding in wrong if finding.remedy and finding not in failed]
        if not todo:
            break
        kind = next(kind for kind in kinds if any(finding.kind == kind for finding in todo))
        steps_taken += _repair_kind(_Work(store, session_id, settings, here), kind, todo)
        wrong = [finding for finding in verify(store, session_id) if not finding.harmless]
    done = Repair(session_id, False, tuple(steps_taken), tuple(wrong), notes)
    with suppress(StoreError):  # on a full disk the session matters more
        return replace(done, report=Reports(store.home).write(session_id, report_text(store, done)))
    return done


@dataclass(frozen=True)
class _Work:
    store: SessionStore
    session_id: str
    settings: Settings
    here: Path


def _repair_kind(work: _Work, kind: str, findings: list[Finding]) -> list[Step]:
    same = [finding for finding in findings if finding.kind == kind]
    try:
        done = _REMEDIES[kind](work, same)
    except SessionNotFound:
        raise
    except GitSessionError as error:
        return [Step(finding, None, str(error)) for finding in same]
    return [Step(finding, done) for finding in same]


def _refuse_deleted(store: SessionStore, session_id: str) -> None:
    """What somebody deleted must not be rebuilt from a ref that is about to go."""
    if store.is_in_trash(session_id):
        raise SessionNotFound(f"no session {session_id!r}: it was deleted", hint=f"it is in {store.trash_dir}")


def _bring_journal_back(work: _Work, _findings: list[Finding]) -> str:
    store = work.store
    with store.writing(work.session_id):
        trash.take_back(store.sessions_dir, store.trash_dir, work.session_id)
    return "brought the journal back from the trash"


def _free_locks(work: _Work, _findings: list[Finding]) -> str:
    reports = Reports(work.store.home)
    moved = [reports.take(work.session_id, place) for place in look.unlockable(work.store, work.session_id)]
    return f"moved it to {moved[0].parent}" if moved else "it went by itself"


def _mend_files(work: _Work, findings: list[Finding]) -> str:
    """Write the files anew: from the best of them, completed from git, or from git alone."""
    store, session_id = work.store, work.session_id
    with store.writing(session_id):
        _refuse_deleted(store, session_id)
        found = salvage(store.sessions_dir, session_id, sound)
        if not found.problems:
            return "somebody else repaired it meanwhile"
        kept = keep_aside(store, session_id)
        source = found.source
        doc = found.doc
        if doc is None:
            doc, source = rebuild(store, session_id, work.here), "its checkpoints' commits"
            if doc is None and not store.exists(session_id):
                raise SessionNotFound(f"no session {session_id!r}", hint="pinable-agents session list shows them")
            if doc is None:
                raise RepositoryError("none of its files can be read, and no known repository has its checkpoints")
            why = sound(doc)
            if why is not None:
                raise RepositoryError(f"its checkpoints' commits do not make a record: it {why}")
        else:
            source = f"{source}{_with_git(doc)}"
        left = fold_stray(doc, found.stray)
        kept += make_way(store, session_id)
        mend(store, session_id, doc, found, [finding.text for finding in findings], str(source))
    return ". ".join(
        [
            f"wrote it anew from {source}",
            *([f"left out: {'; '.join(left)}"] if left else []),
            *([f"the damaged bytes are in {kept[0].parent}"] if kept else []),
        ]
    )


def _with_git(doc: Doc) -> str:
    """Complete the record from its repository, if that can be read: lost entries may be checkpoints'."""
    try:
        repo = repository_of(doc)
        with closing(Objects(repo)) as objects:
            number = complete(doc, Ledger(repo, objects, doc["id"]))
    except (RepositoryError, RefMoved):
        return ""
    return f" and {number} of its checkpoints' commits" if number else ""


def _pause(work: _Work, _findings: list[Finding]) -> str:
    ended = end_survivors(work.session_id)
    bury(work.store, work.session_id)
    also = f", and ended what it left running ({', '.join(f'{one.name} {one.pid}' for one in ended)})" if ended else ""
    return f"paused it{also}"


def _finish_restore(work: _Work, _findings: list[Finding]) -> str:
    report = finish_interrupted(work.store, work.session_id, work.settings)
    left = [file.path for file in report.left] if report else []
    return "finished it" + (f"; changed since and left alone: {', '.join(left[:5])}" if left else "")


def _finish_edit(work: _Work, _findings: list[Finding]) -> str:
    with work.store.own(work.session_id), _recorder(work) as recorder:
        Edits(recorder).settle(keep_theirs=False)
    return "finished it"


def _in_ledger(act: Callable[[Ledger, Doc], str]) -> Callable[[_Work, list[Finding]], str]:
    """A remedy that works on the session's refs, its write lock held."""

    def remedy(work: _Work, _findings: list[Finding]) -> str:
        with work.store.edit(work.session_id) as draft:
            repo = repository_of(draft.doc)
            with closing(Objects(repo)) as objects:
                return act(Ledger(repo, objects, work.session_id), draft.doc)

    return remedy


def _break_locks(ledger: Ledger, _doc: Doc) -> str:
    ledger.break_locks()
    broken = ", ".join(map(str, ledger.broken_locks))
    return f"removed {broken}" if broken else "it went by itself"


def _put_back(ledger: Ledger, doc: Doc) -> str:
    commit = newest_commit(doc)
    if commit is None:
        raise RepositoryError("the record names no commit to put it back to")
    broken = ledger.put_back(commit)
    return f"put {ledger.ref} back to {commit}" + (f"; what stood there is in {broken}" if broken else "")


def _store_again(work: _Work, _findings: list[Finding]) -> str:
    with work.store.edit(work.session_id) as draft:
        repo = repository_of(draft.doc)
        with closing(Objects(repo)) as objects:
            settings = in_repository(work.settings, repo.worktree)
            return store_again(Ledger(repo, objects, work.session_id), draft.doc, settings)


def _recorder(work: _Work) -> closing[Recorder]:
    repo = repository_of(work.store.read(work.session_id))
    return closing(Recorder(work.store, work.session_id, repo, work.settings))


def _adopt(work: _Work, _findings: list[Finding]) -> str:
    with _recorder(work) as recorder:
        number = recorder.adopt()
    return f"took {number} of its commits into the record"


_REMEDIES: Final[dict[str, Callable[[_Work, list[Finding]], str]]] = {
    look.UNLOCKABLE: _free_locks,
    look.PARTED: _bring_journal_back,
    look.FILES: _mend_files,
    look.DEAD: _pause,
    look.LOCK: _in_ledger(_break_locks),
    look.REF: _in_ledger(_put_back),
    look.AHEAD: _adopt,
    look.OBJECTS: _store_again,
    look.RESTORE: _finish_restore,
    look.EDIT: _finish_edit,
}


def report_text(store: SessionStore, done: Repair) -> str:
    """The diagnosis, for a person."""
    lines = [f"Session {done.session_id}, looked at {timestamp()}", ""]
    lines += ["What was found"]
    for step in done.steps:
        lines += [f"  {step.finding.text}", f"    -> {step.done or f'could not be repaired: {step.failure}'}"]
    if done.left:
        lines += ["", "What is still wrong"]
        for finding in done.left:
            lines += [f"  {finding.text}", *([f"    {finding.hint}"] if finding.hint else [])]
        lines += ["", "What was tried", *(f"  {line}" for line in _tried(store, done.session_id))]
        lines += ["", "What can still be saved", *(f"  {line}" for line in _savable(store, done.session_id))]
    if done.notes:
        lines += ["", "Also", *(f"  {finding.text}" for finding in done.notes)]
    return "\n".join([*lines, ""])


def _tried(store: SessionStore, session_id: str) -> list[str]:
    try:
        found: Salvage = salvage(store.sessions_dir, session_id, sound)
    except GitSessionError as error:
        return [str(error)]
    return found.tried


def _savable(store: SessionStore, session_id: str) -> list[str]:
    """What somebody can do by hand."""
    lines = [
        f"the damaged files as they were: {Reports(store.home).directory / session_id}",
        f"the checkpoints' files, in the session's repository: git log --first-parent refs/pinable/{session_id}",
        f"one file of the newest but K: git show refs/pinable/{session_id}~K:PATH",
        f"to try again where the repository is: cd REPOSITORY && pinable-agents session recover {session_id}",
    ]
    if (store.sessions_dir / f"{session_id}.journal").exists():
        lines.append(f"what the journal still says: {store.sessions_dir / session_id}.journal, one JSON object a line")
    return lines
