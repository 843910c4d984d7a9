"""What was said in a tracked agent, kept if the person wants that (``transcripts.keep``).

An agent has its own record of each conversation, and a session says where that is (``agents``).  Agents remove theirs
after a while.  With the setting, what came since the last time is added at the end of each turn, keys and passwords
masked (``gitsession.verbs.redact``), to ``$PINABLE_HOME/transcripts/<session>.jsonl``, mode 0600: lines of the agent's
record, in its own format.  ``<session>.place`` beside it says how far each record was read, JSON::

    {"kept": bytes of the first file, "read": {path of a record: bytes of it}}

A kill between the two leaves lines that ``kept`` does not count; they go, and are added again.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gitsession.store.files import explained, open_private, private_dir, write_all, write_atomic
from gitsession.verbs.redact import Redactor

_AT_ONCE: Final = 8 * 1024 * 1024  # bytes of a record that are read at a turn; the next one goes on from there
_CHUNK: Final = 1024 * 1024


def keep(home: Path, session_id: str, record: str) -> None:
    """Add what is new in the agent's ``record``; nothing if that is no file.  The caller holds the session's lock."""
    place = _place(home, session_id)
    known = _known(home, session_id)
    start = known["read"].get(record, 0)
    with suppress(OSError):  # not there yet, or not ours to read
        lines, end = _news(Path(record), start)
        if lines:
            private_dir(home)
            private_dir(place.parent)
            known["kept"] = _append(place, known["kept"], b"".join(map(_redacted, lines)))
            known["read"][record] = end
            write_atomic(place.with_suffix(".place"), json.dumps(known).encode() + b"\n")


def forget(home: Path, session_id: str) -> None:
    """Remove what was kept of a session."""
    for path in (_place(home, session_id), _place(home, session_id).with_suffix(".place")):
        with suppress(FileNotFoundError):
            path.unlink()


def _news(record: Path, start: int) -> tuple[list[bytes], int]:
    """The whole lines from byte ``start`` on, and where the last one ends; one that became shorter is read anew."""
    descriptor = os.open(record, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return [], start
        start = start if start <= facts.st_size else 0
        os.lseek(descriptor, start, os.SEEK_SET)
        data = b""
        while len(data) < _AT_ONCE and (part := os.read(descriptor, _CHUNK)):
            data += part
    finally:
        os.close(descriptor)
    whole = data[: data.rfind(b"\n") + 1]
    if not whole and len(data) >= _AT_ONCE:  # one line of that length is no conversation
        return [], start + len(data)
    return whole.splitlines(keepends=True), start + len(whole)


def _redacted(line: bytes) -> bytes:
    redactor = Redactor()
    try:
        said: Any = json.loads(line)
    except (ValueError, RecursionError):
        return redactor.text(line.decode("utf-8", "replace")).encode()
    return json.dumps(redactor.value(said), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _append(path: Path, end: int, data: bytes) -> int:
    """Add ``data`` at byte ``end``; the byte after it."""
    with explained("write", path):
        descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            os.ftruncate(descriptor, end)
            os.lseek(descriptor, end, os.SEEK_SET)
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return end + len(data)


def _known(home: Path, session_id: str) -> dict[str, Any]:
    """How far the records were read; if that is lost, what is kept stays and they are read anew."""
    place = _place(home, session_id)
    try:
        known = json.loads(place.with_suffix(".place").read_bytes())
        if isinstance(known["kept"], int) and all(isinstance(end, int) for end in known["read"].values()):
            return {"kept": known["kept"], "read": known["read"]}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        pass
    return {"kept": place.stat().st_size if place.exists() else 0, "read": {}}


def _place(home: Path, session_id: str) -> Path:
    return home / "transcripts" / f"{session_id}.jsonl"
