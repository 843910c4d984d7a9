"""Where sessions are kept: ``$PINABLE_HOME``, or ``~/.pinable-agents``."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

VARIABLE: Final = "PINABLE_HOME"
_DEFAULT: Final = "~/.pinable-agents"
_USERS: Final = "USERPROFILE" if os.name == "nt" else "HOME"


def home_of(environ: Mapping[str, str] = os.environ) -> str:
    """The absolute path of the directory where a process with this environment keeps its sessions.

    ``StoreError`` where that begins with a user who is not known.
    """
    named = environ.get(VARIABLE) or _DEFAULT
    if named.startswith("~"):
        user, slash, rest = named.partition("/")
        users = environ.get(_USERS) if user == "~" else None
        named = (users or os.path.expanduser(user)) + slash + rest
        if named.startswith("~"):
            from gitsession.errors import StoreError

            raise StoreError(f"{named}: the user's own directory is not known", hint="give PINABLE_HOME a whole path")
    return named if os.path.isabs(named) else os.path.join(os.getcwd(), named)
