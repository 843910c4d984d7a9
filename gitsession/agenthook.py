"""``python -I -m gitsession.agenthook AGENT``: what the hooks of an agent start, once for each event.

The event is one JSON object on standard input (``gitsession.agentevents``).  What it does to a session is
``gitsession.verbs.tracking``; here is what keeps that from disturbing the agent.  Nothing is ever said on standard
output, where an agent would take it for an instruction; the exit status is always 0; it ends by itself before the agent
loses patience.  Whatever goes wrong is noted (``gitsession.store.hooklog``) and done without: the files are looked at
again at the next event.

Nothing is done in a run of ours, which records by itself, nor outside of a repository.  It loads as little as it can,
as late as it can: an agent waits for it at each of its steps.
"""

from __future__ import annotations

import gc
import os
import sys
from types import ModuleType

from gitsession.agentevents import WANTED, file_name, looks_at_all, wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gitsession.agentevents import Wanted

CHECK = "PINABLE_HOOK_CHECK"
"""Set in a dry call: the hook only answers that it runs."""
ANSWER = "pinable agent hook runs:"
PATIENCE = "PINABLE_HOOK_SECONDS"
"""The hook gives up after so many seconds, where a machine is slow."""

_MARK = "PINABLE_SESSION_ID"  # set for whatever a session's agent starts
_LARGEST = 64 * 1024 * 1024  # bytes of an event
_LONGEST_READ = 10.0  # seconds in which the event has to arrive
_GRACE = 0.4  # seconds to end what was begun, once time is up
# The standard library loads these for what is not done here: a quarter of the time that all modules take.
_UNUSED = ("inspect", "bz2", "lzma", "ipaddress", "locale")


class _TimeUp(BaseException):
    """The hook has taken too long."""


class _Later(ModuleType):
    """A module that is loaded when somebody uses it."""

    def __getattr__(self, name: str) -> object:
        from importlib import import_module

        sys.modules.pop(self.__name__, None)
        real = import_module(self.__name__)
        self.__dict__.update(real.__dict__)
        return getattr(real, name)


def main(arguments: list[str] | None = None) -> None:
    """Handle the event on standard input.  It does not return: the process ends, in no case as a failure."""
    agent, *_ = (sys.argv[1:] if arguments is None else arguments) or [""]
    name = ""
    try:
        if os.environ.get(CHECK):
            from gitsession import __version__

            os.write(1, f"{ANSWER} {agent} {__version__}\n".encode())
        elif not os.environ.get(_MARK) and agent in WANTED:
            gc.disable()  # what is made here lives as long as the process
            _limit_time(_LONGEST_READ)
            said = _event(agent)
            name = str(said.get("hook_event_name"))
            which = wanted(agent, name)
            if which is not None and (_in_repository(said.get("cwd")) or _is_known(agent, said.get("session_id"))):
                _handle(agent, which, said)
    except BaseException as error:  # noqa: BLE001 - see the module
        _note(agent, name, error)
    os._exit(0)


def _event(agent: str) -> dict[str, Any]:
    """The event that the agent tells; one that cannot be read is an empty one, and noted."""
    import json

    data = _input()
    try:
        if data is None:
            raise ValueError(f"an event of more than {_LARGEST // 1024**2} MB")
        said = json.loads(data)
        if not isinstance(said, dict):
            raise ValueError("the event is no JSON object")
    except (ValueError, RecursionError) as error:
        # Not in its own words: those may hold some of the event.
        ours = not isinstance(error, UnicodeError | json.JSONDecodeError | RecursionError)
        what = str(error) if ours else "the event is not JSON"
        _note(agent, "", _Unreadable(what))
        return {}
    return said


class _Unreadable(Exception):
    """What is wrong with an event."""


def _input() -> bytes | None:
    parts, size = [], 0
    while part := os.read(0, 1 << 20):
        size += len(part)
        if size > _LARGEST:
            return None
        parts.append(part)
    return b"".join(parts)


def _in_repository(directory: object) -> bool:
    """Whether it can be worth while to ask git; there may be no repository after all."""
    if not isinstance(directory, str) or not os.path.isabs(directory) or "\0" in directory:
        return False
    while True:
        if os.path.lexists(os.path.join(directory, ".git")):
            return True
        directory, before = os.path.dirname(directory), directory
        if directory == before:
            return False


def _is_known(agent: str, native_id: object) -> bool:
    """Whether the agent, wherever it is now, began in a repository."""
    from gitsession.store.files import default_home
    from gitsession.store.natives import find

    return isinstance(native_id, str) and native_id != "" and find(default_home(), agent, native_id) is not None


def _handle(agent: str, which: Wanted, said: dict[str, Any]) -> None:
    _limit_time(which.limit)
    for name in _UNUSED:
        sys.modules.setdefault(name, _Later(name))
    # OpenSSL's hashes are quicker than Python's own from some 100 KB on, and take longer than that to load.
    sys.modules.setdefault("_hashlib", None)  # type: ignore[arg-type]
    if looks_at_all(agent, which.kind, said.get("tool_name")) and isinstance(said.get("session_id"), str):
        from gitsession.git import ahead
        from gitsession.home import home_of

        ahead.begin(ahead.place(home_of(), agent, file_name(said["session_id"])))
    from gitsession import config
    from gitsession.store.sessions import SessionStore
    from gitsession.verbs.tracked import Event
    from gitsession.verbs.tracking import feed

    store = SessionStore()
    # There is nobody here to read of a misspelt key, and the agent's work is not to go unrecorded for it.
    settings = config.load(store.home, pass_over_unknown=True)
    feed(store, Event(agent, which.kind, which.event, said), settings)


def _limit_time(seconds: float) -> None:
    """Give up what is being done after ``seconds``, and the process a little later, whatever it is about then."""
    import signal

    said = os.environ.get(PATIENCE, "")
    seconds = int(said) if said.isdecimal() else seconds

    def give_up(*_: object) -> None:
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, _GRACE)
        raise _TimeUp

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the agent, not for what is being written down
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    else:
        import threading

        timer = threading.Timer(seconds, os._exit, (0,))
        timer.daemon = True
        timer.start()


def _note(agent: str, event: str, error: BaseException) -> None:
    """Note what went wrong, for who asks (``pinable-agents status``)."""
    try:
        from gitsession.store import hooklog
        from gitsession.store.files import default_home

        home = default_home()
        if home.is_dir():
            hooklog.note(home, agent, event, _words(error))
    except BaseException:  # noqa: BLE001, S110 - there is nobody left to tell
        pass


def _words(error: BaseException) -> str:
    """What an error says, if that is ours; else only what it is and where, as it may hold some of the event."""
    from gitsession.errors import GitSessionError

    if isinstance(error, GitSessionError | _Unreadable):
        return str(error)
    if isinstance(error, _TimeUp):
        return "it took too long, and was given up"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" in {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}{where}"


if __name__ == "__main__":
    main()
