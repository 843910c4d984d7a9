"""``session commits``: from a session to the commits that hold its work, and from a commit to its sessions."""

from __future__ import annotations

import click

from gitsession.cli.options import complete_sessions, find, here, json_option
from gitsession.cli.render import origins
from gitsession.cli.render.out import note, write_json_array
from gitsession.errors import GitSessionError, SessionNotFound
from gitsession.store.sessions import SessionStore
from gitsession.verbs.checkpoint import repository_of
from gitsession.verbs.linking import Found, Linker
from gitsession.verbs.why import CommitAnswer, why


@click.command(
    "commits",
    help="List the commits that hold a session's work; of a commit, its sessions.\n\n"
    "\b\nExamples:\n  pinable-agents session commits latest\n  pinable-agents session commits HEAD",
)
@click.argument("what", metavar="ID|COMMIT", shell_complete=complete_sessions)
@json_option
def command(what: str, as_json: bool) -> None:
    try:
        store, session_id = find(what)
    except SessionNotFound:
        found = _of_commit(what)
    else:
        found = Linker(repository_of(store.read(session_id))).commits(session_id)
    if as_json:
        write_json_array([origins.found_as_object(one) for one in found])
    elif found:
        origins.draw_found(found)
    else:
        note(f"no commit is known to hold work of {what}" if _is_session(what) else f"{what} holds no session's work")


def _is_session(what: str) -> bool:
    try:
        find(what)
    except GitSessionError:
        return False
    return True


def _of_commit(what: str) -> list[Found]:
    """The same lines for a commit; what is neither a session nor a commit is no session."""
    try:
        answers = why(SessionStore(), here(), what)
    except GitSessionError:
        find(what)  # says what it is not, and what it may have meant
        raise
    return [
        Found(origin.link, answer.subject, answer.date)
        for answer in answers
        if isinstance(answer, CommitAnswer)
        for origin in answer.origins
    ]
