"""What every start of a program does by the way."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click

# Each of these has "session" for a parent, whose turn it is; the last ones do it, or show it, at a person's word.
_CLEAN_UP_THEMSELVES = ("session", "cleanup", "undelete")


def pause_the_dead() -> None:
    """Pause sessions whose process died, in time that does not grow with the number of sessions."""
    from gitsession.store.sessions import SessionStore
    from gitsession.verbs.deaths import bury_all

    bury_all(SessionStore())


def clean_up() -> None:
    """Have old sessions removed in the background, once a day, and say what was done the last time."""
    import time

    from gitsession.store.sessions import SessionStore
    from gitsession.verbs.tidy import begin

    store = SessionStore()
    news = begin(store, lambda: _tidy_elsewhere(store.home), time.time())
    if news is not None:
        from gitsession.cli.render import removal

        removal.tell(news)


def _tidy_elsewhere(home: Path) -> None:
    """Run ``gitsession.cli.tidy`` in a process that nobody waits for."""
    import os
    import subprocess
    import sys

    global _elsewhere  # noqa: PLW0603 - a process object that goes away complains
    _elsewhere = subprocess.Popen(
        [sys.executable, "-P", "-m", "gitsession.cli.tidy"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PINABLE_HOME": str(home)},
        cwd=home,
        start_new_session=True,
    )


_elsewhere: Any = None


def at_start(*, but: Collection[str]) -> Callable[..., Any]:
    """A group's callback that does it before any of its commands, ``but`` for those that see to it themselves."""

    @click.pass_context
    def callback(context: click.Context) -> None:
        if context.invoked_subcommand not in but:
            pause_the_dead()
        if context.invoked_subcommand not in (*but, *_CLEAN_UP_THEMSELVES):
            clean_up()

    return callback
