"""Delete a session: to the trash, with its hidden ref, so that it can be brought back; and for good, later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from gitsession.errors import (
    BadSessionId,
    ConflictError,
    GitSessionError,
    RepositoryError,
    SessionCorrupted,
)
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.lifecycle import Doc
from gitsession.store import trash
from gitsession.store.sessions import SessionStore
from gitsession.verbs import transcripts
from gitsession.verbs.checkpoint import repository_of


def delete(store: SessionStore, session_id: str, *, force: bool = False) -> Path:
    """Move a session that nobody runs to the trash; where it is now.

    ``ConflictError`` if the files are half-way to one of its checkpoints, as only the session can bring them there,
    unless ``force``.

    The ref is kept under ``refs/pinable-trash/<id>`` first, then the files move, then the old ref goes: at
    every point in between the session is either still whole or whole in the trash.
    """
    if (owner := store.owner(session_id)) is not None:
        raise store.busy(session_id, owner)
    try:
        doc = store.read(session_id)
        repo = repository_of(doc)
    except (RepositoryError, SessionCorrupted):
        # The repository is gone, and its refs with it; or nobody can tell which it was, and they stay where they are.
        return store.trash(session_id)
    if doc.get("restoring") is not None and not force:
        raise ConflictError(
            f"a restore in session {session_id} was cut short",
            hint=f"finish it first: pinable-agents session checkpoint {session_id}; "
            "--force leaves the files half restored",
        )
    objects = Objects(repo)
    try:
        ledger = Ledger(repo, objects, session_id)
        place = store.trash(session_id, first=ledger.copy_to_trash)
        ledger.drop()
        return place
    finally:
        objects.close()


def undelete(store: SessionStore, session_id: str, name: str | None = None) -> bool:
    """Bring back the session last deleted under this id; whether its checkpoints came back, too.

    ``name`` is the trash's name of an earlier one: ``<id>~2``.

    They do not when the repository is not where it was.  The refs come first: a session is where its JSON is, and must
    not be there without them.
    """
    if store.exists(session_id):
        raise BadSessionId(f"session {session_id} exists", hint="delete it first, to have the deleted one back")
    with store.own(session_id):
        one = store.last_trashed(name or session_id)
        place = None if name is None else one.place
        try:
            doc = store.read_trashed(one)
        except SessionCorrupted:  # then its refs stayed where they were
            store.untrash(session_id, place)
            return True
        with _ledger(doc) as ledger:
            if ledger is None:
                store.untrash(session_id, place)
                return False
            number = _number(ledger, doc)
            if number is not None:
                ledger.bring_back(number)
            try:
                store.untrash(session_id, place)
            except GitSessionError:
                ledger.copy_to_trash()
                ledger.drop()
                raise
            return True


def purge(store: SessionStore, one: trash.Trashed) -> None:
    """Remove a deleted session for good, its refs first.  What only they hold is git's to clear away."""
    with store.writing(one.session_id):
        with suppress(SessionCorrupted), _ledger(store.read_trashed(one)) as ledger:
            number = None if ledger is None else _number(ledger, store.read_trashed(one))
            if ledger is not None and number is not None:
                ledger.purge(number)
        trash.remove(one)
        if not store.exists(one.session_id) and not store.is_in_trash(one.session_id):
            transcripts.forget(store.home, one.session_id)


@contextmanager
def _ledger(doc: Doc) -> Iterator[Ledger | None]:
    """The session's ledger; ``None`` when its repository is not where it was."""
    try:
        repo = repository_of(doc)
    except RepositoryError:
        yield None
        return
    with closing(Objects(repo)) as objects:
        yield Ledger(repo, objects, doc["id"])


def _number(ledger: Ledger, doc: Doc) -> int | None:
    """Where in the trash the refs of this very session are: another one may have been deleted under its id."""
    records = [*([doc["base"]] if doc.get("base") else []), *doc["checkpoints"]]
    commit = records[-1].get("commit") if records else None
    return None if commit is None else ledger.find_in_trash(commit)
