"""Commands that came from elsewhere.

An archive, and a repository's refs, name the program that a session runs, and anybody may have written them.  The
record made from them only offers that command: no resume runs it until the user names the program.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from gitsession.errors import ConflictError
from gitsession.lifecycle import Doc

OFFERED: Final = "command_offered"


def offered(command: Sequence[str]) -> Doc:
    """The fields of a record whose command came from elsewhere."""
    return {"command": None, OFFERED: list(command)}


def refuse_offered(doc: Doc) -> None:
    """``ConflictError``, which tells the command, for a session whose command is only offered."""
    if doc.get(OFFERED):
        stored = shlex.join(map(str, doc[OFFERED]))
        raise ConflictError(
            f"the program of session {doc['id']} comes from elsewhere (an archive, or a repository's refs), "
            "and is not run unless you name it",
            hint=f"if you trust it: codeagent-wrapper --session-id {doc['id']} -- {stored}",
        )
