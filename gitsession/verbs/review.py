"""What a reviewer is shown of a session's changes, and whether what they quote is there.

The manifest is bounded: every changed file is named (up to a number of them), those with moderate changes are shown as
a patch, and of the others it says why they are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gitsession import paths
from gitsession.backends.base import FileProblem, Finding, FindingsChecked, Workspace
from gitsession.git import diff
from gitsession.git.diff import FileChange
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo

NAMED: Final = 300
SHOWN_LINES: Final = 1500  # changed lines of all files that are shown
FILE_LINES: Final = 400  # changed lines of one
PATCH_LIMIT: Final = 80_000  # bytes
_READ_LIMIT: Final = 10 * 1024 * 1024
_SIGNS: Final = {"added": "A", "deleted": "D", "modified": "M", "renamed": "R", "type": "T", "mode": "m"}


def manifest(repo: Repo, objects: Objects, base: str, now: str) -> str:
    """The changes from one tree to another; empty when there are none."""
    changes = diff.changes(repo, objects, base, now)
    if not changes:
        return ""
    shown: list[FileChange] = []
    lines: list[str] = []
    left = SHOWN_LINES
    for change in changes:
        why_not = _why_not(change, left)
        if why_not is None:
            shown.append(change)
            left -= _size(change)
        if len(lines) < NAMED:
            lines.append(_line(change, f"  [{why_not}]" if why_not else ""))
    if len(changes) > NAMED:
        lines.append(f"[{len(changes) - NAMED} more files are not named here]")
    head = f"{len(changes)} changed files, {len(shown)} of them shown below:\n" + "\n".join(lines)
    return head + (f"\n\n{_patch(repo, base, now, shown)}" if shown else "")


def check(workspace: Workspace, findings: Iterable[Finding]) -> FindingsChecked:
    """Keep the findings whose quote stands in their file, at the line nearest to the one they name."""
    kept, dropped = [], []
    for finding in findings:
        line = _line_of(workspace, finding)
        if isinstance(line, str):
            dropped.append(f"Dropped: {finding.file}:{finding.line}: {line}.")
        else:
            kept.append(Finding(finding.file, line, finding.severity, finding.message, finding.quote))
    return FindingsChecked(tuple(kept), tuple(dropped))


def _line_of(workspace: Workspace, finding: Finding) -> int | str:
    """The line at which a finding's quote stands, or what is wrong with it."""
    path = paths.decode(finding.file)
    if not path or path.startswith(b"/") or b".." in path.split(b"/"):
        return "it names no file of the repository"
    try:
        file = workspace.read(path, _READ_LIMIT)
    except FileProblem as problem:
        return str(problem)
    if file is None:
        return "there is no such file"
    wanted = [part.strip() for part in finding.quote.strip().splitlines()]
    if not any(wanted):
        return "the quote is empty"
    lines = [line.strip() for line in file.data.decode("utf-8", "replace").splitlines()]
    starts = [
        start + 1
        for start in range(len(lines) - len(wanted) + 1)
        if all(part in lines[start + offset] for offset, part in enumerate(wanted))
    ]
    return min(starts, key=lambda start: abs(start - finding.line)) if starts else "the quote is not in the file"


def _why_not(change: FileChange, left: int) -> str | None:
    """Why a file's changes are not shown."""
    if change.status == "submodule":
        return "a submodule, not shown"
    if change.binary:
        return "binary, not shown"
    if change.status == "deleted":
        return "deleted, folded"
    if _size(change) > FILE_LINES:
        return f"folded: more than {FILE_LINES} changed lines, read the file"
    if _size(change) > left:
        return "left out: the changes are too many to show all"
    return None


def _size(change: FileChange) -> int:
    return (change.insertions or 0) + (change.deletions or 0)


def _line(change: FileChange, note: str) -> str:
    counts = f"  +{change.insertions} -{change.deletions}" if not change.binary else ""
    was = f" (was {paths.encode(change.old_path)})" if change.old_path is not None else ""
    return f"{_SIGNS.get(change.status, '?')} {paths.encode(change.path)}{was}{counts}{note}"


def _patch(repo: Repo, base: str, now: str, shown: Iterable[FileChange]) -> str:
    wanted = [path for change in shown for path in (change.old_path, change.path) if path is not None]
    data = diff.patch(repo, base, now, wanted)
    text = data[:PATCH_LIMIT].decode("utf-8", "replace")
    return text + (f"\n[cut: {len(data) - PATCH_LIMIT} more bytes; read the files]" if len(data) > PATCH_LIMIT else "")
