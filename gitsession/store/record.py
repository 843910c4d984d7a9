"""The session file's text: from bytes to the plain dictionary and back.

Reading asks only for what folding a journal into the record needs; ``gitsession.model`` is the whole format.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

from gitsession.errors import SessionCorrupted, StoreError
from gitsession.lifecycle import SCHEMA_VERSION, Doc
from gitsession.store.files import explained, open_private
from gitsession.unicode import told_in_unicode

KEPT = "nothing was changed; the file is kept as it is"
# The order in which a file tells its fields: the version, the published format, ours; unknown ones follow.
FIELD_ORDER = (
    "schema_version",
    "id",
    "status",
    "backend",
    "model",
    "task",
    "task_hash",
    "files",
    "created_at",
    "updated_at",
    "workflow",
    "current_phase",
    "phases_completed",
    "checkpoints",
    "context",
    "cost",
    "metadata",
    "repository",
    "base",
    "command",
    "priority",
    "pause_reason",
    "runs",
    "journal",
)
_TYPES: dict[str, tuple[type, str]] = {
    "status": (str, "a string"),
    "task": (str, "a string"),
    "created_at": (str, "a string"),
    "updated_at": (str, "a string"),
    "files": (list, "a list"),
    "checkpoints": (list, "a list"),
    "cost": (dict, "an object"),
    "metadata": (dict, "an object"),
}
# Above these bytes the fast serialiser saves more than loading it costs (35 ms against 20 ms a megabyte).
_LARGE = 1 << 20
_CHUNK = 1 << 20
# What opening says of a link that leads in a circle, and of a socket.
_NO_FILE = {errno.ELOOP, errno.ENXIO}


def serialize(doc: Doc, size: int = 0) -> bytes:
    """The file's bytes: two-space indent, UTF-8 as it is, final newline.  ``size`` is how many there were before, or
    were written in all.

    ``StoreError`` for text that is not Unicode.
    """
    known = {name: doc[name] for name in FIELD_ORDER if name in doc}
    doc = {**known, **doc}
    try:
        if size >= _LARGE or "pydantic_core" in sys.modules:
            from pydantic_core import to_json

            return to_json(doc, indent=2) + b"\n"
        return json.dumps(doc, indent=2, ensure_ascii=False).encode("utf-8") + b"\n"
    except ValueError as error:  # what both raise for such text
        raise StoreError(f"cannot write session {doc['id']}: its text is not valid Unicode") from error


def read_bytes(path: Path, offset: int = 0) -> bytes:
    """The bytes of ``path`` from ``offset`` on.

    ``FileNotFoundError`` as it is; ``SessionCorrupted`` for what is no regular file: a pipe would be waited for.
    """
    with explained("read", path, but=(FileNotFoundError,)):
        try:
            descriptor = open_private(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            if error.errno in _NO_FILE:
                raise corrupted(path, "is not a regular file") from error
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise corrupted(path, "is not a regular file")
            left = status.st_size - offset
            if left < 0:
                return b""
            if offset:
                os.lseek(descriptor, offset, os.SEEK_SET)
            data = os.read(descriptor, left + 1)
            while more := os.read(descriptor, _CHUNK):  # it may grow meanwhile
                data += more
            return data
        finally:
            os.close(descriptor)


def parse(data: bytes, path: Path) -> Doc:
    """The record in the bytes of ``path``; ``SessionCorrupted`` says what is wrong and where."""
    try:
        doc: Any = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise corrupted(path, f"is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        position = len(error.doc[: error.pos].encode("utf-8"))
        what = "is empty" if not data else f"is not valid JSON at byte {position} of {len(data)}"
        raise corrupted(path, what) from error
    except RecursionError as error:
        raise corrupted(path, "is nested too deeply") from error
    except ValueError as error:
        raise corrupted(path, "holds a number of too many digits") from error
    if not told_in_unicode(data, doc):
        raise corrupted(path, "holds text that is not valid Unicode")
    if not isinstance(doc, dict):
        raise corrupted(path, "is JSON but not an object")
    _check(doc, path)
    return doc


def is_too_new(doc: Doc) -> bool:
    """Whether a newer gitsession wrote it: it may be shown, and must not be written."""
    version: int = doc.get("schema_version", SCHEMA_VERSION)
    return version > SCHEMA_VERSION


def _check(doc: Doc, path: Path) -> None:
    if type(doc.get("schema_version", SCHEMA_VERSION)) is not int:
        raise corrupted(path, "has a schema_version that is not a number")
    if doc.get("id") != path.stem:
        raise corrupted(path, f"says that it is session {doc.get('id')!r}")
    if is_too_new(doc):
        return
    for name, (kind, words) in _TYPES.items():
        if not isinstance(doc.get(name), kind):
            raise corrupted(path, f"has no {name}" if name not in doc else f"has a {name} that is not {words}")
    place = doc.setdefault("journal", {"seq": 0, "offset": 0})
    if not isinstance(place, dict) or not all(
        type(place.get(name)) is int and place[name] >= 0 for name in ("seq", "offset")
    ):
        raise corrupted(path, "has a journal that is not {seq, offset}")


def corrupted(path: Path, what: str) -> SessionCorrupted:
    """The error that says what is wrong with the session file ``path``."""
    beside = path.with_name(path.name + ".tmp")
    kept = f"{KEPT}; {beside.name} beside it may hold what it held" if beside.exists() else KEPT
    return SessionCorrupted(f"{path} {what}", hint=f"{kept}; {repair_with(path.stem)}")


def repair_with(session_id: str) -> str:
    """The part of a hint that says how to repair a session."""
    return f"to repair it: pinable-agents session recover {session_id} (all that are damaged: doctor --fix)"
