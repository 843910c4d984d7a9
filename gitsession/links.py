"""Which commit holds which session's work: the facts, and how they are decided.

``.git/pinable/links.jsonl`` (in the common directory, append-only, one JSON object a line) holds two kinds of facts::

    {"v": 1, "at": "2026-02-25T10:07:12Z",
     "commit": "…", "tree": "…", "parent": "…" or null, "patch": stable patch-id or null,
     "session": "sess_…", "checkpoint": 3 or null, "label": "certain", "how": "content",
     "files": ["src/user/db.go"], "matched": 1, "changed": 203}
    {"v": 1, "at": "…", "rewrite": "amend", "old": "…", "new": "…"}

``checkpoint`` is the newest whose work is in the commit, null while no checkpoint holds it yet; ``files`` are the
paths that hold the session's work (at most 100), ``matched`` of the ``changed`` that the commit changed.

``label`` says how much it is worth: ``certain``; ``inferred``, from likeness; ``ambiguous``, because another session
has as good a claim.  ``how`` says why: ``content`` (a checkpoint has the same bytes at the same path), ``agent`` (the
session's agent made the commit itself), ``moved`` (the same bytes at another path), ``patch`` (the same change as a
linked commit), ``rewrite`` (it replaces a linked commit), ``lines`` (it adds lines that a checkpoint added),
``trailer`` (its message says so).

The last fact of a commit and a session is the one that holds.  Losing the file loses no more than what content cannot
tell.  This module is loaded by git hooks: it imports nothing that takes time.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Fact = dict[str, Any]
    Entry = tuple[bytes, bytes]
    """A path and the id (hex) of what stands there."""
    Claims = Mapping[Entry, Mapping[bytes, "tuple[int, bytes]"]]
    """For each entry the sessions that brought it: (index of the checkpoint, kind); see ``gitsession.claims``."""

CERTAIN, INFERRED, AMBIGUOUS = "certain", "inferred", "ambiguous"
SESSION, CHECKPOINT = "Pinable-Session", "Pinable-Checkpoint"
LISTED = 100
_VERSION = 1


def decide(entries: Iterable[Entry], claims: Claims) -> list[Fact]:
    """What is known of a commit that brought ``entries``: a fact for each session, without the commit's own part.

    An engine that knew what it wrote (kind ``K``) outdoes a session that only saw the file change.  What was found
    changed when nobody worked (kind ``R``) may be a person's: it is inferred.
    """
    alone: dict[bytes, list[tuple[int, bytes]]] = {}
    shared: dict[bytes, list[tuple[int, bytes]]] = {}
    loose: dict[bytes, list[tuple[int, bytes]]] = {}
    count = 0
    for path, oid in entries:
        count += 1
        owners = {name: claim for name, claim in claims.get((path, oid), {}).items() if claim[1] != b"H"}
        best = [name for name, (_, kind) in owners.items() if kind == b"K"]
        best = best or [name for name, (_, kind) in owners.items() if kind == b"N"]
        kinds = (alone if len(best) == 1 else shared) if best else loose
        for name in best or owners:
            kinds.setdefault(name, []).append((owners[name][0], path))
    facts = []
    for name in sorted({*alone, *shared, *loose}):
        label = CERTAIN if name in alone else AMBIGUOUS if name in shared else INFERRED
        own = alone.get(name) or shared.get(name) or loose[name]
        facts.append(fact(name, max(index for index, _ in own), label, "content", [path for _, path in own], count))
    return facts


def fact(session: bytes, index: int | None, label: str, how: str, paths: list[bytes], changed: int) -> Fact:
    return {
        "session": session.decode(),
        "checkpoint": index,
        "label": label,
        "how": how,
        "files": [text(path) for path in paths[:LISTED]],
        "matched": len(paths),
        "changed": changed,
    }


def made_by_agent(session: bytes, paths: list[bytes], changed: int) -> Fact:
    """The fact of a commit that the session's agent made before any checkpoint held its files."""
    return fact(session, None, CERTAIN, "agent", paths, changed)


def text(path: bytes) -> str:
    """A path in JSON: see ``gitsession.paths``, which is loaded only for the paths that need it."""
    if path.isascii() and not path.startswith(b'"'):
        return path.decode()
    from gitsession.paths import encode

    return encode(path)


def trailers(facts: Iterable[Fact]) -> list[tuple[str, str | None]]:
    """What a commit's message is to say: (session, checkpoint) of each link that is certain."""
    return [
        (fact["session"], None if fact["checkpoint"] is None else str(fact["checkpoint"]))
        for fact in facts
        if fact["label"] == CERTAIN
    ]


def moment() -> str:
    """Now, as the session files write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def place(common_dir: str | os.PathLike[str]) -> str:
    """Where a repository's facts are."""
    return os.path.join(common_dir, "pinable", "links.jsonl")


def append(common_dir: str | os.PathLike[str], facts: Iterable[Fact]) -> None:
    """Add facts, at once; an ``OSError`` if that fails."""
    lines = [to_json({"v": _VERSION, "at": moment(), **fact}) for fact in facts]
    if lines:
        append_lines(place(common_dir), "".join(f"{line}\n" for line in lines).encode())


def to_json(value: object) -> str:
    """A value on one line; ``json``, which takes long to load, is left to what is not plain."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(to_json, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{to_json(key)}:{to_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str) and value.isascii() and value.isprintable() and not {'"', "\\"} & set(value):
        return f'"{value}"'
    import json

    return json.dumps(value)


def append_lines(path: str, data: bytes) -> None:
    """Append whole lines in one write; a line that a full disk or a kill has torn is ended first."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size:
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            if os.read(descriptor, 1) != b"\n":
                data = b"\n" + data
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def read(common_dir: str | os.PathLike[str]) -> list[Fact]:
    """All facts, in the order they became known; what is no fact (a torn line, a newer version's) is left out."""
    import json

    try:
        with open(place(common_dir), "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return []
    facts = []
    for line in lines:
        try:
            fact = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(fact, dict) and fact.get("v") == _VERSION and (_is_link(fact) or _is_rewrite(fact)):
            facts.append(fact)
    return facts


def current(facts: Iterable[Fact]) -> dict[tuple[str, str], Fact]:
    """The fact that holds, by commit and session."""
    return {(fact["commit"], fact["session"]): fact for fact in facts if "commit" in fact}


def _is_link(fact: Fact) -> bool:
    return all(isinstance(fact.get(name), str) for name in ("commit", "session", "label", "how"))


def _is_rewrite(fact: Fact) -> bool:
    return all(isinstance(fact.get(name), str) for name in ("rewrite", "old", "new"))
