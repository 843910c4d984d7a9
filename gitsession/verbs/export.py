"""A session for others: as a report to be drawn, or as patches to be applied.

A report is bounded: what is left out of it is said in it.  Paths are text (``gitsession.paths``), moments are as the
record has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final

from gitsession import paths
from gitsession.errors import CheckpointNotFound, GitSessionError
from gitsession.git import diff
from gitsession.git.diff import FileChange
from gitsession.git.mail import series
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.git.text import decode
from gitsession.lifecycle import RUNNING, Doc
from gitsession.model import Checkpoint, Session
from gitsession.store.sessions import SessionStore
from gitsession.verbs.checkpoint import repository_of
from gitsession.verbs.events import Totals
from gitsession.verbs.handover import conclusions
from gitsession.verbs.inspect import Inspection, inspect
from gitsession.verbs.redact import Redactor
from gitsession.verbs.totals import totals_of

TEXT_LIMIT: Final = 20_000
"""Characters of the task, or of any other text of a person's or a model's."""
FILE_LINES: Final = 1_000
"""Changed lines of one file whose diff is shown."""
FILE_LIMIT: Final = 100_000
"""Characters of one file's diff."""
DIFF_LIMIT: Final = 2_000_000
"""Characters of all diffs."""
NAMED: Final = 200
"""Files that are named at one checkpoint."""
LISTED: Final = 500
"""Findings, and files of the whole session."""
DETAILED: Final = 200
"""The last so many checkpoints are told with their files, those before without."""


@dataclass(frozen=True)
class FilePart:
    """One file that changed; ``diff`` are its hunks, or ``not_shown`` says why there are none.

    ``insertions`` and ``deletions`` are ``None`` where they are not known.
    """

    path: str
    status: str
    old_path: str | None = None
    insertions: int | None = None
    deletions: int | None = None
    note: str | None = None
    diff: str | None = None
    not_shown: str | None = None


@dataclass(frozen=True)
class Step:
    """One checkpoint; ``more_files`` are not named."""

    index: int
    timestamp: str
    phase: str | None
    description: str
    restored_from: int | None
    input_tokens: int
    output_tokens: int
    files: tuple[FilePart, ...]
    more_files: int
    skipped: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Moment:
    """Something that happened."""

    at: str
    text: str


@dataclass(frozen=True)
class Remark:
    """A finding of the session's review."""

    severity: str
    file: str
    line: int
    message: str
    quote: str


@dataclass(frozen=True)
class Report:
    """A session as a reviewer reads it.

    ``results`` is what the agent said at the end of each phase: (phase, text).  ``facts`` are names and values about
    where it ran.  ``findings`` is ``None`` where no review reported any.  ``problem`` says why there are no diffs.
    """

    session_id: str
    status: str
    reason: str | None
    backend: str
    model: str | None
    task: str
    created_at: str
    ended_at: str | None
    totals: Totals
    timeline: tuple[Moment, ...]
    results: tuple[tuple[str, str], ...]
    changed: tuple[FilePart, ...]
    more_changed: int
    remaining: tuple[str, ...]
    steps: tuple[Step, ...]
    findings: tuple[Remark, ...] | None
    more_findings: int
    facts: tuple[tuple[str, str], ...]
    problem: str | None


def masked(report: Report, redactor: Redactor) -> Report:
    """The report with what looks like a secret masked in every text."""
    found: Report = _masked(report, redactor)
    return found


def _masked(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, tuple):
        return tuple(_masked(item, redactor) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: _masked(getattr(value, one.name), redactor) for one in fields(value)})
    return value


def patches(store: SessionStore, session_id: str) -> list[bytes]:
    """What the session did as mails for ``git am``, one for the state it began with if that was not committed.

    ``CheckpointNotFound`` if it has no files yet, ``RepositoryError`` if its repository is gone.
    """
    doc = store.read(session_id)
    base = doc.get("base")
    if not base:
        raise CheckpointNotFound(f"session {session_id} has no base yet", hint="it has not run: there are no patches")
    tip = next((one["commit"] for one in reversed(doc["checkpoints"]) if one.get("commit")), base["commit"])
    return list(series(repository_of(doc), base.get("head"), tip))


def gather(store: SessionStore, session_id: str) -> Report:
    """All that a report tells of a session."""
    found = inspect(store, session_id)
    doc = store.read(session_id)
    session = found.session
    with _Diffs(doc) as diffs:
        first = max(0, len(session.checkpoints) - DETAILED)
        steps = tuple(_step(one, diffs.of(session, one) if one.index >= first else []) for one in session.checkpoints)
        changed = diffs.net(found)
        problem = diffs.problem
    remarks = _remarks(doc)
    return Report(
        session_id=session.id,
        status=session.status,
        reason=session.pause_reason,
        backend=session.backend,
        model=session.model,
        task=_cut(session.task),
        created_at=session.created_at,
        ended_at=session.runs[-1].ended_at if session.runs else None,
        totals=totals_of(doc, found.changed),
        timeline=tuple(_timeline(session, _runs_of_checkpoints(store, session))),
        results=tuple((phase, _cut(_conclusion(given))) for phase, given in conclusions(doc)),
        changed=tuple(changed[:LISTED]),
        more_changed=max(0, len(changed) - LISTED),
        remaining=tuple(found.remaining[:LISTED]),
        steps=steps,
        findings=None if remarks is None else tuple(remarks[:LISTED]),
        more_findings=0 if remarks is None else max(0, len(remarks) - LISTED),
        facts=tuple(_facts(session)),
        problem=problem,
    )


def _step(record: Checkpoint, files: Sequence[FilePart]) -> Step:
    total = len(files) or record.files_changed_total or len(record.files_changed)
    return Step(
        index=record.index,
        timestamp=record.timestamp,
        phase=record.phase,
        description=_cut(record.description, 1_000),
        restored_from=record.restored_from,
        input_tokens=record.tokens_used.input,
        output_tokens=record.tokens_used.output,
        files=tuple(files[:NAMED]),
        more_files=total - len(files[:NAMED]),
        skipped=tuple((one.path, one.reason) for one in record.skipped[:NAMED]),
    )


def _recorded(record: Checkpoint) -> list[FilePart]:
    """The files of a checkpoint as its record has them."""
    if record.changes:
        return [FilePart(change.path, change.status) for change in record.changes]
    return [FilePart(path, "modified") for path in record.files_changed]


class _Diffs:
    """The differences between a session's checkpoints, for as long as its repository is there and there is room."""

    def __init__(self, doc: Doc) -> None:
        self.problem: str | None = None
        self._repo: Repo | None = None
        self._objects: Objects | None = None
        self._left = DIFF_LIMIT
        if doc.get("repository") is None:
            self.problem = "the session names no repository"
            return
        try:
            self._repo = repository_of(doc)
            self._objects = Objects(self._repo)
        except GitSessionError as error:
            self.problem = str(error)

    def __enter__(self) -> _Diffs:
        return self

    def __exit__(self, *_: object) -> None:
        if self._objects is not None:
            self._objects.close()

    def of(self, session: Session, record: Checkpoint) -> list[FilePart]:
        """The files of a checkpoint, those that will be named with their diffs against the checkpoint before."""
        earlier = session.checkpoints[record.index - 1] if record.index else session.base
        before = earlier.tree if earlier is not None else None
        recorded = _recorded(record)
        if before is None or record.tree is None or not recorded:
            return recorded
        changes = self._compared(before, record.tree)
        if changes is None:
            return recorded
        return [*self._shown(before, record.tree, changes[:NAMED]), *map(_part, changes[NAMED:])]

    def net(self, found: Inspection) -> list[FilePart]:
        """The files that differ between the base and the last checkpoint, without diffs."""
        session = found.session
        last = session.last_checkpoint
        if session.base is not None and last is not None and last.tree is not None:
            changes = self._compared(session.base.tree, last.tree)
            if changes is not None:
                return [_part(change) for change in changes]
        return [FilePart(change["path"], change["status"]) for change in found.changed]

    def _compared(self, before: str, after: str) -> list[FileChange] | None:
        if self._repo is None or self._objects is None:
            return None
        try:
            return diff.changes(self._repo, self._objects, before, after)
        except GitSessionError as error:
            self.problem = self.problem or str(error)
            return None

    def _shown(self, before: str, after: str, changes: Sequence[FileChange]) -> list[FilePart]:
        why_not = {change.path: _why_not(change, self._left) for change in changes}
        wanted = [change for change in changes if why_not[change.path] is None and not change.binary]
        texts = self._texts(before, after, wanted) if wanted else {}
        parts = []
        for change in changes:
            part = replace(_part(change), not_shown=why_not[change.path])
            text = texts.get(change.path)
            if text is not None and part.not_shown is None:
                self._left -= len(text)
                part = replace(part, diff=text)
            parts.append(part)
        return parts

    def _texts(self, before: str, after: str, changes: Sequence[FileChange]) -> dict[bytes, str]:
        """The hunks of these files, as text."""
        assert self._repo is not None  # noqa: S101 - there were changes
        names = [path for change in changes for path in (change.old_path, change.path) if path is not None]
        texts: dict[bytes, str] = {}
        for file in diff.patch_files(diff.patch(self._repo, before, after, names)):
            if file.path is not None and file.body:
                # A file that became a link has two parts.
                text = "\n".join(filter(None, [texts.get(file.path), self._text(file.path, file.body)]))
                texts[file.path] = _cut(text, FILE_LIMIT)
        return texts

    def _text(self, path: bytes, body: list[bytes]) -> str:
        data = b"\n".join(body)
        with suppress(UnicodeDecodeError):
            return data.decode("utf-8")
        assert self._repo is not None  # noqa: S101 - it gave the patch
        return decode(data, diff.attributes(self._repo, [path]).get(path))[0]


def _part(change: FileChange) -> FilePart:
    return FilePart(
        path=paths.encode(change.path),
        status=change.status,
        old_path=None if change.old_path is None else paths.encode(change.old_path),
        insertions=change.insertions,
        deletions=change.deletions,
        note=", ".join(filter(None, ["binary" if change.binary else None, change.note])) or None,
    )


def _why_not(change: FileChange, left: int) -> str | None:
    """Why a file's diff is not shown; ``None`` where it is, or where there is none."""
    lines = (change.insertions or 0) + (change.deletions or 0)
    if lines > FILE_LINES:
        return f"{lines:,} changed lines, too many for a report"
    return "left out: the report is full" if left <= 0 and lines else None


def _timeline(session: Session, runs: Mapping[int, int]) -> Iterator[Moment]:
    """What happened when, in order; ``runs`` is the run of each checkpoint."""
    # Checkpoints have whole seconds, runs have milliseconds: what falls into one second has its order from the run and
    # the rank in it.
    found: list[tuple[tuple[str, int, int], Moment]] = []

    def add(at: str, run: int, rank: int, text: str) -> None:
        found.append(((at[:19], run, rank), Moment(at, text)))

    add(session.created_at, 0, 0, "Created")
    for number, run in enumerate(session.runs):
        add(run.started_at, number, 1, "Began" if not number else "Resumed")
        if run.ended_at is not None:
            end = "Completed" if run.end == "completed" else f"Paused: {_cut(run.end or '', 300)}"
            add(run.ended_at, number, 3, end)
    for one in session.checkpoints:
        add(one.timestamp, runs[one.index], 2, f"Checkpoint {one.index}: {_cut(one.description, 300)}")
    yield from (moment for _, moment in sorted(found, key=lambda item: item[0]))


def _runs_of_checkpoints(store: SessionStore, session: Session) -> dict[int, int]:
    """The run, counted from 0, that each checkpoint was taken in or after: by the journal, else by the clock."""
    begun = [run.started_at[:19] for run in session.runs]
    found = {one.index: max(0, sum(at <= one.timestamp[:19] for at in begun) - 1) for one in session.checkpoints}
    number = -1
    for entry in store.journal(session.id).read()[0]:
        if entry["event"] == "status" and entry["to"] == RUNNING:
            number += 1
        elif entry["event"] == "checkpoint":
            found[entry["record"]["index"]] = max(0, number)
    return found


def _conclusion(given: dict[str, Any]) -> str:
    decisions = given.get("decisions")
    parts = [str(given.get("summary") or ""), str(given.get("details") or "")]
    if isinstance(decisions, list) and decisions:
        parts.append("Decisions:\n" + "\n".join(f"- {decision}" for decision in decisions))
    return "\n\n".join(part for part in parts if part)


def _remarks(doc: Doc) -> list[Remark] | None:
    findings = doc.get("findings")
    if not isinstance(findings, list):
        return None
    text: Callable[[Any], str] = lambda value: _cut(str(value or ""), 2_000)  # noqa: E731 - short for what follows
    return [
        Remark(text(one.get("severity")), text(one.get("file")), int(one.get("line") or 0), text(one.get("message")),
               text(one.get("quote")))
        for one in findings
        if isinstance(one, dict)
    ]  # fmt: skip


def _facts(session: Session) -> Iterator[tuple[str, str]]:
    meta = session.metadata
    if session.repository is not None:
        yield "Repository", session.repository.worktree
    if meta.git_branch:
        yield "Branch", meta.git_branch
    if meta.git_commit:
        yield "Commit", meta.git_commit
    if session.command:
        yield "Command", _cut(" ".join(session.command), 1_000)
    yield "System", meta.os
    yield "Version", meta.wrapper_version


def _cut(text: str, limit: int = TEXT_LIMIT) -> str:
    """``text``, and a word where it was cut."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut: {len(text) - limit:,} more characters]"
