"""Run the sessions of a chain one after the other.

A file of tasks is one task for every session that is still to begin, or has a section for each of them, begun by a
heading line that is the session's id: ``# sess_impl`` or ``## sess_impl``.  What stands before the first section
belongs to every task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from gitsession.config import Settings
from gitsession.errors import BadValue, UsageError
from gitsession.store.chains import Chain
from gitsession.store.sessions import SessionStore
from gitsession.verbs.chains import PENDING, status
from gitsession.verbs.events import Outcome, RunEvent
from gitsession.verbs.run import RunRequest
from gitsession.verbs.succession import Succession

_HEADING: Final = re.compile(r"#{1,6}[ \t]+(\S+)[ \t]*")


def tasks(chain: Chain, text: str) -> dict[str, str]:
    """The task of each session that ``text`` has one for; ``BadValue`` for two sections or an empty one."""
    common, sections = _sections(chain, text.splitlines())
    if not sections:
        return dict.fromkeys(chain.sessions, text)
    for session_id, section in sections.items():
        if not section.strip():
            raise BadValue(f"the section {session_id} of the task file is empty", hint="say what to do in it")
    return {session_id: f"{common}\n\n{section}".strip() for session_id, section in sections.items()}


def _sections(chain: Chain, lines: list[str]) -> tuple[str, dict[str, str]]:
    common: list[str] = []
    found: dict[str, list[str]] = {}
    current = common
    for line in lines:
        heading = _HEADING.fullmatch(line)
        name = heading.group(1) if heading else None
        if name not in chain.sessions:
            current.append(line)
            continue
        if name in found:
            raise BadValue(f"the task file has two sections {name}", hint="write one")
        current = found[name] = []
    return "\n".join(common).strip(), {name: "\n".join(section).strip("\n") for name, section in found.items()}


class ChainRunner(Succession):
    """Runs what is left of a chain; ``request`` is every run's but for the task and the session's id."""

    def __init__(
        self,
        store: SessionStore,
        chain: Chain,
        request: RunRequest,
        listener: Callable[[RunEvent], None],
        settings: Settings,
    ) -> None:
        super().__init__(store, listener, settings)
        self._chain = chain
        self._request = request

    def run(self, tasks: Mapping[str, str]) -> Iterator[Outcome]:
        """Each remaining session's outcome; the last one is of the first that did not complete.

        A session that exists goes on with its own task.  ``UsageError`` names one that is to begin and has none, before
        anything runs; what keeps a session from running is raised as it is.
        """
        remaining = status(self._store, self._chain).remaining
        for member in remaining:
            if member.state == PENDING and member.session_id not in tasks:
                raise UsageError(
                    f"there is no task for {member.session_id}",
                    hint=f"--task-file FILE has one for all, or a section '## {member.session_id}'",
                )
        for member in remaining:
            if self.stopped is not None:
                return
            task = tasks[member.session_id] if member.state == PENDING else None
            request = replace(self._request, session_id=member.session_id, task=task)
            outcome = self.run_one(request)
            yield outcome
            if outcome.exit_status:
                return
