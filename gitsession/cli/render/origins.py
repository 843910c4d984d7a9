"""Commits and the sessions behind them; ``--json`` of ``why``: an array of objects::

    {"commit", "subject", "author", "date", "sessions": [SESSION]}
    {"path", "first", "last", "text", "commit": {…, without "sessions"} or null, "session": SESSION or null}

SESSION is ``{"session", "checkpoint", "label", "how", "files", "matched", "changed", "backend", "model", "task",
"description", "phase", "timestamp", "tokens": {"input", "output"} or null, "cost_usd", "session_cost_usd",
"findings"}``, null where it is not known.  ``session commits --json``: ``{"commit", "date", "subject", "session",
"checkpoint", "label", "how", "files", "matched", "changed"}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from gitsession.cli.render.out import columns, write
from gitsession.cli.render.table import table
from gitsession.cli.render.text import one_line, safe_text
from gitsession.cli.render.units import count, date_time, money
from gitsession.verbs.linking import Found, Link
from gitsession.verbs.why import Answer, CommitAnswer, LinesAnswer, Origin

_SHORT = 10
_REASONS = {
    "content": "{matched} of {changed} changed files are as the session left them",
    "agent": "its agent made the commit",
    "moved": "the same content stands at another path",
    "patch": "the same change as a commit of the session",
    "rewrite": "it replaces a commit of the session",
    "lines": "most lines it adds are the session's",
    "trailer": "its message says so",
}
_HEADER = ("COMMIT", "DATE", "SESSION", "CHECKPOINT", "LINK", "FILES", "SUBJECT")


def draw(answers: Sequence[Answer]) -> None:
    """Each answer as a block."""
    write("\n\n".join("\n".join(_block(answer)) for answer in answers))


def draw_found(found: Sequence[Found]) -> None:
    """A line a link."""
    rows = [
        (
            one.link.commit[:_SHORT],
            date_time(one.date),
            one.link.session,
            "-" if one.link.checkpoint is None else str(one.link.checkpoint),
            one.link.label,
            f"{one.link.matched}/{one.link.changed}",
            one_line(one.subject),
        )
        for one in found
    ]
    write("\n".join(table(_HEADER, rows, columns())))


def short_lines(found: Sequence[Found]) -> list[str]:
    """``1a2b3c4d5e  [3] certain  "Fix the login"``: for a session that is known."""
    return [
        f'{one.link.commit[:_SHORT]}  {_index(one.link)} {one.link.label:9}  "{one_line(one.subject)}"' for one in found
    ]


def _index(link: Link) -> str:
    return "[-]" if link.checkpoint is None else f"[{link.checkpoint}]"


def _block(answer: Answer) -> Iterator[str]:
    if isinstance(answer, CommitAnswer):
        yield _headline(answer)
        for origin in answer.origins:
            yield from (f"  {line}" for line in _origin(origin))
        if not answer.origins:
            yield "  no session's work is in it"
        return
    lines = str(answer.first) if answer.first == answer.last else f"{answer.first}-{answer.last}"
    yield f"{safe_text(answer.path)}:{lines}  {one_line(answer.text)}"
    yield f"  {_headline(answer.commit)}" if answer.commit else "  not committed yet"
    if answer.origin is None:
        yield "  from no session"
    else:
        yield from (f"  {line}" for line in _origin(answer.origin))


def _headline(answer: CommitAnswer) -> str:
    by = f"({one_line(answer.author)}, {date_time(answer.date)})"
    return f"commit {answer.commit[:_SHORT]}  {one_line(answer.subject)}  {by}"


def _origin(origin: Origin) -> Iterator[str]:
    link = origin.link
    reason = _REASONS.get(link.how, link.how).format(matched=link.matched, changed=link.changed)
    yield f"Session:     {link.session} ({link.label}: {reason})"
    if origin.backend is None:
        yield "             its record is not on this machine"
    else:
        model = f" ({one_line(origin.model)})" if origin.model else ""
        yield f"Backend:     {one_line(origin.backend)}{model}"
    if link.checkpoint is not None:
        what = f' "{one_line(origin.description)}"' if origin.description else ""
        when = f", {date_time(origin.timestamp)}" if origin.timestamp else ""
        yield f"Checkpoint:  [{link.checkpoint}]{what}{when}"
    elif link.how == "agent":
        yield "Checkpoint:  none holds it yet"
    if origin.task is not None:
        yield f"Prompt:      {one_line(origin.task)}"
    for finding in origin.findings:
        told = f"{finding.get('severity')}, {finding.get('file')}:{finding.get('line')}: {finding.get('message')}"
        yield f"Finding:     {one_line(told)}"
    if origin.backend is not None:
        used = f", {count(sum(origin.tokens), 'token')}" if origin.tokens else ""
        whole = money(origin.session_cost_usd)
        yield f"Cost:        {money(origin.cost_usd)} for the checkpoint{used}; {whole} for the session"


def found_as_object(found: Found) -> dict[str, Any]:
    """See the module."""
    return {"commit": found.link.commit, "date": found.date, "subject": found.subject, **_link(found.link)}


def as_object(answer: Answer) -> dict[str, Any]:
    """See the module."""
    if isinstance(answer, LinesAnswer):
        return {
            "path": answer.path,
            "first": answer.first,
            "last": answer.last,
            "text": answer.text,
            "commit": _commit(answer.commit) if answer.commit else None,
            "session": _session(answer.origin) if answer.origin else None,
        }
    return {**_commit(answer), "sessions": [_session(origin) for origin in answer.origins]}


def _commit(answer: CommitAnswer) -> dict[str, Any]:
    return {"commit": answer.commit, "subject": answer.subject, "author": answer.author, "date": answer.date}


def _session(origin: Origin) -> dict[str, Any]:
    told = {name: value for name, value in asdict(origin).items() if name != "link"}
    told["tokens"] = {"input": origin.tokens[0], "output": origin.tokens[1]} if origin.tokens else None
    return {**_link(origin.link), **told}


def _link(link: Link) -> dict[str, Any]:
    return {name: value for name, value in asdict(link).items() if name != "commit"}
