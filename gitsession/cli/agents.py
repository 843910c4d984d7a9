"""``pinable-agents agents``: which agents are installed, and what is known of them."""

from __future__ import annotations

import click

from gitsession.cli.options import here, json_option
from gitsession.cli.render import agents as render
from gitsession.cli.render.out import write, write_json_array


@click.command(
    "agents",
    short_help="List the agents that are installed.",
    help="List the agents that are installed: version, whether something speaks for a login (nothing is read), and "
    "whether their hooks are enabled here.",
)
@json_option
def command(as_json: bool) -> None:
    from gitsession.verbs import agents

    found = agents.survey(here())
    if as_json:
        write_json_array(render.installed_object(one) for one in found)
    else:
        for line in render.installed(found):
            write(line)
