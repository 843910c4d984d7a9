"""Mask what looks like a key or a password.

Known kinds of keys are found by their form, others by the name they are given: ``password = "…"``, ``API_KEY=…``,
``Authorization: Bearer …``, ``https://user:password@host``.  It is a net with holes: a secret without a form and a name
passes, and now and then a harmless word is masked.
"""

from __future__ import annotations

import re
from typing import Any, Final

MASK: Final = "[redacted]"

# Every repetition that may be tried from many places has an upper bound: the time for a text is linear in its length.
_BEFORE = r"(?<![A-Za-z0-9])"
# A run of characters of which one at least is a digit: names in programs rarely are.
_MIXED = r"(?=[\w-]{0,200}\d)"
_KEY_BLOCK = r"PRIVATE KEY(?: BLOCK)?-----"
_KNOWN: Final = re.compile(
    "|".join([
        # A block with its end, or as much as looks like one.
        r"-----BEGIN [A-Z0-9 ]{0,40}" + _KEY_BLOCK
        + r"(?:(?:(?!-----BEGIN)[\w+/=\s\\:;,.()\"'<>@-]){0,20000}?-----END [A-Z0-9 ]{0,40}" + _KEY_BLOCK
        + r"|(?:[\s\\n\"',+-]{0,8}[A-Za-z0-9+/=]{16,100}){1,500})",
        _BEFORE + r"sk-ant-[\w-]{10,}",  # Anthropic
        _BEFORE + r"sk-(?:proj|svcacct|admin)-[\w-]{20,}",  # OpenAI
        _BEFORE + r"sk-" + _MIXED + r"[\w-]{20,}",  # OpenAI and others
        _BEFORE + r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}",  # Stripe
        _BEFORE + r"gh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
        _BEFORE + r"github_pat_\w{20,}",
        _BEFORE + r"glpat-[\w-]{20,}",  # GitLab
        _BEFORE + r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])",  # Amazon
        _BEFORE + r"AIza[\w-]{35}",  # Google
        _BEFORE + r"ya29\.[\w-]{20,}",
        _BEFORE + r"xox[abeoprs]-[\w-]{10,}",  # Slack
        _BEFORE + r"(?:npm_|hf_)[A-Za-z0-9]{30,}",
        _BEFORE + r"pypi-[\w-]{50,}",
        _BEFORE + r"eyJ[\w-]{8,400}\.eyJ[\w-]{8,8000}\.[\w-]{8,}",  # JSON Web Token
    ])
)  # fmt: skip
_NAME: Final = r"(?:api[_-]?key|access[_-]?key|private[_-]?key|secret|token|passw(?:or)?d|passphrase|credentials?)"
_ASSIGNED: Final = re.compile(
    # A name that says it, and a quoted word, or one of letters and digits.
    rf"(?i:{_NAME})[\w-]{{0,40}}[\"']?[ \t]{{0,40}}(?::=|=>|[:=])[ \t]{{0,40}}"
    rf"(?:\"([^\"\s]{{8,4000}})\"|'([^'\s]{{8,4000}})'"
    rf"|(?=[A-Za-z+/_-]{{0,200}}\d)(?=[\d+/_-]{{0,200}}[A-Za-z])([A-Za-z0-9+/_-]{{8,4000}}={{0,2}})(?![\w.(\[]))"
    # Any name that ends in "key", and a word that looks like nothing else.
    r"|(?i:key)[\"']?[ \t]{0,40}[:=][ \t]{0,40}[\"']?"
    r"(?=[A-Za-z]{0,200}\d)(?=\d{0,200}[A-Za-z])([A-Za-z0-9+/]{20,4000}={0,2})(?![\w.(\[-])"
    # A header.
    r"|(?i:authorization[\"']?[ \t]{0,40}[:=][ \t]{0,40}[\"']?(?:bearer|basic|token)[ \t]{1,40})([\w.~+/=-]{8,})"
    # A password in an address.
    r"|(?<![A-Za-z0-9])[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,200}:([^\s/:@]{3,200})@"
)
_NAMED: Final = re.compile(rf"(?i)(?:[\w-]*[_-])?{_NAME}")


class Redactor:
    """Masks and counts: ``found`` is how many secrets were masked so far."""

    def __init__(self) -> None:
        self.found = 0

    def text(self, text: str) -> str:
        """``text`` with what looks like a secret masked."""
        return _ASSIGNED.sub(self._mask_value, _KNOWN.sub(self._mask, text))

    def value(self, value: Any) -> Any:
        """A JSON value of the same shape; a string under a name like ``password`` is masked whole."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(name): self._member(name, item) for name, item in value.items()}
        return value

    def _member(self, name: str, item: Any) -> Any:
        if isinstance(item, str) and item and _NAMED.fullmatch(name):
            self.found += 1
            return MASK
        return self.value(item)

    def _mask(self, match: re.Match[str]) -> str:
        self.found += 1
        # Lines stay lines, so that what follows in a diff is where it was.
        return "\n".join([MASK] * (match.group().count("\n") + 1))

    def _mask_value(self, match: re.Match[str]) -> str:
        group = match.lastindex or 0
        value = match.group(group)
        if MASK in value or not value.strip("*xX.<>${}"):
            return match.group()
        self.found += 1
        start, end = (place - match.start() for place in match.span(group))
        whole = match.group()
        return whole[:start] + MASK + whole[end:]


def count(text: str) -> int:
    """How many secrets ``text`` seems to hold."""
    redactor = Redactor()
    redactor.text(text)
    return redactor.found
