"""``session stats``; ``--json``: one object::

    {"total", "states": {"active", "paused", "completed", "corrupted", "created", "interrupted", "other"},
     "disk_bytes", "oldest", "trash": {"sessions", "bytes"}, "tokens", "cost_usd", "unpriced_sessions",
     "backends": {name: {"sessions", "tokens", "cost_usd", "unpriced_sessions"}}, "git_bytes", "repositories"}

Every session is in one of ``states``.  ``oldest`` is when the oldest was created, or null.  ``cost_usd`` is the sum of
what is known, null where nothing is; ``unpriced_sessions`` used tokens whose price is not known.  ``git_bytes`` is what
repositories hold for sessions only, or null where it was not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gitsession.cli.render.out import write
from gitsession.cli.render.table import aligned
from gitsession.cli.render.text import safe_text
from gitsession.cli.render.units import bytes_, count, local, money

if TYPE_CHECKING:
    from gitsession.verbs.stats import Stats, Use

_STATES = ("active", "paused", "completed", "corrupted")
_FURTHER = ("created", "interrupted", "other")  # told where there are some


def draw(found: Stats) -> None:
    """The published four lines, then what else is known."""
    further = [state for state in _FURTHER if found.states[state]]
    oldest = local(found.oldest) if found.oldest else None
    write(f"Total sessions: {found.states.total()}")
    write(", ".join(f"{state.capitalize()}: {found.states[state]}" for state in (*_STATES, *further)))
    write(f"Disk usage: {bytes_(found.disk_bytes)}")
    write(f"Oldest session: {oldest.date() if oldest else 'none'}")
    if found.git_bytes is not None:
        where = count(found.repositories, "repository").replace("repositorys", "repositories")
        write(f"Git objects: {bytes_(found.git_bytes)} in {where}")
    write(f"Trash: {count(found.trashed, 'session')}, {bytes_(found.trash_bytes)}")
    write(f"Tokens: {found.total.tokens:,}")
    write(f"Cost: {_cost(found.total)}")
    if found.backends:
        write("\nBy backend:")
        pairs = [(safe_text(name), _use(use)) for name, use in found.backends.items()]
        write("\n".join(f"  {line}" for line in aligned(pairs)))


def _use(use: Use) -> str:
    return f"{count(use.sessions, 'session')}, {count(use.tokens, 'token')}, {_cost(use)}"


def _cost(use: Use) -> str:
    if use.cost_usd is None or not use.unpriced:
        return money(use.cost_usd)
    return f"{money(use.cost_usd)} and what {count(use.unpriced, 'session')} cost, which is unknown"


def _exact(use: Use) -> float | None:
    return None if use.cost_usd is None else round(use.cost_usd, 9)


def as_object(found: Stats) -> dict[str, Any]:
    """The documented JSON object."""
    return {
        "total": found.states.total(),
        "states": {state: found.states[state] for state in (*_STATES, *_FURTHER)},
        "disk_bytes": found.disk_bytes,
        "oldest": found.oldest,
        "trash": {"sessions": found.trashed, "bytes": found.trash_bytes},
        "tokens": found.total.tokens,
        "cost_usd": _exact(found.total),
        "unpriced_sessions": found.total.unpriced,
        "backends": {
            name: {
                "sessions": use.sessions,
                "tokens": use.tokens,
                "cost_usd": _exact(use),
                "unpriced_sessions": use.unpriced,
            }
            for name, use in found.backends.items()
        },
        "git_bytes": found.git_bytes,
        "repositories": found.repositories,
    }
