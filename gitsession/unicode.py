"""Halves of surrogate pairs: what bytes that are no UTF-8 become in Python, and ``\\udce9`` in JSON.

They are no Unicode, so nothing that is kept as UTF-8 can hold them.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_SPELLED: Final = re.compile(rb"\\u[dD][89a-fA-F]")


def is_unicode(text: str) -> bool:
    """Whether ``text`` can be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def told_in_unicode(data: bytes, value: Any) -> bool:
    """Whether all text in ``value``, the JSON that UTF-8 ``data`` holds, is Unicode; quick where no escape is used."""
    return _SPELLED.search(data) is None or is_unicode(json.dumps(value, ensure_ascii=False))


def escaped(value: Any) -> Any:
    """A JSON value of the same shape whose texts are Unicode: each half is spelled as its escape, six characters."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list):
        return [escaped(item) for item in value]
    if isinstance(value, dict):
        return {escaped(name): escaped(item) for name, item in value.items()}
    return value
