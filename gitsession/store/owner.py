"""Who owns a session: the process whose run it is.

Two files, in ``sessions/`` and ``owners/``::

    sessions/<id>.lock   locked by the owner as long as its run lives; the kernel frees it at death
    owners/<id>.owner    the owner's facts, JSON: pid, host, boot_id, since (UTC), and what the owner adds

The facts are not in the lock because taking it empties the locked file, and on Windows hides it.  They count only while
the lock is held, or when they come from another machine, whose locks a shared file system may not show us, or while the
process lives that ``tracked`` facts are about.  They have a directory of their own so that those who died without a
word are found however many sessions there are (``unended``).

A session that an agent's hooks feed has an owner that knows nothing of it: the agent's process, which a hook found
among its ancestors.  No lock is held then.  The facts say ``tracked``, the agent's name, and ``started``, the start of
the process (``gitsession.living``), so that another one of the same id is not taken for it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gitsession.clock import timestamp
from gitsession.errors import SessionBusy
from gitsession.living import Process, lives
from gitsession.store.files import explained, private_dir, write_atomic
from gitsession.store.locks import POLL, at_once, file_lock, is_locked, take

if TYPE_CHECKING:
    from filelock import BaseFileLock

_LOCK, _OWNER, _OWNERS = ".lock", ".owner", "owners"
END_IT = "a person uses that agent: end it there, and the session is paused; all of it so far is recorded"
# A probe holds the lock for an instant, and a new owner writes its facts an instant after it has the lock: seconds.
_INSTANT = 0.5


@dataclass(frozen=True)
class OwnerInfo:
    """A living owner; ``pid`` and ``since`` are None in the instant before it has said who it is."""

    pid: int | None
    host: str
    since: str | None
    local: bool
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def tracked(self) -> str | None:
        """The agent whose hooks feed the session, if that is what owns it."""
        agent = self.facts.get("tracked")
        return agent if isinstance(agent, str) else None

    def __str__(self) -> str:
        who = "another process" if self.pid is None else f"process {self.pid}"
        if self.tracked is not None:
            who = f"{self.tracked} ({who})"
        return f"{who} on {self.host}" + (f" since {self.since}" if self.since else "")


class OwnerLock:
    """The owner lock of one session, a context manager; see ``SessionStore.own``."""

    def __init__(self, directory: Path, session_id: str, *, beside_tracked: bool = False) -> None:
        """``beside_tracked``: also while an agent's hooks feed the session; that agent owns it again afterwards."""
        self._directory = directory
        self._id = session_id
        self._beside_tracked = beside_tracked
        self._before: dict[str, Any] | None = None
        self._lock: BaseFileLock | None = None
        self._facts: dict[str, Any] = {}

    def acquire(self) -> None:
        """Become the owner; ``SessionBusy`` names the one there is."""
        lock = file_lock(self._directory / f"{self._id}{_LOCK}")
        if not take(lock, _INSTANT):
            raise busy(self._directory, self._id, owner(self._directory, self._id))
        try:
            other = _without_lock(self._directory, self._id)
            if other is not None:
                if other.tracked is None or not self._beside_tracked:
                    raise busy(self._directory, self._id, other)
                self._before = other.facts
            self._facts = _facts_of(os.getpid())
            self._write()
        except BaseException:
            lock.release()
            raise
        self._lock = lock

    def note(self, **facts: Any) -> None:
        """Add facts for others to see, such as the agent's process id; None takes one away."""
        self._facts = {name: value for name, value in {**self._facts, **facts}.items() if value is not None}
        self._write()

    def release(self) -> None:
        """Give the session up; harmless when it is not held."""
        if self._lock is not None:
            with suppress(OSError):
                if self._before is None:
                    self._facts_file.unlink()
                else:
                    write_atomic(self._facts_file, json.dumps(self._before).encode() + b"\n")
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    @property
    def _facts_file(self) -> Path:
        return facts_file(self._directory, self._id)

    def _write(self) -> None:
        private_dir(self._facts_file.parent)
        write_atomic(self._facts_file, json.dumps(self._facts).encode() + b"\n")


def busy(directory: Path, session_id: str, holder: OwnerInfo | None) -> SessionBusy:
    """What to say of a session that somebody owns, and how that comes to an end."""
    if holder is not None and not holder.local:
        hint = f"if nothing runs there any more, remove {facts_file(directory, session_id)}"
    elif holder is not None and holder.tracked is not None:
        hint = END_IT
    else:
        hint = f"wait for it, or stop it: pinable-agents session pause {session_id}"
    return SessionBusy(f"session {session_id} is owned by {holder or 'another process'}", hint=hint)


def owner(directory: Path, session_id: str) -> OwnerInfo | None:
    """The living owner of a session, or None; one on another machine counts as living."""
    lock = directory / f"{session_id}{_LOCK}"
    until = time.monotonic() + _INSTANT
    while is_locked(lock):
        facts = last_facts(directory, session_id)
        # Facts of a process that is gone are an earlier owner's: the new one is about to write its own.
        if facts is not None and (not _is_here(facts) or _exists(facts.get("pid"))):
            return _info(facts)
        if time.monotonic() > until:
            return OwnerInfo(pid=None, host=host(), since=None, local=True)
        time.sleep(POLL)
    return _without_lock(directory, session_id)


def track(directory: Path, session_id: str, agent: str, process: Process) -> None:
    """Let a session be owned by the process of ``agent``, whose hooks feed it; one that owns it, and lives, stays.

    ``SessionBusy`` when somebody holds its lock, or owns it elsewhere.
    """
    known = last_facts(directory, session_id)
    if known is not None and (known.get("pid"), known.get("started")) == (process.pid, process.started):
        return
    with at_once(directory / f"{session_id}{_LOCK}") as ours:
        other = _without_lock(directory, session_id) if ours else owner(directory, session_id)
        if not ours or (other is not None and other.tracked is None):
            raise SessionBusy(f"session {session_id} is owned by {other or 'another process'}")
        if other is None:
            path = facts_file(directory, session_id)
            private_dir(path.parent)
            said = {**_facts_of(process.pid), "tracked": agent, "started": process.started}
            write_atomic(path, json.dumps(said).encode() + b"\n")


def untrack(directory: Path, session_id: str) -> None:
    """Forget the process that ``track`` noted, or that an earlier one did; nothing if somebody holds the lock."""
    with at_once(directory / f"{session_id}{_LOCK}") as ours:
        facts = last_facts(directory, session_id)
        if ours and facts is not None and "tracked" in facts:
            with suppress(OSError):
                facts_file(directory, session_id).unlink()


def last_facts(directory: Path, session_id: str) -> dict[str, Any] | None:
    """What the owner, or the last one that died without a word, said of itself."""
    try:
        facts = json.loads(facts_file(directory, session_id).read_bytes())
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None


def unended(directory: Path) -> list[str]:
    """The ids of sessions that are owned, or whose last owner died without a word, sorted."""
    owners = directory.parent / _OWNERS
    try:
        with explained("read", owners, but=(FileNotFoundError,)):
            names = os.listdir(owners)  # noqa: PTH208 - names are all that is wanted
    except FileNotFoundError:
        return []
    return sorted(name.removesuffix(_OWNER) for name in names if name.endswith(_OWNER))


def host() -> str:
    """This machine's name."""
    return os.uname().nodename if sys.platform != "win32" else os.environ.get("COMPUTERNAME", "")


def boot_id() -> str | None:
    """What tells this boot of this kernel from every other, where the system says it (Linux)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def facts_file(directory: Path, session_id: str) -> Path:
    """Where the owner's facts are."""
    return directory.parent / _OWNERS / f"{session_id}{_OWNER}"


def _facts_of(pid: int) -> dict[str, Any]:
    return {"pid": pid, "host": host(), "boot_id": boot_id(), "since": timestamp()}


def _without_lock(directory: Path, session_id: str) -> OwnerInfo | None:
    """The owner on another machine, whose lock we may not see, or the living process of an agent that is tracked."""
    facts = last_facts(directory, session_id)
    return None if facts is None or (_is_here(facts) and not _is_tracked(facts)) else _info(facts)


def _is_tracked(facts: dict[str, Any]) -> bool:
    """Whether the facts are of an agent's process that is still the same."""
    pid, started = facts.get("pid"), facts.get("started")
    if not isinstance(facts.get("tracked"), str) or not isinstance(pid, int) or not isinstance(started, str):
        return False
    return facts.get("boot_id") == boot_id() and lives(pid, started)


def _is_here(facts: dict[str, Any]) -> bool:
    """Whether the facts are of this machine: its name, or (in containers, which share a kernel) its boot."""
    return facts.get("host") == host() or (facts.get("boot_id") is not None and facts["boot_id"] == boot_id())


def _exists(pid: Any) -> bool:
    if not isinstance(pid, int) or os.name == "nt":
        return isinstance(pid, int)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _info(facts: dict[str, Any]) -> OwnerInfo:
    pid, since = facts.get("pid"), facts.get("since")
    return OwnerInfo(
        pid=pid if isinstance(pid, int) else None,
        host=str(facts.get("host")),
        since=since if isinstance(since, str) else None,
        local=_is_here(facts),
        facts=facts,
    )
