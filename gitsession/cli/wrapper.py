"""``codeagent-wrapper``: run a task under a session, or go on with one."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import click

from gitsession import __version__, backends, config
from gitsession.cli.lazy import HELP_OPTIONS
from gitsession.cli.options import complete_backends, complete_sessions, here, only_utf8
from gitsession.cli.render.out import unread
from gitsession.cli.startup import clean_up, pause_the_dead
from gitsession.errors import BadValue, RepositoryError, SessionNotFound, UsageError

if TYPE_CHECKING:
    from gitsession.store.sessions import SessionStore

_SIGNALS = {"SIGINT": "interrupted (Ctrl-C)", "SIGTERM": "terminated (SIGTERM)", "SIGHUP": "the terminal went away"}


def timeout_seconds(text: str, flag: str = "--timeout") -> float:
    """Seconds of ``10m``, ``90s``, ``1h30m``."""
    try:
        return config.duration(text)
    except BadValue as error:
        raise BadValue(f"{flag}: {error}", hint=error.hint) from None


def idle_seconds(text: str) -> float:
    return timeout_seconds(text, "--idle-timeout")


@click.command(
    "codeagent-wrapper",
    context_settings=HELP_OPTIONS,
    help="Run a task under a session, or go on with a session.\n\nCMD is the program that the 'command' backend runs; "
    "to the agents' own programs (claude-code, codex, gemini, opencode) what stands after the -- is passed on.\n\n"
    '\b\nExamples:\n  codeagent-wrapper --backend claude-code --task "Refactor the user module"\n'
    '  codeagent-wrapper --task "Remove trailing blanks" --files a.py,b.py -- ./agent.sh\n'
    "  codeagent-wrapper --session-id latest\n"
    '  codeagent-wrapper --session-id latest --restore-checkpoint 1 --task "Another way"',
    epilog="Exit status: 0 completed, 1 failed, 2 usage, 3 paused and resumable, 4 a person has to decide, "
    "127 backend not installed, 130 interrupted and paused. --debug shows the traceback of an error.",
)
@click.option("--backend", metavar="NAME", shell_complete=complete_backends, help="What does the work.")
@click.option("--model", metavar="NAME", callback=only_utf8, help="The model, for backends that have several.")
@click.option("--task", metavar="TEXT", help="What to do; '-' reads it from standard input.")
@click.option("--task-file", metavar="FILE", type=click.Path(path_type=Path), help="Read the task from a file.")
@click.option("--files", metavar="A,B", multiple=True, help="The files the task is about; may be repeated.")
@click.option(
    "--session-id",
    metavar="ID",
    shell_complete=complete_sessions,
    help="Go on with this session ('latest': the newest of this repository), or create one of this name.",
)
@click.option("--restore-checkpoint", metavar="N", type=click.IntRange(min=0), help="First go back to checkpoint N.")
@click.option("--context-from", metavar="ID", multiple=True, help="Begin with what another session found.")
@click.option("--workflow", metavar="NAME", help="The phases to go through: do (the default).")
@click.option("--timeout", metavar="TIME", type=timeout_seconds, help="Pause after this time: 90s, 10m, 1h30m.")
@click.option(
    "--output",
    type=click.Choice(["text", "json", "stream-json", "markdown"]),
    default="text",
    show_default=True,
    help="How to tell what happens.",
)
@click.option(
    "--idle-timeout", metavar="TIME", type=idle_seconds, help="Pause when the agent gave no sign of life for so long."
)
@click.option("--max-cost", metavar="USD", type=click.FloatRange(min=0), help="Pause when this much is spent.")
@click.option("--max-turns", metavar="N", type=click.IntRange(min=1), help="Pause after N replies of the model.")
@click.option("--allow-commands", is_flag=True, help="Let the model run shell commands, as you.")
@click.option(
    "--force",
    is_flag=True,
    help="After a conflict: keep your version. With --restore-checkpoint: save files that changed, then overwrite "
    "them. In a chain: do not wait.",
)
@click.option("--priority", metavar="N", type=int, help="Sessions of higher priority are recovered first.")
@click.argument("cmd", nargs=-1, metavar="[-- CMD...]", type=click.UNPROCESSED, callback=only_utf8)
@click.version_option(__version__, message="%(prog)s %(version)s")
def command(task: str | None, task_file: Path | None, session_id: str | None, output: str, **flags: Any) -> int:
    pause_the_dead()
    clean_up()
    from gitsession.cli.render.run import RUNS
    from gitsession.store.sessions import SessionStore
    from gitsession.verbs.dialogue import Limits
    from gitsession.verbs.run import Runner, RunRequest

    store = SessionStore()
    start = here()
    request = RunRequest(
        start=start,
        task=given_task(task, task_file),
        backend=flags["backend"],
        model=flags["model"],
        files=tuple(name for names in flags["files"] for name in names.split(",") if name),
        session_id=given_session(store, session_id, start),
        workflow=flags["workflow"],
        timeout=flags["timeout"],
        idle_timeout=flags["idle_timeout"],
        command=given_command(flags["cmd"], flags["backend"]),
        priority=flags["priority"],
        restore_checkpoint=flags["restore_checkpoint"],
        context_from=flags["context_from"],
        limits=Limits(max_turns=flags["max_turns"], max_cost=flags["max_cost"]),
        allow_commands=flags["allow_commands"],
        force=flags["force"],
    )
    draw = RUNS[output]()
    try:
        runner = Runner(store, request, draw, config.load(store.home))
        with stopped_by_signals(runner):
            return runner.run().exit_status
    finally:
        # What is left to draw is not worth hiding how the run ended.
        with suppress(OSError):
            draw.close()
        _forget_the_reader()


def _forget_the_reader() -> None:
    """A reader that went away does not change how the run ended: that is what the exit status is for."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        unread(sys.stdout)
    except OSError:
        return  # said at the end


def given_session(store: SessionStore, text: str | None, start: Path) -> str | None:
    """The session to go on with: ``latest`` is the newest of the working tree that ``start`` is in, of all if in none.

    ``SessionNotFound`` if this working tree has none.
    """
    if text != "latest":
        return text
    from gitsession.git.repo import Repo
    from gitsession.paths import name_of

    try:
        worktree = name_of(Repo.discover(start).worktree)
    except RepositoryError:
        return store.resolve(text)
    from gitsession.store.summaries import by_age

    of_here = (one for one in store.summaries() if one.created_at and one.worktree == worktree)
    newest = max(of_here, key=by_age, default=None)
    if newest is None:
        raise SessionNotFound(
            f"there is no session of {worktree} yet", hint="--task TEXT starts one; another's goes on by its id"
        )
    return newest.id


def given_task(text: str | None, file: Path | None) -> str | None:
    """The task from ``--task``, standard input or a file; the final newlines of the latter two are not part of it."""
    if text is not None and file is not None:
        raise UsageError("--task and --task-file cannot be given together", hint="give one of them")
    if file is not None:
        try:
            return _decoded(file.read_bytes(), str(file))
        except OSError as error:
            raise UsageError(f"cannot read the task file {file}: {error.strerror}", hint="check its name") from error
    if text == "-":
        return _decoded(sys.stdin.buffer.read(), "standard input")
    if text is not None:
        return _decoded(text.encode("utf-8", "surrogateescape"), "--task", ends="")
    return None


def _decoded(data: bytes, source: str, ends: str = "\r\n") -> str:
    try:
        text = data.decode("utf-8").rstrip(ends)
    except UnicodeDecodeError as error:
        raise BadValue(f"the task in {source} is not UTF-8 (byte {error.start})", hint="convert it to UTF-8") from None
    if "\0" in text:
        raise BadValue(f"the task in {source} holds a NUL byte", hint="give text, not a binary file")
    if not text.strip():
        raise BadValue(f"the task in {source} is empty", hint="say what to do")
    return text


def given_command(command: tuple[str, ...], backend: str | None) -> tuple[str, ...]:
    """The program of the ``command`` backend; words left over for another backend are a mistake."""
    if command and backend is not None and not _takes_words(backend):
        raise UsageError(
            f"{command[0]!r} is left over: the {backend} backend runs no program and passes nothing on",
            hint="quote the task as one word after --task, or leave --backend out",
        )
    return command


def _takes_words(backend: str) -> bool:
    """Whether words after ``--`` mean something to a backend: a program, or arguments of the agent's own."""
    takes = backends.load(backend).capabilities
    return takes.takes_command or takes.takes_arguments


class Stoppable(Protocol):
    """What a signal can end in order."""

    def request_stop(self, reason: str) -> None: ...


@contextmanager
def stopped_by_signals(runner: Stoppable) -> Iterator[None]:
    """Within it Ctrl-C, a termination and a lost terminal end the run in order; once more ends it at once.

    A signal that was ignored when we began (nohup, a job in the background) stays ignored.
    """
    before: dict[signal.Signals, Any] = {}

    def stop_for(reason: str) -> Callable[[int, FrameType | None], None]:
        return lambda _number, _frame: runner.request_stop(reason)

    for name, reason in _SIGNALS.items():
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, stop_for(reason))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
