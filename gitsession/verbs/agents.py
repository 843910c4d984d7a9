"""Which agents are installed, and what is known of them without looking into anything that is private.

Whether somebody is logged in is told by what is there: a variable that is set, a file that exists.  None of them is
opened, and nothing is said of an agent that keeps it elsewhere (a keychain).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from gitsession import agentevents
from gitsession.backends.versions import version_of
from gitsession.errors import RepositoryError
from gitsession.verbs import agenthooks
from gitsession.verbs.agentsettings.agents import AGENTS, Agent
from gitsession.verbs.agentsettings.levels import claude_home, gemini_home
from gitsession.verbs.agentsettings.trust import codex_home

_VARIABLES: Final[Mapping[str, Sequence[str]]] = {
    agentevents.CLAUDE_CODE: (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CODE_USE_FOUNDRY",
    ),
    agentevents.CODEX: ("CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_API_KEY"),
    agentevents.GEMINI: ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"),
    agentevents.OPENCODE: ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
}


@dataclass(frozen=True)
class Installed:
    """``path`` is None if the program is not found; ``known`` is whether this version was tried, None if it does not
    tell its version.  ``login`` is what speaks for somebody being logged in: the name of a variable or of a file.
    ``hooks`` are the files with hooks of ours, None outside of a repository."""

    name: str
    title: str
    program: str
    path: str | None
    version: str | None
    known: bool | None
    login: str | None
    hooks: tuple[str, ...] | None


def survey(start: Path) -> list[Installed]:
    """All agents, asked at the same time."""
    try:
        hooks = agenthooks.where(start)
    except RepositoryError:
        hooks = None
    with ThreadPoolExecutor(len(AGENTS)) as pool:
        return list(pool.map(lambda agent: _look(agent, hooks), AGENTS))


def _look(agent: Agent, hooks: Mapping[str, tuple[str, ...]] | None) -> Installed:
    path = shutil.which(agent.program)
    version = None if path is None else version_of(path)
    known = None if version is None else re.fullmatch(_tried(agent.name), version) is not None
    where = None if hooks is None else hooks[agent.name]
    return Installed(agent.name, agent.title, agent.program, path, version, known, _login(agent.name), where)


def _tried(agent: str) -> str:
    """A regular expression of the versions that the backend for this agent was tried with."""
    backend = import_module(f"gitsession.backends.{agent.replace('-', '_')}")
    return str(backend.Dialect().known)


def _login(agent: str) -> str | None:
    for variable in _VARIABLES[agent]:
        if os.environ.get(variable):
            return f"${variable}"
    return next((str(file) for file in _credentials(agent) if file.exists()), None)


def _credentials(agent: str) -> Sequence[Path]:
    """The files that are there when somebody has logged in; to be looked for, never into."""
    match agent:
        case agentevents.CLAUDE_CODE:
            return (claude_home() / ".credentials.json",)
        case agentevents.CODEX:
            return (codex_home() / "auth.json",)
        case agentevents.GEMINI:
            return (gemini_home() / "oauth_creds.json", gemini_home() / "gemini-credentials.json")
        case _:
            data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
            return (Path(data) / "opencode" / "auth.json",)
