"""Agents: which are installed, what was done to their settings files, and whether their hooks run.

``enable --json``, ``disable --json``: an array of ``{"agent", "state", "files", "detail", "notes"}``, see
``gitsession.verbs.agenthooks.Change``; ``status --json``: of ``{"agent", "state", "files", "trusted", "detail",
"failure"}``, see ``AgentStatus`` there; ``agents --json``: of ``{"name", "title", "program", "path", "version",
"known", "login", "hooks"}``, see ``gitsession.verbs.agents.Installed``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gitsession.cli.render.out import columns
from gitsession.cli.render.table import table
from gitsession.cli.render.text import one_line, safe_text
from gitsession.cli.render.units import date_time
from gitsession.verbs.agentsettings.agents import named

if TYPE_CHECKING:
    from gitsession.verbs.agenthooks import AgentStatus, Change
    from gitsession.verbs.agents import Installed

_DONE = {
    "enabled": "enabled in",
    "unchanged": "enabled already in",
    "disabled": "disabled in",
    "off": "was not enabled",
    "refused": "not changed",
}


def changes(done: Sequence[Change]) -> Iterator[str]:
    """A line an agent, and below it what a person should know."""
    for one in done:
        files = "" if one.state in ("off", "refused") else " " + ", ".join(map(safe_text, one.files))
        detail = f": {one_line(one.detail)}" if one.detail else ""
        yield f"{named(one.agent).title}: {_DONE[one.state]}{files}{detail}"
        yield from (f"  {one_line(note)}" for note in one.notes)


def change_object(one: Change) -> dict[str, Any]:
    """See the module."""
    return asdict(one)


def status(found: Sequence[AgentStatus]) -> Iterator[str]:
    """A line an agent, and then what there is to say."""
    rows = [(one.agent, one.state, ", ".join(map(safe_text, one.files)) or "-") for one in found]
    yield from table(("AGENT", "STATE", "WHERE"), rows, columns())
    for one in found:
        if one.detail is not None:
            yield f"{one.agent}: {one_line(one.detail)}"
        if one.failure is not None:
            when, event, problem = (str(one.failure[key]) for key in ("at", "event", "problem"))
            yield f"{one.agent}: last failure {one_line(f'{date_time(when)}, {event}: {problem}')}"


def status_object(one: AgentStatus) -> dict[str, Any]:
    """See the module."""
    return asdict(one)


def installed(found: Sequence[Installed]) -> list[str]:
    """A line an agent."""
    rows = [(one.name, _version(one), one_line(one.login or "no sign"), _hooks(one), _path(one)) for one in found]
    return table(("AGENT", "VERSION", "LOGIN", "HOOKS", "PROGRAM"), rows, columns())


def installed_object(one: Installed) -> dict[str, Any]:
    """See the module."""
    return asdict(one)


def _version(one: Installed) -> str:
    if one.path is None:
        return "-"
    if one.version is None:
        return "unknown"
    return one_line(one.version) + ("" if one.known else " (untried)")


def _hooks(one: Installed) -> str:
    if one.hooks is None:
        return "-"
    return ", ".join(map(safe_text, one.hooks)) or "off"


def _path(one: Installed) -> str:
    return f"{one.program}: not found" if one.path is None else safe_text(one.path)
