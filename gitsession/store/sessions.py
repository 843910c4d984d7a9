"""The sessions of one person: ``$PINABLE_HOME`` (default ``~/.pinable-agents``), directories 0700, files 0600.

::

    sessions/<id>.json       a snapshot of the session (``gitsession.model``)
    sessions/<id>.json.tmp   only while a write is under way, or after a crash
    sessions/<id>.journal    what happened, line by line (``gitsession.store.journal``)
    sessions/<id>.lock .mutex, owners/<id>.owner    ``gitsession.store.owner`` and ``.locks``
    trash/<id>/              the same files of a deleted session (``gitsession.store.trash``)

The journal is the truth and the JSON a snapshot of it: reading is loading the snapshot and folding in the entries it
has not seen.  A session is where its JSON is: created when that is there, deleted when that has moved.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitsession.clock import timestamp
from gitsession.errors import (
    AmbiguousSession,
    BadSessionId,
    SessionBusy,
    SessionCorrupted,
    SessionNotFound,
    SessionTooNew,
    StoreError,
)
from gitsession.ids import check_session_id
from gitsession.lifecycle import RUNNING, SCHEMA_VERSION, Doc
from gitsession.living import Process
from gitsession.store import owner, record, trash
from gitsession.store.draft import Draft
from gitsession.store.files import TEMPORARY, default_home, explained, private_dir, write_atomic
from gitsession.store.journal import Journal, encode
from gitsession.store.locks import mutex
from gitsession.store.state import State, read_state
from gitsession.store.trash import Trashed

if TYPE_CHECKING:
    from gitsession.model import Session
    from gitsession.store.summaries import Summary

_JSON, _JOURNAL = ".json", ".journal"
_Signature = tuple[int, int, int] | None


class SessionStore:
    """Reads and writes sessions; safe for several processes.  Nothing is made on disk before it is needed."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = home.expanduser().absolute() if home else default_home()
        self.sessions_dir = self.home / "sessions"
        self.trash_dir = self.home / "trash"
        self._cached: tuple[str, tuple[_Signature, _Signature], State] | None = None

    # Finding

    def ids(self) -> list[str]:
        """The ids of all sessions, sorted; damaged ones are among them."""
        return [name for name in self._names() if _is_id(name)]

    def exists(self, session_id: str) -> bool:
        """Whether there is a session of exactly this id, damaged or not."""
        return _is_id(session_id) and (self._json(session_id).exists() or self._is_lost(session_id))

    def is_in_trash(self, session_id: str) -> bool:
        """Whether a session of this id was deleted and is not here again."""
        return not self._json(session_id).exists() and trash.is_coming_back(self.trash_dir, session_id)

    def resolve(self, text: str) -> str:
        """The id that ``text`` means: itself, a prefix that fits one session, or ``latest`` (the newest created)."""
        if text == "latest":
            from gitsession.store.summaries import by_age

            readable = (summary for summary in self.summaries() if summary.created_at)
            newest = max(readable, key=by_age, default=None)
            if newest is None:
                raise SessionNotFound("there is no session yet", hint="codeagent-wrapper --task TEXT starts one")
            return newest.id
        if self.exists(text):
            return text
        matches = [known for known in self._names() if text and known.startswith(text) and _is_id(known)]
        if len(matches) > 1:
            raise AmbiguousSession(text, matches)
        if not matches:
            raise _not_found(text)
        return matches[0]

    def summaries(self) -> Iterator[Summary]:
        """One line's worth of every session, sorted by id; what cannot be read is there with its ``problem``."""
        from gitsession.store.index import Index, look

        index = Index(self.home)
        seen = look(self.sessions_dir, index.final())
        names = self._with_lost(seen.snapshots.keys(), seen.journals.keys() | seen.temporaries)
        for name, summary in index.known(names, seen):
            if summary is None:
                try:
                    summary = self.summary(name)
                except SessionNotFound:  # deleted since the directory was read
                    continue
                index.learn(seen, summary)
            elif summary.status == RUNNING:
                summary = summary._replace(alive=self.owner(name) is not None)
            yield summary
        index.save(names)

    def summary(self, name: str) -> Summary:
        """The same of one session; ``SessionNotFound``."""
        from gitsession.store.summaries import Summary, summarize

        try:
            doc = self._state(name).doc
        except SessionNotFound:
            raise
        except StoreError as error:
            return Summary(name, problem=str(error).replace(f"{self.sessions_dir}{os.sep}", ""))
        return summarize(name, doc, alive=doc.get("status") == RUNNING and self.owner(name) is not None)

    # Reading

    def read(self, session_id: str) -> Doc:
        """The session's record, its journal folded in; it is the caller's own copy."""
        return self._state(check_session_id(session_id)).doc

    def load(self, session_id: str) -> Session:
        """The same as a checked ``Session``; ``SessionCorrupted`` names the field that is wrong."""
        from pydantic import ValidationError

        from gitsession.model import Session

        try:
            return Session.model_validate(self.read(session_id))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise record.corrupted(self._json(session_id), f"has a wrong {where}: {first['msg']}") from error

    def journal(self, session_id: str) -> Journal:
        """The session's journal."""
        return Journal(self.sessions_dir / f"{session_id}{_JOURNAL}")

    # Writing

    def create(self, doc: Doc) -> None:
        """Add a session; ``BadSessionId`` if there is one of this id, or of one that differs only in case.

        The first entry of its journal repeats the whole record, so that the journal alone can give it back.
        """
        session_id = check_session_id(doc["id"])
        doc = {"schema_version": SCHEMA_VERSION, **doc, "journal": {"seq": 0, "offset": 0}}
        self._make_dirs()
        with mutex(self.sessions_dir, session_id):
            self._refuse_twin(session_id)
            path, journal = self._json(session_id), self.journal(session_id)
            first = encode({"seq": 1, "at": timestamp(), "event": "created", "session": doc})
            data = record.serialize(doc)
            try:
                write_atomic(path, data)
                journal.append(first, 0)
            except StoreError:
                for file in (journal.path, path):  # a journal without a session file would be a loss
                    with suppress(OSError):
                        file.unlink()
                raise

    @contextmanager
    def edit(self, session_id: str) -> Iterator[Draft]:
        """A draft of the session while nobody else writes it; the snapshot is saved, if due, when the block ends well.

        Edits do not nest.  ``SessionBusy`` when others write it for ten seconds, ``SessionTooNew`` when a newer
        gitsession wrote it.
        """
        check_session_id(session_id)
        if not self.exists(session_id):
            raise _not_found(session_id)
        with mutex(self.sessions_dir, session_id):
            state = self._writable(session_id)
            draft = self._draft(session_id, state)
            yield draft
            draft.close()
            if not draft.failed:
                self._cached = (session_id, self._signatures(session_id), state)

    @contextmanager
    def writing(self, session_id: str) -> Iterator[None]:
        """Nobody else writes the session meanwhile, also one whose files cannot be read; see ``edit`` for any other."""
        self._make_dirs()
        with mutex(self.sessions_dir, check_session_id(session_id)):
            yield

    def trash(self, session_id: str, first: Callable[[], None] | None = None) -> Path:
        """Move a session to the trash and return its directory there; ``SessionBusy`` if it is owned.

        ``first`` is done before anything moves, while nobody can write the session any more.
        """
        if not self.exists(check_session_id(session_id)):
            raise _not_found(session_id)
        with self.own(session_id), mutex(self.sessions_dir, session_id):
            try:
                # Complete in itself, for the moment in which its journal has moved and it has not.
                self._draft(session_id, self._writable(session_id)).save()
            except (SessionCorrupted, SessionNotFound, SessionTooNew):
                trash.take_back(self.sessions_dir, self.trash_dir, session_id)
            self._cached = None
            if first is not None:
                first()
            return trash.move_out(self.sessions_dir, self.trash_dir, session_id)

    def untrash(self, session_id: str, place: Path | None = None) -> None:
        """Bring the session last deleted under this id, or the one at ``place`` in the trash, back."""
        check_session_id(session_id)
        self._make_dirs()
        with mutex(self.sessions_dir, session_id):
            self._refuse_twin(session_id, coming_back=True)
            if not trash.move_back(self.sessions_dir, self.trash_dir, session_id, place):
                raise SessionNotFound(f"no session {session_id!r} in {self.trash_dir}")

    def accept(self, session_id: str, snapshot: bytes, journal: Path) -> None:
        """Add a session whose files come from elsewhere, and are sound; ``BadSessionId`` if there is one of this id.

        A kill half-way leaves it in the trash, whole, or nothing.
        """
        self._make_dirs()
        with mutex(self.sessions_dir, check_session_id(session_id)):
            self._refuse_twin(session_id)
            trash.accept(self.trash_dir, session_id, snapshot, journal)
            trash.move_back(self.sessions_dir, self.trash_dir, session_id)

    def trashed(self) -> list[Trashed]:
        """The deleted sessions, the last deleted first."""
        return trash.trashed(self.trash_dir)

    def last_trashed(self, text: str) -> Trashed:
        """The session of this name in the trash (``<id>~2``), or the last deleted under an id or a beginning of one.

        ``SessionNotFound``, ``AmbiguousSession``.
        """
        deleted = self.trashed()
        if "~" in text:
            deleted = [one for one in deleted if one.name == text]
            text = text.partition("~")[0]
        fits = dict.fromkeys(one.session_id for one in deleted if text and one.session_id.startswith(text))
        if text not in fits and len(fits) > 1:
            raise AmbiguousSession(text, [*fits])
        wanted = text if text in fits else next(iter(fits), None)
        for one in deleted:
            if one.session_id == wanted:
                return one
        raise SessionNotFound(
            f"no session {text!r} in the trash", hint="pinable-agents session undelete --list shows what is there"
        )

    def read_trashed(self, one: Trashed) -> Doc:
        """The record of a deleted session; ``SessionNotFound`` when it is no longer there."""
        try:
            return read_state(one.snapshot, Journal(one.journal)).doc
        except FileNotFoundError:
            raise _not_found(one.session_id) from None

    # Owning

    def own(self, session_id: str, *, beside_tracked: bool = False) -> owner.OwnerLock:
        """The session's owner lock, to be entered for a run's life; the session need not exist yet.

        ``beside_tracked``: see ``gitsession.store.owner``.
        """
        self._make_dirs()
        return owner.OwnerLock(self.sessions_dir, check_session_id(session_id), beside_tracked=beside_tracked)

    def busy(self, session_id: str, holder: owner.OwnerInfo) -> SessionBusy:
        """What to say of a session that ``holder`` owns."""
        return owner.busy(self.sessions_dir, check_session_id(session_id), holder)

    def owner(self, session_id: str) -> owner.OwnerInfo | None:
        """The living owner, or None."""
        return owner.owner(self.sessions_dir, session_id)

    def track(self, session_id: str, agent: str, process: Process) -> None:
        """Let the session be owned by an agent's process, whose hooks feed it; see ``gitsession.store.owner``."""
        owner.track(self.sessions_dir, check_session_id(session_id), agent, process)

    def untrack(self, session_id: str) -> None:
        """The same is over."""
        owner.untrack(self.sessions_dir, check_session_id(session_id))

    def owner_file(self, session_id: str) -> Path:
        """Where the owner's facts are."""
        return owner.facts_file(self.sessions_dir, session_id)

    def unended(self) -> list[str]:
        """The ids of sessions that are owned, or whose owner died without a word."""
        return [session_id for session_id in owner.unended(self.sessions_dir) if _is_id(session_id)]

    def last_owner_facts(self, session_id: str) -> dict[str, Any] | None:
        """What the owner, living or dead without a word, said of itself (``OwnerLock.note``)."""
        return owner.last_facts(self.sessions_dir, session_id)

    # Inside

    def _json(self, session_id: str) -> Path:
        return self.sessions_dir / f"{session_id}{_JSON}"

    def _make_dirs(self) -> None:
        private_dir(self.home)
        private_dir(self.sessions_dir)

    def _names(self) -> list[str]:
        """What ``sessions/`` holds sessions of, sorted; names that are no ids are among them, to be told."""
        try:
            with (
                explained("read", self.sessions_dir, but=(FileNotFoundError,)),
                os.scandir(self.sessions_dir) as entries,
            ):
                files = [entry.name for entry in entries]
        except FileNotFoundError:
            return []
        names = {file.removesuffix(_JSON) for file in files if file.endswith(_JSON)}
        remains = {
            file.removesuffix(ending)
            for file in files
            for ending in (_JOURNAL, _JSON + TEMPORARY)
            if file.endswith(ending)
        }
        return self._with_lost(names, remains)

    def _with_lost(self, names: Set[str], remains: Set[str]) -> list[str]:
        """The sessions that have a JSON, and those of which other files tell that they had one, sorted."""
        # A JSON that is replaced while the directory is read need not show in it.
        lost = {name for name in remains - names if self._json(name).exists() or self._is_lost(name)}
        return [name for name in sorted(names | lost if lost else names) if name[:1] != "."]

    def _is_lost(self, session_id: str) -> bool:
        """Whether a session's JSON is gone while other files tell that it was there."""
        if not _is_id(session_id) or trash.is_coming_back(self.trash_dir, session_id):
            return False
        there = self.journal(session_id).path.exists() or self._is_saved(self._json(session_id))
        return there and not self._json(session_id).exists()

    @staticmethod
    def _is_saved(path: Path) -> bool:
        """Whether the temporary file beside ``path`` is of a session that lived, not of a creation cut short."""
        temporary = path.with_name(path.name + TEMPORARY)
        try:
            return bool(record.parse(record.read_bytes(temporary), path)["journal"]["seq"])
        except (OSError, StoreError, LookupError):
            return False

    def _state(self, session_id: str) -> State:
        path = self._json(session_id)
        try:
            return read_state(path, self.journal(session_id))
        except FileNotFoundError:
            if self._is_lost(session_id):
                raise record.corrupted(path, "is missing, and other files of the session are there") from None
            raise _not_found(session_id) from None

    def _writable(self, session_id: str) -> State:
        """The session's state to change; the write lock is held."""
        cached, self._cached = self._cached, None
        if cached is not None and cached[:2] == (session_id, self._signatures(session_id)):
            return cached[2]
        state = self._state(session_id)
        if record.is_too_new(state.doc):
            raise SessionTooNew(
                f"session {session_id} was written by a newer gitsession (schema {state.doc['schema_version']})",
                hint="upgrade gitsession",
            )
        if state.end < state.saved_end:
            trash.take_back(self.sessions_dir, self.trash_dir, session_id)
            state = self._state(session_id)
        return state

    def _draft(self, session_id: str, state: State) -> Draft:
        return Draft(self._json(session_id), self.journal(session_id), state)

    def _signatures(self, session_id: str) -> tuple[_Signature, _Signature]:
        return _signature(self._json(session_id)), _signature(self.journal(session_id).path)

    def _refuse_twin(self, session_id: str, *, coming_back: bool = False) -> None:
        """``BadSessionId`` if the id, or one that is the same where case does not count, is taken."""
        twin = next((name for name in self._names() if name.lower() == session_id.lower()), None)
        if twin is not None:
            why = "exists already" if twin == session_id else f"would differ from {twin} only in case"
            raise BadSessionId(f"session {session_id} {why}", hint="choose another id")
        if not coming_back and self.journal(session_id).path.exists():
            raise BadSessionId(f"session {session_id} is on its way back from the trash", hint="choose another id")


def _is_id(text: str) -> bool:
    try:
        check_session_id(text)
    except BadSessionId:
        return False
    return True


def _not_found(text: str) -> SessionNotFound:
    return SessionNotFound(f"no session {text!r}", hint="pinable-agents session list shows them")


def _signature(path: Path) -> _Signature:
    """What changes when a file does: the JSON is a new file each time, the journal only grows."""
    try:
        status = path.stat()
    except OSError:  # whoever opens it will say why
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
