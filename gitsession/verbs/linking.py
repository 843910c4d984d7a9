"""Which sessions a commit holds work of, and which commits hold a session's: asked, not only remembered.

Git hooks note links as commits are made; what no hook saw (a cherry-pick, ``reset --soft``, another tool, a server's
squash) is found here from what the commits and the ledgers hold, and noted then.  Content decides.  What content alone
cannot tell is inferred and called so: the same change as a linked commit, a commit that replaces one, the same bytes
at another path, lines that a checkpoint added.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from gitsession import claims, githook, links
from gitsession.errors import GitFailed, GitSessionError
from gitsession.git.repo import Repo
from gitsession.ids import CHECKPOINT, check_session_id

if TYPE_CHECKING:
    from gitsession.links import Entry, Fact

_TRAILER = re.compile(rf"^({links.SESSION}|{links.CHECKPOINT}): (\S+)\s*$", re.MULTILINE)
_NEW_BLOB: Final = re.compile(rb"^index [0-9a-f]+\.\.([0-9a-f]+)", re.MULTILINE)
_TELLING: Final = 8  # characters without white space that make a line one that tells something
_MOVED_SIZE: Final = 64  # bytes; smaller files are the same by chance
_PATHS: Final = 200  # that limit a search through history; beyond it is not limited
_LOOKED_AT: Final = 500  # commits
_NOT_OURS: Final = ("--exclude=refs/pinable*", "--exclude=refs/notes/*", "--exclude=refs/stash", "--all")


@dataclass(frozen=True)
class Link:
    """One commit's link to one session; see ``gitsession.links`` for what the fields mean."""

    commit: str
    session: str
    checkpoint: int | None
    label: str
    how: str
    files: tuple[str, ...]
    matched: int
    changed: int


@dataclass(frozen=True)
class Found:
    """One commit of a session: ``subject`` and ``date`` (ISO 8601) are the commit's."""

    link: Link
    subject: str
    date: str


class Linker:
    """Links of one repository.  What is found and was not known is noted, if that is possible."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self._common = os.fspath(repo.common_dir)
        self._facts = links.read(self._common)
        self._current = links.current(self._facts)
        self._answers: dict[str, list[Link]] = {}
        try:
            self.tips = claims.refresh(self._common, self.ask, trusting=False)
        except OSError:  # nothing can be written there
            self.tips = {}

    def ask(self, args: list[str], data: bytes = b"") -> bytes | None:
        """What git says, the user's index left alone; None if it fails."""
        try:
            return self.repo.git(*args, input=data, index=self.repo.common_dir / "pinable" / "none")
        except GitFailed:
            return None

    def of(self, commit: str) -> list[Link]:
        """The links of a commit, given by its full id."""
        if commit not in self._answers:
            self._answers[commit] = self._look(commit)
        return self._answers[commit]

    def claims_on(self, entries: Iterable[Entry]) -> links.Claims:
        """Which sessions brought these contents."""
        return claims.lookup(self._common, self.tips, entries)

    def commits(self, session: str) -> list[Found]:
        """The commits on any branch, tag or HEAD that hold work of a session, the newest first."""
        found = []
        for commit, date, subject in self._candidates(session):
            with suppress(GitSessionError):
                found += [Found(link, subject, date) for link in self.of(commit) if link.session == session]
        return found

    # One commit

    def _look(self, commit: str) -> list[Link]:
        oid, tree, parent, entries = githook.brought_by(self.ask, commit)
        facts = links.decide(entries, self.claims_on(entries))
        facts += self._remembered(oid, entries, {fact["session"] for fact in facts})
        if not facts:
            facts = self._same_change(oid) or self._moved(entries)
        done = {fact["session"] for fact in facts}
        matched = {path for fact in facts for path in fact["files"]}
        rest = [path for path, _ in entries if links.text(path) not in matched]
        facts += [fact for fact in self._by_lines(oid, parent, rest, len(entries)) if fact["session"] not in done]
        done = {fact["session"] for fact in facts}
        facts += [fact for fact in self._said(oid, len(entries)) if fact["session"] not in done]
        self._remember(oid, tree, parent, facts)
        return [_link(oid, fact) for fact in facts]

    def _remembered(self, commit: str, entries: Sequence[Entry], known: set[str]) -> list[Fact]:
        """What was noted and content does not tell again: who made it, or a session that is no longer there."""
        seen = self.claims_on(entries)
        return [
            {**fact, "checkpoint": _newest(seen, fact["session"])} if fact["how"] == "agent" else fact
            for (one, session), fact in self._current.items()
            if one == commit
            and session not in known
            and (fact["how"] in ("agent", "rewrite", "patch") or session.encode() not in self.tips)
        ]

    def _same_change(self, commit: str) -> list[Fact]:
        patch = githook.patch_ids(self.ask, [commit]).get(commit)
        same = [fact for fact in self._current.values() if patch and fact.get("patch") == patch]
        by_session = {fact["session"]: fact for fact in same}
        return [{**fact, "label": links.INFERRED, "how": "patch"} for fact in by_session.values()]

    def _moved(self, entries: Sequence[Entry]) -> list[Fact]:
        """Contents that a session brought to another path."""
        hits = [(path, oid, claims.elsewhere(self._common, self.tips, oid)) for path, oid in entries]
        hits = [hit for hit in hits if hit[2]]
        if not hits:
            return []
        asked = b"".join(oid + b"\n" for _, oid, _ in hits)
        sizes = [line.split()[-1] for line in (self.ask(["cat-file", "--batch-check"], asked) or b"").splitlines()]
        moved: dict[bytes, list[tuple[int, bytes]]] = {}
        for (path, _, brought), size in zip(hits, sizes, strict=False):
            if size.isdigit() and int(size) >= _MOVED_SIZE:
                for session, _, index in brought:
                    moved.setdefault(session, []).append((index, path))
        label = links.INFERRED if len(moved) == 1 else links.AMBIGUOUS
        return [
            links.fact(session, max(found)[0], label, "moved", sorted({path for _, path in found}), len(entries))
            for session, found in moved.items()
        ]

    def _said(self, commit: str, changed: int) -> list[Fact]:
        """What the message's trailers say of sessions that this repository cannot check."""
        message = (self.ask(["cat-file", "commit", commit]) or b"").decode("utf-8", "replace").partition("\n\n")[2]
        pairs: list[tuple[str, int | None]] = []
        for key, value in _TRAILER.findall(message):
            if key == links.SESSION and _is_id(value):
                pairs.append((value, None))
            elif key == links.CHECKPOINT and pairs and re.fullmatch(CHECKPOINT, value):
                pairs[-1] = (pairs[-1][0], int(value))
        return [
            links.fact(session.encode(), index, links.INFERRED, "trailer", [], changed)
            for session, index in dict(pairs).items()
            if session.encode() not in self.tips or index is None
        ]

    def _by_lines(self, commit: str, parent: str | None, paths: Sequence[bytes], changed: int) -> list[Fact]:
        """Sessions whose checkpoints added most of the lines that the commit adds to a file."""
        if not paths or not self.tips or parent is None:
            return []
        replaced = self._replaced(commit)
        facts = []
        for session, touched in self._sessions_that_changed(set(paths)).items():
            added = added_lines(self.ask, ["diff-tree", *_PATCH, parent, commit], touched)
            hits = {path: self.lines_of(session, path) for path in added}
            found = {path: likeness(added[path], hits[path]) for path in added}
            held = [path for path, index in found.items() if index is not None]
            if held:
                how = "rewrite" if session.decode() in replaced else "lines"
                index = max(index for index in found.values() if index is not None)
                facts.append(links.fact(session, index, links.INFERRED, how, held, changed))
        return facts

    def _replaced(self, commit: str) -> set[str]:
        """The sessions of the commits that this one replaces, however often it was rewritten."""
        older: dict[str, set[str]] = {}
        for fact in self._facts:
            if "rewrite" in fact:
                older.setdefault(fact["new"], set()).add(fact["old"])
        pending, seen = [commit], {commit}
        while pending:
            for old in older.get(pending.pop(), set()) - seen:
                seen.add(old)
                pending.append(old)
        return {session for one, session in self._current if one in seen}

    @cached_property
    def _bases(self) -> dict[bytes, bytes]:
        """The base commit of each session, in full."""
        names = [name for name, (_, generation) in self.tips.items() if generation != b"-"]
        asked = b"".join(self.tips[name][1] + b"\n" for name in names)
        answers = (self.ask(["cat-file", "--batch-check"], asked) or b"").splitlines()
        return {name: line.split()[0] for name, line in zip(names, answers, strict=False) if b" commit " in line}

    def _sessions_that_changed(self, paths: set[bytes]) -> dict[bytes, list[bytes]]:
        """Session to those of ``paths`` that differ between its base and its newest checkpoint."""
        pairs = {b"%b %b" % (base, self.tips[name][0]): name for name, base in self._bases.items()}
        trees = dict(zip(self._tree_pairs(list(pairs)), pairs.values(), strict=False))
        if not trees:
            return {}
        asked = b"".join(heading + b"\n" for heading in trees)
        limit = [os.fsdecode(path) for path in paths] if len(paths) <= _PATHS else []
        options = ["--stdin", "-r", "-z", "--no-renames", "--no-abbrev"]
        out = self.ask(["diff-tree", *options, "--", *limit], asked) or b""
        found: dict[bytes, list[bytes]] = {}
        for heading, path, _, _ in claims.raw_entries(out):
            if path in paths:
                found.setdefault(trees[heading], []).append(path)
        return found

    def _tree_pairs(self, pairs: list[bytes]) -> list[bytes]:
        """The trees of pairs of commits, as ``diff-tree --stdin`` takes and repeats them."""
        asked = b"".join(b"%b^{tree}\n%b^{tree}\n" % (*pair.split(b" "),) for pair in pairs)
        trees = [line.split()[0] for line in (self.ask(["cat-file", "--batch-check"], asked) or b"").splitlines()]
        return [b"%b %b" % pair for pair in zip(trees[::2], trees[1::2], strict=True)]

    def lines_of(self, session: bytes, path: bytes) -> dict[bytes, int]:
        """The lines a session's checkpoints added to a path, each with the index of the newest that did."""
        base, tip = self._bases.get(session), self.tips[session][0]
        if base is None:
            return {}
        options = ["log", "--first-parent", "--reverse", "--format=%x00%(trailers:key=Pinable-Checkpoint,valueonly)"]
        limits = [f"{base.decode()}..{tip.decode()}", "--", os.fsdecode(path)]
        found: dict[bytes, int] = {}
        for part in (self.ask([*options, "--full-index", *_PATCH, *limits]) or b"").split(b"\0")[1:]:
            index, _, patch = part.partition(b"\n")
            blob = _NEW_BLOB.search(patch)
            if re.fullmatch(CHECKPOINT.encode(), index) and blob and self._is_work(session, path, blob[1]):
                found |= dict.fromkeys(_added(patch), int(index))
        return found

    def _is_work(self, session: bytes, path: bytes, blob: bytes) -> bool:
        """Whether a session brought this content itself, and no move of HEAD did."""
        claim = self.claims_on([(path, blob)]).get((path, blob), {}).get(session)
        return claim is not None and claim[1] != b"H"

    # Many commits

    def _candidates(self, session: str) -> list[tuple[str, str, str]]:
        """(commit, date, subject) of commits that may hold work of a session, the newest first."""
        base = self._bases.get(session.encode())
        known = [one for one, name in self._current if name == session]
        found: dict[str, tuple[str, str, str]] = {}
        if base is not None:
            head = self.ask(["rev-parse", "--verify", "--quiet", f"{base.decode()}^"])
            since = ["--not", head.decode().strip()] if head else []
            for line in self._log(["--full-history", *_NOT_OURS, *since], self._paths_of(session.encode())):
                found[line[0]] = line
        for commit in known:
            if commit not in found and self._is_reachable(commit):
                found |= {line[0]: line for line in self._log(["--no-walk", commit], [])}
        return list(found.values())[:_LOOKED_AT]

    def _log(self, arguments: list[str], paths: list[bytes]) -> list[tuple[str, str, str]]:
        limit = [os.fsdecode(path) for path in paths] if len(paths) <= _PATHS else []
        options = ["--no-show-signature", "-z", "--format=%H%x1f%cI%x1f%s"]
        out = self.ask(["log", *options, *arguments, "--", *limit]) or b""
        lines = [part.decode("utf-8", "replace").split("\x1f", 2) for part in out.split(b"\0") if part]
        return [(commit, date, subject) for commit, date, subject in lines]

    def _paths_of(self, session: bytes) -> list[bytes]:
        """Every path that a checkpoint of a session changed."""
        base, tip = self._bases[session], self.tips[session][0]
        options = ["log", "--first-parent", "--format=", "--name-only", "--no-renames", "-z"]
        out = self.ask([*options, f"{base.decode()}..{tip.decode()}"]) or b""
        return sorted({path.lstrip(b"\n") for path in out.split(b"\0")} - {b""})

    def _is_reachable(self, commit: str) -> bool:
        """Whether a branch, a tag or HEAD leads to a commit: what was rewritten is nobody's any more."""
        places = ["refs/heads", "refs/remotes", "refs/tags"]
        if self.ask(["for-each-ref", "--count=1", f"--contains={commit}", *places]):
            return True
        return self.ask(["merge-base", "--is-ancestor", commit, "HEAD"]) is not None

    def _remember(self, commit: str, tree: str, parent: str | None, facts: list[Fact]) -> None:
        """Note what was not known."""
        new = [fact for fact in facts if not _same(self._current.get((commit, fact["session"])), fact)]
        if not new or not (self.repo.common_dir / "pinable").is_dir():
            return
        patch = githook.patch_ids(self.ask, [commit]).get(commit)
        whole = {"commit": commit, "tree": tree, "parent": parent, "patch": patch}
        noted = [{**fact, **whole} for fact in new]
        with suppress(OSError):
            links.append(self._common, noted)
        self._current |= links.current(noted)


_PATCH: Final = ("-r", "-p", "-U0", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")


def added_lines(ask: claims.Git, command: list[str], paths: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """The telling lines that a diff adds, by path."""
    found = {}
    for path in paths:
        lines = _added(ask([*command, "--", os.fsdecode(path)], b"") or b"")
        if lines:
            found[path] = lines
    return found


def likeness(added: Sequence[bytes], known: dict[bytes, int]) -> int | None:
    """The newest index among the lines that are known, if those are at least half of what was added."""
    hits = [known[line] for line in added if line in known]
    return max(hits) if hits and len(hits) * 2 >= len(added) else None


def _added(patch: bytes) -> list[bytes]:
    """The telling lines among those a patch adds, without the white space around them."""
    lines = [line[1:].strip() for line in patch.split(b"\n") if line.startswith(b"+") and not line.startswith(b"+++ ")]
    return [line for line in lines if len(b"".join(line.split())) >= _TELLING]


def _newest(seen: links.Claims, session: str) -> int | None:
    """The newest checkpoint of a session that had one of these contents."""
    own = [claim[0] for owners in seen.values() for name, claim in owners.items() if name.decode() == session]
    return max(own, default=None)


def _link(commit: str, fact: Fact) -> Link:
    return Link(
        commit=commit,
        session=fact["session"],
        checkpoint=fact.get("checkpoint"),
        label=fact["label"],
        how=fact["how"],
        files=tuple(fact.get("files", ())),
        matched=fact.get("matched", 0),
        changed=fact.get("changed", 0),
    )


def _same(known: Fact | None, fact: Fact) -> bool:
    told = ("checkpoint", "label", "how", "files")
    return known is not None and all(known.get(name) == fact.get(name) for name in told)


def _is_id(text: str) -> bool:
    try:
        check_session_id(text)
    except GitSessionError:
        return False
    return True
