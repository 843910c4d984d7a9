"""The status line of a run on a terminal: what it is doing, and for how long."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress as RichProgress
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text


class Progress:
    """A spinner below the lines; it goes without a trace."""

    def __init__(self) -> None:
        # The lines are the caller's: nothing is highlighted, wrapped or read as markup, no stream is replaced.
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._bar = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._held = ""
        self._facts: dict[str, object] = {}
        self._task = self._bar.add_task("working", total=None)
        self._bar.start()

    def write(self, text: str) -> None:
        """Text above the status line; a line appears there when it is complete."""
        *complete, self._held = (self._held + text).split("\n")
        for line in complete:
            self._console.print(Text(line), soft_wrap=True)

    def show(self, **facts: object) -> None:
        """Facts by name, the newest of each: ``phase``, ``checkpoint``."""
        self._facts |= facts
        words = [f"{name} {fact}" for name, fact in self._facts.items()]
        self._bar.update(self._task, description=", ".join(words))

    def close(self) -> None:
        self._bar.stop()
