"""``session chain …``: sessions that come one after the other."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from gitsession import config
from gitsession.cli.lazy import HELP_OPTIONS
from gitsession.cli.options import complete_backends, here, json_option, utc_option
from gitsession.cli.render import chains as render
from gitsession.cli.render.out import note, write, write_json, write_json_array
from gitsession.cli.render.text import one_line
from gitsession.store.chains import ChainStore
from gitsession.store.sessions import SessionStore


def complete_chains(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names for shell completion."""
    return [name for name in ChainStore(SessionStore().home).names() if name.startswith(incomplete)]


_name = click.argument("name", metavar="NAME", shell_complete=complete_chains)


@click.group(
    "chain",
    context_settings=HELP_OPTIONS,
    help="Put sessions in an order: each waits for the one before it, and begins with what that one found.",
)
def group() -> None:
    pass


@group.command(
    "create",
    short_help="Name the sessions of a chain.",
    help="Name the sessions of a chain, in their order. They need not exist yet.\n\n"
    '\b\nExample:\n  pinable-agents session chain create my-refactor --sessions "analysis,design,impl,review"',
)
@click.argument("name", metavar="NAME")
@click.option("--sessions", metavar="A,B", multiple=True, required=True, help="Their ids, in full; may be repeated.")
def create(name: str, sessions: tuple[str, ...]) -> None:
    store = SessionStore()
    ids = [one.strip() for given in sessions for one in given.split(",") if one.strip()]
    chain = ChainStore(store.home).create(name, ids)
    write("\n".join(_status_lines(store, chain.name)))


@group.command(
    "status",
    help="Show how far a chain is. Times are local.\n\n\b\nExample:\n  pinable-agents session chain status my-refactor",
)
@_name
@utc_option
@json_option
def status(name: str, as_json: bool) -> None:
    store = SessionStore()
    if as_json:
        write_json(render.as_object(_status(store, name)))
    else:
        write("\n".join(_status_lines(store, name)))


@group.command("list", help="List chains.")
@json_option
def list_command(as_json: bool) -> None:
    from gitsession.errors import StoreError

    store = SessionStore()
    found, unreadable = [], []
    for name in ChainStore(store.home).names():
        try:
            found.append(_status(store, name))
        except StoreError as error:
            unreadable.append(error)
    if as_json:
        write_json_array([render.as_object(one) for one in found])
    elif found:
        write("\n".join(render.table_lines(found)))
    elif not unreadable:
        note("no chains")
    for problem in unreadable:
        note(one_line(f"{problem} (hint: {problem.hint})" if problem.hint else str(problem)))


@group.command(
    "delete",
    help="Remove a chain. Its sessions stay.\n\n\b\nExample:\n  pinable-agents session chain delete my-refactor",
)
@_name
def delete(name: str) -> None:
    ChainStore(SessionStore().home).delete(name)
    write(f"Chain deleted: {name} (its sessions stay)")


@group.command(
    "run",
    short_help="Run what is left of a chain.",
    help="Run the sessions of a chain that are not completed, in order, and stop at the first that does not "
    "complete.\n\nA session that exists goes on with its own task; the others take theirs from FILE: one task for all, "
    "or a section for each that begins with a line '## ID'. Exit status: that of the last run.\n\n"
    "\b\nExample:\n  pinable-agents session chain run my-refactor --task-file tasks.md -- ./agent.sh",
)
@_name
@click.option("--task-file", metavar="FILE", type=click.Path(path_type=Path), help="The task, or one for each session.")
@click.option("--backend", metavar="NAME", shell_complete=complete_backends, help="What does the work.")
@click.option("--model", metavar="NAME", help="The model, for backends that have several.")
@click.option("--timeout", metavar="TIME", help="Pause a session that takes longer: 90s, 10m, 1h30m.")
@click.option("--max-cost", metavar="USD", type=click.FloatRange(min=0), help="Pause a session that costs more.")
@click.option("--max-turns", metavar="N", type=click.IntRange(min=1), help="Pause a session after N replies.")
@click.option("--allow-commands", is_flag=True, help="Let the model run shell commands, as you.")
@json_option
@click.argument("cmd", nargs=-1, metavar="[-- CMD...]", type=click.UNPROCESSED)
def run(name: str, task_file: Path | None, cmd: tuple[str, ...], as_json: bool, **flags: Any) -> int:
    from gitsession.cli.wrapper import given_command, given_task, stopped_by_signals, timeout_seconds
    from gitsession.verbs.chainrun import ChainRunner, tasks
    from gitsession.verbs.dialogue import Limits
    from gitsession.verbs.run import RunRequest

    store = SessionStore()
    chain = ChainStore(store.home).read(name)
    text = given_task(None, task_file)
    request = RunRequest(
        start=here(),
        backend=flags["backend"],
        model=flags["model"],
        timeout=None if flags["timeout"] is None else timeout_seconds(flags["timeout"]),
        command=given_command(cmd, flags["backend"]),
        limits=Limits(max_turns=flags["max_turns"], max_cost=flags["max_cost"]),
        allow_commands=flags["allow_commands"],
    )
    told = render.Told(as_json)
    runner = ChainRunner(store, chain, request, told, config.load(store.home))
    outcomes = []
    try:
        with stopped_by_signals(runner):
            outcomes = list(runner.run({} if text is None else tasks(chain, text)))
    finally:
        with suppress(OSError):
            told.close()
        if as_json:
            write_json({**render.as_object(_status(store, name)), "runs": told.runs})
    if not as_json:
        write("\n".join([*([""] if outcomes else []), *_status_lines(store, name)]))
    return outcomes[-1].exit_status if outcomes else 0


def _status(store: SessionStore, name: str) -> Any:
    from gitsession.verbs.chains import status

    return status(store, ChainStore(store.home).read(name))


def _status_lines(store: SessionStore, name: str) -> list[str]:
    return render.lines(_status(store, name))
