"""Write a damaged session anew.

The damaged bytes are kept aside first, and what is no file, or cannot be read, is moved there.  Then, each whole in one
step: a temporary file that is the source takes its place (a rename works on a full disk, too); the session file, with
all that could be saved and told to read the journal from its start; the journal, its good lines and one more that holds
the record again; the session file once more, now knowing the new journal.  After a kill in between the same can be done
again.
"""

from __future__ import annotations

from pathlib import Path

from gitsession.clock import timestamp
from gitsession.errors import StoreError
from gitsession.lifecycle import Doc
from gitsession.store.files import TEMPORARY, explained, sync_directory, write_atomic
from gitsession.store.journal import encode
from gitsession.store.record import read_bytes, serialize
from gitsession.store.reports import Reports
from gitsession.store.salvage import TEMPORARY_FILE, Salvage
from gitsession.store.sessions import SessionStore


def keep_aside(store: SessionStore, session_id: str) -> list[Path]:
    """Copy the session's files to its reports as they are; where they are now."""
    reports = Reports(store.home)
    return [kept for place in _places(store, session_id) if (kept := reports.keep(session_id, place)) is not None]


def make_way(store: SessionStore, session_id: str) -> list[Path]:
    """Move what could not be copied, because nobody can read it, to the session's reports; where it is now."""
    reports = Reports(store.home)
    moved = []
    for place in _places(store, session_id):
        try:
            read_bytes(place)
        except FileNotFoundError:
            pass
        except StoreError:
            moved.append(reports.take(session_id, place))
    return moved


def _places(store: SessionStore, session_id: str) -> list[Path]:
    return [store.sessions_dir / f"{session_id}{ending}" for ending in (".json", f".json{TEMPORARY}", ".journal")]


def mend(store: SessionStore, session_id: str, doc: Doc, salvage: Salvage, found: list[str], source: str) -> Doc:
    """Make ``doc`` the session, its write lock held, and return it as it is now.

    ``found`` and ``source`` tell what was wrong and what the record is made of.
    """
    seq, at = salvage.last + 1, timestamp()
    whole = {**doc, "updated_at": doc.get("updated_at") or at}
    line = encode({"seq": seq, "at": at, "event": "repaired", "found": found, "source": source, "session": whole})
    journal = b"".join([*salvage.lines, line])
    snapshot = {**whole, "updated_at": at, "journal": {"seq": seq, "offset": 0}}
    path = store.sessions_dir / f"{session_id}.json"
    if salvage.source == TEMPORARY_FILE:
        with explained("write", path):
            path.with_name(path.name + TEMPORARY).replace(path)
            sync_directory(path.parent)
    write_atomic(path, serialize(snapshot))
    write_atomic(store.journal(session_id).path, journal)
    snapshot["journal"] = {"seq": seq, "offset": len(journal)}
    write_atomic(path, serialize(snapshot))
    return snapshot
