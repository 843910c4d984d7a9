"""What one event of an agent's own hooks does to a session of ours.

A person uses the agent as ever.  Each event (``gitsession.agentevents``) comes in a process of its own, several may
come at once, and the agent may be killed between any two.  All that one event does to the session happens under
the session's write lock::

    start     the session is there, its base is taken; it runs
    prompt    the person's words are in the journal (``prompted``); the first are the session's task
    before    a tool is about to run: what changed until now is somebody else's work (trigger ``found``)
    tool      it ran: what it changed is its work (trigger ``agent``, with the call)
    turn      the agent is done with it; what changed without a tool is ``found``
    end       the session is paused, or completed if the person is done with it

A tool that names its files leads to a checkpoint of these paths and of nothing else.  A shell command leads to a look
at the whole tree; what was there before it was ``found`` then, and what other sessions brought meanwhile is theirs
(``gitsession.verbs.attribution``).

A command that began and did not end may run, wait for the person's word, or have been refused: no agent tells.  What
changed before another one begins is ``found`` meanwhile, as it may be anybody's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cached_property
from typing import Any, Final

from gitsession import lifecycle, living, opencalls
from gitsession.agentevents import BEFORE, END, FOR_GOOD, PROMPT, START, TOOL, TURN
from gitsession.clock import precise
from gitsession.config import Settings
from gitsession.errors import SessionBusy, SessionCorrupted, SessionTooNew
from gitsession.lifecycle import Doc, newest
from gitsession.paths import decode, encode, name_of
from gitsession.store.draft import Draft
from gitsession.store.sessions import SessionStore
from gitsession.tasks import task_hash
from gitsession.verbs import early
from gitsession.verbs.attribution import by_others
from gitsession.verbs.checkpoint import Recorder, describe, repository_of, status_of
from gitsession.verbs.deaths import pause_dead
from gitsession.verbs.early import Plain
from gitsession.verbs.toolcalls import Call, call_of, inside, text, wanted
from gitsession.verbs.tracked import NO_PROMPT, Event, discard, find_or_create, follow
from gitsession.verbs.whereabouts import Whereabouts, whereabouts

_WORDS: Final = 1 << 20  # characters of a prompt that are kept
_IN_FLIGHT: Final = 50  # calls that are remembered
_TRIES: Final = 3
_PAUSES: Final = (0.1, 0.2, 0.4)  # seconds


def feed(store: SessionStore, event: Event, settings: Settings) -> str | None:
    """Do what ``event`` asks for; the id of the session that it is for, None if there is none.

    ``SessionBusy`` while the session is run by somebody else, and any ``GitSessionError`` of taking a checkpoint: the
    caller tells nobody, for the agent is not to be disturbed.
    """
    session_id = find_or_create(store, event)
    for _ in range(_TRIES):
        if session_id is None:
            return None
        feeding = _Feeding(store, session_id, event, settings)
        try:
            obstacle = _patiently(feeding.feed)
        except (SessionCorrupted, SessionTooNew):  # it can wait to be seen to, the agent's work cannot
            obstacle = lifecycle.COMPLETED
        if obstacle is None:
            return session_id
        if obstacle == lifecycle.COMPLETED:
            session_id = follow(store, event, session_id)
        else:
            feeding.take_base()
    return None


def _patiently(feed: Callable[[], str | None]) -> str | None:
    """``feed``, once more if somebody has the session: a command that only tidies up is done in an instant."""
    for pause in _PAUSES:
        with suppress(SessionBusy):
            return feed()
        time.sleep(pause)
    return feed()


class _Feeding:
    """One event at work on one session."""

    def __init__(self, store: SessionStore, session_id: str, event: Event, settings: Settings) -> None:
        self._store = store
        self._id = session_id
        self._event = event
        self._settings = settings
        self._is_empty = False

    def feed(self) -> str | None:
        """Do it all; where that is not possible, what is in the way: ``completed``, or ``created`` (without a base)."""
        with self._store.edit(self._id) as draft:
            if draft.doc["status"] == lifecycle.COMPLETED:
                if self._event.kind == END:
                    self._store.untrack(self._id)
                return lifecycle.COMPLETED
            if not draft.doc.get("base"):
                return lifecycle.CREATED
            with closing(self._open(draft.doc)) as self._recorder:
                self._settle_owner(draft)
                if self._event.kind != END:
                    self._run(draft)
                    self._note_agent(draft)
                    self._do(draft)
                elif not self._is_subagents(draft):
                    self._end(draft)
                if self._event.kind in (TURN, END):
                    self._recorder.packs.tend()
            # The agent waits for us at each call of a tool: the journal says all, until the turn ends.
            draft.may_wait = self._event.kind in (BEFORE, TOOL)
            self._keep_questions()
            self._keep_words()
        if self._is_empty:
            discard(self._store, self._id)
        return None

    def _keep_questions(self) -> None:
        if self._event.native is not None:
            forget = self._event.kind == END
            early.end(self._store.home, self._event.agent, self._event.native, self._recorder.repo, forget=forget)

    def _keep_words(self) -> None:
        if self._settings.transcripts_keep and self._event.kind in (TURN, END) and self._event.transcript:
            from gitsession.verbs import transcripts

            transcripts.keep(self._store.home, self._id, self._event.transcript)

    def take_base(self) -> None:
        """Record the files as they are now as what was before the agent's first change."""
        with closing(self._open(self._store.read(self._id))) as recorder:
            recorder.base()

    def _open(self, doc: Doc) -> Recorder:
        repo = Plain.known(doc.get("repository")) or Plain.of(repository_of(doc))
        return Recorder(self._store, self._id, repo, self._settings)

    # Whose session it is

    def _settle_owner(self, draft: Draft) -> None:
        """See to it that the agent's process owns the session; ``SessionBusy`` while a run of ours does.

        If another one did, and was killed, that run is over, and another one begins.
        """
        owner = self._store.owner(self._id)
        if owner is not None and owner.tracked is None:
            raise SessionBusy(f"session {self._id} is owned by {owner}")
        if owner is None and (facts := self._store.last_owner_facts(self._id)) is not None:
            pause_dead(draft, facts)
            self._store.untrack(self._id)
        starter = living.starter()
        if self._event.kind != END and starter is not None:
            self._store.track(self._id, self._event.agent, starter)

    # The session's state

    def _run(self, draft: Draft) -> None:
        doc, agent = draft.doc, self._event.agent
        if doc["status"] != lifecycle.RUNNING:
            last = doc["checkpoints"][-1]["index"] if doc["checkpoints"] else None
            run = {
                "started_at": precise(),
                "from_checkpoint": last,
                "branch": self._recorder.repo.head().branch,
                "backend": agent,
                "tracked": True,
            }
            draft.log("status", to=lifecycle.RUNNING, run=run)
        model = self._event.model_asked
        if doc["backend"] != agent:
            draft.log("settings", values={"backend": agent, "model": model})
        elif model not in (None, doc["model"]) and not self._is_subagents(draft):
            draft.log("settings", values={"model": model})
        if (doc.get("tracked") or {}).get("agent") != agent:
            self._track(draft, turn=self._event.kind != START, calls=[])

    def _track(self, draft: Draft, **news: Any) -> None:
        """Note what the agent is about, if that is news."""
        before = draft.doc.get("tracked") or {}
        now = {"turn": False, "calls": [], **before, "agent": self._event.agent, **news}
        if now != before:
            draft.log("tracked", tracked=now)
            self._tell_git(is_open=bool(now["calls"]))

    def _tell_git(self, *, is_open: bool) -> None:
        """Let git's hooks know whether a command of the agent's is open: a commit made in it is the agent's."""
        common_dir = self._recorder.repo.common_dir
        if not is_open:
            opencalls.forget(common_dir, self._id)
        elif (agent := living.starter()) is not None:
            with suppress(OSError):
                opencalls.note(common_dir, self._id, agent)

    def _is_subagents(self, draft: Draft) -> bool:
        """Whether the agent's own session is a subagent's: it said so, or it came to a session that knows another."""
        known = [one["id"] for one in draft.doc.get("agents") or [] if one["agent"] == self._event.agent]
        return self._event.parent is not None or (bool(known) and self._event.native not in known)

    def _note_agent(self, draft: Draft) -> None:
        """Note the agent's own session; a subagent's is none that a person could go on with."""
        event = self._event
        if self._is_subagents(draft):
            return
        agents = draft.doc.get("agents") or []
        known: Doc = next((one for one in agents if (one["agent"], one["id"]) == (event.agent, event.native)), {})
        # The agent may move about; it finds its session again from where that began.
        moved = event.kind == START or "directory" not in known
        told = whereabouts(event.agent, event.transcript) if event.kind == TURN else Whereabouts()
        now = {
            **known,  # what a run of ours noted, too
            "agent": event.agent,
            "id": event.native,
            "version": told.version or known.get("version"),
            "model": event.model or told.model or known.get("model"),
            "directory": name_of(event.directory) if moved and event.directory else known.get("directory"),
            "transcript": event.transcript or known.get("transcript"),
        }
        if not agents or agents[-1] is not known or {**known, "at": None} != {**now, "at": None}:
            draft.log("agent", agent=now)

    # The event

    def _do(self, draft: Draft) -> None:
        kind = self._event.kind
        self._settle_patches(draft, last=kind in (PROMPT, TURN))
        if kind == START:
            if self._event.said.get("source") != "compact":  # that is in the middle of a turn
                self._track(draft, calls=[])
            self._find(draft)
        elif kind == PROMPT:
            self._prompt(draft)
        elif kind == BEFORE:
            self._before(draft)
        elif kind == TOOL:
            self._after(draft)
        elif kind == TURN:
            self._turn(draft)

    def _prompt(self, draft: Draft) -> None:
        words = text(self._event.said.get("prompt"), _WORDS)
        if self._is_subagents(draft):  # the agent's words to itself
            return
        self._track(draft, turn=True, calls=[])
        self._find(draft)
        if words is not None:
            draft.log("prompted", agent=self._event.agent, text=words)
            if draft.doc["task"] == NO_PROMPT:
                draft.log("settings", values={"task": words, "task_hash": task_hash(words)})

    def _before(self, draft: Draft) -> None:
        call = self._call
        if call.edits and call.named is not None:
            self._take(draft, "found", known=self._named(call))
            if self._has_checkpoint(draft, call):  # of an earlier call: some models give a name again
                self._begin(draft, call)
            return
        self._take(draft, "found")
        self._begin(draft, call, leaves=self._foreseen(call))

    def _begin(self, draft: Draft, call: Call, *, leaves: Doc | None = None) -> None:
        """Remember a call until it ends; one of the same name that did not is none any more."""
        others = [one for one in self._in_flight(draft) if one["call"] != call.id]
        begun = {"call": call.id, "key": call.key, "tool": call.tool, "at": precise(), "leaves": leaves}
        self._track(draft, turn=True, calls=[*others, begun][-_IN_FLIGHT:])

    def _after(self, draft: Draft) -> None:
        call = self._call
        in_flight = self._in_flight(draft)
        begun = next((one for one in in_flight if one.get("key") == call.key), None)
        if begun is not None:
            self._track(draft, calls=[one for one in in_flight if one is not begun])
        elif self._has_checkpoint(draft, call):  # told twice
            return
        name = call.id if begun is None else begun["call"]
        if call.edits and call.named is not None:
            self._take(draft, "agent", call=name, known=self._named(call))
        else:
            self._take(draft, "agent", call=name, since=None if begun is None else begun.get("at"))

    def _turn(self, draft: Draft) -> None:
        is_whole = not self._is_subagents(draft) and not self._event.name.startswith("Subagent")
        if is_whole:
            self._track(draft, turn=False, calls=[])
        self._find(draft)

    def _end(self, draft: Draft) -> None:
        doc = draft.doc
        if doc["status"] == lifecycle.RUNNING:
            self._settle_patches(draft, last=True)
            is_done = not (doc.get("tracked") or {}).get("turn", True)
            self._track(draft, calls=[])
            self._find(draft)
            reason = self._event.reason or "no reason given"
            if is_done and reason in FOR_GOOD[self._event.agent]:
                draft.log("status", to=lifecycle.COMPLETED, ended_at=precise())
            else:
                words = f"{self._event.agent} ended ({reason})"
                draft.log("status", to=lifecycle.PAUSED, reason=words, ended_at=precise())
            self._is_empty = doc["task"] == NO_PROMPT and not doc["checkpoints"]
        self._store.untrack(self._id)

    # Checkpoints

    @cached_property
    def _call(self) -> Call:
        return call_of(self._event.agent, self._event.said)

    @staticmethod
    def _has_checkpoint(draft: Draft, call: Call) -> bool:
        return any(one.get("call") == call.id for one in draft.doc["checkpoints"])

    @staticmethod
    def _in_flight(draft: Draft) -> list[Doc]:
        return [*((draft.doc.get("tracked") or {}).get("calls") or [])]

    def _named(self, call: Call) -> list[bytes]:
        """The paths in the worktree that the call names."""
        repo = self._recorder.repo
        return inside(repo, self._event.directory or repo.worktree, call.named or ())

    def _foreseen(self, call: Call) -> Doc | None:
        """What a patch in a shell command leaves: Codex carries it out itself, and tells nobody that it did."""
        if call.patch is None:
            return None
        from gitsession.verbs import patches

        repo = self._recorder.repo
        return patches.foreseen(repo, self._event.directory or repo.worktree, call.patch) or None

    def _is_carried_out(self, leaves: Doc) -> bool:
        from gitsession.verbs import patches

        return patches.is_carried_out(self._recorder.repo, leaves)

    def _settle_patches(self, draft: Draft, *, last: bool) -> None:
        """Take the checkpoints of patches carried out without a word; after the ``last`` chance forget them."""
        kind = self._event.kind
        current = self._call.key if kind in (BEFORE, TOOL) else None
        open_calls = self._in_flight(draft)
        left = []
        for one in open_calls:
            taken, leaves = None, one.get("leaves")
            if leaves is not None and one["key"] != current and self._is_carried_out(leaves):
                taken = self._take(draft, "agent", call=one["call"], known=[decode(path) for path in leaves])
            if taken is None and not (last and leaves is not None):
                left.append(one)
        if left != open_calls:
            self._track(draft, calls=left)

    def _find(self, draft: Draft) -> None:
        """A checkpoint of what changed that no tool of the agent's changed, if nothing of it can be one's."""
        if not self._in_flight(draft):
            self._take(draft, "found")

    def _take(
        self,
        draft: Draft,
        trigger: str,
        *,
        call: str | None = None,
        known: list[bytes] | None = None,
        since: str | None = None,
    ) -> Doc | None:
        """A checkpoint, if anything differs; ``since`` is when the call began, if that is known."""
        if known is not None:
            recorder = self._recorder
            known = wanted(recorder.repo, recorder.objects, newest(draft.doc)["tree"], known, recorder.settings)
            if not known:
                return None
        captured = self._recorder.look_in(draft, known)
        if trigger == "agent" and known is None and captured.changes:
            since = since or newest(draft.doc).get("timestamp") or draft.doc["created_at"]
            theirs = by_others(self._recorder, captured.changes, since)
            if theirs:
                self._recorder.take_in(draft, "found", "Another session's work", known=sorted(theirs))
                captured = self._recorder.look_in(draft)
        if not captured.differs:
            return None
        changes = [{"path": encode(change.path), "status": status_of(change)} for change in captured.changes]
        what = describe(changes)
        at = whereabouts(self._event.agent, self._event.transcript, call).at
        extra: Doc = {"agent": {"agent": self._event.agent, "id": self._event.native, "at": at}}
        if call is not None:
            extra["call"] = call
        return self._recorder.take_in(
            draft, trigger, f"Found: {what}" if trigger == "found" else what, extra=extra, captured=captured
        )
