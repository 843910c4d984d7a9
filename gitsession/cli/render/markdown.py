"""A report as Markdown.

Nothing that came from elsewhere can become markup: lines of it are escaped, names of files are code, and texts stand in
fences longer than any they hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitsession.cli.render import report as words
from gitsession.cli.render.text import one_line, safe_text

if TYPE_CHECKING:
    from gitsession.verbs.export import FilePart, Report, Step

# What has a meaning inside a line of Markdown, GitHub's included; addresses would become links.
_SPECIAL = re.compile(r"[\\`*_\[\]<>&~|#!$@]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_TICKS = re.compile(r"`+")


def document(report: Report) -> str:
    """The report as text."""
    return "\n".join(lines(report)) + "\n"


def lines(report: Report) -> Iterator[str]:
    """The report's lines."""
    yield f"# Session {_text(report.session_id)}"
    yield from ("", "## Task", "", *_block("text", report.task))
    yield from ("", "## Outcome", "")
    yield from (f"- {name}: {_text(value)}" for name, value in words.outcome(report))
    if report.remaining:
        yield from ("", "Not started:", "", *(f"- {_code(path)}" for path in report.remaining))
    if report.results:
        yield from ("", "## Results")
        for phase, text in report.results:
            yield from ("", f"### {_text(phase)}", "", *_block("text", text))
    if report.findings is not None:
        yield from ("", "## Findings", "", *_findings(report))
    yield from ("", "## Timeline", "")
    yield from (f"- {words.when(moment.at)}: {_text(moment.text)}" for moment in report.timeline)
    yield from ("", "## Changed files", "", *_files(report.changed, report.more_changed))
    yield from ("", "## Checkpoints")
    if report.problem:
        yield from ("", f"There are no diffs: {_text(report.problem)}.")
    if not report.steps:
        yield from ("", "None.")
    for step in report.steps:
        yield from ("", *_step(step))
    yield from ("", "## Where it ran", "")
    yield from (f"- {name}: {_code(value)}" for name, value in report.facts)
    yield from ("", words.TIMES)


def _step(step: Step) -> Iterator[str]:
    yield f"### Checkpoint {step.index}: {_text(step.description)}"
    yield from ("", _text(words.facts(step)))
    if step.files:
        yield from ("", *_files(step.files, step.more_files))
    if step.skipped:
        yield from ("", "Left out of the checkpoint:", "")
        yield from (f"- {_code(path)}: {_text(reason)}" for path, reason in step.skipped)
    for part in step.files:
        if part.diff:
            yield from ("", f"{_code(part.path)}:", "", *_block("diff", part.diff))


def _files(parts: tuple[FilePart, ...], more: int) -> Iterator[str]:
    for part in parts:
        was = f"{_code(part.old_path)} → " if part.old_path is not None else ""
        yield f"- {was}{_code(part.path)}: {_text(words.change(part))}"
    if more:
        yield f"- {words.more(more, 'file')}"
    if not parts:
        yield "None."


def _findings(report: Report) -> Iterator[str]:
    for one in report.findings or ():
        yield f"- **{_text(one.severity)}** {_code(f'{one.file}:{one.line}')}: {_text(one.message)}"
        if one.quote.strip():
            yield f"  {_code(one.quote)}"
    if not report.findings:
        yield "None."
    if report.more_findings:
        yield f"- {words.more(report.more_findings, 'finding')}"


def _text(text: str) -> str:
    """Foreign text as a part of a line."""
    return _SPECIAL.sub(r"\\\g<0>", one_line(text))


def _code(text: str) -> str:
    """A code span, whatever is in it."""
    shown = safe_text(text)
    ticks = "`" * (_longest(shown) + 1)
    space = " " if shown.startswith(("`", " ")) or shown.endswith(("`", " ")) or not shown else ""
    return f"{ticks}{space}{shown}{space}{ticks}"


def _block(kind: str, text: str) -> Iterator[str]:
    """A fenced block that its content cannot end."""
    shown = safe_text(text, layout=True)
    fence = "`" * max(3, _longest(shown) + 1)
    yield f"{fence}{kind}"
    yield from shown.split("\n")
    yield fence


def _longest(text: str) -> int:
    """The longest run of backticks."""
    return max((len(run) for run in _TICKS.findall(text)), default=0)
