"""What Markdown and HTML reports say in the same words.  Times are UTC: a report is read elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from typing import TYPE_CHECKING

from gitsession.cli.render.units import count, duration, local, money

if TYPE_CHECKING:
    from gitsession.verbs.export import FilePart, Report, Step

TIMES = "Times are UTC."


def when(moment: str) -> str:
    """``2026-02-25 10:01:15``; a moment that cannot be read stays as it is."""
    at = local(moment)
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S") if at else moment


def outcome(report: Report) -> Iterator[tuple[str, str]]:
    """How the session ended and what it took, as names and values."""
    totals = report.totals
    yield "Status", report.status + (f" ({report.reason})" if report.reason else "")
    yield "Backend", f"{report.backend} ({report.model})" if report.model else report.backend
    yield "Created", when(report.created_at)
    if report.ended_at is not None and report.status != "running":
        yield report.status.capitalize(), when(report.ended_at)
    pause = f" (excluding {duration(totals.paused_seconds)} pause)" if totals.paused_seconds >= 1 else ""
    yield "Total time", duration(totals.active_seconds) + pause
    yield "Tokens", _tokens(totals.input_tokens, totals.output_tokens)
    yield "Total cost", money(totals.cost_usd)
    yield "Files", f"{totals.created} created, {totals.modified} modified, {totals.deleted} deleted"
    yield "Checkpoints", str(len(report.steps))


def facts(step: Step) -> str:
    """One line about a checkpoint: when, in which phase, for how many tokens."""
    parts = [when(step.timestamp)]
    if step.phase:
        parts.append(f"phase {step.phase}")
    parts.append(_tokens(step.input_tokens, step.output_tokens))
    if step.restored_from is not None:
        parts.append(f"files restored from checkpoint {step.restored_from}")
    return " · ".join(parts)


def change(part: FilePart) -> str:
    """What happened to a file: ``modified, +3 -1, now executable``."""
    words = [part.status]
    if part.insertions is not None and part.deletions is not None:
        words.append(f"+{part.insertions:,} -{part.deletions:,}")
    if part.note:
        words.append(part.note)
    if part.not_shown:
        words.append(f"diff not shown: {part.not_shown}")
    return ", ".join(words)


def more(number: int, noun: str) -> str:
    """``… and 3 more files``; empty if there are none."""
    return f"… and {count(number, f'more {noun}')}" if number else ""


def _tokens(given: int, received: int) -> str:
    return f"{given:,} tokens in, {received:,} out"
