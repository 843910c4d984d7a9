"""What is wrong, with sessions and around them, and what can be done about it."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gitsession import lifecycle
from gitsession.backends.processes import all_survivors, end_survivors, find_survivors
from gitsession.config import Settings
from gitsession.errors import ConflictError, GitSessionError, RepositoryError, SessionBusy, SessionNotFound
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.lifecycle import Doc
from gitsession.store.files import explained, private_dir
from gitsession.store.reports import Reports
from gitsession.store.sessions import SessionStore
from gitsession.store.summaries import Summary
from gitsession.verbs import surroundings
from gitsession.verbs.births import described
from gitsession.verbs.checkpoint import repository_of
from gitsession.verbs.repair import Repair, Step, repair
from gitsession.verbs.verify import Finding, newest_commit

SURVIVORS, UNKNOWN = "survivors", "unknown"


@dataclass(frozen=True)
class Checkup:
    """``around``: findings beside the sessions, with what was (or with ``fix`` off, would be) done; ``sessions``:
    those with something wrong; ``looked_at``: how many there are.
    """

    fix: bool
    around: tuple[Step, ...]
    sessions: tuple[Repair, ...]
    looked_at: int

    @property
    def is_well(self) -> bool:
        """Whether nothing is left to do."""
        if not self.fix:
            return not self.around and not self.sessions
        return all(step.done for step in self.around) and all(one.is_sound for one in self.sessions)


def checkup(store: SessionStore, settings: Settings, here: Path, *, fix: bool = False) -> Checkup:
    """Look at everything; with ``fix`` do what can be done.

    Completed sessions are only read; the repository is compared with all others.
    """
    around = list(_around(store, here, fix))
    if any(step.finding.kind in (surroundings.GIT, surroundings.CLOSED) for step in around):
        return Checkup(fix, tuple(around), (), 0)
    rebuilt, sessions = [], []
    for repo in surroundings.repositories(store, here):
        for session_id, finding in list(surroundings.orphans(store, repo)):
            if finding.kind == surroundings.ORPHAN:
                rebuilt.append(repair(store, session_id, settings, repo.worktree, dry_run=not fix))
            else:
                around.append(_step(finding, fix, partial(_drop, repo, session_id)))
    known = {one.session_id for one in rebuilt}
    looked_at = 0
    for summary in list(store.summaries()):
        looked_at += 1
        if summary.id in known or summary.alive or _is_quiet(store, summary):
            continue
        with suppress(SessionNotFound, SessionBusy):  # deleted meanwhile, or somebody works on it
            sessions.append(_looked_at(store, summary.id, settings, here, fix))
    ill = [one for one in [*rebuilt, *sessions] if one.steps or one.left]
    return Checkup(fix, tuple(around), tuple(ill), looked_at)


def _is_quiet(store: SessionStore, summary: Summary) -> bool:
    """Whether it is a completed session that can be read: a listing does not look at its journal.

    One with a restore that was cut short is not: its files stand half-way.
    """
    if summary.problem is not None or summary.status != lifecycle.COMPLETED:
        return False
    try:
        return store.read(summary.id).get("restoring") is None
    except SessionNotFound:
        return True
    except GitSessionError:
        return False


def _looked_at(store: SessionStore, session_id: str, settings: Settings, here: Path, fix: bool) -> Repair:
    """``repair``; what keeps it from looking is wrong, too."""
    try:
        return repair(store, session_id, settings, here, dry_run=not fix)
    except (SessionNotFound, SessionBusy):
        raise
    except GitSessionError as error:
        return Repair(session_id, not fix, (), (Finding(UNKNOWN, str(error), hint=error.hint),), ())


def relocate(store: SessionStore, place: Path) -> list[str]:
    """Tell sessions whose repository is gone that it is at ``place`` now; the ids of those whose it is.

    It is if it has the session's newest commit on the session's ref.
    """
    repo = Repo.discover(place)
    moved = []
    for summary in list(store.summaries()):
        if summary.problem is not None or store.owner(summary.id) is not None:
            continue
        doc = store.read(summary.id)
        if _has_lost_its_repository(doc) and _is_of(repo, doc):
            with store.edit(summary.id) as draft:
                draft.log("settings", values={"repository": described(repo)})
            moved.append(summary.id)
    return moved


def _has_lost_its_repository(doc: Doc) -> bool:
    try:
        repository_of(doc)
    except RepositoryError:
        return True
    return False


def _is_of(repo: Repo, doc: Doc) -> bool:
    newest = newest_commit(doc)
    with closing(Objects(repo)) as objects:
        try:
            return newest is not None and any(c.oid == newest for c in Ledger(repo, objects, doc["id"]).commits())
        except RepositoryError:
            return False


def _around(store: SessionStore, here: Path, fix: bool) -> Iterator[Step]:
    git = list(surroundings.git_program())
    yield from (Step(finding, None) for finding in git)
    if git:
        return
    for finding, place in zip(surroundings.permissions(store), surroundings.loose(store), strict=True):
        yield _step(finding, fix, partial(_close, place))
    closed = list(surroundings.closed(store))
    yield from (Step(finding, None) for finding in closed)
    if closed:
        return
    for finding, place in zip(surroundings.leftovers(store), surroundings.stale(store), strict=True):
        yield _step(finding, fix, partial(_put_aside, store, place))
    for repo in surroundings.repositories(store, here):
        yield from (Step(finding, None) for finding in surroundings.published(repo))
    yield from _survivors(store, fix)


def _survivors(store: SessionStore, fix: bool) -> Iterator[Step]:
    """Processes of sessions that nobody runs any more.  A completed session's may go on as they like."""
    for session_id, found in sorted(all_survivors().items()):
        if store.exists(session_id) and store.summary(session_id).status == lifecycle.COMPLETED:
            continue
        if store.owner(session_id) is None:
            named = ", ".join(f"{process.name} {process.pid}" for process in found)
            finding = Finding(SURVIVORS, f"{session_id}: processes outlived their run: {named}", "end them")
            yield _step(finding, fix, partial(_end, session_id))


def _step(finding: Finding, fix: bool, act: Callable[[], str]) -> Step:
    """What ``act`` did about the finding, or with ``fix`` off would do."""
    if not fix:
        return Step(finding, finding.remedy)
    try:
        return Step(finding, act())
    except GitSessionError as error:
        return Step(finding, None, str(error))


def _close(place: Path) -> str:
    with explained("change the permissions of", place):
        mode = place.stat().st_mode
        place.chmod(stat.S_IMODE(surroundings.private(mode)))
    return "took them away" if mode & 0o077 else "gave them back"


def _put_aside(store: SessionStore, place: Path) -> str:
    target = private_dir(private_dir(Reports(store.home).directory) / "leftovers")
    with explained("move", place):
        number = 1
        while (aside := target / f"{number}-{place.name}").exists():
            number += 1
        place.rename(aside)
    return f"moved it to {aside}"


def _drop(repo: Repo, session_id: str) -> str:
    with closing(Objects(repo)) as objects:
        Ledger(repo, objects, session_id).drop()
    return "finished its deletion; the trash has all of it"


def _end(session_id: str) -> str:
    end_survivors(session_id)
    left = find_survivors(session_id)
    if left:
        raise ConflictError(f"process {left[0].pid} withstands")
    return "ended them"
