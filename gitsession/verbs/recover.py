"""Repair interrupted sessions (see ``gitsession.verbs.interrupted``) and run them on.

A living owner, also one that hangs, keeps its session unless it is ended by ``take_over``.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitsession import lifecycle
from gitsession.config import Settings
from gitsession.errors import GitSessionError, SessionBusy, SessionCorrupted, SessionTooNew
from gitsession.store.owner import OwnerInfo
from gitsession.store.sessions import SessionStore
from gitsession.verbs.checkpoint import repository_of
from gitsession.verbs.events import Outcome, RunEvent
from gitsession.verbs.repair import Repair, repair
from gitsession.verbs.run import RunRequest
from gitsession.verbs.succession import Succession
from gitsession.verbs.verify import FILES, NEWER

_GRACE: Final = 20.0  # seconds for an owner to end its agent and take a last checkpoint
_AFTER_KILL: Final = 5.0


def take_over(store: SessionStore, session_id: str, tell: Callable[[str], None]) -> None:
    """End whoever owns the session: terminate, wait while it pauses its session, kill.

    ``SessionBusy`` for an owner on another machine, which cannot be asked.
    """
    owner = store.owner(session_id)
    if owner is None:
        return
    if not owner.local or owner.pid is None:
        raise SessionBusy(
            f"session {session_id} is owned by {owner}, which cannot be ended from here",
            hint=f"recover it on that machine; if that is gone, remove {store.owner_file(session_id)}",
        )
    tell(f"ending {owner}")
    for number, patience in ((signal.SIGTERM, _GRACE), (getattr(signal, "SIGKILL", signal.SIGTERM), _AFTER_KILL)):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(owner.pid, number)
        if _gone(store, session_id, owner, patience):
            return
    raise SessionBusy(f"session {session_id} is still owned by {owner}", hint="end that process by hand")


def _gone(store: SessionStore, session_id: str, owner: OwnerInfo, patience: float) -> bool:
    until = time.monotonic() + patience
    while time.monotonic() < until:
        now = store.owner(session_id)
        if now is None or (now.pid, now.since) != (owner.pid, owner.since):
            return True
        time.sleep(0.05)
    return False


@dataclass(frozen=True)
class Recovered:
    """How the recovery of one session went: ``outcome`` of its run, or the ``error`` that kept it from running.

    Both are ``None`` for one that is completed, and has only been repaired.
    """

    session_id: str
    repair: Repair | None = None
    outcome: Outcome | None = None
    error: GitSessionError | None = None

    @property
    def exit_status(self) -> int:
        if self.error is not None:
            return self.error.exit_status
        status = self.outcome.exit_status if self.outcome else 0
        return status or int(self.is_damaged)

    @property
    def is_damaged(self) -> bool:
        """Whether the repair had to leave something as it was found."""
        return self.repair is not None and not self.repair.is_sound


class Recoverer(Succession):
    """Repairs sessions and runs them on, one after the other.

    ``here`` is where a repository is looked for when a session's files are lost; ``listener`` gets every run's events,
    ``repaired`` every session that was looked at, before it runs.
    """

    def __init__(
        self,
        store: SessionStore,
        settings: Settings,
        here: Path,
        listener: Callable[[RunEvent], None],
        repaired: Callable[[Repair], None],
    ) -> None:
        super().__init__(store, listener, settings)
        self._here = here
        self._repaired = repaired

    def recover(self, session_id: str) -> Recovered:
        """Repair one session and run it on, as ``codeagent-wrapper --session-id`` does; errors as there.

        ``SessionCorrupted`` if it cannot be repaired, with where the diagnosis is; ``SessionTooNew``.
        """
        if (owner := self._store.owner(session_id)) is not None:
            raise self._store.busy(session_id, owner)
        done = repair(self._store, session_id, self._settings, self._here)
        for finding in done.left:
            if finding.kind == NEWER:
                raise SessionTooNew(finding.text, hint=finding.hint)
        self._repaired(done)
        if any(finding.kind == FILES for finding in done.left):
            raise SessionCorrupted(
                f"session {session_id} is damaged and could not be repaired: {done.left[0].text}",
                hint=f"the diagnosis is in {done.report}" if done.report else None,
            )
        doc = self._store.read(session_id)
        if doc["status"] == lifecycle.COMPLETED:
            return Recovered(session_id, done)
        request = RunRequest(start=repository_of(doc).worktree, session_id=session_id)
        return Recovered(session_id, done, self.run_one(request))

    def recover_all(self, sessions: Iterable[str]) -> Iterator[Recovered]:
        """``recover`` for each; what keeps one from running does not keep the next."""
        for session_id in sessions:
            if self.stopped is not None:
                return
            try:
                yield self.recover(session_id)
            except GitSessionError as error:
                yield Recovered(session_id, error=error)
