"""Write ``docs/reference.md`` from the commands themselves: ``python tests/reference.py``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from gitsession.cli.pinable import group as pinable_agents
from gitsession.cli.wrapper import command as codeagent_wrapper

PAGE = Path(__file__).parent.parent / "docs" / "reference.md"
_WIDTH = 100
_INTRODUCTION = """\
# Commands

Written from the commands' own help by `python tests/reference.py`. `git pinable …` is the same as `pinable-agents …`.
"""


def text() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for context in commands():
        parts.append(f"## {context.command_path}\n\n```text\n{context.command.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


def commands() -> Iterator[click.Context]:
    """Every command, groups too, in the order of the page."""
    for command in (codeagent_wrapper, pinable_agents):
        yield from _below(command, None)


def _below(command: click.Command, parent: click.Context | None) -> Iterator[click.Context]:
    context = click.Context(
        command, parent, command.name, terminal_width=_WIDTH, max_content_width=_WIDTH, **command.context_settings
    )
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _below(below, context)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")
