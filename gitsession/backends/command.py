"""The ``command`` backend: any program is an agent.

The program runs in the session's worktree, in a session and process group of its own, with nothing on its standard
input and the user's environment, in which it finds

    PINABLE_SESSION_ID          the session's id
    PINABLE_TASK                the task's text
    PINABLE_FILES               the files the task is about, relative to the worktree, one a line; may be empty
    PINABLE_PHASE               the phase a former run was in; may be empty
    PINABLE_RESUME              the number of the checkpoint to go on from; not set on a fresh start
    PINABLE_RESUME_DESCRIPTION  that checkpoint's description; not set on a fresh start
    PINABLE_MODEL               the model asked for; not set when none was
    PINABLE_CONTEXT             a file with what other sessions hand over, UTF-8; not set when there is nothing
    PINABLE_ACK                 a named pipe that tells of checkpoints taken (``gitsession.backends.acknowledge``)

Variables that would point its git at another repository or index (they are set inside a git hook) are taken out: the
agent works on the repository that its directory is in.  How it may speak is told in ``gitsession.backends.directives``.

Exit status 0 without an ``::error::`` is success, anything else is a failure with the reason.  How it is run and
ended is told in ``gitsession.backends.program``; processes that still hold its output after a success are named in
``Done.summary``.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from gitsession.backends.acknowledge import Acknowledgements
from gitsession.backends.base import Answer, Capabilities, Done, Event, Failed, Job
from gitsession.backends.contexts import context_file
from gitsession.backends.directives import Speech
from gitsession.backends.processes import mark
from gitsession.backends.program import REPOSITORY_VARIABLES, Program, ProgramBackend
from gitsession.errors import BackendMissing, UsageError

_MAX_VARIABLE: Final = 128 * 1024 - 1  # Linux takes no more for one variable, its name included
_RESUME_VARIABLES: Final = ("PINABLE_RESUME", "PINABLE_RESUME_DESCRIPTION")


class CommandBackend(ProgramBackend):
    """Runs one program."""

    name = "command"
    capabilities = Capabilities(takes_command=True, takes_model=True)

    def validate(self, job: Job) -> None:
        if not job.command or not job.command[0]:
            raise UsageError("no program given", hint="say what to run after a --, for example: -- ./agent.sh")
        for name, value in _variables(job).items():
            size = len(name) + 1 + len(os.fsencode(value))
            if size > _MAX_VARIABLE:
                raise UsageError(
                    f"{name} would be {size // 1024} KB, and a program's environment takes 128 KB",
                    hint="give a shorter --task or fewer --files",
                )
            if "\0" in value:
                raise UsageError(
                    f"{name} cannot hold a NUL character", hint="say it without: --task TEXT, also to resume"
                )
        if any("\n" in file for file in job.files):
            raise UsageError("PINABLE_FILES cannot list a name with a newline in it")
        _find_program(job)

    def run(self, job: Job) -> Generator[Event, Answer, None]:
        with closing(Acknowledgements()) as acknowledgements, context_file(job.context) as context:
            try:
                program = _program(job, acknowledgements.path, context)
            except BackendMissing as error:
                yield Failed(str(error), "exit")
                return
            with self.attended(job.session_id, program, _Spoken(job.phase)) as events:
                for event in events:
                    index = yield event
                    if isinstance(index, int):
                        acknowledgements.tell(index)


class _Spoken(Speech):
    """What the program says, as a ``gitsession.backends.program.Listener``."""

    @property
    def failed(self) -> bool:
        return self.error is not None

    def end(self, *, interrupted: bool = False) -> Iterator[Event]:
        yield from super().end()
        if interrupted:
            yield from self.give_up_error()

    def verdict(self, status: int, why: str) -> Done | Failed:
        reason = self.error if self.error is not None else why if status else None
        return Done() if reason is None else Failed(reason, "exit")


def _program(job: Job, ack: Path | None, context: Path | None) -> Program:
    environment = _environment(job, {"PINABLE_ACK": ack, "PINABLE_CONTEXT": context})
    return Program((_find_program(job), *job.command[1:]), environment, job.worktree)


def _environment(job: Job, files: Mapping[str, Path | None]) -> dict[str, str]:
    variables = _variables(job) | {name: str(path) for name, path in files.items() if path is not None}
    ours = (*variables, *files, *_RESUME_VARIABLES, "PINABLE_MODEL", *REPOSITORY_VARIABLES)
    return {name: value for name, value in os.environ.items() if name not in ours} | variables


def _variables(job: Job) -> dict[str, str]:
    variables = {
        **mark(job.session_id),
        "PINABLE_TASK": job.task,
        "PINABLE_FILES": "\n".join(job.files),
        "PINABLE_PHASE": job.phase or "",
    }
    if job.resume is not None:
        variables.update(zip(_RESUME_VARIABLES, (str(job.resume), job.resume_description or ""), strict=True))
    if job.model is not None:
        variables["PINABLE_MODEL"] = job.model
    return variables


def _find_program(job: Job) -> str:
    """The program's absolute path, ``BackendMissing`` if it cannot be run: by path if it has a slash, else on PATH."""
    given = job.command[0]
    if "/" not in given and os.sep not in given:
        found = shutil.which(given)
        if found is None:
            raise BackendMissing(
                f"{given}: not found", hint=f"install it, or, if it is a file in this directory, write ./{given}"
            )
        return str(Path(found).absolute())
    path = job.worktree / given
    if not path.exists():
        raise BackendMissing(f"{given}: not found", hint="check the path of the program after the --")
    if path.is_dir():
        raise BackendMissing(f"{given}: is a directory", hint="name the program itself after the --")
    if not os.access(path, os.X_OK):
        raise BackendMissing(f"{given}: not executable", hint=f"chmod +x {shlex.quote(given)}")
    return str(path)
