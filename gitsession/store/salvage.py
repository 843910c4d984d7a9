"""What the files of a damaged session still give.

Three of them can hold the record: the session file, the journal (its first line and every ``repaired`` line hold a
whole one) and ``<id>.json.tmp``, left by a write that was cut short.  Each is brought as far as the journal's readable
lines go on from it without a gap; the one that comes farthest is taken, in this order where they come equally far.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from gitsession.errors import GitSessionError, SessionTooNew, StoreError
from gitsession.lifecycle import Doc, Entry, fold
from gitsession.store import record
from gitsession.store.files import TEMPORARY
from gitsession.store.journal import parse_line
from gitsession.store.state import WHOLE

SESSION_FILE, JOURNAL, TEMPORARY_FILE = "the session file", "the journal", "the temporary file"
Accept = Callable[[Doc], str | None]
_MISFITS = (GitSessionError, LookupError, TypeError, ValueError, AttributeError)
_SCALAR = re.compile(rb'^( {2}| {4})"(\w+)": ((?:"(?:[^"\\]|\\.)*"|-?[0-9.]+|null|true|false)|\{|\[),?$', re.MULTILINE)
_ITEM = re.compile(rb'\n    ("(?:[^"\\]|\\.)*")')


@dataclass
class Salvage:
    """``doc`` is the record that could be read, from ``source`` (in words); ``problems`` say what could not, and where.

    ``stray`` are readable entries that follow lost ones.  ``last`` is the highest ``seq`` seen.
    """

    doc: Doc | None = None
    source: str | None = None
    problems: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    stray: list[Entry] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    last: int = 0


def salvage(sessions: Path, session_id: str, accept: Accept) -> Salvage:
    """Read what can be read of a session; nothing is written.  ``accept`` says why a record is none, or ``None``.

    ``SessionTooNew`` if a newer gitsession wrote it: whether that is damaged is not ours to tell.
    """
    path = sessions / f"{session_id}.json"
    journal = sessions / f"{session_id}.journal"
    found = Salvage()
    entries = dict(_readable(journal, found))
    found.last = max(entries, default=0)
    best: tuple[int, Doc, str] | None = None
    sources: tuple[tuple[str, Callable[[], Doc]], ...] = (
        (SESSION_FILE, lambda: _snapshot(path, path)),
        (JOURNAL, lambda: _replayed(entries, path)),
        (TEMPORARY_FILE, lambda: _snapshot(path.with_name(path.name + TEMPORARY), path)),
    )
    for source, start in sources:
        try:
            doc = start()
            why = accept(doc)
        except FileNotFoundError:
            why = "is not there"
        except SessionTooNew:
            raise
        except StoreError as error:
            why = _said(error, path)
        if why is None:
            doc = _advanced(doc, entries)
            seq = doc["journal"]["seq"]
            found.tried.append(f"{source}: readable, up to entry {seq}")
            if best is None or seq > best[0]:
                best = (seq, doc, source)
        else:
            found.tried.append(f"{source}: {why}")
            if source == SESSION_FILE:
                found.problems.insert(0, f"{path.name} {why}")
    if best is not None:
        reached, found.doc, found.source = best
        found.stray = [entry for seq, entry in sorted(entries.items()) if seq > reached]
        found.last = max(found.last, reached)
        _tell_gaps(found, journal, reached, entries)
    return found


def _said(error: StoreError, path: Path) -> str:
    """What an error says of the file ``path``, or of the temporary one beside it, without its name."""
    words = str(error)
    for place in (path, path.with_name(path.name + TEMPORARY)):
        words = words.replace(f"cannot read {place}: ", "cannot be read: ").removeprefix(f"{place} ")
    return words


def fold_stray(doc: Doc, stray: list[Entry]) -> list[str]:
    """Fold in what followed lost entries as far as it fits; what does not, in words."""
    left = []
    for entry in stray:
        seq = doc["journal"]["seq"] + 1
        attempt = deepcopy(doc)
        record = entry.get("record")
        try:
            if isinstance(record, dict) and record["index"] > len(attempt["checkpoints"]):
                raise LookupError(f"checkpoint {len(attempt['checkpoints'])} before it is lost")
            fold(attempt, {**entry, "seq": seq})
        except _MISFITS as error:
            left.append(f"entry {entry['seq']} ({entry['event']}): {error}")
        else:
            doc.clear()
            doc.update(attempt)
    return left


def fragments(data: bytes) -> Doc:
    """Fields that can be told from a session file's text however it is cut: those on whole lines of its own layout."""
    doc: Doc = {}
    inner: Doc | None = None
    for match in _SCALAR.finditer(data):
        indent, name, value = len(match[1]), match[2].decode(), match[3]
        if indent == 2:
            inner = None
            if value == b"{":
                inner = doc.setdefault(name, {})
            elif value == b"[":
                if name == "files":
                    doc[name] = _items(data, match.end())
            else:
                _set(doc, name, value)
        elif inner is not None and value not in (b"{", b"["):
            _set(inner, name, value)
    return doc


def _set(doc: Doc, name: str, value: bytes) -> None:
    with suppress(ValueError):  # it looks like JSON
        doc.setdefault(name, json.loads(value))


def _items(data: bytes, start: int) -> list[Any]:
    items = []
    while match := _ITEM.match(data, start):
        with suppress(ValueError):
            items.append(json.loads(match[1]))
        start = match.end() + (data[match.end() : match.end() + 1] == b",")
    return items


def _readable(path: Path, found: Salvage) -> Iterator[tuple[int, Entry]]:
    """The journal's good lines; ``found`` gets them as they are, and what is wrong with the others."""
    try:
        data = record.read_bytes(path)
    except FileNotFoundError:
        return
    except StoreError as error:
        found.problems.append(f"{path.name} {_said(error, path)}")
        return
    position = seq = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        end = position + len(line) + 1
        entry = parse_line(line)
        if entry is not None and entry["seq"] > seq and end <= len(data):
            seq = entry["seq"]
            found.lines.append(line + b"\n")
            yield seq, entry
        elif end < len(data):  # a torn last line does not count
            found.problems.append(f"{path.name}: line {number} (byte {position}) is not a journal entry")
        position = end


def _snapshot(place: Path, path: Path) -> Doc:
    doc = record.parse(record.read_bytes(place), path)
    if record.is_too_new(doc):
        raise SessionTooNew(f"session {path.stem} was written by a newer gitsession", hint="upgrade gitsession")
    return doc


def _replayed(entries: dict[int, Entry], path: Path) -> Doc:
    """The newest whole record in the journal."""
    whole = [entry for entry in entries.values() if entry["event"] in WHOLE and isinstance(entry.get("session"), dict)]
    if not whole:
        raise record.corrupted(path, "holds no whole record")
    doc: Doc = {**deepcopy(whole[-1]["session"]), "journal": {"seq": whole[-1]["seq"], "offset": 0}}
    if doc.get("id") != path.stem:
        raise record.corrupted(path, f"holds the record of session {doc.get('id')!r}")
    return doc


def _advanced(start: Doc, entries: dict[int, Entry], end: int | None = None) -> Doc:
    """``start`` with what follows it without a gap folded in, up to an entry that does not fit (or ``end``)."""
    doc = deepcopy(start)
    while (entry := entries.get(doc["journal"]["seq"] + 1)) is not None and entry["seq"] != end:
        try:
            fold(doc, entry)
        except _MISFITS:
            return _advanced(start, entries, entry["seq"])  # it may have changed half of something
    return doc


def _tell_gaps(found: Salvage, journal: Path, reached: int, entries: dict[int, Entry]) -> None:
    """Say which entries are missing in the journal or at its end, and which do not fit."""
    whole = [seq for seq, entry in entries.items() if entry["event"] in WHOLE]
    start = max(whole, default=0)  # what came before it is not needed
    for before, after in pairwise([start, *(seq for seq in sorted(entries) if seq > start)]):
        if after > before + 1:
            found.problems.append(f"{journal.name} lacks the entries {before + 1} to {after - 1}")
    if found.stray and found.stray[0]["seq"] == reached + 1:
        first = found.stray[0]
        found.problems.append(f"{journal.name}: entry {first['seq']} ({first['event']}) does not fit")
    elif not entries and reached:
        if not any(problem.startswith(journal.name) for problem in found.problems):
            found.problems.append(f"{journal.name} is " + ("empty" if journal.exists() else "not there"))
    elif max(entries, default=0) < reached:
        found.problems.append(f"{journal.name} ends with entry {max(entries)}, the record knows {reached}")
