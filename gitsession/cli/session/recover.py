"""``session recover``: find, repair and run on what was interrupted."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from gitsession import config
from gitsession.cli.options import complete_sessions, find, here, json_option
from gitsession.cli.render import recovery
from gitsession.cli.render.out import note, write, write_json
from gitsession.cli.render.text import one_line, safe_text
from gitsession.errors import GitSessionError, SessionNotFound, UsageError
from gitsession.ids import check_session_id
from gitsession.store.sessions import SessionStore

if TYPE_CHECKING:
    from gitsession.cli.render.run import JsonRun
    from gitsession.verbs.events import RunEvent
    from gitsession.verbs.recover import Recovered
    from gitsession.verbs.repair import Repair

# Of several exit statuses the one that says most: a failure, a decision to take, a missing program, …, a pause.
_WORST = (130, 1, 4, 127, 2, 3)


@click.command(
    "recover",
    help="Find interrupted sessions, repair them and run them on.\n\n"
    "\b\nExamples:\n  pinable-agents session recover --scan\n"
    "  pinable-agents session recover sess_1740480000_a3f7b2c1\n  pinable-agents session recover --all",
)
@click.argument("session", metavar="[ID]", required=False, shell_complete=complete_sessions)
@click.option("--scan", "scanning", is_flag=True, help="List what can be recovered; pause what was killed.")
@click.option("--all", "everything", is_flag=True, help="Recover all, by priority, then age.")
@click.option("--force", is_flag=True, help="First end the process that owns the session, also one that hangs.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
def command(
    session: str | None, scanning: bool, everything: bool, force: bool, dry_run: bool, as_json: bool
) -> int | None:
    if scanning + everything + (session is not None) != 1:
        raise UsageError(
            "give one of ID, --scan and --all", hint="pinable-agents session recover --scan lists sessions"
        )
    if force and session is None:
        raise UsageError("--force goes with an ID", hint="name the session whose process is to be ended")
    if session is None:
        return _several(everything, dry_run=dry_run, as_json=as_json)
    store, session_id = _find(session)
    if dry_run:
        _show_plan(store, session_id, as_json)
        return None
    return _one(store, session_id, force=force, as_json=as_json)


def _find(text: str) -> tuple[SessionStore, str]:
    """As everywhere, and an id in full whose files are gone but whose checkpoints may be in a repository."""
    try:
        return find(text)
    except SessionNotFound:
        from gitsession.verbs.rebuild import rebuild

        with suppress(GitSessionError):
            store, session_id = SessionStore(), check_session_id(text)
            if rebuild(store, session_id, here()) is not None:
                return store, session_id
        raise


def _several(everything: bool, *, dry_run: bool, as_json: bool) -> int | None:
    from gitsession.verbs.interrupted import is_persons, scan

    store = SessionStore()
    found = scan(store, dry_run=dry_run)
    if everything and not dry_run:
        persons = {one.id for one in found.recoverable if is_persons(store, one.id)}
        for one in () if as_json else found.newer:
            note(f"{safe_text(one.id)}: left alone: {one_line(one.problem or '')}")
        for session_id in () if as_json else sorted(persons):
            note(f"{session_id}: left alone: it is yours, in an agent; to run it on: session recover {session_id}")
        ids = [*(one.id for one in found.damaged), *(one.id for one in found.recoverable if one.id not in persons)]
        return _all(store, ids, as_json)
    if as_json:
        write_json(recovery.scan_object(found))
        return None
    for line in recovery.scan_lines(found):
        write(line)
    return None


def _show_plan(store: SessionStore, session_id: str, as_json: bool) -> None:
    from gitsession.verbs.repair import repair

    plan = repair(store, session_id, config.load(store.home), here(), dry_run=True)
    if as_json:
        write_json(recovery.repair_object(plan))
        return
    for line in recovery.repair_lines(plan):
        write(line)
    if plan.is_sound and not any(step.finding.kind == "files" for step in plan.steps):
        doc = store.read(session_id)
        last = doc["checkpoints"][-1]["index"] if doc["checkpoints"] else None
        goes_on = "from its start" if last is None else f"from checkpoint {last}"
        write("It is completed and would not run" if doc["status"] == "completed" else f"It would go on {goes_on}")


class _Told:
    """What the runs and repairs of one command say, as text at once or gathered for JSON."""

    def __init__(self, as_json: bool) -> None:
        from gitsession.cli.render.run import TextRun

        self._text = None if as_json else TextRun()
        self._json: JsonRun | None = None
        self.runs: dict[str, Any] = {}

    def event(self, event: RunEvent) -> None:
        from gitsession.cli.render.run import JsonRun
        from gitsession.verbs.events import Resuming

        if self._text is not None:
            self._text(event)
            return
        if isinstance(event, Resuming):
            self._json = JsonRun(lambda shown: self.runs.update({shown["session_id"]: shown}))
        if self._json is not None:
            self._json(event)

    def repair(self, done: Repair) -> None:
        if self._text is not None:
            for line in recovery.repair_lines(done):
                note(line)

    def close(self) -> None:
        if self._text is not None:
            with suppress(OSError):
                self._text.close()

    def as_object(self, result: Recovered) -> dict[str, Any]:
        return {
            "session_id": result.session_id,
            "repair": None if result.repair is None else recovery.repair_object(result.repair),
            "run": self.runs.get(result.session_id),
            "error": None if result.error is None else str(result.error),
        }


def _one(store: SessionStore, session_id: str, *, force: bool, as_json: bool) -> int:
    from gitsession.cli.wrapper import stopped_by_signals
    from gitsession.verbs.recover import Recoverer, take_over

    if force:
        take_over(store, session_id, note)
    told = _Told(as_json)
    recoverer = Recoverer(store, config.load(store.home), here(), told.event, told.repair)
    try:
        with stopped_by_signals(recoverer):
            result = recoverer.recover(session_id)
    finally:
        told.close()
    if as_json:
        shown = told.as_object(result)
        write_json({"repair": shown["repair"], "run": shown["run"]})
    elif result.outcome is None:
        write(f"Session {session_id} is completed: there is nothing to run")
    return result.exit_status


def _all(store: SessionStore, ids: list[str], as_json: bool) -> int:
    from gitsession.cli.wrapper import stopped_by_signals
    from gitsession.verbs.recover import Recoverer

    told = _Told(as_json)
    recoverer = Recoverer(store, config.load(store.home), here(), told.event, told.repair)
    results, hints = [], set()
    try:
        with stopped_by_signals(recoverer):
            for result in recoverer.recover_all(ids):
                results.append(result)
                if result.error is not None and not as_json:
                    note(f"{result.session_id}: {one_line(str(result.error))}")
                    if result.error.hint and result.error.hint not in hints:
                        hints.add(result.error.hint)
                        note(f"hint: {one_line(result.error.hint)}")
                elif not as_json:
                    write()
    finally:
        told.close()
    if as_json:
        write_json({"sessions": [told.as_object(result) for result in results]})
    elif not results:
        write("Found no recoverable sessions")
    else:
        for line in recovery.summary_lines(results):
            write(line)
    statuses = {result.exit_status for result in results}
    return next((status for status in _WORST if status in statuses), 0)
