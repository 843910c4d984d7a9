"""Where HEAD went during a session: branches switched and merged, as the git hooks noted it.

A hook cannot write the session's journal, which is under the lock of whoever works on it.  It leaves a line in
``heads.jsonl`` (``gitsession.githook``), and the next checkpoint takes that into the journal.
"""

from __future__ import annotations

import json
from typing import Any

from gitsession.git.repo import Repo
from gitsession.lifecycle import Doc
from gitsession.store.draft import Draft

_TOLD = 3


def take_in(draft: Draft, repo: Repo) -> None:
    """Journal the moves that were noted since the session began and that it does not know."""
    try:
        lines = (repo.git_dir / "pinable" / "heads.jsonl").read_bytes().splitlines()
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
    moves = [move for move in doc.get("head_moves", []) if moment is None or move["at"] > moment]
    told = [_WORDS[move["what"]].format(move["branch"] or move["to"][:7], move["at"]) for move in moves[-_TOLD:]]
    more = len(moves) - len(told)
    return [*([f"HEAD moved {more} more times since that checkpoint"] if more else []), *told]


_WORDS = {
    "checkout": "{} was checked out after that checkpoint ({})",
    "merge": "there was a merge into {} after that checkpoint ({})",
    "squash": "a merge was squashed into {} after that checkpoint ({})",
}


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        move = json.loads(line)
        sound = isinstance(move["serial"], int) and move["what"] in _WORDS and isinstance(move["at"], str)
        return move if sound and isinstance(move["to"], str) else None
    except (ValueError, KeyError, TypeError):
        return None
