"""Git hooks: what was installed or removed, and whether they run.

``hooks status --json``: an array of ``{"name", "state", "path", "detail"}``; see ``gitsession.verbs.hooks.HookStatus``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from gitsession.cli.render.out import columns
from gitsession.cli.render.table import table
from gitsession.cli.render.text import one_line, safe_text
from gitsession.cli.render.units import count
from gitsession.verbs.hooks import HookStatus, Installed, Uninstalled


def installed(done: Installed) -> Iterator[str]:
    """What stands where, and what the user has to do."""
    yield f"Installed {count(len(done.names), 'hook')} in {safe_text(str(done.directory))}"
    if done.kept:
        yield f"Kept, and called first: {', '.join(done.kept)}"
    for name, why in done.skipped.items():
        yield f"Not installed: {name}: {one_line(why)}"
    yield from (one_line(text) for text in done.notes)
    if done.manager is None:
        return
    if not done.additions:
        yield f"Hooks are looked after by {done.manager} here, which calls them"
        return
    yield f"Hooks are looked after by {done.manager} here, in files that others share: they were not changed."
    yield "To have them called, add"
    for addition in done.additions:
        yield f"  to {safe_text(addition.file)}"
        yield from (f"    {line}" for line in addition.lines)
    if done.manager == "lefthook":
        yield "and run: lefthook install"
    elif done.manager != "husky":
        yield "(a new file begins with #!/bin/sh and is executable)"


def uninstalled(done: Uninstalled) -> Iterator[str]:
    """What is gone, and what is back."""
    if done.removed:
        yield f"Removed {count(len(done.removed), 'hook')}"
    for path in done.restored:
        yield f"Put back {safe_text(path)}"
    for path, why in done.left.items():
        yield f"Left {safe_text(path)}: {one_line(why)}"


def status(found: Sequence[HookStatus]) -> list[str]:
    """A line a hook."""
    rows = [(one.name, one.state, one_line(one.detail or one.path or "-")) for one in found]
    return table(("HOOK", "STATE", "WHERE"), rows, columns())


def as_object(one: HookStatus) -> dict[str, Any]:
    """See the module."""
    return asdict(one)
