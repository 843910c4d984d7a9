"""What differs between two checkpoints: as records, and as the patch that git writes.

The git program compares: it works in every repository it can open, and its patches are the ones ``git apply`` takes.
Settings of the user's that would make such a patch unreadable to it (prefixes, external programs, conversions to text)
are switched off; the others (algorithm, context, rename detection's limits) are honoured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gitsession.git import trees
from gitsession.git.contents import Contents
from gitsession.git.objects import Objects
from gitsession.git.plan import State, Version, Wanted, everything
from gitsession.git.repo import Repo
from gitsession.git.trees import GITLINK, LINK
from gitsession.paths import decode as decode_path

_PLAIN: Final = (
    "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "--find-renames",
    "--ignore-submodules=none", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
_STATUS: Final = {"A": "added", "D": "deleted", "M": "modified", "R": "renamed", "C": "copied", "T": "type"}
# Files above this are not read to say whether only their line ends differ.
_COMPARED_WHOLE: Final = 4 * 1024 * 1024


@dataclass(frozen=True)
class FileChange:
    """One file that differs.

    ``status`` is added, deleted, modified, renamed, type (file, link or submodule became another of them), mode (only
    whether it may be executed) or submodule (another commit).  ``old_path`` is where a renamed file was, with
    ``similarity`` in percent.  ``insertions`` and ``deletions`` count lines, ``None`` for a binary file.  Modes are
    git's, 0 where the file is not; ids are hex, ``None`` likewise.  ``note`` says in words what the numbers do not.
    """

    path: bytes
    status: str
    old_path: bytes | None
    similarity: int | None
    old_mode: int
    new_mode: int
    old_oid: str | None
    new_oid: str | None
    insertions: int | None
    deletions: int | None
    note: str | None = None

    @property
    def binary(self) -> bool:
        return self.insertions is None


@dataclass(frozen=True)
class PatchOptions:
    """How a patch is written: git's ``-U``, ``-w`` and ``--word-diff``."""

    context: int | None = None
    ignore_space: bool = False
    words: bool = False

    def arguments(self) -> list[str]:
        found = [] if self.context is None else [f"-U{self.context}"]
        if self.ignore_space:
            found.append("-w")
        if self.words:
            found.append("--word-diff=plain")
        return found


def changes(
    repo: Repo, objects: Objects, a: str, b: str, paths: Iterable[bytes] = (), *, ignore_space: bool = False
) -> list[FileChange]:
    """The files that differ between two trees (or commits), sorted by path; ``paths`` and what is below them only."""
    options = ["-w"] if ignore_space else []
    out = repo.git(
        "diff", *_PLAIN, *options, "--raw", "--numstat", "--no-abbrev", "-z", "--end-of-options", a, b, "--", *paths
    )
    raw, counts = _sections(out)
    found = [_change(facts, counts) for facts in raw]
    if ignore_space:
        # Git's list, unlike its patch, has the files in which nothing else differs.
        found = [change for change in found if not _has_same_lines(change)]
    return sorted((_described(objects, change) for change in found), key=lambda change: change.path)


def unseen(
    repo: Repo, objects: Objects, old: State, new: State, wanted: Wanted = everything, *, ignore_space: bool = False
) -> list[FileChange]:
    """The files that differ between two states though git's filters make the same of them, so that no patch has them.

    The commonest are those whose line ends changed under ``core.autocrlf``.
    """
    contents = Contents(repo, objects)
    found = []
    for path in sorted({path for path, _ in old.raw.items() ^ new.raw.items() if wanted(path)}):
        entry = trees.lookup(objects, old.tree, path)
        if entry is None or entry != trees.lookup(objects, new.tree, path):
            continue
        versions = [(state, Version(entry, state.raw.get(path))) for state in (old, new)]
        if len({version.exact.oid for _, version in versions}) == 1:
            continue
        note = next(_line_ends(*(_exact(contents, path, *version) for version in versions)), None)
        if note is None or not ignore_space:
            change = FileChange(path, "modified", None, None, entry.mode, entry.mode, entry.oid, entry.oid, 0, 0)
            found.append(replace(change, note=note or "other bytes, of which git's filters make the same"))
    return found


def _exact(contents: Contents, path: bytes, state: State, version: Version) -> bytes:
    """A file's bytes as they were on disk; none if they cannot be had any more."""
    return b"" if contents.find({path: version}, state) else b"".join(contents.read(version))


def patch(repo: Repo, a: str, b: str, paths: Iterable[bytes] = (), options: PatchOptions | None = None) -> bytes:
    """The unified diff from one tree to another; ``git apply`` takes it, binary files and modes included."""
    arguments = (options or PatchOptions()).arguments()
    asked = (*_PLAIN, "--patch", "--binary", "--full-index", *arguments, "--end-of-options")
    return repo.git("diff", *asked, a, b, "--", *paths)


@dataclass
class PatchFile:
    """One file's part of a patch: ``diff --git`` and what follows up to the first hunk, then the rest; lines."""

    head: list[bytes]
    body: list[bytes] = field(default_factory=list)

    @property
    def path(self) -> bytes | None:
        """The file's path, the new one unless it is gone; ``None`` where the head has no lines for it."""
        for mark in (b"+++ b/", b"--- a/", b'+++ "b/', b'--- "a/'):
            for line in self.head:
                if line.startswith(mark):
                    name = line[4:].rstrip(b"\t")
                    return (decode_path(name.decode("ascii", "replace")) if name.startswith(b'"') else name)[2:]
        return None


def patch_files(patch: bytes) -> Iterator[PatchFile]:
    """The files of a patch, in its order."""
    current: PatchFile | None = None
    for line in patch.removesuffix(b"\n").split(b"\n"):
        if line.startswith(b"diff --git "):
            if current is not None:
                yield current
            current = PatchFile([line])
        elif current is not None:
            in_body = bool(current.body) or line.startswith((b"@@", b"GIT binary patch"))
            (current.body if in_body else current.head).append(line)
    if current is not None:
        yield current


_Raw = tuple[str, bytes | None, bytes]
_Counts = dict[bytes, tuple[int | None, int | None]]


def _sections(out: bytes) -> tuple[list[_Raw], _Counts]:
    """Git's ``--raw --numstat -z`` output: (facts, old path, path) of each file, and line counts by path."""
    fields = iter(out.split(b"\0")[:-1])
    raw: list[_Raw] = []
    counts: _Counts = {}
    for head in fields:
        if head.startswith(b":"):
            renamed = head.split(b" ")[4][:1] in b"RC"
            old = next(fields) if renamed else None
            raw.append((head[1:].decode(), old, next(fields)))
        else:
            added, deleted, path = head.split(b"\t", 2)
            if not path:
                next(fields)
                path = next(fields)
            counts[path] = _number(added), _number(deleted)
    return raw, counts


def _number(text: bytes) -> int | None:
    return None if text == b"-" else int(text)


def _change(raw: _Raw, counts: _Counts) -> FileChange:
    facts, old_path, path = raw
    old_mode, new_mode, old_oid, new_oid, letter = facts.split(" ")
    modes = int(old_mode, 8), int(new_mode, 8)
    insertions, deletions = counts.get(path, (0, 0))
    status = _STATUS[letter[0]]
    if status == "modified" and GITLINK in modes:
        status = "submodule"
    elif status == "modified" and old_oid == new_oid:
        status = "mode"
    return FileChange(
        path=path,
        status=status,
        old_path=old_path,
        similarity=int(letter[1:]) if old_path is not None else None,
        old_mode=modes[0],
        new_mode=modes[1],
        old_oid=old_oid if modes[0] else None,
        new_oid=new_oid if modes[1] else None,
        insertions=insertions,
        deletions=deletions,
    )


def _has_same_lines(change: FileChange) -> bool:
    counts = change.insertions, change.deletions
    return change.status == "modified" and change.old_mode == change.new_mode and counts == (0, 0)


def _described(objects: Objects, change: FileChange) -> FileChange:
    notes = list(_notes(objects, change))
    return replace(change, note=", ".join(notes)) if notes else change


def _notes(objects: Objects, change: FileChange) -> Iterator[str]:
    old, new = change.old_mode, change.new_mode
    if change.status == "type":
        yield f"{_kind(old)} became {_kind(new)}"
    elif old and new and old != new:
        yield "now executable" if new & 0o100 else "no longer executable"
    if change.status == "submodule":
        yield f"commit {str(change.old_oid)[:7]} became {str(change.new_oid)[:7]}"
    # Every line differs and as many go as come: only then is it worth looking.
    suspect = change.status == "modified" and change.insertions and change.insertions == change.deletions
    if suspect and change.old_oid and change.new_oid:
        yield from _line_ends(objects.read(change.old_oid)[1], objects.read(change.new_oid)[1])


def _line_ends(old: bytes, new: bytes) -> Iterator[str]:
    if max(len(old), len(new)) <= _COMPARED_WHOLE and old.replace(b"\r\n", b"\n") == new.replace(b"\r\n", b"\n"):
        yield f"only line ends changed, {_ends(old)} to {_ends(new)}"


def _ends(data: bytes) -> str:
    crlf = data.count(b"\r\n")
    lf = data.count(b"\n") - crlf
    if crlf and lf:
        return "mixed"
    return "CRLF" if crlf else "LF"


def _kind(mode: int) -> str:
    return {LINK: "a symbolic link", GITLINK: "a submodule"}.get(mode, "a file")


def attributes(repo: Repo, paths: Sequence[bytes]) -> dict[bytes, str]:
    """The encoding that attributes declare for the blobs of ``paths``, where they do.

    A file with ``working-tree-encoding`` is UTF-8 in git; ``encoding`` is what it says.
    """
    if not paths:
        return {}
    asked = ("working-tree-encoding", "encoding")
    out = repo.git("check-attr", "-z", "--stdin", *asked, input=b"\0".join(paths) + b"\0")
    fields = out.split(b"\0")[:-1]
    found: dict[bytes, str] = {}
    for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=True):
        if value in {b"unspecified", b"unset", b"set"}:
            continue
        if name == b"working-tree-encoding":
            found[path] = "utf-8"
        else:
            found.setdefault(path, value.decode("ascii", "replace"))
    return found
