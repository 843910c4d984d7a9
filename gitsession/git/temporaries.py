"""Names of files that a restore has not put in their place yet: ``.gitsession-<token>-<number>``.

A kill leaves some, and they are nobody's work.
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = b".gitsession-"
_PATH: Final = re.compile(rb"(?:.*/)?\.gitsession-[0-9a-f]{8,12}(?:-\d+){1,2}", re.DOTALL)


def prefix(token: str) -> bytes:
    """What the names of one restore begin with."""
    return _NAME + token.encode() + b"-"


def is_temporary(path: bytes) -> bool:
    """Whether only a restore gives a file this name."""
    return _NAME in path and _PATH.fullmatch(path) is not None
