"""Why a commit, a line, a file or a range of commits is as it is: the sessions whose work is in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitsession import paths
from gitsession.errors import BadValue, GitFailed, GitSessionError, UsageError
from gitsession.git.repo import Repo, real_place
from gitsession.lifecycle import Doc
from gitsession.links import INFERRED
from gitsession.store.sessions import SessionStore
from gitsession.verbs.linking import Link, Linker

_LINE: Final = re.compile(r"(.+?):(\d{1,9})(?:-(\d{1,9}))?", re.DOTALL)
_RANGE: Final = re.compile(r"(.*?)\.\.\.?(.*)", re.DOTALL)
_HEADER: Final = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)(?: \d+)?")
_COMMITS: Final = 1000  # of a range that are looked at


@dataclass(frozen=True)
class Origin:
    """A session's part in something.  ``task`` is the prompt; what is not known here (another machine's session) is
    None.

    ``cost_usd`` is the checkpoint's, ``session_cost_usd`` the whole session's; ``None`` where it is not known.
    ``findings`` are the review's on the files of the link, as in the session's record.
    """

    link: Link
    backend: str | None = None
    model: str | None = None
    task: str | None = None
    description: str | None = None
    phase: str | None = None
    timestamp: str | None = None
    tokens: tuple[int, int] | None = None
    cost_usd: float | None = None
    session_cost_usd: float | None = None
    findings: tuple[Doc, ...] = ()


@dataclass(frozen=True)
class CommitAnswer:
    """A commit and the sessions whose work it holds; ``date`` is ISO 8601."""

    commit: str
    subject: str
    author: str
    date: str
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class LinesAnswer:
    """Lines ``first`` to ``last`` of a file.

    ``commit`` brought them (``None``: they are not committed yet).  ``origin`` is the session they are from, ``None``
    if they are from none, whatever else the commit holds.  ``text`` is the first line.
    """

    path: str
    first: int
    last: int
    text: str
    commit: CommitAnswer | None
    origin: Origin | None


Answer = CommitAnswer | LinesAnswer


def why(store: SessionStore, start: Path, what: str) -> list[Answer]:
    """What ``what`` means in the repository at ``start``: ``FILE:LINE``, ``FILE:FROM-TO``, a file, ``A..B`` or a
    commit.

    Of a range, only commits with links; of a file, runs of lines of one origin.  ``UsageError`` if it means nothing.
    """
    asked = _Asked(store, start)
    line = _LINE.fullmatch(what)
    if line and asked.is_file(line[1]):
        first = int(line[2])
        return list(asked.lines(line[1], first, int(line[3] or first)))
    commit = asked.commit(what)
    if commit is not None:
        return [asked.about(commit)]
    ends = _RANGE.fullmatch(what)
    if ends and all(not end or asked.commit(end) for end in ends.groups()):
        return [answer for answer in asked.range(what) if answer.origins]
    if asked.is_file(what):
        return list(asked.lines(what, None, None))
    raise UsageError(
        f"{what!r} is no commit, no range of commits and no tracked file here",
        hint="for example: why HEAD, why main..topic, why src/app.py, why src/app.py:42",
    )


class _Asked:
    """Answers about one repository."""

    def __init__(self, store: SessionStore, start: Path) -> None:
        self.repo = Repo.discover(start)
        self._start = start
        self._origins = Origins(store, self.repo)
        self._linker = Linker(self.repo)
        self._described: dict[str, CommitAnswer] = {}
        self._ledgers: dict[tuple[str, int, bytes], dict[int, int | None]] = {}

    def commit(self, text: str) -> str | None:
        """The full id of the commit that ``text`` means."""
        if text.startswith("-"):
            return None
        options = ["--verify", "--quiet", "--end-of-options"]
        out = self.repo.git("rev-parse", *options, f"{text}^{{commit}}", ok=(0, 1, 128))
        found = out.decode("utf-8", "replace").split()
        return found[0] if len(found) == 1 and not found[0].startswith("^") else None

    def is_file(self, text: str) -> bool:
        """Whether it is a tracked file."""
        path = self._path(text)
        if not path:  # outside, or the working tree itself
            return False
        return self.repo.git("ls-files", "-z", "--", path, ok=(0, 128)).strip(b"\0") == path

    def _path(self, text: str) -> bytes | None:
        return self.repo.path_of(real_place(self._start / text))

    def range(self, text: str) -> Iterator[CommitAnswer]:
        out = self.repo.git("rev-list", f"--max-count={_COMMITS}", "--end-of-options", text, "--")
        for commit in out.decode().split():
            yield self.about(commit)

    def about(self, commit: str) -> CommitAnswer:
        return self._describe(commit, [self._origins.of(link) for link in self._linker.of(commit)])

    def _describe(self, commit: str, origins: Sequence[Origin]) -> CommitAnswer:
        options = ["--no-walk", "--no-show-signature", "--format=%an%x00%cI%x00%s"]
        out = self.repo.git("log", *options, commit).decode("utf-8", "replace").rstrip("\n")
        author, date, subject = out.split("\0", 2)
        return CommitAnswer(commit, subject, author, date, tuple(origins))

    # Lines

    def lines(self, text: str, first: int | None, last: int | None) -> Iterator[LinesAnswer]:
        """Runs of lines with one origin; ``first`` and ``last`` count from 1, None means all."""
        path = self._path(text)
        assert path is not None  # noqa: S101 - is_file
        limit = [] if first is None else [f"-L{first},{last}"]
        try:
            out = self.repo.git("blame", "--porcelain", *limit, "--", path)
        except GitFailed as failure:
            raise self._no_such_lines(text, path) or failure from None
        run: LinesAnswer | None = None
        for line in _blamed(out):
            answer = self._about_line(path, line)
            if run is not None and (run.commit, run.origin) == (answer.commit, answer.origin):
                run = LinesAnswer(run.path, run.first, answer.last, run.text, run.commit, run.origin)
                continue
            if run is not None:
                yield run
            run = answer
        if run is not None:
            yield run

    def _no_such_lines(self, text: str, path: bytes) -> BadValue | None:
        """Why lines that were asked for are not there; ``None`` if the file is gone, too."""
        try:
            with (self.repo.worktree / os.fsdecode(path)).open("rb") as file:
                count = sum(1 for _ in file)
        except OSError:
            return None
        return BadValue(f"{text} has {count:,} {'line' if count == 1 else 'lines'}", hint="lines count from 1")

    def _about_line(self, path: bytes, line: _Blamed) -> LinesAnswer:
        committed = bool(line.commit.strip("0"))
        commit = self._described_once(line.commit) if committed else None
        origin = self._of_line(line) if committed else self._of_uncommitted(path, line)
        text = line.text.decode("utf-8", "replace")
        return LinesAnswer(paths.encode(path), line.number, line.number, text, commit, origin)

    def _described_once(self, commit: str) -> CommitAnswer:
        if commit not in self._described:
            self._described[commit] = self._describe(commit, ())
        return self._described[commit]

    def _of_line(self, line: _Blamed) -> Origin | None:
        """The session a committed line is from: the one in whose ledger it appeared."""
        blob = self._blob(f"{line.commit}:".encode() + line.path)
        for link in self._linker.of(line.commit):
            if link.label == INFERRED:
                index = self._linker.lines_of(link.session.encode(), line.path).get(line.text.strip())
                if index is not None and link.session.encode() in self._linker.tips:
                    return self._origins.of(_at(link, index))
                continue
            if blob is None:
                continue
            claim = self._linker.claims_on([(line.path, blob)]).get((line.path, blob), {}).get(link.session.encode())
            if claim is None and link.how == "agent" and paths.encode(line.path) in link.files:
                return self._origins.of(link)
            index = self._appeared(link.session, claim[0], line.path, line.origin) if claim is not None else None
            if index is not None:
                return self._origins.of(_at(link, index))
        return None

    def _of_uncommitted(self, path: bytes, line: _Blamed) -> Origin | None:
        """The same of a line that is only in the working tree."""
        blob = self.repo.git("hash-object", "--", path).strip()
        for session, (index, _) in self._linker.claims_on([(path, blob)]).get((path, blob), {}).items():
            found = self._appeared(session.decode(), index, path, line.number)
            if found is not None:
                files = (paths.encode(path),)
                return self._origins.of(Link("", session.decode(), found, "certain", "content", files, 1, 1))
        return None

    def _blob(self, name: bytes) -> bytes | None:
        out = self.repo.git("cat-file", "--batch-check", input=name + b"\n") if b"\n" not in name else b""
        return out.split(b" ")[0] if b" blob " in out else None

    def _appeared(self, session: str, index: int, path: bytes, number: int) -> int | None:
        """At which checkpoint line ``number`` of a file, as checkpoint ``index`` has it, appeared; None: before."""
        key = (session, index, path)
        if key not in self._ledgers:
            self._ledgers[key] = self._blame_ledger(session, index, path)
        return self._ledgers[key].get(number)

    def _blame_ledger(self, session: str, index: int, path: bytes) -> dict[int, int | None]:
        commits = self._origins.commits(session)
        commit = next((oid for oid, number in commits.items() if number == index), None)
        if commit is None:
            return {}
        try:
            out = self.repo.git("blame", "--porcelain", commit, "--", path)
        except GitFailed:
            return {}
        return {line.number: commits.get(line.commit) for line in _blamed(out)}


@dataclass(frozen=True)
class _Blamed:
    """One line: where ``commit`` has it (``path``, ``origin``), and its number now."""

    commit: str
    path: bytes
    origin: int
    number: int
    text: bytes


def _blamed(out: bytes) -> Iterator[_Blamed]:
    """The lines of ``git blame --porcelain``."""
    names: dict[bytes, bytes] = {}
    header: re.Match[bytes] | None = None
    for line in out.split(b"\n"):
        if line.startswith(b"\t") and header is not None:
            commit, origin, number = header.groups()
            yield _Blamed(commit.decode(), names.get(commit, b""), int(origin), int(number), line[1:])
            header = None
        elif header is None:
            header = _HEADER.fullmatch(line)
        elif line.startswith(b"filename "):
            names[header[1]] = paths.decode(os.fsdecode(line[9:])) if line[9:10] == b'"' else line[9:]


def _at(link: Link, index: int) -> Link:
    return Link(link.commit, link.session, index, link.label, link.how, link.files, link.matched, link.changed)


class Origins:
    """What is known of the sessions that links name: from their records, else from their commits."""

    def __init__(self, store: SessionStore, repo: Repo) -> None:
        self._store = store
        self._repo = repo
        self._docs: dict[str, Doc | None] = {}
        self._indices: dict[str, dict[str, int]] = {}

    def of(self, link: Link) -> Origin:
        doc = self._doc(link.session)
        if doc is None:
            return Origin(link)
        record = self._checkpoint(doc, link.checkpoint)
        tokens = record.get("tokens_used")
        findings = [one for one in doc.get("findings") or [] if isinstance(one, dict) and one.get("file") in link.files]
        return Origin(
            link=link,
            backend=doc.get("backend"),
            model=doc.get("model"),
            task=doc.get("task"),
            description=record.get("description"),
            phase=record.get("phase"),
            timestamp=record.get("timestamp"),
            tokens=(tokens.get("input", 0), tokens.get("output", 0)) if isinstance(tokens, dict) else None,
            cost_usd=record.get("cost_usd"),
            session_cost_usd=doc.get("cost", {}).get("estimated_cost_usd"),
            findings=tuple(findings),
        )

    def commits(self, session: str) -> dict[str, int]:
        """The commits of a session's checkpoints, each with its index."""
        if session not in self._indices:
            options = ["--first-parent", "--format=%H %(trailers:key=Pinable-Checkpoint,valueonly,separator=)"]
            with suppress(GitFailed):
                out = self._repo.git("log", *options, f"refs/pinable/{session}", "--").decode("utf-8", "replace")
                self._indices[session] = dict(_until_base(out))
        return self._indices.get(session, {})

    def _checkpoint(self, doc: Doc, index: int | None) -> Doc:
        records = (one for one in doc.get("checkpoints", []) if isinstance(one, dict) and one.get("index") == index)
        return next(records, {})

    def _doc(self, session: str) -> Doc | None:
        if session not in self._docs:
            self._docs[session] = self._from_store(session) or self._from_git(session)
        return self._docs[session]

    def _from_store(self, session: str) -> Doc | None:
        with suppress(GitSessionError):
            return self._store.read(session)
        return None

    def _from_git(self, session: str) -> Doc | None:
        """What the ledger's commits say: the record without what only the session file has."""
        from contextlib import closing

        from gitsession.git.ledger import Ledger
        from gitsession.git.objects import Objects

        doc: dict[str, Any] = {"checkpoints": []}
        with suppress(GitSessionError), closing(Objects(self._repo)) as objects:
            for commit in Ledger(self._repo, objects, session).commits():
                record = commit.record or {}
                if "session" in record:
                    doc |= record["session"]
                else:
                    doc["checkpoints"].append(record)
        return doc if "backend" in doc else None


def _until_base(out: str) -> Iterator[tuple[str, int]]:
    for line in out.splitlines():
        commit, _, index = line.partition(" ")
        if not index.isdecimal():
            return
        yield commit, int(index)
