"""How the git program is started, by whoever starts it.

Git's hooks hand their environment down: in a linked worktree ``GIT_DIR`` is set, in ``git commit`` ``GIT_INDEX_FILE``
is a relative name or the index that is being committed.  A git started from there would work on the wrong
repository or write into the user's commit.  So every git we start has an environment scrubbed of what
``git rev-parse --local-env-vars`` lists, and is told explicitly where the repository is.

Little is loaded here: in an agent's hook it comes before all else (``gitsession.git.ahead``).
"""

from __future__ import annotations

import os
import subprocess

from gitsession.secrets import KEYS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

Argument = str | bytes | os.PathLike[str]
Place = str | os.PathLike[str]
NOTHING: Final = subprocess.DEVNULL
"""For a standard error that nobody reads."""

# The union of `git rev-parse --local-env-vars` of git 2.39 and 2.50, then what changes the meaning of arguments.
SCRUBBED: Final = frozenset({
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT",
    "GIT_OBJECT_DIRECTORY", "GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_GRAFT_FILE", "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE", "GIT_PREFIX", "GIT_INTERNAL_SUPER_PREFIX", "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE", "GIT_ATTR_SOURCE", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
})  # fmt: skip
_ENVIRONMENT: Final = {
    "GIT_OPTIONAL_LOCKS": "0",  # the user's index is not ours to refresh
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",  # bytes are exact
    "GIT_LITERAL_PATHSPECS": "1",  # a file may be called '*' or ':(top)'
    "LC_ALL": "C.UTF-8",  # messages are read; not plain C, for the sake of the user's filter programs
    "LANGUAGE": "C",
}
_CONFIG: Final = (
    "-c", f"core.hooksPath={os.devnull}",
    "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
    "-c", "core.fsync=loose-object,reference",
    "-c", "core.fsyncMethod=fsync",
    "-c", "core.fsmonitor=false",
    "-c", "core.logAllRefUpdates=false",
)  # fmt: skip


def scrubbed_environment() -> dict[str, str]:
    """Our environment without what would point a git somewhere else, plus what every git of ours gets.

    Nor does a git, which may start filters of the user's, get the keys of models.
    """
    left_out = {*SCRUBBED, *KEYS}
    return {name: value for name, value in os.environ.items() if name not in left_out} | _ENVIRONMENT


def start(
    git_dir: Place,
    worktree: Place,
    args: tuple[Argument, ...],
    *,
    index: Place | None = None,
    stderr: int = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start git on a repository, in its worktree, with ``index`` in place of the user's; an ``OSError`` as it comes."""
    environment = scrubbed_environment()
    if index is not None:
        environment["GIT_INDEX_FILE"] = os.fspath(index)
        del environment["GIT_OPTIONAL_LOCKS"]
    where: list[Argument] = ["git", "--git-dir", git_dir, "--work-tree", worktree, *_CONFIG]
    return spawn([*where, *args], cwd=worktree, environment=environment, stderr=stderr)


def spawn(
    command: list[Argument], *, cwd: Place, environment: dict[str, str], stderr: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start a program to talk to over its pipes."""
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        # Ctrl-C is for us to handle: the checkpoint that follows it needs a git that goes on.
        process_group=0 if os.name == "posix" else None,
    )
