"""Session ids: how they are made and what a person may choose; and how a checkpoint's number is written.

A generated id is ``sess_{unix seconds}_{8 hex}``: the time sorts, the random part keeps two sessions of
one second apart.  A chosen id becomes a file name and the last part of a ref name, on every system, so it
is held to what all of them take.
"""

from __future__ import annotations

import os
import re
import time

from gitsession.errors import BadSessionId

MAX_LENGTH = 100
CHECKPOINT = r"\d{1,9}"
"""A checkpoint's number: no session has more, and Python reads no text of thousands of digits as one."""
_ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Names that Windows gives to devices, with or without an extension.
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_RULE = (
    "an id is 1 to 100 of A-Z a-z 0-9 . _ -, starts with a letter or digit, has no '..', "
    "does not end in '.' or '.lock', and is no device name"
)


def new_session_id(now: float | None = None) -> str:
    """A fresh id, ``now`` being Unix seconds."""
    return f"sess_{int(time.time() if now is None else now)}_{os.urandom(4).hex()}"


def check_session_id(text: str) -> str:
    """``text`` itself, or ``BadSessionId`` with the rule it breaks."""
    bad = (
        not _ALLOWED.fullmatch(text)
        or ".." in text
        or text.endswith(".")
        or text.lower().endswith(".lock")
        or _DEVICES.fullmatch(text) is not None
        or text == "latest"
    )
    if bad:
        shown = text if len(text) <= 40 else text[:40] + "…"
        hint = "'latest' means the newest session" if text == "latest" else _RULE
        raise BadSessionId(f"{shown!r} cannot be a session id", hint=hint)
    return text
