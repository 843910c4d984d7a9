"""What an agent's settings say of all hooks, on whatever level they stand: of a person, of a project, of a machine.

Two agents have a switch for all hooks.  Both read it from several files, of which the strongest that says something
counts.  As observed:

- Claude Code 2.1.197: the person's settings, the project's, the person's for the project, what the machine's owner
  manages.  ``disableAllHooks``; managed, also ``allowManagedHooksOnly``.
- Gemini CLI 0.61.0: the machine's defaults, the person's, the project's, the machine's.  ``hooksConfig.enabled``, and
  ``hooksConfig.disabled``, which lists commands, from all levels together.

The files are only read.  One that the agent cannot read says nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from gitsession.agentevents import CLAUDE_CODE, GEMINI
from gitsession.errors import GitSessionError
from gitsession.verbs.agentsettings import files, jsontext
from gitsession.verbs.agentsettings.agents import Agent, named

Level = tuple[str, Any]
"""What a person knows a file by, and what is in it."""

_MANAGED: Final = {"darwin": "/Library/Application Support/ClaudeCode", "win32": "C:/Program Files/ClaudeCode"}
_SYSTEM: Final = {"darwin": "/Library/Application Support/GeminiCli", "win32": "C:/ProgramData/gemini-cli"}


def switched_off(agent: str, worktree: Path, lines: Collection[str]) -> str | None:
    """What keeps the agent from running the hooks of ``worktree`` with these command lines, in words."""
    if agent == CLAUDE_CODE:
        return _off_in_claude(worktree)
    if agent == GEMINI:
        return _off_in_gemini(worktree, lines)
    return None


def gemini_wants_trust() -> bool:
    """Whether Gemini CLI runs hooks in trusted folders only; a folder's own settings have no say in that."""
    levels = [*_gemini_below(), *_gemini_above()]
    return next(_said(levels, "security", "folderTrust", "enabled"), ("", True))[1] is not False


def gemini_home() -> Path:
    """Where Gemini CLI keeps its own."""
    return Path(os.environ.get("GEMINI_CLI_HOME") or Path.home()) / ".gemini"


def claude_home() -> Path:
    """Where Claude Code keeps its own."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")


def _off_in_claude(worktree: Path) -> str | None:
    agent = named(CLAUDE_CODE)
    root = Path(_MANAGED.get(sys.platform, "/etc/claude-code"))
    places = [root / "managed-settings.json", *sorted((root / "managed-settings.d").glob("*.json"))]
    managed = [level for place in places for level in _read(agent, place)]
    levels = [*_read(agent, claude_home() / "settings.json"), *_in_project(agent, worktree), *managed]
    for key, known in {"disableAllHooks": levels, "allowManagedHooksOnly": managed}.items():
        name, value = next(_said(known, key), ("", False))
        if value is True:
            return f'{name}: "{key}" is true'
    return None


def _off_in_gemini(worktree: Path, lines: Collection[str]) -> str | None:
    levels = [*_gemini_below(), *_in_project(named(GEMINI), worktree), *_gemini_above()]
    name, value = next(_said(levels, "hooksConfig", "enabled"), ("", True))
    if value is False:
        return f'{name}: "hooksConfig.enabled" is false'
    for name, value in _said(levels, "hooksConfig", "disabled"):
        if isinstance(value, list) and any(line in value for line in lines):
            return f'{name}: they are in "hooksConfig.disabled"'
    return None


def _in_project(agent: Agent, worktree: Path) -> Iterator[Level]:
    for relative in reversed(agent.files):
        yield from _read(agent, worktree / relative, relative)


def _gemini_below() -> Iterator[Level]:
    """The levels that are weaker than the project's."""
    defaults = os.environ.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH") or _gemini_system().with_name("system-defaults.json")
    for place in (Path(defaults), gemini_home() / "settings.json"):
        yield from _read(named(GEMINI), place)


def _gemini_above() -> Iterator[Level]:
    yield from _read(named(GEMINI), _gemini_system())


def _gemini_system() -> Path:
    usual = Path(_SYSTEM.get(sys.platform, "/etc/gemini-cli")) / "settings.json"
    return Path(os.environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or usual)


def _read(agent: Agent, place: Path, name: str | None = None) -> Iterator[Level]:
    """The level that a file is; none where it is not there or cannot be read."""
    try:
        content = files.read(place) if place.is_file() else files.Content(None)
        if content.text and (agent.mark or not content.mark):
            yield name or str(place), jsontext.parse(content.text, comments=agent.comments).value
    except (GitSessionError, jsontext.Problem):
        return


def _said(levels: Sequence[Level], *keys: str) -> Iterator[Level]:
    """What is said under these keys, the strongest first."""
    for name, value in reversed(levels):
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            yield name, value
