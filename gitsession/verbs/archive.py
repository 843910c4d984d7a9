"""Pack a session into a file that can be kept anywhere, and bring it back, also into another clone."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitsession import lifecycle
from gitsession.config import Settings
from gitsession.errors import (
    BadSessionId,
    IllegalTransition,
    NotARepository,
    RepositoryError,
    SessionBusy,
    SessionCorrupted,
    StoreError,
)
from gitsession.git import bundle
from gitsession.git.check import is_whole
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.lifecycle import Doc
from gitsession.store import archives
from gitsession.store.draft import Draft
from gitsession.store.files import explained, private_dir
from gitsession.store.journal import Journal
from gitsession.store.sessions import SessionStore
from gitsession.store.state import read_state
from gitsession.verbs.births import described
from gitsession.verbs.checkpoint import Recorder, repository_of
from gitsession.verbs.delete import delete, undelete
from gitsession.verbs.offered import OFFERED, offered
from gitsession.verbs.verify import sound

_UNPACKED: Final = ".unarchive-"
_ABANDONED: Final = 86400.0  # seconds


@dataclass(frozen=True)
class Archived:
    """Where the archive is, and where in the trash the session."""

    session_id: str
    path: Path
    place: Path


def archive(store: SessionStore, session_id: str, directory: Path, settings: Settings) -> Archived:
    """Write ``<id>.tar.gz`` in ``directory``, read it back, and only then move the session to the trash.

    ``SessionBusy`` for one that is owned; one that cannot be read, or whose repository is not there, is refused.
    """
    path = directory / f"{session_id}{archives.ENDING}"
    with store.own(session_id):
        _settle(store, session_id, settings)
        private_dir(directory)
        scratches = f".archive-{session_id}~"  # "~" is in no id
        for left in directory.glob(f"{scratches}*"):  # by a process that was killed, as we own the session
            shutil.rmtree(left, ignore_errors=True)
        with (
            explained("write", path),
            tempfile.TemporaryDirectory(dir=directory, prefix=scratches, ignore_cleanup_errors=True) as scratch,
        ):
            packed = _pack(store, session_id, path, Path(scratch))
    place = delete(store, session_id)
    journal = place / f"{session_id}.journal"
    if journal.read_bytes() != packed:
        undelete(store, session_id)
        path.unlink()
        raise SessionBusy(f"session {session_id} went on while it was archived", hint="archive it again")
    return Archived(session_id, path, place)


def _settle(store: SessionStore, session_id: str, settings: Settings) -> None:
    """Complete the session's record, and refuse one that is in the middle of something."""
    doc = store.read(session_id)
    what = _unfinished(doc)
    if what is not None:
        raise IllegalTransition(
            f"session {session_id} cannot be archived: {what}",
            hint=f"first: pinable-agents session recover {session_id}",
        )
    with closing(Recorder(store, session_id, repository_of(doc), settings)) as recorder:
        recorder.adopt()
    with store.edit(session_id) as draft:
        draft.save()


def _unfinished(doc: Doc) -> str | None:
    """What the session is in the middle of, if anything."""
    doing = {
        "it says that it runs": doc["status"] == lifecycle.RUNNING,
        "an edit of its was interrupted": doc.get("pending_edit"),
        "a restore of its was interrupted": doc.get("restoring"),
    }
    return next((what for what, found in doing.items() if found), None)


def _pack(store: SessionStore, session_id: str, path: Path, scratch: Path) -> bytes:
    """Make and check the archive; its journal."""
    repo = repository_of(store.read(session_id))
    files = {
        archives.SNAPSHOT: store.sessions_dir / f"{session_id}.json",
        archives.JOURNAL: store.journal(session_id).path,
    }
    with closing(Objects(repo)) as objects:
        ledger = Ledger(repo, objects, session_id)
        if ledger.tip() is not None:
            files[archives.BUNDLE] = scratch / archives.BUNDLE
            bundle.write(ledger, files[archives.BUNDLE])
        if path.exists():
            _refuse_another(path, files, scratch)
        else:
            archives.pack(path, session_id, files)
        back = scratch / "back"
        back.mkdir()
        try:
            archives.unpack(path, back)
            if archives.BUNDLE in files:
                bundle.check(repo, back / archives.BUNDLE, bundle.objects_of(ledger))
        except (StoreError, RepositoryError):
            path.unlink()
            raise
    return (back / archives.JOURNAL).read_bytes()


def _refuse_another(path: Path, files: dict[str, Path], scratch: Path) -> None:
    """An archive that is there already must be of this very session: made by a run that was cut short."""
    there = scratch / "there"
    there.mkdir()
    archives.unpack(path, there)
    if any((there / name).read_bytes() != files[name].read_bytes() for name in (archives.SNAPSHOT, archives.JOURNAL)):
        raise StoreError(f"{path} exists, and is not of this session as it is now", hint="move it away")


@dataclass(frozen=True)
class Unarchived:
    """``moved``: it is in another repository now; ``grafted``: that one does not know the commit it began from.

    ``checkpoint`` is its newest one's index; ``offered``: its program only runs when the user names it.
    """

    session_id: str
    worktree: Path
    checkpoint: int | None
    moved: bool
    grafted: bool
    offered: bool = False


def unarchive(store: SessionStore, file: Path, start: Path, repository: Path | None = None) -> Unarchived:
    """Bring an archived session back into ``repository``.

    If that is not said: into the one ``start`` is in, if it knows the commit that the session began from; else into the
    one where the session was.  The archive stays.

    Whoever made the archive wrote the program's command in it: it is only offered (``verbs.offered``), and runs when
    the user names it.
    """
    private_dir(store.home)
    _remove_abandoned(store.home)
    with tempfile.TemporaryDirectory(dir=store.home, prefix=_UNPACKED) as scratch_name:
        scratch = Path(scratch_name)
        session_id = archives.unpack(file, scratch).session_id
        if store.exists(session_id):
            raise BadSessionId(f"session {session_id} exists", hint="delete it first, to have the archived one back")
        draft = _draft(scratch, session_id)
        packed = scratch / archives.BUNDLE
        head = (draft.doc.get("base") or {}).get("head")
        repo = Repo.discover(repository) if repository is not None else _home_of(draft.doc, head, start)
        with store.own(session_id), closing(Objects(repo)) as objects:
            values, grafted = {}, False
            if packed.exists():
                renamed = _take_in(Ledger(repo, objects, session_id), packed, head)
                grafted = bool(renamed)
                values = _renamed(draft.doc, renamed)
            here = described(repo)
            moved = here != draft.doc.get("repository")
            if draft.doc.get("command"):
                values |= offered(draft.doc["command"])
            if moved or values:
                draft.log("settings", values={**values, "repository": here})
                draft.save()
            snapshot, journal = _files(scratch, session_id)
            store.accept(session_id, snapshot.read_bytes(), journal)
    newest = draft.doc["checkpoints"][-1]["index"] if draft.doc["checkpoints"] else None
    return Unarchived(session_id, repo.worktree, newest, moved, grafted, bool(draft.doc.get(OFFERED)))


def _remove_abandoned(home: Path) -> None:
    """Remove what was unpacked by a process that was killed: nobody works on it for so long."""
    for left in home.glob(f"{_UNPACKED}*"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                shutil.rmtree(left, ignore_errors=True)


def _files(scratch: Path, session_id: str) -> tuple[Path, Path]:
    return scratch / f"{session_id}.json", scratch / f"{session_id}.journal"


def _draft(scratch: Path, session_id: str) -> Draft:
    """The session as it came out of the archive, to be changed where it lies."""
    snapshot, journal = _files(scratch, session_id)
    (scratch / archives.SNAPSHOT).rename(snapshot)
    (scratch / archives.JOURNAL).rename(journal)
    try:
        state = read_state(snapshot, Journal(journal))
    except SessionCorrupted as error:
        said = str(error).replace(str(snapshot), archives.SNAPSHOT).replace(str(journal), archives.JOURNAL)
        raise SessionCorrupted(f"the archived session {session_id} is not sound: {said}") from None
    # One that is in the middle of something is never archived; a repair would carry out what somebody else wrote.
    why = sound(state.doc) or _unfinished(state.doc)
    if why is not None:
        raise SessionCorrupted(f"the archived session {session_id} is not sound: {why}")
    return Draft(snapshot, Journal(journal), state)


def _home_of(doc: Doc, head: str | None, start: Path) -> Repo:
    here = None
    try:
        here = Repo.discover(start)
        with closing(Objects(here)) as objects:
            if head is not None and objects.has(head):
                return here
    except RepositoryError:
        pass
    try:
        return repository_of(doc)
    except RepositoryError as error:
        hint = "name one with --repo DIR" if here is None else f"to have it here nevertheless: --repo {here.worktree}"
        raise NotARepository(f"no repository here knows where the session began, and {error}", hint=hint) from error


def _take_in(ledger: Ledger, packed: Path, head: str | None) -> dict[str, str]:
    """Put a bundle's objects and refs into a repository; the new ids of the commits, if they had to get others."""
    found = bundle.unpack(ledger.repo, packed)
    tip, meta = found.refs.get(ledger.ref), found.refs.get(ledger.meta_ref)
    if tip is None:
        raise StoreError(f"the archive does not hold {ledger.ref}")
    renamed: dict[str, str] = {}
    if any(not ledger.objects.has(needed) for needed in found.prerequisites):
        renamed = ledger.graft(tip)
        tip, head = renamed[tip], None
    if not is_whole(ledger.repo, [one for one in (tip, meta) if one], [head] if head else []):
        raise RepositoryError("the archive lacks files of the session's checkpoints")
    ledger.take_in(tip, meta)
    return renamed


def _renamed(doc: Doc, renamed: dict[str, str]) -> Doc:
    """The parts of a record that name commits, with their new ids."""
    if not renamed:
        return {}

    def new(record: Doc) -> Doc:
        return {**record, "commit": renamed.get(record.get("commit") or "", record.get("commit"))}

    return {"base": new(doc["base"]), "checkpoints": [new(record) for record in doc["checkpoints"]]}
