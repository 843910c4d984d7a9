"""A repository and what the git program is run for on it."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

from gitsession.errors import (
    BareRepository,
    GitFailed,
    NotARepository,
    RepositoryError,
    UnsupportedRepository,
    UsageError,
)
from gitsession.git import program
from gitsession.git.program import NOTHING, Argument, scrubbed_environment, spawn
from gitsession.paths import encode

if TYPE_CHECKING:
    import pygit2

OBJECT_LINE: Final = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64})\n")
"""What the file of a ref, or of a detached HEAD, holds."""
# Seconds between two tries while somebody holds a lock: 1.6 s in all.
_BACK_OFF: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
_LOCK_TAKEN = re.compile(r"Unable to create '.*\.lock': File exists")
_MINIMUM = "git 2.31 or newer"


def version() -> tuple[int, ...]:
    """The git program's version, such as (2, 39, 5)."""
    with _starting(Path("/")):
        process = spawn(["git", "--version"], cwd="/", environment=scrubbed_environment())
    words = process.communicate()[0].decode("utf-8", "replace").split()
    return tuple(int(part) for part in re.findall(r"\d+", words[2])[:3]) if len(words) > 2 else ()


def lock_taken(failure: GitFailed) -> bool:
    """Whether git failed because a lock file was there (held, or left behind by a kill)."""
    return _LOCK_TAKEN.search(failure.stderr) is not None


class Head(NamedTuple):
    """Where HEAD is: ``oid`` is None before the first commit, ``branch`` is None when detached.

    That is the short name, as ``paths.encode`` writes it.
    """

    oid: str | None
    branch: str | None


class Running:
    """A git that was started; ``finish`` collects what it said.  As a context manager it does not outlive its block."""

    def __init__(self, command: str, process: subprocess.Popen[bytes]) -> None:
        self.command = command
        self.process = process

    @classmethod
    def of(cls, args: Sequence[Argument], process: subprocess.Popen[bytes]) -> Running:
        """The git that was started with ``args``."""
        name = next(word for word, before in zip(args, ("", *args), strict=False) if "-c" not in (word, before))
        return cls(os.fsdecode(name), process)

    def feed(self, input: bytes) -> None:  # noqa: A002 - subprocess's name
        """Give it its whole input now, and let it work while the caller does something else."""
        stream = self.process.stdin
        assert stream is not None  # noqa: S101 - ``_spawn`` gives every git one
        with suppress(BrokenPipeError), stream:
            stream.write(input)
        self.process.stdin = None  # ``communicate`` would flush it

    def finish(self, input: bytes | None = None, ok: Collection[int] = (0,)) -> bytes:  # noqa: A002 - subprocess's name
        """Its standard output, or ``GitFailed`` if its status is not one of ``ok``."""
        out, err = self.process.communicate(input)
        if self.process.returncode not in ok:
            raise GitFailed(self.command, self.process.returncode, err.decode("utf-8", "replace"))
        return out

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@dataclass(frozen=True)
class Repo:
    """A repository with a working tree; all paths are absolute.

    ``git_dir`` is this worktree's own, ``common_dir`` the one all worktrees share (the same in the main worktree).
    """

    worktree: Path
    git_dir: Path
    common_dir: Path
    object_format: str
    ref_format: str

    @classmethod
    def discover(cls, start: Path) -> Repo:
        """The repository that ``start``, a directory, is in.

        Errors: ``NotARepository``, ``BareRepository``, ``UnsupportedRepository`` (another owner, a format that this
        git does not know).
        """
        if not start.is_dir():
            raise NotARepository(f"{start} is not a directory", hint="name a directory inside a git repository")
        # The object format stands between the paths because a path may hold a newline.  A git that does not know
        # --show-ref-format repeats it, and knows only files.
        question = ["--is-bare-repository", "--show-ref-format", "--path-format=absolute"]
        for path in ("--git-dir", "--git-common-dir", "--show-toplevel"):
            question += ["--show-object-format", path]
        with _starting(start):
            process = spawn(["git", "rev-parse", *question], cwd=start, environment=scrubbed_environment())
        out, err = process.communicate()
        if process.returncode != 0:
            raise _refusal(start, out, err.decode("utf-8", "replace"))
        _bare, ref_format, object_format, rest = out.split(b"\n", 3)
        places = rest.removesuffix(b"\n").split(b"\n" + object_format + b"\n")
        git_dir, common_dir, worktree = (Path(os.fsdecode(place)) for place in places)
        return cls(
            worktree=worktree,
            git_dir=git_dir,
            common_dir=common_dir,
            object_format=object_format.decode(),
            ref_format="files" if ref_format.startswith(b"--") else ref_format.decode(),
        )

    def git(
        self,
        *args: Argument,
        input: bytes | None = None,  # noqa: A002 - subprocess's name
        index: Path | None = None,
        ok: Collection[int] = (0,),
    ) -> bytes:
        """Run git in the worktree and return its standard output, bytes; pathspecs are literal.

        ``index`` is used in place of the user's index.  A status that is not in ``ok`` is ``GitFailed``; a lock that
        somebody else holds is waited for, up to about 1.6 s.
        """
        for pause in (*_BACK_OFF, None):
            try:
                with self.start(*args, index=index) as running:
                    return running.finish(input, ok)
            except GitFailed as failure:
                if pause is None or not lock_taken(failure):
                    raise
            time.sleep(pause)
        raise AssertionError("unreachable")

    def start(self, *args: Argument, index: Path | None = None) -> Running:
        """Start git as ``git`` does, and do not wait; ``finish`` gives it its input."""
        return Running.of(args, self._spawn(args, index))

    def converse(self, *args: Argument) -> subprocess.Popen[bytes]:
        """Start a git to talk to over its pipes (``cat-file --batch``); the caller closes its input and waits."""
        return self._spawn(args, None, stderr=NOTHING)

    def _spawn(
        self, args: tuple[Argument, ...], index: Path | None, stderr: int = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        with _starting(self.worktree):
            return program.start(self.git_dir, self.worktree, args, index=index, stderr=stderr)

    def libgit(self) -> pygit2.Repository | None:
        """libgit2's view of the repository, writing durably; None where it refuses (SHA-256, reftable, …)."""
        return self._libgit

    @cached_property
    def _libgit(self) -> pygit2.Repository | None:
        import pygit2

        pygit2.settings.enable_fsync_gitdir(True)
        try:
            return pygit2.Repository(str(self.git_dir), pygit2.enums.RepositoryOpenFlag.NO_SEARCH)
        except (pygit2.GitError, UnicodeError):
            return None

    def head(self) -> Head:
        """Where HEAD is now."""
        with (
            self.start("rev-parse", "--verify", "--quiet", "HEAD^{commit}") as commit,
            self.start("symbolic-ref", "--quiet", "HEAD") as ref,
        ):
            oid = commit.finish(ok=(0, 1)).strip().decode()
            target = ref.finish(ok=(0, 1)).rstrip(b"\n").removeprefix(b"refs/heads/")
        return Head(oid or None, encode(target) if target else None)

    def head_oid(self) -> str | None:
        """Only the commit that HEAD is at, without starting a git where libgit2 can tell."""
        libgit = self.libgit()
        if libgit is not None:
            from pygit2 import GitError

            with suppress(GitError):
                return None if libgit.head_is_unborn else str(libgit.head.target)
        return self.head().oid

    def loose(self, ref: str) -> str | None:
        """The object that the ref's own file names, if it has one that plainly does: then git would say the same."""
        if self.ref_format != "files":
            return None
        try:
            said = (self.common_dir / ref).read_bytes()
        except OSError:
            return None
        return said.decode().rstrip("\n") if OBJECT_LINE.fullmatch(said) else None

    def path_of(self, place: Path) -> bytes | None:
        """A place as a path in the worktree (empty: the worktree itself), whether or not it is there; None outside.

        Links that lead into the worktree are followed, those in it are not: what is a link now need not have been one
        in the state that is asked for.
        """
        place = Path(os.path.abspath(place))
        if not place.is_relative_to(self.worktree):
            ways = ((above, above.resolve()) for above in reversed(place.parents))
            way = next(((above, end) for above, end in ways if end.is_relative_to(self.worktree)), None)
            if way is None:
                return None
            place = way[1] / place.relative_to(way[0])
        path = os.fsencode(place.relative_to(self.worktree).as_posix())
        return b"" if path == b"." else path

    def path_named(self, name: str, start: Path) -> bytes | None:
        """``path_of`` for what somebody typed at ``start``; ``UsageError`` if empty, which would name everything."""
        if not name:
            raise UsageError("an empty path names nothing", hint="'.' is the directory you are in")
        return self.path_of(start / name)

    @property
    def private_dir(self) -> Path:
        """``pinable`` in this worktree's git directory, made (0700) when first asked for.

        The common directory's is made with it: by that a git hook sees that a session ever worked here.
        """
        path = self.git_dir / "pinable"
        for directory in {path, self.common_dir / "pinable"}:
            try:
                directory.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise RepositoryError(
                    f"cannot make {directory}: {error.strerror}", hint="make the git directory writable"
                ) from error
        return path


def real_place(place: Path) -> Path:
    """The same place without a link above it; it may itself be one."""
    place = Path(os.path.abspath(place))
    return place.parent.resolve() / place.name


@contextmanager
def _starting(cwd: Path) -> Iterator[None]:
    """A git that cannot be started in ``cwd``, in words."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        if error.filename == "git":
            raise RepositoryError(
                "the git program is not found", hint=f"install {_MINIMUM} and have it on PATH"
            ) from error
        raise RepositoryError(f"the worktree {cwd} is not there any more") from error


def _refusal(start: Path, out: bytes, err: str) -> RepositoryError:
    """Why ``git rev-parse`` would not say where the repository is."""
    if out.startswith(b"true\n"):
        return BareRepository(
            f"{start} is in a bare repository: it has no files to checkpoint",
            hint="go to a working tree of it: git worktree add makes one",
        )
    if out.startswith(b"false\n"):
        return NotARepository(f"{start} is inside a git directory", hint="go to the working tree")
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    words = " ".join(lines).removeprefix("fatal: ") or "no message"
    if words.startswith("not a git repository"):
        return NotARepository(
            f"{start} is not in a git repository", hint="run it inside a git repository, or make one with 'git init'"
        )
    allow = [line for line in lines if line.startswith("git config --global --add safe.directory")]
    if allow:
        return UnsupportedRepository(
            f"git refuses {start}: it belongs to another user", hint=f"to trust it: {allow[0]}"
        )
    return UnsupportedRepository(f"git cannot use the repository at {start}: {words}")
