"""Run a task under a session: create or resume it, let the backend work, checkpoint, end it truthfully."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from gitsession import backends, lifecycle, paths
from gitsession.backends.base import Backend, Job
from gitsession.backends.processes import end_survivors
from gitsession.config import WORKFLOWS, Settings, in_repository
from gitsession.errors import BadValue, IllegalTransition, OutsideRepository, RepositoryError, UsageError
from gitsession.git.repo import Repo, real_place
from gitsession.ids import check_session_id, new_session_id
from gitsession.lifecycle import Doc
from gitsession.store.sessions import SessionStore
from gitsession.tasks import same_task, task_hash
from gitsession.verbs import events
from gitsession.verbs.births import new_record
from gitsession.verbs.chains import is_member, predecessors
from gitsession.verbs.checkpoint import Recorder, refuse_store_inside, repository_of
from gitsession.verbs.continuation import continuation
from gitsession.verbs.deaths import pause_dead
from gitsession.verbs.dialogue import Limits
from gitsession.verbs.engine import INTERRUPTED, Engine, Stop
from gitsession.verbs.handover import hand_over, joined
from gitsession.verbs.offered import OFFERED, refuse_offered
from gitsession.verbs.restore import finish_interrupted, restore


@dataclass(frozen=True)
class RunRequest:
    """What the user asked for; ``None`` means "as the session has it" or the default."""

    start: Path
    task: str | None = None
    backend: str | None = None
    model: str | None = None
    files: tuple[str, ...] = ()
    session_id: str | None = None
    workflow: str | None = None
    timeout: float | None = None
    command: tuple[str, ...] = ()
    priority: int | None = None
    context_from: tuple[str, ...] = ()
    restore_checkpoint: int | None = None
    """Go back to this checkpoint first: its files, and a model's conversation as it was then."""
    limits: Limits = field(default_factory=Limits)
    allow_commands: bool = False
    idle_timeout: float | None = None
    """Seconds without a sign of life of the agent's after which the run is paused."""
    force: bool = False
    """Go on where somebody changed a file that an edit was to change; their version stays.  Go back to a checkpoint
    over files that changed since the last one, saving them first.  Begin a member of a chain before its turn."""


class Runner:
    """One run of one session.  ``listener`` gets every ``events.RunEvent``, in order, in the caller's thread."""

    def __init__(
        self,
        store: SessionStore,
        request: RunRequest,
        listener: Callable[[events.RunEvent], None],
        settings: Settings,
    ) -> None:
        self._store = store
        self._request = request
        self._tell = _deaf_when_gone(listener)
        self._settings = settings
        self._stop: Stop | None = None
        self._engine: Engine | None = None

    def request_stop(self, reason: str, exit_status: int = INTERRUPTED) -> None:
        """End the run soon: interrupt the agent, checkpoint, pause.  A second call kills the agent at once.

        Safe in a signal handler.
        """
        if self._engine is not None:
            self._engine.request_stop(Stop(reason, exit_status))
        else:
            self._stop = self._stop or Stop(reason, exit_status)

    def run(self) -> events.Outcome:
        """Create or resume the session and run it to its end.

        Raises a ``GitSessionError`` when it cannot start; nothing has been written then, or the session is
        there and can be resumed.
        """
        _check_workflow(self._request.workflow)
        existing = self._existing_id()
        if existing is None and self._request.restore_checkpoint is not None:
            raise UsageError(
                "--restore-checkpoint is for a session that is there", hint="name it with --session-id ID or latest"
            )
        if existing is None:
            return self._create()
        return self._resume(existing)

    def _existing_id(self) -> str | None:
        wanted = self._request.session_id
        if wanted is None:
            return None
        if wanted == "latest":
            return self._store.resolve(wanted)
        check_session_id(wanted)
        if self._store.exists(wanted):
            return wanted
        # A generated id may be shortened; any other text is the name of a session to be.
        if is_member(self._store, wanted):
            return None
        if wanted.startswith("sess_") and any(known.startswith(wanted) for known in self._store.ids()):
            return self._store.resolve(wanted)
        return None

    def _create(self) -> events.Outcome:
        request = self._request
        if not request.task or not request.task.strip():
            raise UsageError("no task given", hint="say what to do with --task TEXT, --task - or --task-file FILE")
        repo = Repo.discover(request.start)
        _refuse_home(repo)
        refuse_store_inside(self._store.home, repo)
        backend = backends.load(request.backend or "command", self._settings)
        _check_request(request, backend)
        self._request = request = replace(
            request,
            model=request.model or backend.capabilities.default_model,
            workflow=request.workflow or in_repository(self._settings, repo.worktree).workflow,
        )
        session_id = request.session_id or new_session_id()
        command = _program(request, backend)
        doc = new_doc(request, request.task or "", session_id, repo, backend.name, command)
        # No chain can name a session whose id was made just now.
        named = request.session_id is not None
        inherited = predecessors(self._store, session_id, force=request.force) if named else ()
        if sources := (*inherited, *request.context_from):
            doc["context"]["handed_over"] = hand_over(self._store, sources)
        job = self._job(doc, repo, None, backend)
        backend.validate(job)
        self._store.create(doc)
        with self._store.own(session_id), self._recorder(session_id, repo) as recorder:
            self._tell(events.SessionCreated(session_id))
            return self._work(recorder, backend, job)

    def _resume(self, session_id: str) -> events.Outcome:
        doc = self._store.read(session_id)
        if doc["status"] == lifecycle.COMPLETED:
            raise IllegalTransition(
                f"session {session_id} is completed, and a completed session does not run again",
                hint="start another one: leave --session-id out or give a new id",
            )
        backend = backends.load(self._request.backend or doc["backend"], self._settings)
        if not self._request.command and backend.capabilities.takes_command:
            refuse_offered(doc)
        if self._request.context_from:
            raise UsageError("--context-from is for the beginning of a session", hint="leave it out to resume")
        if not doc.get("runs"):
            predecessors(self._store, session_id, force=self._request.force)
        repo = repository_of(doc)
        dead = self._store.last_owner_facts(session_id)
        with self._store.own(session_id):
            doc = self._settle_past(session_id, dead, backend)
        _check_request(self._request, backend)
        backend.validate(self._job(doc, repo, None, backend))
        warnings = self._settle_files(session_id)
        with self._store.own(session_id), self._recorder(session_id, repo) as recorder:
            recorder.adopt()
            doc = self._go_back(session_id)
            index = self._request.restore_checkpoint
            last = doc["checkpoints"][-1 if index is None else index] if doc["checkpoints"] else None
            job = self._job(doc, repo, last, backend)
            goes_on = continuation(doc, backend, repo)
            job = replace(job, native=goes_on.native, rewind=goes_on.rewind)
            self._tell(events.Resuming(session_id, job.resume, job.resume_description))
            for text in warnings:
                self._tell(events.Warned(text))
            if goes_on.told:
                self._tell(events.Warned(goes_on.told))
            self._warn_of_differences(doc, repo)
            return self._work(recorder, backend, job, briefs=goes_on.briefs)

    def _settle_past(self, session_id: str, dead: Doc | None, backend: Backend) -> Doc:
        """End what a killed run left behind, and take over what this request changes; the session then.

        ``dead`` is what its owner said of itself.
        """
        request = self._request
        survivors = end_survivors(session_id)
        with self._store.edit(session_id) as draft:
            pause_dead(draft, dead, survivors=[process.pid for process in survivors])
            wanted = {
                "backend": backend.name,
                "model": request.model,
                "command": _program(request, backend) or None,
                "priority": request.priority,
            }
            values: Doc = {
                key: value for key, value in wanted.items() if value is not None and value != draft.doc.get(key)
            }
            if "command" in values and draft.doc.get(OFFERED):
                values[OFFERED] = None
            if "backend" in values and request.model is None:
                values["model"] = backend.capabilities.default_model  # the other one's means nothing here
            if values:
                draft.log("settings", values=values)
            return draft.doc

    def _settle_files(self, session_id: str) -> list[str]:
        """Finish a restore that was killed, and make the one that was asked for; what there is to say of them."""
        finished = finish_interrupted(self._store, session_id, self._settings)
        warnings = list(finished.warnings) if finished else []
        if self._request.restore_checkpoint is not None:
            report = restore(
                self._store,
                session_id,
                self._request.restore_checkpoint,
                settings=self._settings,
                start=self._request.start,
                force=self._request.force,
            )
            warnings += report.warnings
            warnings += [f"{action.path} was left as it is: {action.reason}" for action in report.left]
        return warnings

    def _go_back(self, session_id: str) -> Doc:
        """The session, its conversation at the checkpoint that was asked for."""
        with self._store.edit(session_id) as draft:
            if self._request.restore_checkpoint is not None:
                draft.log("rewound", to=self._request.restore_checkpoint)
            return draft.doc

    def _warn_of_differences(self, doc: Doc, repo: Repo) -> None:
        request = self._request
        if request.task is not None and not same_task(doc["task_hash"], task_hash(request.task)):
            self._tell(
                events.Warned("the task is not the one this session began with; earlier checkpoints may not fit it")
            )
        if not request.start.resolve().is_relative_to(repo.worktree):
            self._tell(events.Warned(f"the session works in {repo.worktree}"))
        branch = doc.get("context", {}).get("working_branch")
        if (now := repo.head().branch) != branch:
            self._tell(events.Warned(f"the branch is {now or 'detached'} now; the session last ran on {branch}"))

    def _recorder(self, session_id: str, repo: Repo) -> closing[Recorder]:
        return closing(Recorder(self._store, session_id, repo, self._settings))

    def _work(self, recorder: Recorder, backend: Backend, job: Job, *, briefs: bool = False) -> events.Outcome:
        self._engine = Engine(
            recorder,
            backend,
            self._tell,
            self._settings,
            self._request.timeout,
            self._request.limits,
            idle_timeout=self._request.idle_timeout,
            keep_theirs=self._request.force,
        )
        if self._stop is not None:
            self._engine.request_stop(self._stop)
        return self._engine.run(job, briefs=briefs)

    def _job(self, doc: Doc, repo: Repo, resume: Doc | None, backend: Backend) -> Job:
        given = self._request.command
        takes = backend.capabilities
        limits = self._request.limits
        return Job(
            session_id=doc["id"],
            task=self._request.task if self._request.task is not None else doc["task"],
            files=tuple(doc["files"]),
            phase=doc.get("current_phase"),
            resume=resume["index"] if resume else None,
            resume_description=resume["description"] if resume else None,
            worktree=repo.worktree,
            model=doc.get("model"),
            command=tuple(doc.get("command") or ()) if takes.takes_command else () if takes.takes_arguments else given,
            arguments=given if takes.takes_arguments else (),
            context=joined(doc.get("context", {}).get("handed_over") or []),
            allow_commands=self._request.allow_commands,
            max_turns=limits.max_turns,
            max_cost=None if limits.max_cost is None else limits.max_cost - (doc["cost"].get("priced_usd") or 0.0),
        )


def new_doc(
    request: RunRequest, task: str, session_id: str, repo: Repo, backend: str, command: Sequence[str] = ()
) -> Doc:
    """The record of a session that is about to be created; ``BadValue`` or ``OutsideRepository`` if it cannot be."""
    return new_record(
        session_id,
        task,
        backend,
        repo,
        start=request.start,
        model=request.model,
        files=focus(request.files, request.start, repo),
        workflow=_check_workflow(request.workflow),
        command=command,
        priority=request.priority or 0,
    )


def _check_workflow(name: str | None) -> str:
    """The workflow asked for; ``BadValue`` lists those there are."""
    if name is not None and name not in WORKFLOWS:
        raise BadValue(f"there is no workflow {name!r}", hint="workflows: " + ", ".join(WORKFLOWS))
    return name or WORKFLOWS[0]


def _check_request(request: RunRequest, backend: Backend) -> None:
    """``UsageError`` for a flag that means nothing to this backend."""
    takes = backend.capabilities
    given = {
        "--max-turns": (request.limits.max_turns is not None, takes.limits_turns),
        "--max-cost": (request.limits.max_cost is not None, takes.limits_cost),
        "--allow-commands": (request.allow_commands, takes.takes_leave),
    }
    for flag, (wanted, taken) in given.items():
        if wanted and not taken:
            raise UsageError(f"{flag} means nothing to the {backend.name} backend", hint="leave it out")


def _program(request: RunRequest, backend: Backend) -> list[str]:
    """The program to run, for a backend that runs one: what is given after ``--`` means something else to others."""
    return list(absolute_program(request.command, request.start)) if backend.capabilities.takes_command else []


def absolute_program(command: tuple[str, ...], start: Path) -> tuple[str, ...]:
    """The command with a program given by path made absolute, so that a resume from elsewhere finds it."""
    if command and ("/" in command[0] or os.sep in command[0]):
        return (os.path.abspath(start / command[0]), *command[1:])
    return command


def focus(files: tuple[str, ...], start: Path, repo: Repo) -> list[str]:
    """``--files`` relative to the worktree; they need not exist yet.  ``OutsideRepository`` for any other place."""
    found = []
    for name in files:
        path = repo.path_of(real_place(start / name))
        if path is None or b".git" in path.split(b"/"):
            raise OutsideRepository(
                f"{name} is not in the working tree {repo.worktree}", hint="name files of this repository"
            )
        relative = paths.encode(path or b".")
        if relative not in found:
            found.append(relative)
    return found


def _refuse_home(repo: Repo) -> None:
    """A home directory that is a repository would mean hashing everything a person has."""
    if repo.worktree == Path.home().resolve():
        raise RepositoryError(
            "the repository here is your whole home directory", hint="run inside a project's own repository"
        )


def _deaf_when_gone(listener: Callable[[events.RunEvent], None]) -> Callable[[events.RunEvent], None]:
    """``listener``, left alone once its terminal or pipe is gone: that does not end paid work."""
    gone = False

    def tell(event: events.RunEvent) -> None:
        nonlocal gone
        if not gone:
            try:
                listener(event)
            except OSError:
                gone = True

    return tell
