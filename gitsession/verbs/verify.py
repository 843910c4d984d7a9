"""Look at one session and say what is wrong with it.  Nothing is written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gitsession import lifecycle, paths
from gitsession.errors import GitSessionError, RefMoved, RepositoryError, SessionTooNew
from gitsession.git import trees
from gitsession.git.check import is_whole, lost
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.lifecycle import Doc
from gitsession.store import trash
from gitsession.store.salvage import salvage
from gitsession.store.sessions import SessionStore
from gitsession.verbs.checkpoint import entries_ahead, repository_of

if TYPE_CHECKING:
    from gitsession.model import Session

FILES, NEWER, DEAD, PARTED, LOCK, AHEAD, REF, RESTORE, EDIT, OBJECTS, UNLOCKABLE = (
    "files", "newer", "owner-died", "deletion", "lock", "ref-ahead", "ref", "restore", "edit", "objects", "unlockable",
)  # fmt: skip
BASE_NAME: Final = "the base"
_OID: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHOWN: Final = 5  # paths of one checkpoint that are named


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be.

    ``kind`` is a fixed word, ``text`` says what is wrong, ``remedy`` what a repair does about it.  Without a remedy a
    person has to (``hint`` says how), unless ``harmless``: then it only explains something.
    """

    kind: str
    text: str
    remedy: str | None = None
    hint: str | None = None
    harmless: bool = False


def verify(store: SessionStore, session_id: str) -> list[Finding]:
    """Everything that is wrong with a session; files first, because nothing else can be told without them."""
    # Without its locks nothing can be done about the rest.
    found = list(_locks(store, session_id)) or list(_files(store, session_id))
    if found:
        return found
    doc = store.read(session_id)
    found += _owner(store, session_id, doc)
    try:
        repo = repository_of(doc)
    except RepositoryError as error:
        return [*found, Finding("repository", str(error), hint=error.hint)]
    with closing(Objects(repo)) as objects:
        found += _repository(Ledger(repo, objects, session_id), doc)
    if doc.get("restoring") is not None:
        found.append(Finding(RESTORE, "a restore was interrupted", "finish it"))
    if doc.get("pending_edit") is not None:
        found.append(Finding(EDIT, "an edit was interrupted", "finish it, or find it done"))
    found += _absences(repo, doc)
    return found


def sound(doc: Doc) -> str | None:
    """Why ``doc`` cannot be a session's record; ``None`` if it can."""
    from pydantic import ValidationError

    from gitsession.model import Session

    try:
        session = Session.model_validate(doc)
    except ValidationError as error:
        first = error.errors()[0]
        return f"has a wrong {'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    if session.status not in lifecycle.STATES:
        return f"has an unknown status {session.status!r}"
    indices = [checkpoint.index for checkpoint in session.checkpoints]
    gap = next((place for place, index in enumerate(indices) if place != index), None)
    if gap is not None:
        return f"has checkpoint {indices[gap]} where checkpoint {gap} belongs"
    odd = next((name for name, oid in _objects_of(session) if oid is not None and not _OID.fullmatch(str(oid))), None)
    return None if odd is None else f"has a wrong {odd}: it is no object's id"


def _objects_of(session: Session) -> Iterator[tuple[str, str | None]]:
    """The ids of git's objects that a record names, which go into command lines of git's."""
    if session.base is not None:
        yield from (("base.commit", session.base.commit), ("base.tree", session.base.tree))
        yield from (("base.head", session.base.head), ("base.meta", (session.base.model_extra or {}).get("meta")))
    for one in session.checkpoints:
        place = f"checkpoints.{one.index}"
        yield from ((f"{place}.commit", one.commit), (f"{place}.tree", one.tree), (f"{place}.meta", one.meta))


def _locks(store: SessionStore, session_id: str) -> Iterator[Finding]:
    for place in unlockable(store, session_id):
        yield Finding(UNLOCKABLE, f"{place.name} is not a regular file, so that nobody can lock it", "move it away")


def unlockable(store: SessionStore, session_id: str) -> list[Path]:
    """What stands where the session's lock files belong, and is no file."""
    places = (store.sessions_dir / f"{name}" for name in (f"{session_id}.lock", f"{session_id.lower()}.mutex"))
    return [place for place in places if os.path.lexists(place) and not place.is_file()]


def _files(store: SessionStore, session_id: str) -> Iterator[Finding]:
    if trash.is_parted(store.sessions_dir, store.trash_dir, session_id):
        yield Finding(PARTED, "a deletion was interrupted", "bring the journal back from the trash")
        return
    try:
        found = salvage(store.sessions_dir, session_id, sound)
    except SessionTooNew as error:
        yield Finding(NEWER, str(error), hint=error.hint)
        return
    if found.problems:
        source = f"write it anew from {found.source}" if found.doc else "rebuild it from its checkpoints' commits"
        for problem in found.problems:
            yield Finding(FILES, problem, source)


def _owner(store: SessionStore, session_id: str, doc: Doc) -> Iterator[Finding]:
    if doc["status"] == lifecycle.RUNNING and store.owner(session_id) is None:
        facts = store.last_owner_facts(session_id) or {}
        who = f"process {facts['pid']} on {facts.get('host')}" if facts.get("pid") else "its process"
        yield Finding(DEAD, f"it says that it runs, and {who} is gone", "pause it")


def _repository(ledger: Ledger, doc: Doc) -> Iterator[Finding]:
    lock = ledger.lock_left()
    if lock is not None:
        yield Finding(LOCK, f"{lock.name} is there", "remove it once it has stayed the same for two seconds")
    try:
        ahead = entries_ahead(ledger, doc)
    except RefMoved as error:
        yield _moved(ledger, doc, error)
        return
    except RepositoryError as error:
        yield Finding(REF, str(error), "put it back to what the record says" if doc.get("base") else None)
        return
    if ahead:
        names = ", ".join(
            f"checkpoint {entry['record']['index']}" if "record" in entry else BASE_NAME for entry in ahead
        )
        yield Finding(AHEAD, f"{ledger.ref} holds what the record lacks: {names}", "take it into the record")
    yield from _commits(ledger, doc)


def _moved(ledger: Ledger, doc: Doc, error: RefMoved) -> Finding:
    """A ref that is gone, or went back along its own commits, can be put back; any other way it was somebody's will."""
    newest = newest_commit(doc)
    try:
        chain = set() if newest is None else {commit.oid for commit in ledger.commits(newest)}
        tip = ledger.tip()
    except RepositoryError as lost_commit:
        return Finding(REF, f"{error}; {lost_commit}", hint=lost_commit.hint)
    if newest is not None and (tip is None or tip in chain):
        return Finding(REF, str(error), "put it back")
    return Finding(REF, str(error), hint=error.hint)


def newest_commit(doc: Doc) -> str | None:
    """The commit that the record ends with."""
    records = [*([doc["base"]] if doc.get("base") else []), *doc["checkpoints"]]
    commit: str | None = records[-1].get("commit") if records else None
    return commit


def _commits(ledger: Ledger, doc: Doc) -> Iterator[Finding]:
    """Checkpoints whose commit, trees or files the repository has lost, or whose commit is another's."""
    records = [(BASE_NAME, doc["base"])] if doc.get("base") else []
    records += [(f"checkpoint {record['index']}", record) for record in doc["checkpoints"]]
    records = [(name, record) for name, record in records if record.get("commit")]
    newest = newest_commit(doc)
    if not records or newest is None:
        return
    try:
        chain = {commit.oid: commit.tree for commit in ledger.commits(newest)}
    except RepositoryError as error:
        yield Finding("commits", str(error), hint="'git fsck' says more")
        return
    for name, record in records:
        if chain.get(record["commit"]) != record["tree"]:
            yield Finding("commits", f"{name} names a commit that is not on {ledger.ref}: {record['commit']}")
    metas = {record["meta"] for _, record in records if record.get("meta")}
    head = (doc.get("base") or {}).get("head")
    if is_whole(ledger.repo, [newest, *metas], [head] if head else []):
        return
    for name, record in records:
        gone = list(lost(ledger.repo, ledger.objects, record["tree"]))
        if gone:
            named = ", ".join(paths.encode(path) or "its tree" for path, _ in gone[:_SHOWN])
            more = f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
            yield Finding(
                OBJECTS, f"the repository has lost files of {name}: {named}{more}",
                "store again what the working tree, an index or another checkpoint still has",
                "fetch them from a clone, if there is one; 'git fsck' says more",
            )  # fmt: skip


def _absences(repo: Repo, doc: Doc) -> Iterator[Finding]:
    """Files that the record names and that are not there, each with why."""
    with closing(Objects(repo)) as objects:
        named = {change["path"]: change["status"] for change in doc["context"].get("accumulated_changes", [])}
        for name in [*doc["files"], *(path for path in named if path not in doc["files"])]:
            place = repo.worktree / _file_name(name)
            if not place.is_symlink() and not place.exists() and named.get(name) != "deleted":
                yield Finding("absent", f"{name}: {_why_absent(objects, doc, name, named)}", harmless=True)


def _why_absent(objects: Objects, doc: Doc, name: str, named: dict[str, str]) -> str:
    newest = doc["checkpoints"][-1] if doc["checkpoints"] else doc.get("base")
    if newest is None:
        return "not there yet"
    try:
        there = trees.lookup(objects, newest["tree"], paths.decode(name))
    except GitSessionError:
        there = None
    if there is None:
        return "not there yet" if name not in named else "gone before the newest checkpoint"
    return "deleted since the newest checkpoint, which has it"


def _file_name(name: str) -> Path:
    return Path(os.fsdecode(paths.decode(name)))
