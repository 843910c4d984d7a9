"""How an agent goes on with a session: in its own session where that worked last, else told what was done.

An agent's program keeps the conversation itself (``backends.base.Native``).  It is the right one to go on with only if
that agent worked last; after another one, or where it cannot go back to the checkpoint that was asked for, the agent
begins anew with a briefing, bounded as what sessions hand over is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gitsession.backends.base import Backend, Native
from gitsession.git.repo import Repo
from gitsession.lifecycle import Doc, newest
from gitsession.paths import name_of, place_of
from gitsession.verbs.handover import SESSION_LIMIT, parts

_LISTED: Final = 100
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class Continuation:
    """``told`` says to the user which of the two it is, where that is news.

    ``briefs``: the agent is to be told what was done (``brief``) if it does not know.
    """

    native: Native | None = None
    rewind: bool = False
    briefs: bool = True
    told: str | None = None


def recorded(agent: str, native: Native) -> Doc:
    """What a session's record says of an agent's own session."""
    return {
        "agent": agent,
        "id": native.id,
        "version": native.version,
        "model": native.model,
        "directory": name_of(native.directory),
        "transcript": native.transcript,
        "counted": native.counted,
    }


def continuation(doc: Doc, backend: Backend, repo: Repo) -> Continuation:
    """How ``backend`` goes on with a session that ran before."""
    if not backend.capabilities.keeps_conversation and not _takes_over(doc, backend):
        return Continuation(briefs=False)
    rewound = doc.get("rewound")
    place = rewound["agent"] if rewound else _last(doc)
    if place is None or place["agent"] != backend.name:
        return Continuation(told=_why_anew(doc, backend))
    native = _native(doc, place, repo)
    if not rewound:
        return Continuation(native=native)
    where = f"checkpoint {rewound['to']}"
    if native is None or native.at is None or not backend.capabilities.rewinds:
        told = f"{backend.name} cannot go back in its conversation: it begins anew, told what was done by {where}"
        return Continuation(told=told)
    told = f"{backend.name} goes on from its conversation as it was at {where}"
    return Continuation(native=native, rewind=True, told=told)


def _takes_over(doc: Doc, backend: Backend) -> bool:
    """Whether a model whose conversation is held here has none in this session, and another one worked."""
    runs = doc.get("runs") or []
    others = bool(runs) and runs[-1].get("backend") not in (None, backend.name)
    return others and not backend.capabilities.takes_command and not doc["context"].get("conversation_history")


def brief(doc: Doc, repo: Repo) -> str | None:
    """What was done so far, for an agent that does not know; ``None`` before the first checkpoint."""
    if not doc["checkpoints"]:
        return None
    rewound = doc.get("rewound")
    known = doc
    if rewound:
        known = {**doc, "checkpoints": doc["checkpoints"][: rewound["to"] + 1], "runs": []}
    text = "\n".join([*parts(known), *_remaining(doc), *_stat(doc, repo)])
    return text if len(text) <= SESSION_LIMIT else text[:SESSION_LIMIT] + "\n[cut]"


def _last(doc: Doc) -> Doc | None:
    """The agent's own session that worked last, if what worked last has one."""
    agents = doc.get("agents") or []
    runs = doc.get("runs") or []
    if not agents or (runs and runs[-1].get("backend", agents[-1]["agent"]) != agents[-1]["agent"]):
        return None
    last: Doc = agents[-1]
    return {**last, "at": None}


def _native(doc: Doc, place: Doc, repo: Repo) -> Native | None:
    known: dict[str, Any] | None = next(
        (one for one in doc.get("agents", []) if (one["agent"], one["id"]) == (place["agent"], place["id"])), None
    )
    if known is None or not _ID.fullmatch(str(known["id"])):
        return None
    directory = place_of(known["directory"]) if known.get("directory") else repo.worktree
    # A record can come from elsewhere: an agent is not started where its author wants it.
    if not directory.is_dir() or not directory.resolve().is_relative_to(repo.worktree.resolve()):
        return None
    at = place.get("at")
    return Native(
        id=known["id"],
        directory=directory,
        version=known.get("version"),
        model=known.get("model"),
        transcript=known.get("transcript"),
        at=at if at and _ID.fullmatch(str(at)) else None,
        counted=known.get("counted"),
    )


def _why_anew(doc: Doc, backend: Backend) -> str | None:
    agents = doc.get("agents") or []
    before = agents[-1]["agent"] if agents else None
    if before is None or before == backend.name:
        return None
    return f"{backend.name} takes over from {before}: it begins anew, told what was done so far"


def _remaining(doc: Doc) -> Iterator[str]:
    touched = {change["path"] for change in doc["context"].get("accumulated_changes", [])}
    left = [name for name in doc["files"] if name not in touched]
    if left and touched:
        yield "Files of the task that nobody has changed yet:"
        yield from (f"- {name}" for name in left[:_LISTED])


def _stat(doc: Doc, repo: Repo) -> Iterator[str]:
    """How much changed in which file since the session began."""
    stat = repo.git(
        "diff", "--stat=100", f"--stat-count={_LISTED}", "--no-ext-diff", doc["base"]["tree"], newest(doc)["tree"]
    )
    if text := stat.decode("utf-8", "replace").rstrip():
        yield "Changed so far (git diff --stat):"
        yield text
