"""Colours where they are wanted: on a terminal that has not said no."""

from __future__ import annotations

import os
import sys

from gitsession.cli.render.out import is_terminal

_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def wanted() -> bool:
    """Whether output may be coloured (``NO_COLOR``, and ``TERM=dumb``, say no)."""
    return is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")


def styled(text: str, style: str | None) -> str:
    """``text`` in a style where colours are wanted; as it is elsewhere."""
    return text if style is None or not text or not wanted() else f"\x1b[{_CODES[style]}m{text}\x1b[0m"
