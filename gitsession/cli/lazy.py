"""Click groups that load a command's module only when the command is called.

Help and completion of names need no command at all: the short help stands in the group's table.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import click

from gitsession.errors import NotYet

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


class LazyGroup(click.Group):
    """``commands``: name to (``"module:attribute"``, short help); ``None`` for a command that is not built yet."""

    def __init__(self, *args: Any, table: Mapping[str, tuple[str | None, str]], **kwargs: Any) -> None:
        super().__init__(*args, context_settings=HELP_OPTIONS, **kwargs)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - the same
        if cmd_name not in self._table:
            return None
        target, short_help = self._table[cmd_name]
        if target is None:
            return _not_built(cmd_name, short_help)
        module, _, attribute = target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=self._table, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=short_help)
            for name, (target, short_help) in self._table.items()
            if target is not None and name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - the same
        rows = [
            (name, short_help if target else f"{short_help} (not built yet)")
            for name, (target, short_help) in self._table.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _not_built(name: str, short_help: str) -> click.Command:
    """A command that takes anything and says that it is not there yet."""

    def refuse(**_: Any) -> NoReturn:
        raise NotYet(f"{name!r} is not built yet", hint="the commands that are there: --help")

    return click.Command(
        name,
        callback=refuse,
        short_help=short_help,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )
