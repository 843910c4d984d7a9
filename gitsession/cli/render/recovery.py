"""What ``session recover`` and ``doctor`` show of sessions.

``recover --scan --json``::

    {"recoverable": [<session list's objects>], "damaged": [<the same>], "paused": [ids that are paused just now],
     "newer": [<list's objects of sessions written by a newer version>]}

A repair is ``{"session_id", "dry_run", "sound", "steps": [{"kind", "found", "remedy", "done", "failure"}],
"left": [{"kind", "found", "hint"}], "notes": [text], "report"}``.  ``recover ID --json`` is ``{"repair", "run"}``,
``run`` being what ``codeagent-wrapper --output json`` writes, or null; ``recover --all --json`` is ``{"sessions":
[{"session_id", "repair", "run", "error"}]}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gitsession.cli.render import listing
from gitsession.cli.render.text import clip, one_line, pad, safe_text, width
from gitsession.cli.render.units import count

if TYPE_CHECKING:
    from gitsession.store.summaries import Summary
    from gitsession.verbs.interrupted import Scan
    from gitsession.verbs.recover import Recovered
    from gitsession.verbs.repair import Repair
    from gitsession.verbs.verify import Finding

# Cells of the quoted task: the column is never narrower than the first, and longer tasks are cut to the second.
_NARROW, _WIDE = 17, 60


def scan_lines(found: Scan) -> Iterator[str]:
    """The published layout; sessions that cannot be read follow."""
    number = len(found.recoverable)
    if number:
        yield f"Found {count(number, 'recoverable session')}:"
        yield from _columns([_row(one) for one in found.recoverable])
    else:
        yield "Found no recoverable sessions"
    if found.damaged:
        yield ""
        yield f"Not recoverable as it is: {count(len(found.damaged), 'session')}"
        yield from (f"  {safe_text(one.id)}  {one_line(one.problem or '')}" for one in found.damaged)
        yield "To repair one and run it on: pinable-agents session recover ID"
    if found.newer:
        yield ""
        yield f"Left alone: {count(len(found.newer), 'session')}, for a newer gitsession"
        yield from (f"  {safe_text(one.id)}  {one_line(one.problem or '')}" for one in found.newer)


def _row(session: Summary) -> tuple[str, str, str, str]:
    task = f'"{clip(one_line(session.task), _WIDE)}"'
    progress = listing.progress(session.checkpoint_index, session.files_count)
    where = "no checkpoint" if session.checkpoint_index is None else f"checkpoint {progress}"
    return safe_text(session.id), listing.state(session.status, session.alive), task, where


def _columns(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    sizes = [max(width(row[column]) for row in rows) for column in range(3)]
    sizes[2] = max(sizes[2], _NARROW)
    for row in rows:
        yield "  " + "  ".join([*map(pad, row[:3], sizes), row[3]])


def scan_object(found: Scan) -> dict[str, Any]:
    return {
        "recoverable": [listing.as_object(one) for one in found.recoverable],
        "damaged": [listing.as_object(one) for one in found.damaged],
        "paused": list(found.paused),
        "newer": [listing.as_object(one) for one in found.newer],
    }


def repair_lines(done: Repair) -> Iterator[str]:
    """What was wrong with a session and what was done; nothing for one that was sound."""
    for step in done.steps:
        yield f"{safe_text(done.session_id)}: {one_line(step.finding.text)}"
        if done.dry_run:
            yield f"  would {one_line(step.finding.remedy or '')}"
        elif step.failure is not None:
            yield f"  could not {one_line(step.finding.remedy or '')}: {one_line(step.failure)}"
        else:
            yield f"  {one_line(step.done or '')}"
    told = {step.finding.text for step in done.steps}
    hints = set()
    for finding in done.left:
        if finding.text not in told:
            yield f"{safe_text(done.session_id)}: {one_line(finding.text)}"
        if finding.hint and finding.hint not in hints:
            hints.add(finding.hint)
            yield f"  {one_line(finding.hint)}"
    if done.report is not None:
        yield f"report: {safe_text(str(done.report))}"


def repair_object(done: Repair) -> dict[str, Any]:
    return {
        "session_id": done.session_id,
        "dry_run": done.dry_run,
        "sound": done.is_sound,
        "steps": [
            {
                "kind": step.finding.kind,
                "found": step.finding.text,
                "remedy": step.finding.remedy,
                "done": None if done.dry_run else step.done,
                "failure": step.failure,
            }
            for step in done.steps
        ],
        "left": [_finding(finding) for finding in done.left],
        "notes": [finding.text for finding in done.notes],
        "report": None if done.report is None else str(done.report),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {"kind": finding.kind, "found": finding.text, "hint": finding.hint}


def summary_lines(results: Sequence[Recovered]) -> Iterator[str]:
    """How each of several sessions ended."""
    ended = sum(result.exit_status == 0 for result in results)
    yield f"Recovered {ended} of {count(len(results), 'session')}:"
    for result in results:
        yield f"  {safe_text(result.session_id)}  {_end(result)}"


def _end(result: Recovered) -> str:
    if result.error is not None:
        return f"not run: {one_line(str(result.error))}"
    left = "; damage is left" if result.is_damaged else ""
    if result.outcome is None:
        return f"{'looked at' if left else 'repaired'} (it is completed){left}"
    reason = f": {one_line(result.outcome.reason)}" if result.outcome.reason else ""
    return f"{result.outcome.status}{reason}{left}"
