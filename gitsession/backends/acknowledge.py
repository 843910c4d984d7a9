"""How a program learns that a checkpoint it asked for is taken: a named pipe with one line for each.

``PINABLE_ACK`` names the pipe.  After each ``::checkpoint::`` line's checkpoint is durable its number is written there,
so a program that must not go on before does, in a shell, ``read -r number < "$PINABLE_ACK"``.  A program that never
reads loses nothing.  Where the system has no named pipes (Windows) the variable is not set.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


class Acknowledgements:
    """The writing end; ``path`` is None where there are no named pipes."""

    def __init__(self) -> None:
        self.path: Path | None = None
        if not hasattr(os, "mkfifo"):
            return
        self._directory = Path(tempfile.mkdtemp(prefix="pinable-"))  # mode 0700
        self.path = self._directory / "ack"
        os.mkfifo(self.path, 0o600)
        # Open for both: so opening it blocks neither side, and lines wait for a reader that comes later.
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def tell(self, index: int) -> None:
        """Say that checkpoint ``index`` is taken; a pipe that nobody empties takes no more, and that is all."""
        if self.path is not None:
            with suppress(OSError):
                os.write(self._descriptor, b"%d\n" % index)

    def close(self) -> None:
        """Remove the pipe; who waits at it reads an end of file."""
        if self.path is not None:
            os.close(self._descriptor)
            shutil.rmtree(self._directory, ignore_errors=True)
            self.path = None
