"""Where each agent looks for hooks, and how it reads what it finds.

Observed with Claude Code 2.1.197, Codex 0.171.0, Gemini CLI 0.61.0 and opencode 1.18.33: only Gemini CLI reads a file
with comments (the others silently have no hooks then, or say so in a place that nobody looks at), none one with a comma
that nothing follows, only Claude Code one with a byte order mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gitsession import agentevents
from gitsession.errors import UsageError


@dataclass(frozen=True)
class Agent:
    """``local`` and ``shared`` are files in the working tree; where an agent has no file of the person's own there,
    they are the same."""

    name: str
    title: str
    program: str
    local: str
    shared: str
    comments: bool = False
    mark: bool = False
    """Whether it reads a file with a byte order mark."""
    milliseconds: bool = False
    plugin: bool = False
    """The file is a program of ours for the agent, not settings."""

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.local, self.shared)))


AGENTS: Final = (
    Agent(
        agentevents.CLAUDE_CODE,
        "Claude Code",
        "claude",
        ".claude/settings.local.json",
        ".claude/settings.json",
        mark=True,
    ),
    Agent(agentevents.CODEX, "Codex", "codex", ".codex/hooks.json", ".codex/hooks.json"),
    Agent(
        agentevents.GEMINI,
        "Gemini CLI",
        "gemini",
        ".gemini/settings.json",
        ".gemini/settings.json",
        comments=True,
        milliseconds=True,
    ),
    Agent(
        agentevents.OPENCODE,
        "opencode",
        "opencode",
        ".opencode/plugins/gitsession.js",
        ".opencode/plugins/gitsession.js",
        plugin=True,
    ),
)
NAMES: Final = tuple(agent.name for agent in AGENTS)


def named(name: str) -> Agent:
    """``UsageError`` if there is none."""
    for agent in AGENTS:
        if agent.name == name:
            return agent
    raise UsageError(f"there is no agent {name!r}", hint="agents: " + ", ".join(NAMES))
