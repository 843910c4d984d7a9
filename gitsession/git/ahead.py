"""Git looks at the files while a hook's modules are still being loaded.

At 20,000 files git takes as long to look as Python takes to load what a checkpoint needs.  What git will be asked is
known before: the same as at the last event, as long as the user's index has not changed.  So that is kept (by
``gitsession.verbs.early``) and asked first of all; whoever asks the very same later gets that answer.  It is as good as
one that is asked for later: an event is told when the work it tells of is done, and what changes after it has an event
of its own.  The file only saves time.  It is ``$PINABLE_HOME/early/<agent>-<native id>``, mode 0600, JSON::

    {"worktree": its path, "git_dir": the git directory's, "questions": [[[argument, …], index or null], …]}
"""

from __future__ import annotations

import json
import os

from gitsession.git import program

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Final

    Question = tuple[tuple[str, ...], str | None]

# What nearly every look asks for objects; it waits for questions.
_READING: Final = ("cat-file", "--batch")
_MOST: Final = 8
# Python works beside it: of two processors git's second thread would take the one that is needed for that.
_ALONE: Final = ("-c", "core.preloadIndex=false") if (os.cpu_count() or 1) <= 2 else ()
begun: dict[Question, subprocess.Popen[bytes]] = {}
"""Those that were asked something, by their arguments and index."""
waiting: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}
"""Those that wait for questions, by their arguments."""


def place(home: str | os.PathLike[str], agent: str, file_name: str) -> str:
    """The file of an agent's session."""
    return os.path.join(home, "early", f"{agent}-{file_name}")


def begin(file: str) -> None:
    """Ask git what the last event of this session of the agent's asked, if that can be read from ``file``."""
    try:
        with open(file, "rb") as kept:
            known = json.loads(kept.read())
        worktree, git_dir = known["worktree"], known["git_dir"]
        waiting[_READING] = program.start(git_dir, worktree, _READING, stderr=program.NOTHING)
        # Comparing the files keeps every processor busy, and whoever starts another program then waits: it comes last.
        for args, index in sorted(known["questions"][:_MOST], key=lambda question: "diff-files" in question[0]):
            if index is None or os.path.exists(index):
                begun[tuple(args), index] = program.start(git_dir, worktree, (*_ALONE, *args), index=index)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        pass


def end() -> None:
    """End what was asked in vain."""
    for process in (*begun.values(), *waiting.values()):
        process.kill()
        process.communicate()
    begun.clear()
    waiting.clear()
