"""Take the working tree, as it is on disk, into a git tree.

Two ways lead there.  *Known paths*: the caller made the changes and names the paths, and only these are looked at.
*Scan*: ``gitsession.git.scan`` finds the paths.  From there on they are one: each path is read, and what was read is
put into the newest checkpoint's tree.

One bad path never costs the others: what cannot be read or stored is left out with its reason, and the tree keeps what
the newest checkpoint had at that path.  Tracked and untracked files are taken, ignored ones are not; what was captured
once stays so, whatever is ignored later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gitsession.errors import CaptureError, GitSessionError
from gitsession.git import trees
from gitsession.git.baseline import beside_unchanged
from gitsession.git.filters import Filters
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.git.scan import Scanner
from gitsession.git.taking import Taking
from gitsession.git.trees import Entry, TreeChange

MAX_FILE_SIZE: Final = 50 * 1024 * 1024


@dataclass(frozen=True)
class Skipped:
    """A path that was left out of the tree, and why."""

    path: bytes
    reason: str


@dataclass(frozen=True)
class Captured:
    """The working tree at one moment.

    ``changes`` are the files that differ from the newest checkpoint, sorted; one whose bytes differ while git's filters
    make the same blob of both has ``old == new``.  At the base, with nothing before it, there are none.
    ``raw`` is what the tree does not say of the files' bytes (see ``gitsession.git.filters``), complete.
    ``empty_dirs`` are the directories that hold nothing at all.  ``method`` is ``scan`` or ``paths``.  ``differs``:
    whether anything but what was left out differs from the newest checkpoint.
    """

    tree: str
    changes: list[TreeChange]
    skipped: list[Skipped]
    raw: dict[bytes, Entry]
    empty_dirs: list[bytes]
    method: str
    differs: bool


def capture(
    repo: Repo,
    objects: Objects,
    previous: str | None,
    *,
    paths: Iterable[bytes] | None = None,
    max_file_size: int = MAX_FILE_SIZE,
    exclude: Iterable[str] = (),
    previous_raw: Mapping[bytes, Entry] | None = None,
    previous_empty: Iterable[bytes] = (),
) -> Captured:
    """Capture the working tree; ``previous`` is the newest checkpoint's tree, None for the base.

    ``paths`` are the only ones that can differ from it, if that is known; the base is always a scan.  Untracked files
    over ``max_file_size`` bytes are left out, and a scan passes over those that ``exclude`` names (ignore patterns).
    The objects are in ``objects``, not yet flushed.  ``CaptureError`` when nothing could be captured at all.
    """
    before_raw = dict(previous_raw or {})
    before_empty = set(previous_empty)
    try:
        filters = Filters(repo)
        if previous is not None and paths is not None:
            taking = Taking(repo, objects, filters, previous, max_file_size)
            taking.take(paths)
        else:
            scanner = Scanner(repo, objects, filters, exclude)
            found = scanner.scan(previous, before_raw)
            taking = Taking(repo, objects, filters, previous or found.index.tree, max_file_size, found)
            taking.take(found.candidates)
            taking.heal(scanner.indexes)
        tree = trees.update(objects, taking.start, taking.entries)
        raw = taking.beside(before_raw)
        if previous is None and taking.found is not None:
            raw |= beside_unchanged(repo, objects, filters, taking.found.index.path, taking.entries.keys())
        empty = taking.empty_dirs(before_empty)
    except CaptureError:
        raise
    except (GitSessionError, OSError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise CaptureError(f"the files could not be captured: {reason}", hint=getattr(error, "hint", None)) from error
    return Captured(
        tree=tree,
        changes=_changes(objects, previous, tree, before_raw, raw),
        skipped=[Skipped(path, reason) for path, reason in sorted(taking.left_out.items())],
        raw=raw,
        empty_dirs=sorted(empty),
        method="paths" if taking.found is None else "scan",
        differs=tree != previous or raw != before_raw or empty != before_empty,
    )


def _changes(
    objects: Objects,
    previous: str | None,
    tree: str,
    before: Mapping[bytes, Entry],
    beside: Mapping[bytes, Entry],
) -> list[TreeChange]:
    if previous is None:
        return []
    changes = {change.path: change for change in trees.diff(objects, previous, tree)}
    for path, _ in before.items() ^ beside.items():
        entry = trees.lookup(objects, tree, path)
        if path not in changes and entry is not None:
            changes[path] = TreeChange(path, entry, entry)
    return [changes[path] for path in sorted(changes)]
