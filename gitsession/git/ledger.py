"""The ledger: one session's checkpoints as commits on a ref of its own.

``refs/pinable/<id>`` names the newest checkpoint's commit; its first parent is the checkpoint before, down to the base,
whose parent is what HEAD was.  The tree is the files.  The message, UTF-8::

    checkpoint 1: Implement the login form

    Pinable-Session: sess_1740477296_9f3a1c2b
    Pinable-Checkpoint: 1                        ("base" for the base)
    Pinable-Phase: implementation                (left out when there is none)
    Pinable-Record: {"index":1,…}                (the checkpoint's record, JSON on one line)

The subject is for people: one line, without control characters, cut at 200 characters.  The record is exact: what
could break a line, a terminal or the reading direction stands as a JSON escape in it.

``refs/pinable-meta/<id>`` names a commit like it, without a record, whose tree holds the exact bytes of files that
git's filters would not give back.  ``refs/pinable-trash/<id>`` and ``refs/pinable-meta-trash/<id>`` hold both of a
deleted session; for further ones deleted under the same id ``@2``, ``@3`` … follow the name (``@`` is in no id).

A ref moves only from where the caller believes it to be, after everything it will name is on the disk.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from gitsession import seam
from gitsession.errors import GitFailed, RefMoved, RepositoryError, SessionBusy
from gitsession.git import trees
from gitsession.git.objects import Objects, sync
from gitsession.git.repo import Repo, Running, lock_taken
from gitsession.git.trees import Entry

Record = dict[str, Any]

BASE: Final = "base"
_IDENTITY: Final = "gitsession <gitsession@localhost>"
_SUBJECT_LENGTH: Final = 200
_STALE: Final = 2.0  # seconds that a lock file must stay the same before it is taken for a dead process's
_PATIENCE: Final = 10.0  # seconds to wait for a lock that changes hands
_PAUSE: Final = 0.02
# libgit2's words when the lock file is there, and when it comes just before libgit2 makes its own.
_LOCKED: Final = re.compile("failed to lock|failed to create locked file .*: File exists", re.DOTALL)
# C0 and C1 controls, line and paragraph separators, marks that turn the reading direction, halves of characters.
_UNSAFE = "\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff"
_UNSAFE_RUN = re.compile(f"[\\s{_UNSAFE}]+")
_UNSAFE_ONE = re.compile(f"[{_UNSAFE}]")


class LedgerCommit(NamedTuple):
    """One commit of a ledger; ``record`` is None only where the message holds none, so that it is not ours."""

    oid: str
    tree: str
    parent: str | None
    record: Record | None


class Ledger:
    """The ledger of session ``session_id`` in ``repo``.  Whoever writes holds the session's write lock."""

    def __init__(self, repo: Repo, objects: Objects, session_id: str) -> None:
        self.repo = repo
        self.objects = objects
        self.session_id = session_id
        self.ref = f"refs/pinable/{session_id}"
        self.meta_ref = f"refs/pinable-meta/{session_id}"
        self.broken_locks: list[Path] = []
        """Lock files of dead processes that stood in the way and were removed."""

    def tip(self) -> str | None:
        """The newest commit, None before the base."""
        return self._read(self.ref)

    def meta_tip(self) -> str | None:
        """The newest commit that holds exact bytes, None if there is none."""
        return self._read(self.meta_ref)

    def append(
        self,
        tree: str,
        *,
        tip: str | None,
        parent: str | None,
        subject: str,
        record: Record,
        index: int | None = None,
        phase: str | None = None,
        timestamp: float | None = None,
    ) -> str:
        """Commit ``tree`` and everything pending in ``objects``, and move the ref from ``tip`` to it; the commit's id.

        ``parent`` is the checkpoint before, for the base (``index`` None) HEAD.  ``timestamp`` is Unix seconds, now by
        default.  Errors: ``RefMoved`` when the ref is not at ``tip``, ``SessionBusy`` when it stays locked,
        ``CaptureError`` when the objects cannot be written; in each case the ref is where it was.
        """
        trailers = self._trailers(index) + ([("Pinable-Phase", one_line(phase))] if phase else [])
        trailers.append(("Pinable-Record", _json_line(record)))
        with self._mover() as mover:
            commit = self._commit(tree, parent, subject, trailers, timestamp)
            self._move(self.ref, commit, tip, mover)
        self.objects.release()
        return commit

    def commits(self, newest: str | None = None) -> Iterator[LedgerCommit]:
        """The commits, newest first (``newest``, the tip by default), down to the base.

        A commit that is not this session's ends them, too.
        """
        oid = newest or self.tip()
        while oid is not None:
            commit, checkpoint = self._parse(oid)
            yield commit
            oid = None if checkpoint in (None, BASE) else commit.parent

    def keep_raw(self, raw: Mapping[bytes, Entry], index: int | None) -> str | None:
        """Keep exact bytes, by path, for checkpoint ``index``; the commit that holds them, None if there are none."""
        if not raw:
            return None
        tip = self._read(self.meta_ref)
        before = self.raw(tip)
        changes: dict[bytes, Entry | None] = dict.fromkeys(before.keys() - raw.keys())
        changes |= {path: entry for path, entry in raw.items() if before.get(path) != entry}
        if tip is not None and not changes:
            return tip
        tree = trees.update(self.objects, None if tip is None else self._parse(tip)[0].tree, changes)
        subject = f"exact bytes for {BASE if index is None else f'checkpoint {index}'}"
        commit = self._commit(tree, tip, subject, self._trailers(index), None)
        self._move(self.meta_ref, commit, tip)
        return commit

    def raw(self, meta: str | None) -> dict[bytes, Entry]:
        """What ``keep_raw`` kept in commit ``meta``."""
        return {} if meta is None else dict(trees.walk(self.objects, self._parse(meta)[0].tree))

    # Moving house

    def take_in(self, tip: str, meta: str | None) -> None:
        """Make the refs name commits that came from elsewhere; ``RefMoved`` if they name others."""
        for ref, value in ((self.meta_ref, meta), (self.ref, tip)):
            now = self._read(ref)
            if value is not None and now != value:
                self._move(ref, value, None)
        self.objects.release()

    def graft(self, tip: str) -> dict[str, str]:
        """Make the commits down to the base of ``tip`` anew, with a base that has no parent; the new id of each."""
        renamed: dict[str, str] = {}
        for commit in reversed(list(self.commits(tip))):
            data = self.objects.read(commit.oid)[1]
            head, _, message = data.partition(b"\n\n")
            lines = [line for line in head.split(b"\n") if not line.startswith(b"parent ")]
            if commit.parent in renamed:
                lines.insert(1, b"parent " + renamed[commit.parent].encode())
            renamed[commit.oid] = self.objects.add("commit", b"\n".join(lines) + b"\n\n" + message)
        self.objects.flush()
        return renamed

    # Repair

    def lock_left(self) -> Path | None:
        """A lock file on one of the refs, held or left behind."""
        locks = (self.repo.common_dir / f"{ref}.lock" for ref in (self.ref, self.meta_ref))
        return next((lock for lock in locks if lock.exists()), None)

    def break_locks(self) -> None:
        """Remove lock files of dead processes (see ``_when_unlocked``); ``SessionBusy`` if somebody holds one."""
        for ref in (self.ref, self.meta_ref):
            self._when_unlocked(ref, partial(_refuse, self.repo.common_dir / f"{ref}.lock"))

    def put_back(self, commit: str) -> Path | None:
        """Make the ref name ``commit``, whatever it says; if it was unreadable, where its file went."""
        broken = None
        try:
            tip = self.tip()
        except RepositoryError:
            broken = self._take_away()
            tip = None
        if tip != commit:
            self._move(self.ref, commit, tip)
        return broken

    def _take_away(self) -> Path:
        """Move the ref's file, which nobody can read, out of the way."""
        file = self.repo.common_dir / self.ref
        kept = self.repo.private_dir / f"{self.session_id}.unreadable-ref"
        file.replace(kept)
        return kept

    # The trash

    def copy_to_trash(self) -> None:
        """Make the trash hold what the session's refs hold; doing it again changes nothing."""
        values = self._values(self.ref, self.meta_ref)
        number = self._newest_in_trash()
        if values not in ((None, None), self._values(*self._trash_refs(number))):
            # The checkpoints' ref comes last: where it is, all is.
            for ref, value in reversed(list(zip(self._trash_refs(number + 1), values, strict=True))):
                if value is not None:
                    self._move(ref, value, None)

    def is_in_trash(self) -> bool:
        """Whether the trash holds what the session's refs hold."""
        return self._values(self.ref, self.meta_ref) == self._values(*self._trash_refs(self._newest_in_trash()))

    def drop(self) -> None:
        """Delete the session's refs; ``RefMoved`` if the trash does not hold what they hold."""
        self._hand_over((self.ref, self.meta_ref), self._trash_refs(self._newest_in_trash()))

    def find_in_trash(self, commit: str) -> int | None:
        """The number under which the trash has the session whose checkpoints include ``commit``."""
        for number in reversed(self._numbers_in_trash()):
            tip = self._read(self._trash_refs(number)[0])
            if tip is not None and any(found.oid == commit for found in self.commits(tip)):
                return number
        return None

    def purge(self, number: int) -> None:
        """Delete what the trash has under ``number``; ``RefMoved`` if it changes meanwhile."""
        refs = self._trash_refs(number)
        # The checkpoints' ref goes last: as long as it is there, the rest can be found.
        for ref, value in reversed(list(zip(refs, self._values(*refs), strict=True))):
            if value is not None:
                self._move(ref, None, value)

    def bring_back(self, number: int | None = None) -> None:
        """Make the session's refs what they were when it was deleted, the last time or the one that has ``number``.

        ``RefMoved`` if there are others by now.
        """
        trash = self._trash_refs(self._newest_in_trash() if number is None else number)
        live = (self.ref, self.meta_ref)
        for ref, value, now in zip(live, self._values(*trash), self._values(*live), strict=True):
            if value not in (None, now):
                self._move(ref, value, None)
        self._hand_over(trash, live)

    def _hand_over(self, refs: tuple[str, str], heirs: tuple[str, str]) -> None:
        """Delete ``refs``, each of which its heir must equal."""
        for ref, value, kept in zip(refs, self._values(*refs), self._values(*heirs), strict=True):
            if value not in (None, kept):
                raise RefMoved(f"{ref} is at {value}, its copy at {kept or 'nothing'}")
            if value is not None:
                self._move(ref, None, value)

    def _values(self, *refs: str) -> tuple[str | None, ...]:
        return tuple(self._read(ref) for ref in refs)

    def _trash_refs(self, number: int) -> tuple[str, str]:
        name = self.session_id if number < 2 else f"{self.session_id}@{number}"
        return f"refs/pinable-trash/{name}", f"refs/pinable-meta-trash/{name}"

    def _newest_in_trash(self) -> int:
        """The number of the session last deleted under this id, 0 if there is none."""
        return max(self._numbers_in_trash(), default=0)

    def _numbers_in_trash(self) -> list[int]:
        """The numbers of the sessions deleted under this id, the oldest first; the first's is 1."""
        listing = self.repo.git("for-each-ref", "--format=%(refname)", "refs/pinable-trash", "refs/pinable-meta-trash")
        names = {name.rpartition("/")[2] for name in listing.decode("utf-8", "replace").splitlines()}
        numbers = [name.partition("@")[2] for name in names if name.startswith(f"{self.session_id}@")]
        further = sorted(int(number) for number in numbers if number.isdecimal())
        return [1, *further] if self.session_id in names else further

    # Commits

    def _trailers(self, index: int | None) -> list[tuple[str, str]]:
        return [("Pinable-Session", self.session_id), ("Pinable-Checkpoint", BASE if index is None else str(index))]

    def _commit(
        self, tree: str, parent: str | None, subject: str, trailers: list[tuple[str, str]], timestamp: float | None
    ) -> str:
        """Put a commit into the batch and the batch on the disk; its id."""
        when = int(time.time() if timestamp is None else timestamp)
        lines = [f"tree {tree}"]
        if parent is not None:
            lines.append(f"parent {parent}")
        lines += [f"{role} {_IDENTITY} {when} +0000" for role in ("author", "committer")]
        lines += ["", one_line(subject, _SUBJECT_LENGTH), "", *(f"{key}: {value}" for key, value in trailers), ""]
        oid = self.objects.add("commit", "\n".join(lines).encode())
        self.objects.flush()
        return oid

    def _parse(self, oid: str) -> tuple[LedgerCommit, str | None]:
        """A commit, and what its ``Pinable-Checkpoint`` says: None if it is not this session's."""
        kind, data = self.objects.read(oid)
        if kind != "commit":
            raise RepositoryError(f"{self.ref} leads to {oid}, a {kind} and not a commit")
        head, _, message = data.decode("utf-8", "replace").partition("\n\n")
        fields = _pairs(head, " ")
        trailers = _pairs(message.rstrip("\n").rpartition("\n\n")[2], ": ")
        ours = trailers.get("Pinable-Session") == self.session_id
        record = trailers.get("Pinable-Record") if ours else None
        commit = LedgerCommit(oid, fields["tree"], fields.get("parent"), _record(record))
        return commit, trailers.get("Pinable-Checkpoint") if ours else None

    # Refs

    @cached_property
    def _libgit(self) -> Any:
        """libgit2's refs; None where it refuses the repository, or would write a reflog."""
        libgit = self.repo.libgit()
        if libgit is None:
            return None
        logs = list(libgit.config.get_multivar("core.logallrefupdates"))[-1:]
        return None if logs and (logs[0] or "").lower() == "always" else libgit.references

    def _read(self, ref: str) -> str | None:
        if self._libgit is None:
            said = self.repo.loose(ref) or self.repo.git("rev-parse", "--verify", "--quiet", ref, ok=(0, 1)).decode()
            return said.strip() or None
        from pygit2 import GitError

        try:
            found = self._libgit.get(ref)
        except GitError as error:
            raise RepositoryError(f"{ref} cannot be read: {error}", hint="see 'git fsck'") from error
        return None if found is None else str(found.target)

    @contextmanager
    def _mover(self) -> Iterator[Running | None]:
        """The git that is to move a ref, where git does that: it starts while objects are brought to the disk."""
        if self._libgit is None:
            with self._start_mover() as mover:
                yield mover
        else:
            yield None

    def _start_mover(self) -> Running:
        return self.repo.start("update-ref", "--no-deref", "--stdin", "-z")

    def _move(self, ref: str, new: str | None, old: str | None, mover: Running | None = None) -> None:
        """Move ``ref`` from ``old`` to ``new`` (None: no such ref), on the disk when it returns."""
        seam.reach("ref.update")
        if self._libgit is None:
            movers = [mover] if mover is not None else []
            self._when_unlocked(ref, lambda: self._move_by_program(ref, new, old, movers))
        else:
            self._when_unlocked(ref, lambda: self._move_by_libgit(ref, new, old))
        if self.repo.ref_format == "files":
            # Also the directory above: ours may be new in it.
            seam.reach("ref.sync-dir")
            place = self.repo.common_dir / ref
            for directory in (place.parent, place.parent.parent):
                try:
                    if directory.is_dir():  # git removes those that became empty
                        sync(directory)
                except OSError as error:
                    raise RepositoryError(
                        f"cannot bring {ref} to the disk: {error.strerror}", hint="what it named before is still there"
                    ) from error

    def _move_by_libgit(self, ref: str, new: str | None, old: str | None) -> None:
        """libgit2 locks ``packed-refs``, where a kill would leave the user a lock, only for a ref that is in it."""
        from pygit2 import GitError

        try:
            if old is None:
                self._libgit.create(ref, new)
            else:
                found = self._libgit[ref]
                if str(found.target) != old:
                    raise _moved(ref, str(found.target), old)
                if new is None:
                    found.delete()
                else:
                    found.set_target(new)  # refuses, as delete does, if it moved since it was found
        except (GitError, OSError, KeyError) as error:
            if _LOCKED.search(str(error)):
                raise _LockedError from error
            if self._read(ref) != new:  # else it moved, and only bringing it to the disk failed
                self._expect(ref, old)
            why = "the system refused it" if str(error) == "no error" else error
            raise RepositoryError(f"cannot move {ref}: {why}") from error

    def _move_by_program(self, ref: str, new: str | None, old: str | None, movers: list[Running]) -> None:
        nothing = "0" * len(new or old or "")
        try:
            with movers.pop() if movers else self._start_mover() as mover:
                mover.finish(f"update {ref}\0{new or nothing}\0{old or nothing}\0".encode())
        except GitFailed as failure:
            if lock_taken(failure):
                raise _LockedError from failure
            self._expect(ref, old)
            raise

    def _expect(self, ref: str, expected: str | None) -> None:
        found = self._read(ref)
        if found != expected:
            raise _moved(ref, found, expected)

    def _when_unlocked(self, ref: str, move: Callable[[], None]) -> None:
        """``move``, waiting while the ref is locked.

        A kill between making and removing ``<ref>.lock`` leaves it behind.  Nobody holds a ref's lock for longer than a
        write takes, and none of our own processes can (the caller holds the session's lock): one that stays the
        very same file for ``_STALE`` seconds before our eyes has no owner, and is removed.
        """
        lock = self.repo.common_dir / f"{ref}.lock"
        start = time.monotonic()
        seen, since = _identity(lock), start
        while True:
            try:
                return move()
            except _LockedError:
                now, moment = _identity(lock), time.monotonic()
            if now != seen:
                seen, since = now, moment
            if now is not None and moment - since > _STALE:
                lock.unlink(missing_ok=True)
                self.broken_locks.append(lock)
            elif moment - start > _PATIENCE:
                raise SessionBusy(f"{ref} stays locked by another git", hint="try again when it is done")
            time.sleep(_PAUSE)


def _moved(ref: str, found: str | None, expected: str | None) -> RefMoved:
    return RefMoved(
        f"{ref} is at {found or 'nothing'}, not at {expected or 'nothing'}",
        hint="another program moved it; nothing was overwritten",
    )


def _refuse(lock: Path) -> None:
    if lock.exists():
        raise _LockedError


class _LockedError(Exception):
    """The ref's lock file is there."""


def one_line(text: str, limit: int | None = None) -> str:
    """``text`` for people, on one line and without what a terminal would obey, at most ``limit`` characters."""
    line = _UNSAFE_RUN.sub(" ", text).strip()
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def _json_line(record: Record) -> str:
    """JSON on one line, in which nothing unsafe stands but as an escape; ``json.loads`` gives back the same."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return _UNSAFE_ONE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _record(text: str | None) -> Record | None:
    try:
        found = json.loads(text) if text is not None else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _pairs(text: str, separator: str) -> dict[str, str]:
    """Lines of key and value; of a key that comes twice the first."""
    pairs: dict[str, str] = {}
    for line in text.split("\n"):
        key, _, value = line.partition(separator)
        pairs.setdefault(key, value)
    return pairs


def _identity(path: Path) -> tuple[int, int, int] | None:
    """What tells a file from another one of the same name; None when there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
