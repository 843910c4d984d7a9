"""The command that an agent is to start for each event, and how it is known again.

A local one names this installation's Python by its path.  A shared one names none, because it stands in a file that
other people have, too: it is ``pinable-hook``, wherever that is on their machine.  Where the program is gone, or cannot
start, the agent goes on as if there were no hook: an exit status that is not 0 and words on standard error are a reason
to stop for some of them.
"""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gitsession.errors import BadValue

MODULE: Final = "gitsession.agenthook"
PROGRAM: Final = "pinable-hook"
_WORDS: Final = ("-I", "-m", MODULE)
# Ctrl-C is meant for the agent, and the shell would end by it when the program is done.
_BEFORE: Final = "trap : INT; "
# Of the shell's own words, too: that there is no such program.
_AFTER: Final = " 2>/dev/null || :"


@dataclass(frozen=True)
class Command:
    """``python`` is None for a shared one."""

    agent: str
    python: str | None

    @property
    def shared(self) -> bool:
        return self.python is None

    @property
    def words(self) -> list[str]:
        """The program and its arguments."""
        return [PROGRAM, self.agent] if self.python is None else [self.python, *_WORDS, self.agent]

    @property
    def line(self) -> str:
        """For a shell: whichever the agent uses."""
        # Not every shell that a person has for a login shell knows the grammar of sh.
        line = f"sh -c {shlex.quote(_BEFORE + shlex.join(self.words) + _AFTER)}"
        # Gemini CLI puts variables of the environment into its settings before any shell sees them.
        return line.replace("$", "$''")


def local(agent: str) -> Command:
    """The command of this installation; ``BadValue`` if its path cannot be written into a JSON file."""
    python = _this_python()
    try:
        python.encode()
    except UnicodeEncodeError:
        raise BadValue(
            f"the path of this Python is no text in UTF-8: {python!r}", hint="install it elsewhere, or use --shared"
        ) from None
    return Command(agent, python)


def _this_python() -> str:
    """The same name every time, however it was started."""
    beside = Path(sys.executable).with_name("python3")
    with suppress(OSError):
        if beside.samefile(sys.executable):
            return str(beside)
    return sys.executable


def shared(agent: str) -> Command:
    """The command that works wherever ``pinable-hook`` is installed."""
    return Command(agent, None)


def known_again(agent: str, line: object) -> Command | None:
    """The command that ``line`` is, of whatever installation and version; ``None`` if it is not one of ours."""
    if not isinstance(line, str):
        return None
    if line in (shared(agent).line, _older_shared(agent)):
        return shared(agent)
    try:
        words = shlex.split(line)
        if words[:2] == ["sh", "-c"]:
            words = shlex.split(words[2].removeprefix(_BEFORE).removesuffix(_AFTER))
    except (ValueError, IndexError):
        return None
    if len(words) == len(_WORDS) + 2 and (*words[1:-1],) == _WORDS and words[-1] == agent:
        return Command(agent, words[0])
    return None


def _older_shared(agent: str) -> str:
    """As it was once; a local one was its mere words."""
    return f"sh -c 'command -v {PROGRAM} >/dev/null 2>&1 || exit 0; exec {PROGRAM} {agent}'"
