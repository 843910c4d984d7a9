"""A report as one HTML file: no script, nothing loaded, and a policy in it that forbids both."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from gitsession.cli.render import report as words
from gitsession.cli.render.text import one_line, safe_text

if TYPE_CHECKING:
    from gitsession.verbs.export import Report

_LINES = {"+": "add", "-": "del", "@": "hunk"}


def page(report: Report) -> str:
    """The whole file."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update({
        "line": one_line,
        "name": safe_text,
        "block": lambda text: safe_text(text, layout=True),
        "when": words.when,
        "diff": _diff,
    })  # fmt: skip
    style = _beside("report.css")
    return environment.from_string(_beside("report.html")).render(
        report=report,
        words=words,
        style=Markup(style),  # noqa: S704 - ours
        style_hash=b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _diff(text: str) -> Markup:
    """The lines of a diff, each marked for what it is; what it is can be read without colours, too."""
    shown = safe_text(text, layout=True).split("\n")
    return Markup("\n").join(
        Markup('<span class="{}">{}</span>').format(_LINES[line[:1]], line) if line[:1] in _LINES else line
        for line in shown
    )
