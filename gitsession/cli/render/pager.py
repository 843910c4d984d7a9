"""Long output through the user's pager, as git does it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

# What git sets for less and lv unless the user did: quit if it fits, colours, no clearing.
_ENVIRONMENT = {"LESS": "FRX", "LV": "-c"}


@contextmanager
def paged(command: str | None) -> Iterator[TextIO]:
    """Where to write; ``command`` is a shell's, and ``None``, ``""`` and ``cat`` are no pager.

    A reader that leaves early ends the block without an error.
    """
    if command in {None, "", "cat"}:
        yield sys.stdout
        return
    environment = {**_ENVIRONMENT, **os.environ}
    pager = subprocess.Popen(["sh", "-c", str(command)], stdin=subprocess.PIPE, env=environment)
    assert pager.stdin is not None  # noqa: S101 - it was asked for
    stream = io.TextIOWrapper(pager.stdin, encoding="utf-8", errors="backslashreplace")
    try:
        with suppress(BrokenPipeError):
            yield stream
    finally:
        with suppress(BrokenPipeError):
            stream.close()
        while True:
            # Ctrl-C is the pager's to handle; it must not be left alone with the terminal.
            with suppress(KeyboardInterrupt):
                pager.wait()
                break
