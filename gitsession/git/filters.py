"""Where a file's bytes are not its blob's: git's conversions between the working tree and the repository.

Git changes files on their way in ("clean") and out ("smudge"): line ends (``core.autocrlf``, ``text``, ``eol``),
``ident``, ``working-tree-encoding`` and filter drivers such as LFS.  A checkpoint's tree holds what git would store, so
that it compares with HEAD; exact bytes that this does not say are kept beside it, in a map from path to entry::

    no entry                the bytes on disk are the blob's
    entry, file or link     its blob holds the bytes on disk
    entry, mode GITLINK     its id is that of the bytes on disk, which are not stored: they are the tree's blob with
                            its line ends as CRLF, or as git smudges it (``gitsession.git.contents`` makes them)

So the configuration of a later day cannot change what a checkpoint says.  The last kind is for files that git wrote and
nobody changed since: in a repository with ``core.autocrlf=true`` that is nearly every file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gitsession.errors import GitFailed
from gitsession.git.repo import Repo
from gitsession.git.trees import Entry

_KEYS: Final = r"^(core\.(filemode|symlinks|ignorecase|autocrlf|attributesfile|sparsecheckout)|filter\..*\.required)$"
_FALSE: Final = ("false", "no", "off", "0", "")
# Attributes that make git change line ends, and those that make it change more.  An attributes file that does not even
# name one has no say.
_LINES: Final = re.compile(rb"\b(text|eol|crlf)\b")
_DEEP: Final = ("ident", "filter", "working-tree-encoding")
_DEEPER: Final = re.compile(rb"\b(ident|filter|working-tree-encoding)\b")
_NONE, _LINE_ENDS, _ANYTHING = 0, 1, 2
_UNSET: Final = (b"unspecified", b"unset")


class Filters:
    """Which conversions this repository has, as its configuration and its attributes files say now."""

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        listing = repo.git("config", "--null", "--get-regexp", _KEYS, ok=(0, 1))
        values = {}
        for item in listing.split(b"\0")[:-1]:
            name, has_value, value = os.fsdecode(item).partition("\n")
            values[name] = value if has_value else "true"
        self.executable_bits = _true(values.get("core.filemode", "true"))
        self.links = _true(values.get("core.symlinks", "true"))
        self.sparse = _true(values.get("core.sparsecheckout", "false"))
        # A filter that fails must not end a git that looks at every file; to git the file is then as it is.
        exceptions = [name for name in values if name.startswith("filter.")]
        # Where a and A are two files, a git that takes them for one is silent about the other.
        if _true(values.get("core.ignorecase", "false")) and not _folds_case(repo):
            exceptions.append("core.ignorecase")
        self.options = [option for name in exceptions for option in ("-c", f"{name}=false")]
        """What a git is to be given that looks at the working tree."""
        everywhere = [
            *_system_attributes(), _user_attributes(values), repo.common_dir / "info" / "attributes",
            repo.worktree / ".gitattributes",
        ]  # fmt: skip
        self._root = os.fsencode(repo.worktree)
        # By directory: how far the attributes may go that hold in it.
        self._below = {
            b"": max(
                _LINE_ENDS if _true(values.get("core.autocrlf", "false")) else _NONE,
                *(_reach(os.fsencode(path)) for path in everywhere),
            )
        }

    def may_apply(self, path: bytes) -> bool:
        """False where git certainly stores the file's bytes as they are."""
        return self._reach_at(path.rpartition(b"/")[0]) >= _LINE_ENDS

    def deep(self, paths: Iterable[bytes]) -> set[bytes]:
        """Those of ``paths`` in which git changes more than line ends."""
        asked = [path for path in paths if self._reach_at(path.rpartition(b"/")[0]) >= _ANYTHING]
        if not asked:
            return set()
        out = self._repo.git("check-attr", "-z", "--stdin", *_DEEP, input=b"".join(path + b"\0" for path in asked))
        answers = out.split(b"\0")
        return {path for path, value in zip(answers[0::3], answers[2::3], strict=False) if value not in _UNSET}

    def _reach_at(self, directory: bytes) -> int:
        """How far the attributes may go that hold in a directory."""
        unknown = []
        while (known := self._below.get(directory)) is None:
            unknown.append(directory)
            directory = directory.rpartition(b"/")[0]
        for directory in reversed(unknown):
            known = self._below[directory] = max(known, _reach(b"/".join((self._root, directory, b".gitattributes"))))
        return known

    def clean(self, paths: Collection[bytes]) -> dict[bytes, str]:
        """The blobs that ``git add`` would make of these files, stored.

        A path that git cannot convert (it is not in the encoding it should be in) is not in the answer.
        """
        # Git leaves the line ends of a file alone that is in its index with CRLF.
        listing = self._repo.git("ls-files", "-s", "-z", "--", *(paths if _fit_arguments(paths) else ()))
        indexed = {path: entry for path, entry in _parse(listing) if path in paths}
        return self._clean({path: indexed.get(path) for path in paths})

    def _clean(self, before: Mapping[bytes, Entry | None]) -> dict[bytes, str]:
        try:
            return self._clean_together(before)
        except GitFailed:
            if len(before) == 1:
                return {}
        cleaned = {}
        for path, entry in before.items():
            cleaned.update(self._clean({path: entry}))
        return cleaned

    def _clean_together(self, before: Mapping[bytes, Entry | None]) -> dict[bytes, str]:
        with _scratch_index(self._repo, before) as index:
            self._repo.git(
                "-c", "core.safecrlf=false", *self.options, "update-index", "--add", "--replace", "-z", "--stdin",
                input=b"".join(path + b"\0" for path in before), index=index,
            )  # fmt: skip
            return {path: entry.oid for path, entry in _parse(self._repo.git("ls-files", "-s", "-z", index=index))}

    @contextmanager
    def smudged(self, entries: Mapping[bytes, Entry]) -> Iterator[bytes]:
        """A directory that holds these files as git would check them out, for the length of the block.

        A file that git cannot make (its filter fails) is not in it.
        """
        place = self._repo.private_dir / f"smudged-{os.urandom(8).hex()}"
        place.mkdir(mode=0o700)
        try:
            with _scratch_index(self._repo, entries) as index:
                self._repo.git(
                    "checkout-index", "-z", "--stdin", f"--prefix={place}{os.sep}",
                    input=b"".join(path + b"\0" for path in entries), index=index, ok=(0, 1, 128),
                )  # fmt: skip
            yield os.fsencode(place)
        finally:
            import shutil

            shutil.rmtree(place, ignore_errors=True)


def crlf(data: bytes) -> bytes:
    """``data`` with CRLF at the end of each line that had LF alone."""
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def blob_id(object_format: str, data: bytes) -> str:
    """The id that ``data`` has as a blob."""
    digest = hashlib.new(object_format, b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def _parse(listing: bytes) -> Iterator[tuple[bytes, Entry]]:
    """Paths and entries in the output of ``git ls-files -s -z``."""
    for line in listing.split(b"\0")[:-1]:
        facts, path = line.split(b"\t", 1)
        mode, oid, _ = facts.split(b" ")
        yield path, Entry(int(mode, 8), oid.decode())


def _fit_arguments(paths: Iterable[bytes]) -> bool:
    return sum(len(path) + 1 for path in paths) < 100_000


@contextmanager
def _scratch_index(repo: Repo, entries: Mapping[bytes, Entry | None]) -> Iterator[Path]:
    """An index of these entries alone."""
    index = repo.private_dir / f"scratch-{os.urandom(8).hex()}"
    lines = [b"%o %b\t%b\0" % (entry.mode, entry.oid.encode(), path) for path, entry in entries.items() if entry]
    try:
        repo.git("update-index", "-z", "--index-info", input=b"".join(lines), index=index)
        yield index
    finally:
        for path in (index, index.with_name(index.name + ".lock")):
            with suppress(OSError):
                path.unlink()


def _true(value: str) -> bool:
    """A configured value as git reads a Boolean; ``core.autocrlf=input`` counts as true."""
    return value.lower() not in _FALSE


def _folds_case(repo: Repo) -> bool:
    """Whether a and A are one file in the working tree."""
    return os.path.lexists(repo.worktree / ".GIT")


def _user_attributes(values: Mapping[str, str]) -> Path:
    configured = values.get("core.attributesfile")
    if configured:
        return Path(configured).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path("~/.config").expanduser()) / "git" / "attributes"


def _system_attributes() -> list[Path]:
    """Where git may have been built to look; git itself does not tell before 2.41."""
    if os.environ.get("GIT_ATTR_NOSYSTEM", "").lower() not in _FALSE:
        return []
    places = [Path("/etc/gitattributes")]
    import shutil

    program = shutil.which("git")
    if program is not None:
        places.append(Path(program).resolve().parent.parent / "etc" / "gitattributes")
    return places


def _reach(path: bytes) -> int:
    """How far an attributes file may make git go, by the attributes it names."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return _NONE
    if _DEEPER.search(text):
        return _ANYTHING
    return _LINE_ENDS if _LINES.search(text) else _NONE
