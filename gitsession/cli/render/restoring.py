"""A restore: what is or would be done to each file, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from gitsession.cli.render.table import aligned
from gitsession.cli.render.text import one_line, safe_text
from gitsession.cli.render.units import count
from gitsession.verbs.restore import BASE, FileAction, RestoreReport

_DONE = {
    "create": "created", "replace": "replaced", "mode": "changed in mode", "type": "changed in kind",
    "delete": "deleted",
}  # fmt: skip


def lines(report: RestoreReport) -> Iterator[str]:
    """Every file with what happens to it, then what it comes to."""
    left = {file.path for file in report.left}
    made = [file for file in report.files if file.path not in left]
    yield from _files([*made, *report.left])
    target = "the base" if report.target is None else f"checkpoint {report.target} ({one_line(report.description)})"
    done = Counter(file.action for file in made)
    parts = [f"{count(done[action], 'file')} {word}" for action, word in _DONE.items() if done[action]]
    parts += [f"{done['keep']} kept"] if done["keep"] else []
    parts += [f"{len(left)} left as they are"] if left else []
    sums = ", ".join(parts) or "only empty directories differ"
    if report.interrupted:
        yield f"Would first finish restoring {target}: {sums}"
    elif report.changes_nothing:
        but = ", but for what is kept" if done["keep"] else ""
        yield f"Nothing to do: the files are those of {target}{but}"
    elif report.dry_run:
        yield f"Would restore {target}: {sums}"
    else:
        yield f"Restored {target}: {sums}"
        before = "the base" if report.safety is None else f"checkpoint {report.safety}"
        yield f"This is checkpoint {report.checkpoint} now; what was there before is {before}"
        yield f"To take it back: pinable-agents session undo {report.session_id}"
        if left:
            index = BASE if report.target is None else report.target
            only = " --path …" if report.paths else ""
            yield f"To try again what was left: pinable-agents session restore {report.session_id} {index}{only}"


def as_object(report: RestoreReport) -> dict[str, Any]:
    """The same for programs."""
    return asdict(report)


def _files(files: list[FileAction]) -> list[str]:
    return aligned([(f"{file.action:8}{safe_text(file.path)}", one_line(file.reason)) for file in files])
