"""``pinable-agents config …``: settings, and where each comes from."""

from __future__ import annotations

from contextlib import suppress

import click

from gitsession import config
from gitsession.cli.lazy import HELP_OPTIONS
from gitsession.cli.options import here, json_option
from gitsession.cli.render import settings as render
from gitsession.cli.render.out import note, write, write_json_array
from gitsession.cli.render.text import one_line, safe_text
from gitsession.errors import BadValue, GitSessionError
from gitsession.store.sessions import SessionStore
from gitsession.verbs import settings


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [key for key in map(config.key_of, config.FIELDS) if key.startswith(incomplete)]


_key = click.argument("key", metavar="KEY", shell_complete=_complete)


@click.group(
    "config",
    context_settings=HELP_OPTIONS,
    help="Read and write settings.\n\n"
    "A default gives way to config.toml, that to the repository's .pinable.toml (harmless ones "
    "only), that to the environment (PINABLE_SESSION__TRASH_DAYS=30), and that to a flag.",
)
def group() -> None:
    pass


@group.command("list", help="Show every setting in force, and where it comes from.")
@json_option
def list_command(as_json: bool) -> None:
    home = SessionStore().home
    found = settings.in_force(home, here())
    if as_json:
        write_json_array(render.as_object(one) for one in found)
        return
    render.draw(found)
    for error in config.unknown(settings.path(home)):
        note(one_line(f"in {settings.path(home)}: {error}" + (f" ({error.hint})" if error.hint else "")))


@group.command(
    "get",
    help="Show the value of one setting.\n\n\b\nExample:\n  pinable-agents config get session.auto_cleanup_days",
)
@_key
def get(key: str) -> None:
    wanted = config.key_of(config.field_of(key))
    found = {one.key: one for one in settings.in_force(SessionStore().home, here())}
    write(render.value(found[wanted]))


@group.command(
    "set",
    short_help="Write a setting into config.toml.",
    help="Write a setting into config.toml; comments in it stay.\n\n"
    "\b\nExamples:\n  pinable-agents config set session.auto_cleanup_days 60\n"
    "  pinable-agents config set checkpoint.interval 5m",
    context_settings={"ignore_unknown_options": True},  # -1 is a value
)
@_key
@click.argument("value", metavar="VALUE")
def set_command(key: str, value: str) -> None:
    home = SessionStore().home
    settings.change(home, key, value)
    with suppress(BadValue):  # of a repository's file, which is not what was asked for
        now = {one.key: one for one in settings.in_force(home, here())}[key]
        if now.source != str(settings.path(home)):
            note(one_line(f"{now.source} goes before it: {key} is {render.value(now)}"))


@group.command(
    "unset",
    help="Take a setting out of config.toml.\n\n\b\nExample:\n  pinable-agents config unset session.auto_cleanup_days",
)
@_key
def unset(key: str) -> None:
    home = SessionStore().home
    if not settings.remove(home, key):
        note(one_line(f"{key} is not in {settings.path(home)}"))


@group.command("path", help="Show where config.toml is.")
def path() -> None:
    write(safe_text(str(settings.path(SessionStore().home))))


@group.command("edit", help="Open config.toml in your editor ($VISUAL, $EDITOR), and look it over afterwards.")
def edit() -> None:
    home = SessionStore().home
    file = settings.prepare(home)
    try:
        click.edit(filename=str(file))
    except click.ClickException as error:
        raise GitSessionError(
            f"the editor failed: {error.format_message()}", hint="set EDITOR to the one you want"
        ) from None
    settings.check(home)
