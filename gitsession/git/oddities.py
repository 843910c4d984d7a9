"""What git passes over in silence: special files, directories that cannot be read, directories with nothing in them.

Looking into every directory at every scan would cost as much as the rest of it.  So what was found in the
directories that hold captured files is remembered, in ``pinable/directories`` of the worktree's git directory, and
a directory is looked into again only when its change time differs: it moves when a name comes or goes and when its
permissions change.  That file is JSON, and only saves time; a missing or unreadable one is made anew::

    {"tree": the tree whose directories are known,
     "seen": {directory: [change time in ns, {path: reason or null for an empty directory}]}}
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gitsession.errors import RepositoryError
from gitsession.git import trees
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo

_UNREADABLE: Final = "directory unreadable"
# Nanoseconds: a directory that changed so recently may change again without its time showing it.
_TOO_YOUNG: Final = 2_000_000_000
_Facts = dict[bytes, str | None]


@dataclass
class Oddities:
    """``left_out`` has the reason for each path that no tree can hold; ``empty_dirs`` hold nothing at all."""

    left_out: dict[bytes, str] = field(default_factory=dict)
    empty_dirs: set[bytes] = field(default_factory=set)

    def note(self, facts: _Facts) -> None:
        """Take up what was found in one directory."""
        for path, reason in facts.items():
            if reason is None:
                self.empty_dirs.add(path)
            else:
                self.left_out[path] = reason

    def add(self, more: Oddities) -> None:
        """Take up what was found elsewhere."""
        self.left_out |= more.left_out
        self.empty_dirs |= more.empty_dirs


def special(mode: int) -> str | None:
    """What ``st_mode`` stands for, if it is something that no tree can hold."""
    if stat.S_ISFIFO(mode):
        return "fifo"
    if stat.S_ISSOCK(mode):
        return "socket"
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
        return None
    return "device"


def in_known(repo: Repo, objects: Objects, newest: str, index: str, moved: Iterable[bytes]) -> Oddities:
    """The oddities directly in the directories of the trees ``newest`` and ``index``, which differ at ``moved``."""
    path = repo.private_dir / "directories"
    tree, seen = _load(path)
    directories = _directories(repo, objects, tree, seen, (newest, index))
    # To git a directory of its index is a known one, so that it does not list it even when nothing is left in it.
    for changed_path in moved:
        directories.update(trees.parents(changed_path))
    found = Oddities()
    now: dict[bytes, tuple[int, _Facts]] = {}
    for directory, changed in _standing(repo, directories):
        before = seen.get(directory)
        if before is None or before[0] != changed:
            facts, _ = _look_into(repo, directory)
            before = (changed if time.time_ns() - changed > _TOO_YOUNG else 0, facts)
        now[directory] = before
        found.note(before[1])
    if now != seen or tree != newest:
        _save(path, newest, now)
    return found


def below(
    repo: Repo, index: Path, roots: Iterable[bytes], files: Iterable[bytes], nested: Collection[bytes]
) -> Oddities:
    """The oddities in and below the directories ``roots``, in which git found the untracked ``files``.

    Not looked into: what is ignored, and the ``nested`` repositories.
    """
    filled = {parent for path in files for parent in trees.parents(path)}
    found = Oddities()
    pending, doubtful = list(roots), list[bytes]()
    while pending:
        facts, directories = _look_into(repo, pending.pop())
        found.note(facts)
        for directory in directories:
            if directory not in nested:
                # Without a file that git listed, it may be ignored, and then large.
                (pending if directory in filled else doubtful).append(directory)
        if not pending and doubtful:
            unwanted = ignored(repo, index, doubtful)
            pending, doubtful = [path for path in doubtful if path not in unwanted], []
    return found


def ignored(repo: Repo, index: Path, paths: Collection[bytes]) -> set[bytes]:
    """Those of ``paths`` that the ignore rules name."""
    if not paths:
        return set()
    # This command takes no literal pathspecs; the dot keeps a name that begins with a colon from being another kind.
    asked = b"".join(b"./" + path + b"\0" for path in paths)
    out = repo.git("--no-literal-pathspecs", "check-ignore", "-z", "--stdin", input=asked, index=index, ok=(0, 1, 128))
    return {path[2:] for path in out.split(b"\0")[:-1]}


def _look_into(repo: Repo, directory: bytes) -> tuple[_Facts, list[bytes]]:
    """What is odd directly in a directory or about it, and the directories in it."""
    facts: _Facts = {}
    directories = []
    empty = True
    try:
        with os.scandir(_place(repo, directory)) as entries:
            for entry in entries:
                empty = False
                path = directory + b"/" + entry.name if directory else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != b".git":
                        directories.append(path)
                elif not (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                    with suppress(FileNotFoundError):
                        reason = special(entry.stat(follow_symlinks=False).st_mode)
                        if reason is not None:
                            facts[path] = reason
    except FileNotFoundError:
        empty = False
    except OSError:
        return {directory: _UNREADABLE}, []
    if empty and directory:
        facts[directory] = None
    return facts, directories


def _standing(repo: Repo, directories: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Those that are there, and not behind a link, with their change times in ns."""
    standing = {b""}
    root = _place(repo, b"")
    yield b"", os.lstat(root).st_ctime_ns
    for directory in sorted(directories):
        if directory.rpartition(b"/")[0] in standing and directory:
            try:
                status = os.lstat(root + directory)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                standing.add(directory)
                yield directory, status.st_ctime_ns


def _directories(
    repo: Repo, objects: Objects, tree: str | None, seen: Collection[bytes], known: tuple[str, ...]
) -> set[bytes]:
    """Every directory in which a captured file is or was."""
    found = set(seen)
    if tree is not None:
        with suppress(RepositoryError):  # git's gc may have taken that tree
            for change in trees.diff(objects, tree, known[0]):
                found.update(trees.parents(change.path))
            return found
    for each in set(known):
        found.update(repo.git("ls-tree", "-r", "-d", "-z", "--name-only", each).split(b"\0")[:-1])
    return found


def _load(path: Path) -> tuple[str | None, dict[bytes, tuple[int, _Facts]]]:
    try:
        saved = json.loads(path.read_bytes())
        seen = {
            os.fsencode(directory): (changed, {os.fsencode(name): reason for name, reason in facts.items()})
            for directory, (changed, facts) in saved["seen"].items()
        }
        return str(saved["tree"]), seen
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None, {}


def _save(path: Path, tree: str, seen: dict[bytes, tuple[int, _Facts]]) -> None:
    plain = {
        os.fsdecode(directory): (changed, {os.fsdecode(name): reason for name, reason in facts.items()})
        for directory, (changed, facts) in seen.items()
    }
    temporary = path.with_name(f"new-{os.urandom(8).hex()}")
    with suppress(OSError):
        temporary.write_text(json.dumps({"tree": tree, "seen": plain}))
        temporary.replace(path)


def _place(repo: Repo, path: bytes) -> bytes:
    return os.fsencode(repo.worktree) + b"/" + path
