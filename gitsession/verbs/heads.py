"""Where HEAD went during a session: branches switched and merged, as the git hooks noted it.

A hook cannot write the session's journal, which is under the lock of whoever works on it.  It leaves a line in
``heads.jsonl`` (``gitsession.githook``), and the next checkpoint takes that into the journal.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from gitsession.git.repo import Repo
from gitsession.lifecycle import Doc
from gitsession.store.draft import Draft

_TOLD = 3
_READ = 1 << 20  # bytes; the hook begins the file anew long before
_LONGEST = 1 << 14  # characters; the name of a branch can be some thousand bytes long, each written as four characters


def take_in(draft: Draft, repo: Repo) -> None:
    """Journal the moves that were noted since the session began and that it does not know.

    Whatever else is in the file is passed over: a checkpoint matters more.
    """
    path = repo.git_dir / "pinable" / "heads.jsonl"
    try:
        if not path.is_file():
            return
        with path.open("rb") as file:
            lines = file.read(_READ).splitlines()
    except OSError:
        return
    seen = draft.doc.get("head_seen", 0)
    for line in lines:
        move = _parsed(line)
        if move and move["serial"] > seen and move["at"] > draft.doc["created_at"]:
            draft.log("head", move=move)
            seen = move["serial"]


def moves_since(doc: Doc, moment: str | None) -> list[str]:
    """In words, what became of HEAD after ``moment`` (ISO 8601, UTC); the newest three."""
    moves = [move for move in doc.get("head_moves", []) if moment is None or move.get("at", "") > moment]
    told = [_in_words(move) for move in moves[-_TOLD:]]
    more = len(moves) - len(told)
    return [*([f"HEAD moved {more} more times since that checkpoint"] if more else []), *told]


def head_at(repo: Repo, doc: Doc, index: int | None, record: Doc) -> str | None:
    """Where HEAD was when checkpoint ``index`` (None: the base) was taken; ``None`` for no commit, or if nobody knows.

    A scan has looked, and noted it if it had moved since the scan before.  Of known paths alone a checkpoint may be
    later than a move that the next scan notes: the reflog tells that, if it is kept and reaches back so far.
    """
    until = doc["checkpoints"][: 0 if index is None else index + 1]
    noted: str | None = next((one["head"] for one in reversed(until) if "head" in one), doc["base"].get("head"))
    if record.get("capture", "scan") == "scan":
        return noted
    return _by_reflog(repo, record["timestamp"]) or noted


def _by_reflog(repo: Repo, timestamp: str) -> str | None:
    """Where HEAD was at a moment, by its reflog; ``None`` if that does not reach back so far."""
    moment = datetime.fromisoformat(timestamp).timestamp()
    for line in repo.git(
        "log", "--walk-reflogs", "--date=unix", "--format=%H %gd", "HEAD", "--", ok=(0, 128)
    ).splitlines():
        oid, entry = line.decode("utf-8", "replace").split(" ", 1)
        at = entry.rpartition("{")[2].rstrip("}")
        if at.isdecimal() and int(at) <= moment:
            return oid
    return None


_WORDS = {
    "checkout": "{} was checked out after that checkpoint ({})",
    "merge": "there was a merge into {} after that checkpoint ({})",
    "squash": "a merge was squashed into {} after that checkpoint ({})",
}


def _in_words(move: Doc) -> str:
    words = _WORDS.get(move.get("what", ""), "HEAD moved to {} after that checkpoint ({})")
    return words.format(move.get("branch") or move.get("to", "")[:7], move.get("at", ""))


def _parsed(line: bytes) -> dict[str, Any] | None:
    """The move that a line notes, only what is known of one; ``None`` for what is none."""
    try:
        move = json.loads(line)
        serial, branch = move["serial"], move["branch"]
        texts = {name: move[name] for name in ("at", "what", "from", "to")}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    sound = type(serial) is int and 0 < serial < 1 << 63 and all(map(_is_text, texts.values()))
    if not sound or texts["what"] not in _WORDS or not (branch is None or _is_text(branch)):
        return None
    return {"serial": serial, **texts, "branch": branch}


def _is_text(value: object) -> bool:
    """Whether it is text of a reasonable length that can be written as UTF-8."""
    if not isinstance(value, str) or len(value) > _LONGEST:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True
