"""``pinable-agents enable``, ``disable`` and ``status``: agents' own hooks, in this repository."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from gitsession.cli.options import here, json_option
from gitsession.cli.render import agents as render
from gitsession.cli.render.out import write, write_json_array
from gitsession.errors import ConflictError, UsageError
from gitsession.verbs import agenthooks
from gitsession.verbs.agentsettings.agents import NAMES

F = TypeVar("F", bound=Callable[..., Any])

_agents = click.option(
    "--agent", "agents", multiple=True, type=click.Choice(NAMES), help="Only this agent; may be repeated."
)


def _scope(local: str, shared: str) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        function = click.option("--shared", is_flag=True, help=shared)(function)
        return click.option("--local", is_flag=True, help=local)(function)

    return decorate


@click.command(
    "enable",
    short_help="Have agents' own hooks feed a session, in this repository.",
    help="Have agents' own hooks feed a session while you work in the agent as ever, in this repository.\n\n"
    "Writes into the agents' settings files; what is there stays as it is. Without --agent: for each agent that is "
    "installed. See docs/tracking.md.\n\n"
    "\b\nExamples:\n  pinable-agents enable\n  pinable-agents enable --agent claude-code --shared",
)
@_agents
@_scope("For you alone, with this installation (the default).", "In the file that is committed, for everybody.")
@json_option
def enable(agents: Sequence[str], local: bool, shared: bool, as_json: bool) -> int:
    if local and shared:
        raise UsageError("--local and --shared exclude each other", hint="leave one of them out")
    return _tell(agenthooks.enable(here(), agents, shared=shared), as_json)


@click.command(
    "disable",
    short_help="Take agents' hooks out again.",
    help="Take agents' hooks out again; the settings files are what they were before. Sessions stay.",
)
@_agents
@_scope("Only those for you alone.", "Only those in the file that is committed.")
@json_option
def disable(agents: Sequence[str], local: bool, shared: bool, as_json: bool) -> int:
    both = local == shared
    return _tell(agenthooks.disable(here(), agents, local=local or both, shared=shared or both), as_json)


@click.command(
    "status",
    short_help="Tell which agents' hooks run here.",
    help="Tell which agents' hooks run here, by calling them without effect. Exit status 1 if one that is enabled does "
    "not run, or none is.",
)
@json_option
def status(as_json: bool) -> int:
    from gitsession.store.sessions import SessionStore

    found = agenthooks.status(here(), SessionStore().home)
    if as_json:
        write_json_array(render.status_object(one) for one in found)
    else:
        for line in render.status(found):
            write(line)
    states = {one.state for one in found} - {"off"}
    return 0 if states == {"runs"} else 1


def _tell(done: Sequence[agenthooks.Change], as_json: bool) -> int:
    if as_json:
        write_json_array(render.change_object(one) for one in done)
    else:
        for line in render.changes(done):
            write(line)
    # A person has to see to it: that is not "all done".
    return ConflictError.exit_status if any(one.state == "refused" for one in done) else 0
