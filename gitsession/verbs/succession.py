"""Run sessions one after the other, as one thing that can be stopped."""

from __future__ import annotations

from collections.abc import Callable

from gitsession.config import Settings
from gitsession.store.sessions import SessionStore
from gitsession.verbs.events import Outcome, RunEvent
from gitsession.verbs.run import Runner, RunRequest


class Succession:
    """``listener`` gets every run's events; ``stopped`` is why no other run is to begin."""

    def __init__(self, store: SessionStore, listener: Callable[[RunEvent], None], settings: Settings) -> None:
        self._store = store
        self._listener = listener
        self._settings = settings
        self._runner: Runner | None = None
        self.stopped: str | None = None

    def request_stop(self, reason: str) -> None:
        """End the run that is going on, and begin no other.  Safe in a signal handler."""
        self.stopped = reason
        if self._runner is not None:
            self._runner.request_stop(reason)

    def run_one(self, request: RunRequest) -> Outcome:
        """Run one session to its end; one that is asked to stop while it begins stops then."""
        self._runner = Runner(self._store, request, self._listener, self._settings)
        if self.stopped is not None:
            self._runner.request_stop(self.stopped)
        return self._runner.run()
