"""How far a long job is, on a terminal's standard error."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_AFTER = 0.5  # seconds: what is done sooner needs no bar


class Counter:
    """A bar that appears when a job takes long, and goes without a trace."""

    def __init__(self, label: str) -> None:
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task(label, total=None)
        self._started = time.monotonic()
        self._shown = False

    def show(self, done: int, total: int) -> None:
        """``done`` of ``total`` are done."""
        if not self._shown and time.monotonic() - self._started < _AFTER:
            return
        if not self._shown:
            self._bar.start()
            self._shown = True
        self._bar.update(self._task, completed=done, total=total)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown:
            self._bar.stop()
