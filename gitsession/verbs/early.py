"""What a hook does to have git's answers early (``gitsession.git.ahead``): it takes them, and keeps its questions."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any, Final, Self

from gitsession.agentevents import file_name
from gitsession.git import ahead
from gitsession.git.program import Argument
from gitsession.git.repo import OBJECT_LINE, Repo, Running
from gitsession.paths import place_of
from gitsession.store.files import private_dir, write_atomic

if TYPE_CHECKING:
    from gitsession.git.ahead import Question

# What only asks, and asks for all: these may be asked in vain.
_ASKING: Final = ({"config", "--get-regexp"}, {"diff-files"}, {"ls-files", "-o", "--directory"})
_BRANCH: Final = b"ref: refs/heads/"
_asked: list[Question] = []


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
        process = ahead.begun.pop(question, None)
        return super().start(*args, index=index) if process is None else Running.of(args, process)

    def converse(self, *args: Argument) -> Popen[bytes]:
        return ahead.waiting.pop(tuple(map(os.fsdecode, args)), None) or super().converse(*args)

    def head_oid(self) -> str | None:
        """As files say it, if they do: then git would say the same."""
        with suppress(OSError):
            said = (self.git_dir / "HEAD").read_bytes()
            if said.startswith(_BRANCH):
                return self.loose(os.fsdecode(said.removeprefix(b"ref: ").rstrip(b"\n"))) or super().head_oid()
            if OBJECT_LINE.fullmatch(said):
                return said.decode().rstrip("\n")
        return super().head_oid()


def end(home: Path, agent: str, native_id: str, repo: Repo, *, forget: bool = False) -> None:
    """End what was asked in vain, and keep what was asked for the next time, or ``forget`` it."""
    ahead.end()
    questions = list(dict.fromkeys(_asked))
    _asked.clear()
    place = Path(ahead.place(home, agent, file_name(native_id)))
    if forget:
        place.unlink(missing_ok=True)
    elif any("diff-files" in args for args, _ in questions):
        kept = {"worktree": str(repo.worktree), "git_dir": str(repo.git_dir), "questions": questions}
        data = json.dumps(kept).encode()
        if not place.exists() or place.read_bytes() != data:
            private_dir(place.parent)
            write_atomic(place, data)
