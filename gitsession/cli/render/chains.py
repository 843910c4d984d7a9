"""``session chain``: how far a chain is; ``status --json``: one object, ``list --json``: an array of them::

    {"name", "created_at", "completed": N,
     "sessions": [{"id", "state", "since", "waits_for", "problem"}]}

``state`` is the session's, ``pending`` where it does not exist yet and ``corrupted`` where it cannot be read
(``problem`` says why); ``since`` is when it came into that state, null where it is in none; ``waits_for`` is the
session that has to be completed before it begins, or null.  ``run --json`` adds ``runs``, the objects of
``codeagent-wrapper --output json``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gitsession.cli.render.out import columns
from gitsession.cli.render.table import table
from gitsession.cli.render.text import one_line, pad, safe_text, width
from gitsession.cli.render.units import local

if TYPE_CHECKING:
    from gitsession.cli.render.run import JsonRun, TextRun
    from gitsession.verbs.chains import ChainStatus, Member
    from gitsession.verbs.events import RunEvent

_STATE_CELLS = len("COMPLETED")
_HEADER = ("NAME", "COMPLETED", "NEXT", "SESSIONS")
_COMPLETED = "completed"


def lines(found: ChainStatus) -> list[str]:
    """``[1] sess_analysis  COMPLETED  (2026-02-25 10:00)`` for each member, below the chain's name."""
    numbers = [f"[{number}]" for number in range(1, len(found.members) + 1)]
    ids = max(width(member.session_id) for member in found.members)
    rows = [
        f"{number:<{len(numbers[-1])}} {pad(member.session_id, ids)}  "
        f"{member.state.upper():{_STATE_CELLS}}  ({_remark(member)})"
        for number, member in zip(numbers, found.members, strict=True)
    ]
    return [f"Chain: {found.chain.name}", *rows]


def _remark(member: Member) -> str:
    if member.problem is not None:
        return one_line(member.problem)
    if member.waits_for is not None:
        return f"waiting for {member.waits_for}"
    if member.since is None:
        return "ready to begin"
    at = local(member.since)
    return at.strftime("%Y-%m-%d %H:%M") if at else safe_text(member.since)


def table_lines(found: Sequence[ChainStatus]) -> list[str]:
    """A line for each chain: how many of its sessions are completed, and which is next."""
    rows = [
        (
            one.chain.name,
            f"{_done(one)}/{len(one.members)}",
            one.remaining[0].session_id if one.remaining else "-",
            ", ".join(one.chain.sessions),
        )
        for one in found
    ]
    return table(_HEADER, rows, columns())


def as_object(found: ChainStatus) -> dict[str, Any]:
    """A chain as the documented JSON object."""
    return {
        "name": found.chain.name,
        "created_at": found.chain.created_at,
        "completed": _done(found),
        "sessions": [
            {
                "id": member.session_id,
                "state": member.state,
                "since": member.since,
                "waits_for": member.waits_for,
                "problem": member.problem,
            }
            for member in found.members
        ],
    }


def _done(found: ChainStatus) -> int:
    return sum(member.state == _COMPLETED for member in found.members)


class Told:
    """What the runs of a chain say: as text at once, or gathered in ``runs``."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._run: TextRun | JsonRun | None = None
        self.runs: list[Any] = []

    def __call__(self, event: RunEvent) -> None:
        from gitsession.verbs import events

        if isinstance(event, events.SessionCreated | events.Resuming) or self._run is None:
            self._begin()
        if self._run is not None:
            self._run(event)

    def _begin(self) -> None:
        from gitsession.cli.render.run import JsonRun, TextRun

        if self._run is not None and not self._as_json:
            self.close()
            sys.stdout.write("\n")
        self._run = JsonRun(self.runs.append) if self._as_json else TextRun()

    def close(self) -> None:
        """End what is open."""
        if self._run is not None:
            self._run.close()
