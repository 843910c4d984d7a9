"""Paths as text, those in a repository and those of the file system.

Git's paths are bytes, JSON's are text.  A path whose bytes are UTF-8 is written as it is; one whose bytes
are not, or which begins with a double quote, is written as git quotes it: in double quotes, with ``\\"``,
``\\\\`` and three-digit octal escapes for the bytes that are not printable ASCII.  So no two paths share a
spelling, every spelling is valid UTF-8, and ``decode`` gives back the exact bytes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_ESCAPE = re.compile(rb"\\([0-7]{3}|[abfnrtv\"\\])")
_LETTERS = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}


def encode(path: bytes) -> str:
    """The text form of a repository path."""
    if not path.startswith(b'"'):
        try:
            return path.decode("utf-8")
        except UnicodeDecodeError:
            pass
    parts = []
    for byte in path:
        if byte in (34, 92):
            parts.append("\\" + chr(byte))
        elif 32 <= byte < 127:
            parts.append(chr(byte))
        else:
            parts.append(f"\\{byte:03o}")
    return '"' + "".join(parts) + '"'


def decode(text: str) -> bytes:
    """The bytes of a path that ``encode`` (or git's quoting) wrote."""
    if len(text) >= 2 and text.startswith('"') and text.endswith('"'):
        return _ESCAPE.sub(_unescape, text[1:-1].encode("utf-8"))
    return text.encode("utf-8")


def name_of(place: Path) -> str:
    """The text form of a place in the file system."""
    return encode(os.fsencode(place))


def place_of(name: str) -> Path:
    """The place that ``name_of`` named."""
    return Path(os.fsdecode(decode(name)))


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match.group(1)
    return bytes([_LETTERS[code] if code in _LETTERS else int(code, 8) & 255])
