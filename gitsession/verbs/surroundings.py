"""What sessions need around them: a git that is new enough, a home that is private, remotes that keep secrets.

Each check yields what is wrong; nothing is written.  What is right is not told.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from gitsession.errors import GitSessionError, RepositoryError
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo, version
from gitsession.paths import place_of
from gitsession.store import trash
from gitsession.store.files import TEMPORARY
from gitsession.store.sessions import SessionStore
from gitsession.verbs.verify import Finding

GIT, MODE, CLOSED, LEFTOVER, PUBLISHED, ORPHAN, UNDROPPED = (
    "git", "permissions", "closed", "leftover", "published", "orphan", "undropped",
)  # fmt: skip
_LEAST_GIT: Final = (2, 31)
_HIDDEN: Final = "refs/pinable"
_EACH_HIDDEN: Final = tuple(f"{_HIDDEN}{kind}/x" for kind in ("", "-meta", "-trash", "-meta-trash"))
"""A ref of each kind that a session may have."""


def git_program() -> Iterator[Finding]:
    """The program is missing or too old."""
    if shutil.which("git") is None:
        yield Finding(GIT, "the git program is not on the PATH", hint="install git 2.31 or newer")
        return
    found = version()
    if found < _LEAST_GIT:
        shown = ".".join(map(str, found))
        yield Finding(GIT, f"git {shown} is too old", hint="install git 2.31 or newer")


def permissions(store: SessionStore) -> Iterator[Finding]:
    """Directories and files of the home that others may use, or their owner may not."""
    if os.name == "nt":
        return
    for place in loose(store):
        mode = stat.S_IMODE(place.stat().st_mode)
        if mode & 0o077:
            yield Finding(MODE, f"{place} can be used by others (mode {mode:04o})", "take their permissions away")
        else:
            yield Finding(MODE, f"{place} cannot be used by its owner (mode {mode:04o})", "give the permissions back")


def loose(store: SessionStore) -> list[Path]:
    """Those places: the home, its directories, and what is directly in them."""
    places = [store.home] if store.home.is_dir() else []
    for directory in sorted(store.home.glob("*/")) if places else []:
        places.append(directory)
        with suppress(PermissionError):
            places += sorted(path for path in directory.iterdir() if path.is_file())
    return [place for place in places if not place.is_symlink() and private(mode := place.stat().st_mode) != mode]


def private(mode: int) -> int:
    """The mode, of a directory or a file, with nothing for others, and for its owner what is needed to read it."""
    return mode & ~0o077 | (stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR)


def closed(store: SessionStore) -> Iterator[Finding]:
    """The directory of the sessions cannot be read, so that nothing can be said of them."""
    place = store.sessions_dir
    if place.exists() and not os.access(place, os.R_OK | os.X_OK):
        yield Finding(
            CLOSED, f"{place} cannot be read: no session was looked at", hint="see whose it is, and its permissions"
        )


def leftovers(store: SessionStore) -> Iterator[Finding]:
    """Temporary files of writes that a crash cut short, where nobody is writing."""
    for path in stale(store):
        yield Finding(LEFTOVER, f"{path} was left by a write that was cut short", "move it to reports/leftovers")


def stale(store: SessionStore) -> list[Path]:
    """Those files; a session's own temporary file belongs to its repair as long as its JSON cannot be read."""
    found = []
    for directory in (store.sessions_dir, store.home / "owners", store.home / "chains", store.home / "reports"):
        for path in sorted(directory.glob(f"*{TEMPORARY}")):
            session_id = path.name.split(".json")[0] if directory == store.sessions_dir else None
            with suppress(GitSessionError):
                if session_id is None or (store.owner(session_id) is None and store.read(session_id)):
                    found.append(path)
    return found


def repositories(store: SessionStore, here: Path) -> list[Repo]:
    """The repositories of all sessions that are there, and the one here, each once."""
    found: dict[Path, Repo] = {}
    places = [here, *(place_of(summary.worktree) for summary in store.summaries() if summary.worktree)]
    for place in dict.fromkeys(places):
        with suppress(RepositoryError):
            repo = Repo.discover(place)
            found.setdefault(repo.worktree, repo)
    return list(found.values())


def published(repo: Repo) -> Iterator[Finding]:
    """Remotes to which a plain push sends the hidden refs."""
    listing = repo.git("config", "-z", "--get-regexp", r"^remote\..*\.(mirror|push)$", ok=(0, 1))
    refspecs: dict[str, list[str]] = {}
    for item in filter(None, listing.decode("utf-8", "replace").split("\0")):
        key, _, value = item.partition("\n")
        name = key.removeprefix("remote.").rpartition(".")[0]
        if key.endswith(".push"):
            refspecs.setdefault(name, []).append(value)
        elif value.lower() in ("true", "yes", "on", "1", "push"):
            yield Finding(
                PUBLISHED,
                f"{repo.worktree}: the remote {name} is a mirror: a push publishes every checkpoint",
                hint=f"push what you mean instead: git config --unset remote.{name}.mirror; "
                f"git config --add remote.{name}.push 'refs/heads/*'",
            )
    for name, values in refspecs.items():
        if (refspec := _publishing(values)) is not None:
            yield Finding(
                PUBLISHED,
                f"{repo.worktree}: the remote {name} has the push refspec {refspec}, which publishes every checkpoint",
                hint=f"leave them out: git config --add remote.{name}.push '^{_HIDDEN}*'",
            )


def _publishing(refspecs: list[str]) -> str | None:
    """The first of a remote's push refspecs that takes a hidden ref which none of them leaves out."""
    hidden = [ref for ref in _EACH_HIDDEN if not any(_covers(one[1:], ref) for one in refspecs if one.startswith("^"))]
    wanted = (one for one in refspecs if not one.startswith("^"))
    return next((one for one in wanted if any(_covers(one, ref) for ref in hidden)), None)


def _covers(refspec: str, ref: str) -> bool:
    source = refspec.lstrip("+").partition(":")[0]
    return re.fullmatch(re.escape(source).replace(r"\*", ".*"), ref) is not None


def orphans(store: SessionStore, repo: Repo) -> Iterator[tuple[str, Finding]]:
    """Hidden refs without a session, by id: to be rebuilt, or what an interrupted deletion left."""
    listing = repo.git("for-each-ref", "--format=%(refname)", f"{_HIDDEN}/").decode("utf-8", "replace")
    for ref in listing.splitlines():
        session_id = ref.removeprefix(f"{_HIDDEN}/")
        if store.exists(session_id):
            continue
        if trash.is_coming_back(store.trash_dir, session_id):
            if _kept(repo, session_id):
                text = f"{repo.worktree}: {ref} is left of a deleted session"
                yield session_id, Finding(UNDROPPED, text, "finish its deletion")
        else:
            text = f"{repo.worktree}: {ref} has no session file"
            yield session_id, Finding(ORPHAN, text, "rebuild it from its checkpoints")


def _kept(repo: Repo, session_id: str) -> bool:
    """Whether the trash has what the ref has."""
    with closing(Objects(repo)) as objects:
        ledger = Ledger(repo, objects, session_id)
        return ledger.is_in_trash()
