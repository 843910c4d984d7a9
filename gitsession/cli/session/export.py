"""``session export``: a session for others to read, to process or to apply."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from gitsession.cli.options import find, session_argument
from gitsession.cli.render.out import is_terminal, json_text, note, write_bytes, write_now
from gitsession.cli.render.text import safe_text
from gitsession.cli.render.units import count
from gitsession.errors import GitSessionError, UsageError
from gitsession.store.sessions import SessionStore
from gitsession.verbs import redact

_FORMATS: Final = {
    "md": "markdown", "markdown": "markdown", "html": "html", "json": "json", "mbox": "mbox", "patch": "mbox",
}  # fmt: skip
_ENDINGS: Final = {"htm": "html"}


@click.command(
    "export",
    short_help="Write a session as a report, as JSON or as patches.",
    help="Write a session as a report (md, html), as its record (json), or as a series of patches for 'git am' (mbox, "
    "the same: patch). What looks like a key or a password is masked, and their number said; patches with such words "
    "are refused.\n\n"
    "\b\nExamples:\n"
    "  pinable-agents session export latest --format markdown > report.md\n"
    "  pinable-agents session export latest -o report.html\n"
    "  pinable-agents session export ID --format json | jq '.checkpoints'\n"
    "  pinable-agents session export ID --format mbox | git am",
)
@session_argument
@click.option("--format", "form", type=click.Choice(list(_FORMATS)), help="Else FILE's ending tells; else md.")
@click.option("-o", "--output", metavar="FILE", help="Write to FILE, '-' is standard output.")
@click.option("--no-redact", is_flag=True, help="Leave what looks like a key or a password as it is.")
def command(session: str, form: str | None, output: str | None, no_redact: bool) -> None:
    store, session_id = find(session)
    kind = _FORMATS[form] if form else _told_by(output)
    if kind == "mbox":
        data = _patches(store, session_id, no_redact)
    else:
        redactor = None if no_redact else redact.Redactor()
        text = _record(store, session_id, redactor) if kind == "json" else _report(store, session_id, kind, redactor)
        data = text.encode("utf-8", "backslashreplace")
        if redactor is not None and redactor.found:
            note(f"masked: {count(redactor.found, 'word')} that may be a secret (--no-redact leaves them)")
    _deliver(data, None if output == "-" else output)


def _told_by(output: str | None) -> str:
    """The format that a file's ending tells; ``UsageError`` if it tells none."""
    ending = Path(output).suffix[1:].lower() if output else ""
    if not ending:
        return "markdown"
    form = _ENDINGS.get(ending, ending)
    if form not in _FORMATS:
        raise UsageError(f"{output} tells no format", hint="add --format: " + ", ".join(_FORMATS))
    return _FORMATS[form]


def _record(store: SessionStore, session_id: str, redactor: redact.Redactor | None) -> str:
    doc = store.read(session_id)
    return json_text(redactor.value(doc) if redactor is not None else doc, indent=2) + "\n"


def _report(store: SessionStore, session_id: str, kind: str, redactor: redact.Redactor | None) -> str:
    from gitsession.verbs.export import gather, masked

    report = gather(store, session_id)
    if redactor is not None:
        report = masked(report, redactor)
    if kind == "html":
        from gitsession.cli.render.html import page

        return page(report) + "\n"
    from gitsession.cli.render.markdown import document

    return document(report)


def _patches(store: SessionStore, session_id: str, no_redact: bool) -> bytes:
    """The mails; a masked one could not be applied, so one with secrets is refused."""
    from gitsession.verbs.export import patches

    data = b"".join(patches(store, session_id))
    found = 0 if no_redact else redact.count(data.decode("utf-8", "replace"))
    if found:
        raise UsageError(
            f"the patches hold {count(found, 'word')} that may be a secret, and masked they could not be applied",
            hint="look at them in --format md; --no-redact writes them as they are",
        )
    if not data:
        note("nothing changed: there are no patches")
    return data


def _deliver(data: bytes, output: str | None) -> None:
    if output is not None:
        try:
            Path(output).write_bytes(data)
        except OSError as error:
            raise GitSessionError(f"cannot write {output}: {error.strerror}") from error
    elif is_terminal(sys.stdout):
        write_now(safe_text(data.decode("utf-8", "surrogateescape"), layout=True))
    else:
        write_bytes(data)
