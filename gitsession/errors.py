"""Every error this project raises on purpose, and what a person sees of it.

    GitSessionError                 1   something failed; the message says what
    ├── UsageError                  2   the request itself is wrong
    │   ├── BadSessionId            2
    │   ├── BadValue                2   a flag's or a setting's value cannot be read
    │   ├── SessionNotFound         2
    │   ├── AmbiguousSession        2   a prefix that fits several sessions
    │   ├── ChainNotFound           2
    │   ├── CheckpointNotFound      2
    │   ├── IllegalTransition       2   the session's state does not allow it
    │   ├── UnknownBackend          2
    │   └── OutsideRepository       2   a path that leaves the repository
    ├── RepositoryError             1
    │   ├── NotARepository          1
    │   ├── BareRepository          1
    │   ├── UnsupportedRepository   1   git itself cannot work with it here
    │   └── GitFailed               1   the git program failed; carries its words
    ├── StoreError                  1   a session file could not be read or written
    │   ├── SessionCorrupted        1   its bytes are not a session
    │   └── SessionTooNew           1   written by a newer gitsession
    ├── CaptureError                1   a checkpoint could not be taken
    ├── ConflictError               4   a person has to decide
    │   ├── SessionBusy             4   another process owns the session
    │   ├── RefMoved                4   refs/pinable/<id> is not what we last wrote
    │   ├── EditConflict            4   a file was changed while an edit of it was under way
    │   └── DriftError              4   files hold bytes no checkpoint holds
    └── BackendMissing            127   the program that does the work is not there

The number is the exit status.  ``hint`` is the next step in the reader's words: a command to type
or a thing to change.  Messages are one line, start in lower case and carry no final full stop.
"""

from __future__ import annotations

from collections.abc import Sequence


class GitSessionError(Exception):
    """The root: anything a caller can expect and a person can act on."""

    exit_status = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(GitSessionError):
    """The request is wrong as it stands; repeating it unchanged cannot work."""

    exit_status = 2


class BadSessionId(UsageError):
    """The text cannot be a session id (see ``gitsession.ids``)."""


class BadValue(UsageError):
    """A flag's, a setting's or an environment variable's value cannot be read."""


class SessionNotFound(UsageError):
    """No session has this id or prefix."""


class AmbiguousSession(UsageError):
    """A shortened id fits more than one session."""

    def __init__(self, text: str, matches: Sequence[str]) -> None:
        shown = ", ".join(matches[:4]) + (", …" if len(matches) > 4 else "")
        super().__init__(f"{text!r} fits {len(matches)} sessions: {shown}", hint="give more of the id")
        self.matches = tuple(matches)


class ChainNotFound(UsageError):
    """No chain has this name."""


class CheckpointNotFound(UsageError):
    """The session has no checkpoint of this number."""


class IllegalTransition(UsageError):
    """The session's state does not allow what was asked (see ``gitsession.lifecycle``)."""


class UnknownBackend(UsageError):
    """No backend has this name."""


class OutsideRepository(UsageError):
    """A path given by the user leaves the repository."""


class RepositoryError(GitSessionError):
    """The repository cannot be used as it is."""


class NotARepository(RepositoryError):
    """No git repository here or above."""


class BareRepository(RepositoryError):
    """A repository without a working tree: there are no files to checkpoint."""


class UnsupportedRepository(RepositoryError):
    """The installed git refuses this repository (too new a format, another owner)."""


class GitFailed(RepositoryError):
    """The git program ended with an unexpected status; ``stderr`` holds its words."""

    def __init__(self, command: str, status: int, stderr: str, *, hint: str | None = None) -> None:
        lines = [line for line in stderr.strip().splitlines() if line.strip()]
        words = "; ".join(lines[-3:]) or "no message"  # the reason may stand before what it led to
        super().__init__(f"git {command} failed ({status}): {words}", hint=hint)
        self.command = command
        self.status = status
        self.stderr = stderr


class StoreError(GitSessionError):
    """A session file could not be read or written; what was there before is still there."""


class SessionCorrupted(StoreError):
    """The file's bytes are not a session; they are kept as they are."""


class SessionTooNew(StoreError):
    """Written by a newer gitsession: may be listed, is never written."""


class CaptureError(GitSessionError):
    """A checkpoint could not be taken; none was recorded."""


class ConflictError(GitSessionError):
    """Nothing was overwritten; a person has to decide."""

    exit_status = 4


class SessionBusy(ConflictError):
    """Another living process owns the session."""


class RefMoved(ConflictError):
    """The hidden ref is not where this session's record left it."""


class EditConflict(ConflictError):
    """A file that an agent's edit was to change holds neither the bytes before the edit nor those after it."""


class DriftError(ConflictError):
    """Files that would be overwritten hold bytes no checkpoint holds; ``paths`` names them."""

    def __init__(self, message: str, paths: Sequence[bytes], *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.paths = tuple(paths)


class BackendMissing(GitSessionError):
    """The backend's program or package is not installed."""

    exit_status = 127
