"""Git looks at the files while a hook's modules are still being loaded.

At 20,000 files git takes as long to look as Python takes to load what a checkpoint needs.  What git will be asked is
known before: the same as at the last event, as long as the user's index has not changed.  So that is kept
(``$PINABLE_HOME/early/<agent>-<native id>``, JSON, mode 0600) and asked first of all; whoever asks the very same later
gets that answer.  It is as good as one that is asked for later: an event is told when the work it tells of is done, and
what changes after it has an event of its own.  The file only saves time.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from subprocess import Popen
from typing import Any, Final, Self

from gitsession.errors import GitSessionError
from gitsession.git.repo import OBJECT_LINE, Argument, Repo, Running
from gitsession.paths import place_of
from gitsession.store import natives
from gitsession.store.files import private_dir, write_atomic

_Question = tuple[tuple[str, ...], str | None]
# What only asks, and asks for all: these may be asked in vain.
_ASKING: Final = ({"config", "--get-regexp"}, {"diff-files"}, {"ls-files", "-o", "--directory"})
# What nearly every look asks for objects; it waits for questions.
_READING: Final = ("cat-file", "--batch")
_MOST: Final = 8
_BRANCH: Final = b"ref: refs/heads/"
_asked: list[_Question] = []
_begun: dict[_Question, Running] = {}
_waiting: dict[tuple[str, ...], Popen[bytes]] = {}


class Plain(Repo):
    """A repository in which libgit2 is not asked: to load it takes as long as all that a hook does.

    A git that was begun early is not started again.
    """

    @classmethod
    def of(cls, repo: Repo) -> Self:
        return cls(*(getattr(repo, field.name) for field in fields(repo)))

    @classmethod
    def known(cls, place: Any) -> Self | None:
        """The repository that a session's record names, if it is plainly there: then git need not be asked."""
        try:
            worktree, git_dir, common_dir = (place_of(place[key]) for key in ("worktree", "git_dir", "common_dir"))
            is_there = git_dir == common_dir == worktree / ".git" and (git_dir / "HEAD").is_file()
            if is_there and not (git_dir / "reftable").exists():
                return cls(worktree, git_dir, common_dir, place["object_format"], "files")
        except (LookupError, TypeError, AttributeError, OSError, ValueError):
            pass
        return None

    def libgit(self) -> None:
        return None

    def start(self, *args: Argument, index: Path | None = None) -> Running:
        question = (tuple(map(os.fsdecode, args)), None if index is None else str(index))
        if any(words <= {*question[0]} for words in _ASKING):
            _asked.append(question)
        return _begun.pop(question, None) or super().start(*args, index=index)

    def converse(self, *args: Argument) -> Popen[bytes]:
        return _waiting.pop(tuple(map(os.fsdecode, args)), None) or super().converse(*args)

    def head_oid(self) -> str | None:
        """As files say it, if they do: then git would say the same."""
        with suppress(OSError):
            said = (self.git_dir / "HEAD").read_bytes()
            if said.startswith(_BRANCH):
                return self.loose(os.fsdecode(said.removeprefix(b"ref: ").rstrip(b"\n"))) or super().head_oid()
            if OBJECT_LINE.fullmatch(said):
                return said.decode().rstrip("\n")
        return super().head_oid()


def begin(home: Path, agent: str, native_id: str) -> None:
    """Ask git what the last event of this session of the agent's asked."""
    with suppress(OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, GitSessionError):
        known = json.loads(_place(home, agent, native_id).read_bytes())
        worktree, git_dir, common_dir = map(Path, known["paths"])
        object_format, ref_format = known["formats"]
        repo = Repo(worktree, git_dir, common_dir, object_format, ref_format)
        _waiting[_READING] = repo.converse(*_READING)
        # Comparing the files keeps every processor busy, and whoever starts another program then waits: it comes last.
        for args, name in sorted(known["questions"][:_MOST], key=lambda question: "diff-files" in question[0]):
            index = None if name is None else Path(name)
            if index is None or index.exists():
                _begun[tuple(args), name] = repo.start(*args, index=index)


def end(home: Path, agent: str, native_id: str, repo: Repo, *, forget: bool = False) -> None:
    """End what was asked in vain, and keep what was asked for the next time, or ``forget`` it."""
    for process in (*(running.process for running in _begun.values()), *_waiting.values()):
        process.kill()
        process.communicate()
    _begun.clear()
    _waiting.clear()
    questions = list(dict.fromkeys(_asked))
    _asked.clear()
    place = _place(home, agent, native_id)
    if forget:
        place.unlink(missing_ok=True)
    elif any("diff-files" in args for args, _ in questions):
        paths = [str(path) for path in (repo.worktree, repo.git_dir, repo.common_dir)]
        formats = [repo.object_format, repo.ref_format]
        data = json.dumps({"paths": paths, "formats": formats, "questions": questions}).encode()
        if not place.exists() or place.read_bytes() != data:
            private_dir(place.parent)
            write_atomic(place, data)


def _place(home: Path, agent: str, native_id: str) -> Path:
    return home / "early" / f"{agent}-{natives.file_name(native_id)}"
