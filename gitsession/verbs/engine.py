"""The run itself: listen to the backend, checkpoint when it is time, end in a state that is true.

Everything happens in one thread.  The backend's events are the clock: it yields at least a ``Tick`` every
tenth of a second, and between two of them the engine looks at its timers, at the file watcher and at the
journal, where another process leaves its request to pause.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from gitsession import lifecycle, paths
from gitsession.backends import base as backend
from gitsession.clock import precise
from gitsession.config import Settings
from gitsession.conversation import FINISHED
from gitsession.errors import EditConflict, GitSessionError
from gitsession.git import trees
from gitsession.lifecycle import Doc, newest
from gitsession.secrets import without_secrets
from gitsession.store import natives
from gitsession.unicode import escaped
from gitsession.verbs import events
from gitsession.verbs.checkpoint import Recorder, status_of
from gitsession.verbs.continuation import brief, recorded
from gitsession.verbs.dialogue import Dialogue, Limits, news
from gitsession.verbs.edits import Made
from gitsession.verbs.settle import SettleWatcher
from gitsession.verbs.toolcalls import inside, wanted
from gitsession.verbs.totals import totals_of
from gitsession.verbs.workspace import Workspace

COMPLETED: Final = 0
FATAL: Final = 1
PAUSED: Final = 3
INTERRUPTED: Final = 130

_EXIT_OF_KIND: Final = {"internal": FATAL, "refused": FATAL}
_LOOK_EVERY: Final = 0.2
_WORDS: Final = 8_000  # characters


@dataclass(frozen=True)
class Stop:
    """Why a run ends before its backend is done, and the exit status that tells it."""

    reason: str
    exit_status: int


class Engine:
    """Runs one job of one session whose owner lock the caller holds."""

    def __init__(
        self,
        recorder: Recorder,
        worker: backend.Backend,
        tell: Callable[[events.RunEvent], None],
        settings: Settings,
        timeout: float | None,
        limits: Limits,
        *,
        idle_timeout: float | None,
        keep_theirs: bool,
    ) -> None:
        """``timeout`` ends the run after so many seconds, ``idle_timeout`` after so many without a sign of life of the
        agent's.  ``keep_theirs``: where somebody changed a file that an edit was to change, their version stays."""
        self._recorder = recorder
        self._store = recorder.store
        self._id = recorder.session_id
        self._backend = worker
        self._tell = tell
        self._settings = settings
        self._timeout = timeout
        self._idle_timeout = idle_timeout
        self._heard = 0.0
        self._native: backend.Native | None = None
        self._said: str | None = None
        self._stop: Stop | None = None
        self._phase: str | None = None
        self._just_saved = False
        self._warned: set[tuple[str, str]] = set()
        self._dialogue = Dialogue(recorder, limits, self._tell_made)
        self._keep_theirs = keep_theirs

    def request_stop(self, stop: Stop) -> None:
        """Interrupt the backend, then checkpoint and pause; asked again, kill it.  Safe in a signal handler."""
        if self._stop is None:
            self._stop = stop
            self._backend.stop()
        else:
            self._backend.kill()

    def run(self, job: backend.Job, *, briefs: bool) -> events.Outcome:
        """From the first capture to the last; the outcome is told and returned.

        ``briefs``: an agent that does not know what was done is told, as the files are when it begins.
        """
        if (base := self._recorder.base()) is not None:
            self._warn_skipped([(paths.encode(item.path), item.reason) for item in base.skipped])
        else:
            conflict = self._settle_edits()
            self._checkpoint("resume", "Changes found at resume")
            if conflict is not None:
                return self._left_to_a_person(conflict)
        job = self._begin(job, briefs)
        try:
            stop = self._listen(job)
        except Exception as error:
            self._end(Stop(f"internal error: {error}", FATAL))
            raise
        return self._end(stop)

    def _settle_edits(self) -> EditConflict | None:
        """Finish what a killed run left half done, before anything else is taken for somebody's change."""
        try:
            self._tell_made(self._dialogue.edits.settle(keep_theirs=self._keep_theirs))
        except EditConflict as conflict:
            return conflict
        return None

    def _left_to_a_person(self, conflict: EditConflict) -> events.Outcome:
        """The run does not begin; the session stays as it was."""
        stop = Stop(f"{conflict}; {conflict.hint}", conflict.exit_status)
        self._tell(events.BackendError(stop.reason))
        outcome = self._outcome(self._store.read(self._id), stop)
        self._tell(events.Ended(outcome))
        return outcome

    def _begin(self, job: backend.Job, briefs: bool) -> backend.Job:
        """The session runs from here on; the job, with what the session knows of it."""
        with self._store.edit(self._id) as draft:
            briefing = brief(draft.doc, self._recorder.repo) if briefs else None
            branch = self._recorder.repo.head().branch
            run = {"started_at": precise(), "from_checkpoint": job.resume, "branch": branch}
            run["backend"] = self._backend.name
            if job.task != draft.doc["task"]:
                run["task"] = job.task
            draft.log("status", to=lifecycle.RUNNING, run=run)
            self._phase = draft.doc.get("current_phase")
            history = draft.doc.get("context", {}).get("conversation_history", [])
            held = bool(history) and not self._backend.capabilities.keeps_conversation
            job = replace(
                job,
                phase=self._phase,
                phases_completed=tuple(draft.doc.get("phases_completed", [])),
                history=history,
                briefing=briefing,
                news=tuple(news(draft.doc, self._backend.name if held else None)),
                workspace=Workspace(self._recorder.repo),
            )
            self._read_to: int = draft.doc["journal"]["offset"]
        now = time.monotonic()
        self._heard = now
        self._deadline = now + self._timeout if self._timeout else None
        self._next_look = now + _LOOK_EVERY
        self._next_interval = now + self._settings.checkpoint_interval
        self._journal = self._store.journal(self._id)
        repo = self._recorder.repo
        self._watcher = SettleWatcher(repo.worktree, ignore=(repo.git_dir, repo.common_dir))
        return job

    def _listen(self, job: backend.Job) -> Stop | None:
        """Handle events until the backend has ended; ``None`` if it did what it was asked to do."""
        failure: Stop | None = None
        # Closed at once if anything unforeseen happens here: an agent nobody listens to must not work on.
        with closing(self._watcher), closing(self._backend.run(job)) as working:
            answer: backend.Answer = None
            while True:
                try:
                    event = working.send(answer)
                except StopIteration:
                    break
                answer = None
                try:
                    if isinstance(event, backend.CheckpointHint):
                        answer = self._hinted(event)
                    elif isinstance(event, backend.Conversing):
                        answer = self._converse(event)
                    elif isinstance(event, backend.Bound):
                        self._bind(event.native, job.briefing if event.briefed else None)
                    else:
                        failure = self._handle(event) or failure
                    if not isinstance(event, backend.Tick) or event.heard:
                        self._heard = time.monotonic()
                    if not isinstance(event, backend.Tick):
                        self._just_saved = isinstance(event, backend.CheckpointHint)
                    self._tend()
                except GitSessionError as error:
                    # A checkpoint that fails must not let the agent work on unprotected.
                    failure = Stop(str(error), FATAL)
                    self._tell(events.BackendError(str(error)))
                    self.request_stop(failure)
        return self._stop or failure

    def _handle(self, event: backend.Event) -> Stop | None:
        match event:
            case backend.Phase(name, text, done):
                self._enter(name, text, done)
            case backend.Output(text, stream):
                self._tell(events.AgentOutput(text, stream))
            case backend.Usage():
                if any((spent := self._dialogue.spent(event)).values()):
                    with self._store.edit(self._id) as draft:
                        draft.log("usage", **spent)
            case backend.Notice(text):
                self._tell(events.Warned(text))
            case backend.Failed(reason, kind, said):
                self._said = said
                if self._stop is None:
                    self._tell(events.BackendError(reason))
                return Stop(reason, _EXIT_OF_KIND.get(kind, PAUSED))
            case backend.Done(summary, said):
                self._said = said
                if summary:
                    self._tell(events.Warned(summary))
        return None

    def _bind(self, native: backend.Native, briefing: str | None) -> None:
        """Know the agent's own session, durably; how far it has come is for the checkpoints to say."""
        if self._native is None or replace(native, at=self._native.at) != self._native:
            with self._store.edit(self._id) as draft:
                if briefing is not None and (self._native is None or self._native.id != native.id):
                    draft.log("briefed", text=briefing)
                draft.log("agent", agent=recorded(self._backend.name, native))
            natives.bind(self._store.home, self._backend.name, native.id, self._id)
        self._native = native

    def _converse(self, event: backend.Conversing) -> backend.Answer:
        """What a model says and does; a phase ends by a checkpoint, and the next begins with the entry that says so."""
        phase = event.phase if isinstance(event, backend.Prompt | backend.ToolResult) else None
        ends = isinstance(event, backend.ReviewWanted) or phase not in (None, self._phase)
        if ends and self._phase is not None:
            self._checkpoint("phase", f"End of {self._phase}")
        answer = self._dialogue.answer(event)
        if phase not in (None, FINISHED):
            self._phase = phase
        return answer

    def _tell_made(self, made: Made) -> None:
        for record in made.found:
            self._tell_saved(record)
        if made.told is not None and self._phase is not None:
            self._tell(events.PhaseChanged(self._phase, made.told, True))
        for record in made.saved:
            self._tell_saved(record)

    def _enter(self, name: str, text: str, done: bool) -> None:
        """A phase speaks; when it is another one than before, the one before has ended."""
        before = self._phase
        if before is not None and before != name:
            self._end_phase(before)
        if before != name:
            with self._store.edit(self._id) as draft:
                draft.log("phase", phase=name)
            self._phase = name
        self._tell(events.PhaseChanged(name, text, done))

    def _end_phase(self, name: str) -> None:
        # What changed since a checkpoint asked for a moment ago is the next phase's work already.
        if not self._just_saved:
            self._checkpoint("phase", f"End of {name}")
        with self._store.edit(self._id) as draft:
            draft.log("phase", phase=name, done=True)

    def _tend(self) -> None:
        """What is due between two events: a time limit, a request to pause, a checkpoint."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY
        self._recorder.packs.tend()
        if self._stop is not None:
            return
        if self._deadline is not None and now >= self._deadline:
            self.request_stop(Stop("the time limit (--timeout) is reached", PAUSED))
        elif self._idle_timeout is not None and now >= self._heard + self._idle_timeout:
            self.request_stop(Stop(f"nothing was heard of {self._backend.name} for the time of --idle-timeout", PAUSED))
        elif self._pause_requested():
            self.request_stop(Stop("paused by session pause", PAUSED))
        elif self._watcher.changed_and_quiet(self._settings.checkpoint_settle):
            self._checkpoint("settled")
        elif now >= self._next_interval:
            self._checkpoint("interval")

    def _pause_requested(self) -> bool:
        if self._journal.size() == self._read_to:
            return False
        entries, self._read_to = self._journal.read(self._read_to)
        return any(entry["event"] == "pause_requested" for entry in entries)

    def _hinted(self, hint: backend.CheckpointHint) -> int | None:
        """The checkpoint that the backend asks for."""
        known = None
        if hint.only:
            recorder, native = self._recorder, self._native
            named = inside(recorder.repo, recorder.repo.worktree if native is None else native.directory, hint.only)
            tree = newest(self._store.read(self._id))["tree"]
            known = wanted(recorder.repo, recorder.objects, tree, named, recorder.settings)
        return self._checkpoint("agent", hint.description, always=hint.always, known=known, call=hint.call)

    def _checkpoint(
        self,
        trigger: str,
        description: str | None = None,
        *,
        always: bool = False,
        known: list[bytes] | None = None,
        call: str | None = None,
    ) -> int | None:
        """Take a checkpoint if there is something to take, and tell of it; its number."""
        native = self._native
        agent = None if native is None else {"agent": self._backend.name, "id": native.id, "at": native.at}
        record = self._recorder.take(trigger, description, always=always, known=known, call=call, agent=agent)
        return None if record is None else self._tell_saved(record)

    def _tell_saved(self, record: Doc) -> int:
        self._next_interval = time.monotonic() + self._settings.checkpoint_interval
        skipped = [(item["path"], item["reason"]) for item in record["skipped"]]
        self._tell(
            events.CheckpointSaved(
                record["index"],
                record["description"],
                tuple(record["files_changed"]),
                tuple(skipped),
                record["trigger"],
            )
        )
        self._warn_skipped(skipped)
        index: int = record["index"]
        return index

    def _warn_skipped(self, skipped: list[tuple[str, str]]) -> None:
        """Each thing that is left out is told once in a run; every checkpoint lists it."""
        new = [item for item in skipped if item not in self._warned]
        self._warned.update(new)
        if new:
            shown = "; ".join(f"{path} ({reason})" for path, reason in new[:5])
            more = f" and {len(new) - 5} more" if len(new) > 5 else ""
            self._tell(events.Warned(f"left out of checkpoints: {shown}{more}"))

    def _end(self, stop: Stop | None) -> events.Outcome:
        """The last checkpoint, then the state that is true; the state is written even if the checkpoint fails."""
        try:
            if stop is None:
                self._checkpoint("end", "End of run")
            else:
                self._checkpoint("pause", f"Paused: {stop.reason}")
        except GitSessionError as error:
            self._tell(events.BackendError(str(error)))
            stop = Stop(f"the last checkpoint failed: {error}", FATAL)
        with self._store.edit(self._id) as draft:
            if stop is None:
                if self._phase is not None:
                    draft.log("phase", phase=self._phase, done=True)
                draft.log("status", to=lifecycle.COMPLETED, ended_at=precise(), **self._last_words())
            else:
                draft.log(
                    "status", to=lifecycle.PAUSED, reason=escaped(stop.reason), ended_at=precise(), **self._last_words()
                )
            outcome = self._outcome(draft.doc, stop)
        self._tell(events.Ended(outcome))
        return outcome

    def _last_words(self) -> Doc:
        """What the agent said at the end, cut to a bearable length, for whoever goes on."""
        return {"said": without_secrets(self._said[:_WORDS])} if self._said else {}

    def _outcome(self, doc: Doc, stop: Stop | None) -> events.Outcome:
        last = doc["checkpoints"][-1] if doc["checkpoints"] else None
        changes: list[Doc] = []
        if last is not None:
            differing = trees.diff(self._recorder.objects, doc["base"]["tree"], last["tree"])
            changes = [{"path": paths.encode(change.path), "status": status_of(change)} for change in differing]
        return events.Outcome(
            session_id=self._id,
            status=doc["status"],
            exit_status=stop.exit_status if stop else COMPLETED,
            reason=stop.reason if stop else None,
            index=last["index"] if last else None,
            totals=totals_of(doc, changes),
        )
