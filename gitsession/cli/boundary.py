"""The programs' entry points, and the one place where an error becomes words and an exit status.

An expected error is one line that says what, one that says what to do next, and the status of its class (see
``gitsession.errors``).  A bug is one line, too; ``--debug`` anywhere before ``--`` gives the traceback of either.
Ctrl-C is 130, with a word where it stopped something half-way; a reader that went away (``… | head``) is 141 as for
git, and not worth a word.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from gitsession.errors import GitSessionError

if TYPE_CHECKING:
    from types import CodeType

    import click

BUG, USAGE, INTERRUPTED, UNREAD = 1, 2, 130, 141
_MANY = 50_000  # objects: more than loading makes, few enough for a run of hours


def codeagent_wrapper() -> int:
    """Run a task under a session."""
    return _enter("codeagent-wrapper", _wrapper)


def pinable_agents() -> int:
    """Look after sessions."""
    return _enter("pinable-agents", _pinable)


def git_pinable() -> int:
    """The same as ``pinable-agents``, as git calls it for ``git pinable``."""
    return _enter("git pinable", _pinable)


def _wrapper() -> click.Command:
    from gitsession.cli.wrapper import command

    return command


def _pinable() -> click.Command:
    from gitsession.cli.pinable import group

    return group


def _enter(program: str, load: Callable[[], click.Command]) -> int:
    """``guarded`` in a process of our own: looking for garbage in what was just loaded, and once more at exit, would
    be a tenth of a listing's time.
    """
    gc.set_threshold(_MANY)
    status = guarded(program, load)
    gc.freeze()
    return status


def guarded(program: str, load: Callable[[], click.Command]) -> int:
    """Run the command that ``load`` gives on this process's arguments; the exit status."""
    arguments, debug = _without_debug(sys.argv[1:])
    _reopen_streams()
    streams = sys.stdout, sys.stderr
    for stream in streams:
        # A terminal that cannot show a character gets an escape instead of a traceback.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        result = load().main(arguments, program, standalone_mode=False)
        status = result if isinstance(result, int) else 0
    except Exception as error:  # noqa: BLE001 - the one place where everything ends
        if debug:
            _trace(error)
        status = _explain(program, error)
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit:
        if sys.stdout is streams[0]:
            raise  # the end of a completion
        # At a reader that went away click puts others in their place, and ends.
        sys.stdout, sys.stderr = streams
        status = UNREAD
    return _flushed(program, status)


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """The arguments without ``--debug``, and whether it was there; a command after ``--`` keeps its own."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    ours = [argument for argument in arguments[:end] if argument != "--debug"]
    return ours + arguments[end:], len(ours) < end


def _trace(error: Exception) -> None:
    """The traceback; what it quotes may be foreign."""
    from traceback import format_exception

    from gitsession.cli.render.out import note
    from gitsession.cli.render.text import safe_text

    note(safe_text("".join(format_exception(error)).rstrip("\n"), layout=True))


def _explain(program: str, error: Exception) -> int:
    """Say what ``error`` means for the user; the exit status."""
    import click

    if isinstance(error, GitSessionError):
        return _say(program, str(error), error.hint, error.exit_status)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return USAGE
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        hint = f"{context.command_path} --help lists what it takes" if context else None
        return _say(program, _like_ours(error.format_message()), hint, error.exit_code)
    if isinstance(error, click.Abort):
        return _say_what_stopped(program, error.__cause__)
    if isinstance(error, BrokenPipeError):
        return UNREAD
    if isinstance(error, OSError) and _came_from(error) is click.echo.__code__:  # its own help, or a version
        return _say(program, f"cannot write the output: {error.strerror}", None, BUG)
    words = f"internal error: {type(error).__name__}: {error}; run with --debug for the traceback"
    return _say(program, words, None, BUG)


def _say_what_stopped(program: str, interrupt: BaseException | None) -> int:
    """What was under way at Ctrl-C, if that left word of it, which is one line."""
    for note in getattr(interrupt, "__notes__", ()):
        _say(program, note, None, INTERRUPTED)
    return INTERRUPTED


def _say(program: str, message: str, hint: str | None, status: int) -> int:
    from gitsession.cli.render.out import note
    from gitsession.cli.render.text import one_line

    note(f"{program}: {one_line(message)}")
    if hint:
        note(f"hint: {one_line(hint)}")
    return status


def _like_ours(message: str) -> str:
    """Click's message in our style: lower case first, no final full stop."""
    return (message[:1].lower() + message[1:]).removesuffix(".")


def _reopen_streams() -> None:
    """A standard stream that we got closed leads nowhere: else the next file to be opened would take its place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays
            setattr(sys, name, stream)


def _came_from(error: Exception) -> CodeType | None:
    """The function that raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code if trace is not None else None


def _flushed(program: str, status: int) -> int:
    """``status``, everything written; output that nobody reads any more is dropped without a word."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            # Python flushes once more at exit, and would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if isinstance(error, BrokenPipeError):
                status = status or UNREAD
            elif not status:
                status = _say(program, f"cannot write the output: {error.strerror}", None, BUG)
    return status
