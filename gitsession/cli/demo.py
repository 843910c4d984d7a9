"""``pinable-agents demo``: the worked example, told as it happens."""

from __future__ import annotations

from pathlib import Path

import click

from gitsession.cli.render import story
from gitsession.verbs.demo import demo as play


@click.command("demo", help="Play the worked example, for real and offline, in a directory of its own.")
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Play it in this new or empty directory, not in a temporary one.",
)
def demo(keep: Path | None) -> None:
    for part in play(keep):
        story.draw(part)
