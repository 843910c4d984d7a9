"""Reading a file's bytes as text, and saying how that was done."""

from __future__ import annotations

import re

_HIGH = re.compile(rb"[\x80-\xff]+")


def decode(data: bytes, declared: str | None = None) -> tuple[str, str | None]:
    """``data`` as text, and a word on how it was read unless it is UTF-8.

    In this order: the encoding that attributes declare, UTF-8, a guess that is called one.  Nothing is lost: bytes that
    do not fit become surrogates.
    """
    if declared is not None and declared.lower().replace("_", "-") not in {"utf-8", "utf8"}:
        try:
            return data.decode(declared), declared
        except LookupError:
            return data.decode("utf-8", "surrogateescape"), f"encoding {declared} is unknown"
        except UnicodeDecodeError:
            pass
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError:
        return _guess(data)


def _guess(data: bytes) -> tuple[str, str | None]:
    # The encodings of East Asia use two high bytes a character, those of Europe mostly single ones.
    runs = _HIGH.findall(data)
    candidates = ["cp1252"]
    if sum(len(run) % 2 == 0 for run in runs) * 10 >= len(runs) * 9:
        candidates = ["gb18030", "euc_jp", *candidates]
    for name in candidates:
        try:
            return data.decode(name), f"{name}, a guess"
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", "surrogateescape"), "not text in any encoding we know"
