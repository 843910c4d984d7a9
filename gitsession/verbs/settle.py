"""When files have come to rest: a hint that a look at the working tree may be worth its price.

A watcher loses events silently (bursts in new directories, a full queue), so nothing is ever concluded from its
silence, and what it says is only a reason to look.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_JOIN: Final = 1.0
_STEP_MS: Final = 50
_BURST_MS: Final = 200


class SettleWatcher:
    """Watches a working tree from a thread of its own; all times are in seconds.

    Setting up costs a tenth of a second and more, so it begins only when a run has lasted ``start_after``; what changed
    before counts as changed.  Where the system refuses to watch (no more watches, no such facility), it never has
    anything to say.
    """

    def __init__(self, worktree: Path, *, ignore: Iterable[Path] = (), start_after: float = 1.0) -> None:
        """Changes at or below a path of ``ignore`` are not looked at."""
        self._worktree = worktree
        self._ignored = tuple(str(path) for path in ignore)
        self._start_after = start_after
        self._changed_at = self._told_at = 0.0
        self._works = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="settle", daemon=True)
        self._thread.start()

    def changed_and_quiet(self, quiet: float) -> bool:
        """True once for each burst of changes, when the last of them is ``quiet`` seconds ago."""
        changed_at = self._changed_at
        if changed_at == self._told_at or time.monotonic() - changed_at < quiet:
            return False
        self._told_at = changed_at
        return True

    def close(self) -> None:
        """End the thread; nothing is watched any more."""
        self._stop.set()
        # It must not be inside the native library when the interpreter goes down.
        self._thread.join(_JOIN)

    def _watch(self) -> None:
        if self._stop.wait(self._start_after):
            return
        # The library gives up at a name that is not UTF-8: that is a change, too, and then it has to begin again.
        while self._listen() and not self._stop.wait(self._start_after):
            self._changed_at = time.monotonic()

    def _listen(self) -> bool:
        """Note changes until told to stop; whether it makes sense to try again after a failure: it did work before."""
        watching = False
        try:
            from watchfiles import watch

            for changes in watch(
                self._worktree,
                watch_filter=lambda _, path: self._counts(path),
                debounce=_BURST_MS,
                step=_STEP_MS,
                rust_timeout=_BURST_MS,
                yield_on_timeout=True,
                stop_event=self._stop,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                if changes or not watching:
                    self._changed_at = time.monotonic()
                watching = self._works = True
        except Exception:  # noqa: BLE001 - the library raises what it likes, and a hint is not worth a run
            return self._works
        return False

    def _counts(self, path: str) -> bool:
        return not any(path == ignored or path.startswith(ignored + os.sep) for ignored in self._ignored)
