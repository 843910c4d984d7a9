"""``pinable-agents`` (and ``git pinable``): looks after sessions."""

from __future__ import annotations

import click

from gitsession import __version__
from gitsession.cli.lazy import LazyGroup
from gitsession.cli.startup import at_start

_COMMANDS = {
    "session": ("gitsession.cli.session:group", "List, inspect, checkpoint, pause and delete sessions."),
    "demo": ("gitsession.cli.demo:demo", "The worked example, for real and offline."),
    "config": ("gitsession.cli.config:group", "Read and write settings."),
    "hooks": ("gitsession.cli.hooks:group", "Link commits to sessions by git hooks."),
    "agents": ("gitsession.cli.agents:command", "List the agents that are installed."),
    "enable": ("gitsession.cli.enable:enable", "Have agents' own hooks feed a session, in this repository."),
    "disable": ("gitsession.cli.enable:disable", "Take agents' hooks out again."),
    "status": ("gitsession.cli.enable:status", "Tell which agents' hooks run here."),
    "why": ("gitsession.cli.why:command", "Tell which session's work is in a commit, a line or a file."),
    "doctor": ("gitsession.cli.doctor:command", "Find what is wrong with sessions and their surroundings."),
}

group = click.version_option(__version__, message="%(prog)s %(version)s")(
    LazyGroup(
        "pinable-agents",
        table=_COMMANDS,
        callback=at_start(but={"session", "doctor"}),
        help="Look after the sessions of AI coding agents.",
        epilog="Every command takes --debug, which shows the traceback of an error.\n\n"
        "\b\nShell completion, in ~/.bashrc "
        '(elsewhere zsh_source, fish_source):\n  eval "$(_PINABLE_AGENTS_COMPLETE=bash_source pinable-agents)"\n'
        '  eval "$(_CODEAGENT_WRAPPER_COMPLETE=bash_source codeagent-wrapper)"',
    )
)
