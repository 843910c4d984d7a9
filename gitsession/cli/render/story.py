"""The demo: what the storyteller says, what is typed, and what the programs answer."""

from __future__ import annotations

import sys

from gitsession.cli.render.out import write
from gitsession.cli.render.text import safe_text
from gitsession.verbs import demo


def draw(part: demo.Shown) -> None:
    """One part, at once."""
    match part:
        case demo.Note(text):
            write(f"\n# {safe_text(text)}")
        case demo.Command(text):
            write(f"$ {safe_text(text)}")
        case demo.Line(text):
            write(safe_text(text, layout=True))
    sys.stdout.flush()
