"""What ``doctor`` shows; ``--json``::

{"well", "fix", "around": [{"kind", "found", "remedy", "done", "failure", "hint"}],
 "sessions": [<a repair, see ``render.recovery``>], "looked_at"}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gitsession.cli.render.recovery import repair_lines, repair_object
from gitsession.cli.render.text import one_line, safe_text
from gitsession.cli.render.units import count

if TYPE_CHECKING:
    from gitsession.verbs.doctor import Checkup
    from gitsession.verbs.repair import Step


def lines(found: Checkup) -> Iterator[str]:
    """What is wrong, thing by thing, and one line to end with."""
    for step in found.around:
        yield one_line(step.finding.text)
        yield from (f"  {one_line(line)}" for line in _about(step, found.fix))
    for session in found.sessions:
        yield from repair_lines(session)
    number = len(found.around) + len(found.sessions)
    if not number:
        yield f"Nothing is wrong ({count(found.looked_at, 'session')} looked at)"
    elif not found.fix:
        repairable = any(step.finding.remedy for step in found.around) or any(one.steps for one in found.sessions)
        yield f"Found {count(number, 'thing')} to look at" + ("; --fix does what is said above" if repairable else "")
    elif found.is_well:
        yield "All is well now"
    else:
        yield "Something is left for you to do"


def _about(step: Step, fix: bool) -> Iterator[str]:
    if step.failure is not None:
        yield f"could not {step.finding.remedy}: {step.failure}"
    elif step.done:
        yield step.done if fix else f"would {step.done}"
    if step.finding.hint:
        yield step.finding.hint


def as_object(found: Checkup) -> dict[str, Any]:
    return {
        "well": found.is_well,
        "fix": found.fix,
        "around": [
            {
                "kind": step.finding.kind,
                "found": step.finding.text,
                "remedy": step.finding.remedy,
                "done": step.done if found.fix else None,
                "failure": step.failure,
                "hint": step.finding.hint,
            }
            for step in found.around
        ],
        "sessions": [repair_object(session) for session in found.sessions],
        "looked_at": found.looked_at,
    }


def relocated_lines(moved: Sequence[str], place: str) -> Iterator[str]:
    if not moved:
        yield f"No session that has lost its repository belongs to {safe_text(place)}"
    for session_id in moved:
        yield f"{safe_text(session_id)} is in {safe_text(place)} now"
