"""Which session of ours an event of an agent's hooks is for: found by the agent's own session, or begun.

The agent's session is bound to ours in ``gitsession.store.natives``, where processes that come at once agree.  One
that was deleted, or is completed and goes on, or cannot be read, or goes on in another repository, is followed by a new
one, which says so (``follows``).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from gitsession.agentevents import BEFORE, OPENCODE, PROMPT, START, TOOL
from gitsession.errors import BadSessionId, BareRepository, NotARepository, StoreError
from gitsession.git.repo import Repo
from gitsession.ids import new_session_id
from gitsession.paths import name_of
from gitsession.store import natives
from gitsession.store.sessions import SessionStore
from gitsession.verbs.checkpoint import refuse_store_inside
from gitsession.verbs.early import Plain
from gitsession.verbs.toolcalls import text

NO_PROMPT: Final = "(no prompt yet)"
_ID: Final = 1024  # characters
_PATH: Final = 4096
_BEGINS: Final = (START, PROMPT, BEFORE, TOOL)


@dataclass(frozen=True)
class Event:
    """An event of ``agent``: its ``kind`` (``gitsession.agentevents``), the agent's ``name`` for it, what it says."""

    agent: str
    kind: str
    name: str
    said: Mapping[str, Any]

    @cached_property
    def native(self) -> str | None:
        """The agent's own session."""
        return self._text("session_id", _ID)

    @cached_property
    def parent(self) -> str | None:
        """The agent's own session that started this one as a subagent's."""
        return self._text("parent_id", _ID)

    @cached_property
    def directory(self) -> Path | None:
        """Where the agent is; None if that is no directory."""
        given = self._text("cwd", _PATH)
        with suppress(OSError, ValueError):
            if given is not None and (place := Path(given)).is_absolute() and place.is_dir():
                return place
        return None

    @property
    def model(self) -> str | None:
        return self._text("model", 200)

    @property
    def model_asked(self) -> str | None:
        """The same, as the agent could be asked for it; opencode wants the provider's name as well, and says it not."""
        return None if self.agent == OPENCODE else self.model

    @property
    def reason(self) -> str | None:
        """Why the agent's session ended; the name of the event says it where that is another than others'."""
        return self._text("reason", 100) or (self.name.partition(".")[2] or None)

    @property
    def transcript(self) -> str | None:
        return self._text("transcript_path", _PATH)

    def _text(self, name: str, longest: int) -> str | None:
        return text(self.said.get(name), longest)


def find_or_create(store: SessionStore, event: Event) -> str | None:
    """The id of the session that the event is for, which is made if need be.

    None where there is nothing to track: outside of a repository, in a home directory that is one, and at the end of
    something whose beginning was not seen.  ``UsageError`` where checkpoints would hold the sessions themselves.
    """
    if event.native is None:
        return None
    known = natives.find(store.home, event.agent, event.native)
    if known is None and event.parent is not None:
        above = natives.find(store.home, event.agent, event.parent)
        known = above and natives.claim(store.home, event.agent, event.native, above)
    if known is not None and store.exists(known):
        return follow(store, event, known) if _begins_elsewhere(store, event, known) else known
    if known is not None and store.is_in_trash(known):
        return follow(store, event, known)
    repo = _repository(store, event)
    if repo is None:
        return None
    session_id = natives.claim(store.home, event.agent, event.native, known or new_session_id())
    _create(store, event, repo, session_id)
    return session_id


def follow(store: SessionStore, event: Event, before: str) -> str | None:
    """The session that goes on for the agent's where ``before`` cannot; the same for all that come at once."""
    repo = _repository(store, event)
    if repo is None or event.native is None:
        return None
    with store.writing(before):
        known = natives.find(store.home, event.agent, event.native)
        if known is None or known == before:
            known = new_session_id()
            natives.bind(store.home, event.agent, event.native, known)
        if not store.exists(known):
            _create(store, event, repo, known, follows=before)
    return known


def _begins_elsewhere(store: SessionStore, event: Event, session_id: str) -> bool:
    """Whether the agent goes on with its session in another repository: the session of ours stays with the first."""
    if event.kind != START or event.parent is not None:
        return False
    repo = _repository(store, event)
    with suppress(StoreError):
        known = store.read(session_id).get("repository") or {}
        return repo is not None and known.get("worktree") != name_of(repo.worktree)
    return False


def discard(store: SessionStore, session_id: str) -> None:
    """Put a session away in which nothing happened; the agent's own one begins another if it goes on."""
    from gitsession.verbs.delete import delete

    delete(store, session_id)


def _repository(store: SessionStore, event: Event) -> Plain | None:
    """Where a session of this event would work."""
    if event.kind not in _BEGINS or event.directory is None:
        return None
    try:
        repo = Plain.of(Repo.discover(event.directory))
    except (NotARepository, BareRepository):
        return None
    if repo.worktree == Path.home().resolve():
        return None
    refuse_store_inside(store.home, repo)
    return repo


def _create(store: SessionStore, event: Event, repo: Repo, session_id: str, follows: str | None = None) -> None:
    from gitsession.verbs.births import new_record

    start = event.directory or repo.worktree
    record = new_record(session_id, NO_PROMPT, event.agent, repo, start=start, model=event.model_asked)
    # Another event of the same moment may have been quicker.
    with suppress(BadSessionId):
        store.create({**record, **({"follows": follows} if follows else {})})
