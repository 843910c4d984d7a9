"""What other sessions hand over, as a file that a program can read: ``PINABLE_CONTEXT`` names it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def context_file(text: str | None) -> Iterator[Path | None]:
    """A file of mode 0600 that holds ``text``, as long as the block runs; ``None`` if there is nothing to hold."""
    if text is None:
        yield None
        return
    descriptor, name = tempfile.mkstemp(prefix="pinable-context-", suffix=".txt")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text + "\n")
        yield Path(name)
    finally:
        with suppress(OSError):
            Path(name).unlink()
