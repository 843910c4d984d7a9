"""``config list``: a line a setting; ``--json``: an array of ``{"key", "value", "source", "problem"}``.

``value`` is text as it is spelled where it comes from; ``source`` is ``default``, a file's path or ``$VARIABLE``;
``problem`` says why the value cannot be read, or is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gitsession.cli.render.out import columns, write
from gitsession.cli.render.table import table
from gitsession.cli.render.text import one_line

if TYPE_CHECKING:
    from gitsession.verbs.settings import Setting

_HEADER = ("KEY", "VALUE", "FROM")


def draw(settings: Sequence[Setting]) -> None:
    """The key, the value and where it comes from."""
    rows = [(one.key, value(one), _source(one)) for one in settings]
    write("\n".join(table(_HEADER, rows, columns())))


def value(setting: Setting) -> str:
    """The value on one line."""
    return one_line(setting.value)


def _source(setting: Setting) -> str:
    source = one_line(setting.source)
    return f"{source} ! {one_line(setting.problem)}" if setting.problem else source


def as_object(setting: Setting) -> dict[str, Any]:
    """The documented JSON object."""
    return {"key": setting.key, "value": setting.value, "source": setting.source, "problem": setting.problem}
