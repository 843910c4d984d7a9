"""Keys and passwords of the environment: they are kept out of what is stored, shown, and given to others."""

from __future__ import annotations

import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
"""The variables that hold the key of a model this process talks to: no session, and no program it starts, gets it."""
_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_LENGTH: Final = 8
_PR_SET_DUMPABLE: Final = 4  # prctl(2)


def without_secrets(text: str) -> str:
    """``text`` without the values of the environment's keys and passwords."""
    for name, value in os.environ.items():
        if len(value) >= _LENGTH and _NAME.search(name):
            text = text.replace(value, "***")
    return text


def without_keys(text: str) -> str:
    """``text`` without the values of ``KEYS``."""
    for name in KEYS:
        if len(value := os.environ.get(name, "")) >= _LENGTH:
            text = text.replace(value, "***")
    return text


def clean_environment() -> dict[str, str]:
    """Our environment without variables that by their names hold keys and passwords."""
    return {name: value for name, value in os.environ.items() if not _NAME.search(name)}


def guard_memory() -> None:
    """Let no other program of the same user read this process's memory and the environment it began with.

    A program that we start could find a key there that is not in its own environment.  Linux only; elsewhere it takes
    an administrator, or is not possible at all.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
