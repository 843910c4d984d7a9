"""Which session of ours an agent's own session is: ``$PINABLE_HOME/agents/<agent>/<native id>``, files 0600.

A file holds our session's id and a newline.  A native id is the agent's word and may be anything: one that is not
plainly a file's name is replaced by its SHA-256.  Ids that differ only in case are different ones, and may meet in
one file where file names do not tell them apart; agents' ids are random, and hexadecimal or of one case.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from gitsession.agentevents import file_name
from gitsession.errors import BadSessionId
from gitsession.ids import check_session_id
from gitsession.store.files import explained, open_private, private_dir, sync_directory, write_all, write_atomic

_LONGEST: Final = 1024  # bytes of such a file that are read
# What a file system without hard links says.
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP)


def find(home: Path, agent: str, native_id: str) -> str | None:
    """The session that the agent's session is bound to; None if it is to none, or a file says nothing sensible."""
    path = _place(home, agent, native_id)
    with explained("read", path, but=(FileNotFoundError,)):
        try:
            with path.open("rb") as file:
                said = file.read(_LONGEST).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
    try:
        return check_session_id(said)
    except BadSessionId:
        return None


def bind(home: Path, agent: str, native_id: str, session_id: str) -> None:
    """Bind the agent's session to ours, whatever it was bound to."""
    path = _place(home, agent, native_id)
    _make_dirs(home, agent)
    write_atomic(path, _line(session_id))


def claim(home: Path, agent: str, native_id: str, new_id: str) -> str:
    """Bind the agent's session to ``new_id`` unless it is bound; the id that it is bound to then.

    Of several processes that do it at once all get the same answer.
    """
    known = find(home, agent, native_id)
    if known is not None:
        return known
    path = _place(home, agent, native_id)
    _make_dirs(home, agent)
    temporary = path.with_name(f".{os.getpid()}-{path.name[:64]}.new")
    with explained("write", path):
        try:
            _write(temporary, new_id)
            _put(temporary, path)
            sync_directory(path.parent)
        finally:
            with suppress(OSError):
                temporary.unlink()
    known = find(home, agent, native_id)
    if known is None:  # it holds nothing sensible: a power failure, or somebody's editor
        bind(home, agent, native_id, new_id)
        return new_id
    return known


def _make_dirs(home: Path, agent: str) -> None:
    for directory in (home, home / "agents", home / "agents" / agent):
        private_dir(directory)


def _put(temporary: Path, path: Path) -> None:
    """Give the file its name, unless there is one of this name."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if not path.exists():  # the best there is: between the two another process may come
            temporary.replace(path)


def _write(path: Path, session_id: str) -> None:
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(descriptor, _line(session_id))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _line(session_id: str) -> bytes:
    return f"{check_session_id(session_id)}\n".encode()


def _place(home: Path, agent: str, native_id: str) -> Path:
    return home / "agents" / agent / file_name(native_id)
