"""``pinable-agents hooks …``: our git hooks, in this repository or everywhere."""

from __future__ import annotations

import click

from gitsession.cli.lazy import HELP_OPTIONS
from gitsession.cli.options import here, json_option
from gitsession.cli.render import hooks as render
from gitsession.cli.render.out import note, write, write_json_array
from gitsession.errors import ConflictError
from gitsession.store.sessions import SessionStore
from gitsession.verbs import hooks

_everywhere = click.option("--global", "everywhere", is_flag=True, help="For all repositories, not only this one.")


@click.group("hooks", context_settings=HELP_OPTIONS, help="Link commits to sessions by git hooks. See docs/hooks.md.")
def group() -> None:
    pass


@group.command("install", help="Install the git hooks, or bring them up to date; hooks that are there are kept.")
@_everywhere
def install(everywhere: bool) -> int:
    done = hooks.install_everywhere(SessionStore().home) if everywhere else hooks.install(here())
    for line in render.installed(done):
        write(line)
    # A person has to finish it: that is not "all done".
    return ConflictError.exit_status if done.additions or done.skipped else 0


@group.command("uninstall", help="Remove the git hooks, and put back what stood there before.")
@_everywhere
def uninstall(everywhere: bool) -> int:
    done = hooks.uninstall_everywhere(SessionStore().home) if everywhere else hooks.uninstall(here())
    if not (done.removed or done.restored or done.left):
        note("no hook of ours was there")
    for line in render.uninstalled(done):
        write(line)
    return ConflictError.exit_status if done.left else 0


@group.command("status", help="Tell which hooks run, by calling them without effect; exit with 1 if any does not.")
@json_option
def status(as_json: bool) -> int:
    found = hooks.status(here())
    if as_json:
        write_json_array([render.as_object(one) for one in found])
    else:
        for line in render.status(found):
            write(line)
    return 0 if all(one.state in ("runs", "called") for one in found) else 1
