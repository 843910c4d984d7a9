"""Whether commits are whole: every tree and blob that they name is there and not empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitsession.errors import GitFailed, RepositoryError
from gitsession.git import trees
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo


class Lost(NamedTuple):
    """An object that a tree names and the repository lacks; ``path`` is empty for the tree itself."""

    path: bytes
    oid: str


def is_whole(repo: Repo, commits: Iterable[str], but: Iterable[str]) -> bool:
    """Whether all that ``commits`` reach, and ``but`` do not, can be read.

    In a partial clone, where objects are missing by design, the answer is yes.
    """
    if repo.git("config", "--get-regexp", r"^remote\..*\.promisor$", ok=(0, 1)):
        return True
    try:
        named = repo.git(
            "rev-list", "--objects", "--no-object-names", "--missing=print", "--stdin",
            input="\n".join([*commits, *(f"^{commit}" for commit in but), ""]).encode(),  # "--not" since git 2.42 only
        )  # fmt: skip
    except GitFailed:
        return False
    return b"?" not in named and not _unreadable(repo, named.decode().split())


def lost(repo: Repo, objects: Objects, tree: str) -> Iterator[Lost]:
    """What ``tree`` names and the repository lacks."""
    try:
        files = [(path, entry.oid) for path, entry in trees.walk(objects, tree) if entry.mode != trees.GITLINK]
    except RepositoryError:
        yield Lost(b"", tree)
        return
    gone = _unreadable(repo, sorted({oid for _, oid in files}))
    yield from (Lost(path, oid) for path, oid in files if oid in gone)


def _unreadable(repo: Repo, oids: list[str]) -> set[str]:
    answers = repo.git("cat-file", "--batch-check", input="".join(f"{oid}\n" for oid in oids).encode())
    return {line.split()[0].decode() for line in answers.splitlines() if line.endswith(b" missing")}
