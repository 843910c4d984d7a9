"""One place where a test can step between two system calls.

Code that must survive a kill at any point names its points: ``seam.reach("ref.before-update")``.  In normal
use that is one call of a function that does nothing; a test replaces ``hook`` with one that counts, raises
``OSError`` or ends the process.
"""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Tell the hook, if there is one, that ``point`` is about to happen."""
    if hook is not None:
        hook(point)
