"""A session's refs, and all that their commits hold, in one file: a git bundle.

``git bundle create`` would leave out either nothing that HEAD has (then every file holds the project's whole history)
or all of it (then a clone without that very commit cannot have the files).  Here all trees and files of all checkpoints
are in, and nothing of the history: the commit that the session began from is a prerequisite, as bundles call it, so
that ``git fetch FILE refs/pinable/ID`` works where that commit is.  Where it is not, the files still are, and
``Ledger.graft`` gives the checkpoints a beginning of their own.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from gitsession.errors import RepositoryError
from gitsession.git.ledger import Ledger
from gitsession.git.repo import Repo

_SIGNATURES: Final = {"sha1": "# v2 git bundle\n", "sha256": "# v3 git bundle\n@object-format=sha256\n"}
_LARGEST_HEADER: Final = 1 << 16  # bytes
_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Bundle:
    """What a bundle holds: refs and where they point, the commits it builds on, and where in the file its pack is."""

    refs: dict[str, str]
    prerequisites: tuple[str, ...]
    object_format: str
    pack_at: int


def objects_of(ledger: Ledger) -> set[str]:
    """The ids of everything that the session's refs need of their own: commits down to the base, trees, files."""
    commits = list(ledger.commits())
    wanted = {commit.oid for commit in commits}
    roots = [commit.tree for commit in commits]
    meta = ledger.meta_tip()
    if meta is not None:
        roots.append(meta)
    if roots:
        wanted.update(_reached(ledger.repo, roots))
    return wanted


def write(ledger: Ledger, path: Path) -> None:
    """Write the bundle of a session that has refs to the new file ``path``, on the disk when it returns."""
    refs = [(ref, tip) for ref, tip in ((ledger.ref, ledger.tip()), (ledger.meta_ref, ledger.meta_tip())) if tip]
    base = list(ledger.commits())[-1]
    header = [_SIGNATURES[ledger.repo.object_format]]
    if base.parent is not None:
        header.append(f"-{base.parent} where the session began\n")
    header += [f"{tip} {ref}\n" for ref, tip in refs]
    wanted = "".join(f"{oid}\n" for oid in sorted(objects_of(ledger)))
    # Through a pipe: git makes a pack that it writes itself in the repository and renames it, which stops at the end of
    # a file system.
    packing = ("pack-objects", "-q", "--stdout", "--delta-base-offset")
    with path.open("xb") as file, ledger.repo.start(*packing) as running:
        file.write("".join([*header, "\n"]).encode())
        running.feed(wanted.encode())
        shutil.copyfileobj(cast("IO[bytes]", running.process.stdout), file, _CHUNK)
        running.finish()
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> Bundle:
    """What the bundle at ``path`` holds; ``RepositoryError`` if it is none."""
    with path.open("rb") as file:
        head = file.read(_LARGEST_HEADER)
    text, end, _ = head.partition(b"\n\n")
    lines = text.decode("utf-8", "replace").split("\n")
    formats = {signature.rstrip("\n"): name for name, signature in _SIGNATURES.items()}
    size = 2 if lines[0].startswith("# v3") else 1
    object_format = formats.get("\n".join(lines[:size]))
    if not end or object_format is None:
        raise RepositoryError(f"{path} is not a git bundle")
    refs, needed = {}, []
    for line in lines[size:]:
        oid, _, name = line.partition(" ")
        if oid.startswith("-"):
            needed.append(oid[1:])
        else:
            refs[name] = oid
    return Bundle(refs, tuple(needed), object_format, len(text) + len(end))


def check(repo: Repo, path: Path, wanted: set[str]) -> None:
    """``RepositoryError`` unless the bundle's pack is sound, stands alone and holds the objects ``wanted``."""
    found = read(path)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".check-") as scratch:
        pack, index = Path(scratch, "bundle.pack"), Path(scratch, "bundle.idx")
        with path.open("rb") as file, pack.open("wb") as target:
            file.seek(found.pack_at)
            shutil.copyfileobj(file, target, _CHUNK)
        repo.git("index-pack", "-o", index, pack)
        listed = repo.git("show-index", input=index.read_bytes())
    missing = wanted - {line.split()[1].decode() for line in listed.splitlines()}
    if missing:
        raise RepositoryError(f"{path} lacks {len(missing)} of {len(wanted)} objects")


def unpack(repo: Repo, path: Path) -> Bundle:
    """Put the bundle's objects into ``repo``; no ref is made."""
    found = read(path)
    if found.object_format != repo.object_format:
        raise RepositoryError(
            f"the archive is of a {found.object_format} repository, and {repo.worktree} is a {repo.object_format} one"
        )
    with path.open("rb") as file, repo.start("-c", "core.fsync=all", "index-pack", "--stdin") as running:
        file.seek(found.pack_at)
        with suppress(BrokenPipeError):  # then git has something to say, and ``finish`` says it
            shutil.copyfileobj(file, cast("IO[bytes]", running.process.stdin), _CHUNK)
        running.finish()
    return found


def _reached(repo: Repo, roots: list[str]) -> list[str]:
    """The ids of ``roots`` and all they lead to."""
    named = repo.git("rev-list", "--objects", "--no-object-names", "--stdin", input="\n".join([*roots, ""]).encode())
    return named.decode().split()
