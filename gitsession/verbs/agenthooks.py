"""Have agents' own hooks feed a session: their settings files in a working tree, and whether the hooks run.

``local`` hooks name this installation and are the person's own; ``shared`` ones stand in a file that is committed, and
work for everybody who has ``pinable-hook``.  Where an agent has one file only, it is either.  What is in the files
and how it gets there is told in ``gitsession.verbs.agentsettings``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitsession.agentevents import CODEX, GEMINI
from gitsession.errors import ConflictError, GitSessionError, RepositoryError
from gitsession.git.repo import Repo
from gitsession.store import hooklog
from gitsession.store.files import obstacle
from gitsession.verbs import drycall
from gitsession.verbs.agentsettings import commands, levels
from gitsession.verbs.agentsettings.agents import AGENTS, Agent, named
from gitsession.verbs.agentsettings.commands import Command
from gitsession.verbs.agentsettings.settingsfile import SettingsFile
from gitsession.verbs.agentsettings.trust import CODEX_STEPS, trust

ANSWER: Final = "pinable agent hook runs:"
"""What a hook says in a dry call, before its agent's name; ``gitsession.agenthook`` has it, too, a floor above."""


@dataclass(frozen=True)
class Change:
    """What was done for an agent.

    ``state``: enabled, unchanged (it was already), disabled, off (it was not enabled), refused (a person has to see to
    ``detail`` first).  ``files`` are those that hold our hooks now, or held them; ``notes`` are for a person.
    """

    agent: str
    state: str
    files: tuple[str, ...]
    detail: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AgentStatus:
    """``state``: off, runs (a dry call of the very command answered), skipped (it does, but the agent does not call it:
    its settings say so, or a person has not ``trusted`` it yet), stale (it is not what would be written now, or of
    another installation), broken (it does not answer, or could write nothing), unreadable.

    ``failure`` is the last thing that went wrong in a hook (see ``gitsession.store.hooklog``).
    """

    agent: str
    state: str
    files: tuple[str, ...]
    trusted: bool | None = None
    detail: str | None = None
    failure: dict[str, Any] | None = None


def installed() -> list[str]:
    """The agents whose program is found."""
    return [agent.name for agent in AGENTS if shutil.which(agent.program) is not None]


def enable(start: Path, names: Sequence[str] = (), *, shared: bool = False) -> list[Change]:
    """Write the hooks of these agents (by default: of those that are installed); doing it again changes nothing."""
    chosen = list(names) or installed()
    if not chosen:
        programs = ", ".join(agent.program for agent in AGENTS)
        raise GitSessionError(
            f"no agent is installed: none of {programs} is found on PATH",
            hint="install one, or name it: --agent claude-code writes its settings all the same",
        )
    repo = Repo.discover(start)
    if repo.worktree == Path.home().resolve():
        raise RepositoryError(
            "the repository here is your whole home directory, in which nothing is tracked",
            hint="enable it in a project's own repository",
        )
    return [_enable(repo, start, named(name), shared) for name in dict.fromkeys(chosen)]


def disable(start: Path, names: Sequence[str] = (), *, local: bool = True, shared: bool = True) -> list[Change]:
    """Take the hooks of these agents (by default: of all) out again; the files are what they were before."""
    repo = Repo.discover(start)
    agents = [named(name) for name in dict.fromkeys(names)] or list(AGENTS)
    return [_disable(repo, agent, local, shared) for agent in agents]


def status(start: Path, home: Path) -> list[AgentStatus]:
    """Each agent's state, proved; ``home`` is where the hooks write."""
    repo = Repo.discover(start)
    failures = {entry["agent"]: entry for entry in hooklog.read(home)}
    return [_status(repo, home, agent, failures.get(agent.name)) for agent in AGENTS]


def where(start: Path) -> dict[str, tuple[str, ...]]:
    """The files with hooks of ours by agent, as far as they can be read; nothing is called."""
    repo = Repo.discover(start)
    return {agent.name: tuple(file.relative for file, _ in _with_ours(repo, agent)) for agent in AGENTS}


# Enable and disable


def _enable(repo: Repo, start: Path, agent: Agent, shared: bool) -> Change:
    relative = agent.shared if shared else agent.local
    file = SettingsFile(repo, agent, relative)
    try:
        if not shared and _works_by_the_shared_one(repo, agent):
            note = f"{agent.shared} has them for everybody, and they run here"
            return Change(agent.name, "unchanged", (agent.shared,), notes=(note,))
        changed = file.put(commands.shared(agent.name) if shared else commands.local(agent.name))
        if shared and agent.local != agent.shared:
            SettingsFile(repo, agent, agent.local).take()  # or each event would be told twice
    except GitSessionError as error:
        return Change(agent.name, "refused", (relative,), _in_words(error))
    notes = tuple(_notes(repo, start, agent, relative, shared=shared, changed=changed))
    return Change(agent.name, "enabled" if changed else "unchanged", (relative,), notes=notes)


def _works_by_the_shared_one(repo: Repo, agent: Agent) -> bool:
    """Whether the agent's shared file has hooks of ours that answer."""
    try:
        found = SettingsFile(repo, agent, agent.shared).commands()
    except ConflictError:
        return False
    return bool(found) and found[0].shared and _dry_call(repo, agent, found[0]) is None


def _disable(repo: Repo, agent: Agent, local: bool, shared: bool) -> Change:
    files = [file for file in agent.files if (local and file == agent.local) or (shared and file == agent.shared)]
    done, problems = [], []
    for relative in files:
        try:
            if SettingsFile(repo, agent, relative).take():
                done.append(relative)
        except GitSessionError as error:
            problems.append(_in_words(error))
    if problems:
        return Change(agent.name, "refused", tuple(done), "; ".join(problems))
    return Change(agent.name, "disabled" if done else "off", tuple(done))


def _in_words(error: GitSessionError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def _notes(repo: Repo, start: Path, agent: Agent, relative: str, *, shared: bool, changed: bool) -> Iterator[str]:
    if shutil.which(agent.program) is None:
        yield f"{agent.program} is not installed here"
    if shared:
        yield f"commit {relative}: it works for everybody who has {commands.PROGRAM} on PATH"
        if shutil.which(commands.PROGRAM) is None:
            yield f"{commands.PROGRAM} is not on your PATH: until it is, nothing happens here"
    elif repo.git("ls-files", "--", relative):
        yield f"{relative} is tracked by git, and names a path of this machine now: do not commit that (or: --shared)"
    elif repo.git("ls-files", "--others", "--exclude-standard", "--", relative):
        yield f"{relative} is not ignored, and names a path of this machine: a line in {_exclude(repo)} hides it"
    if agent.name == CODEX and changed:
        yield f"Codex skips new hooks silently until you trust them; {CODEX_STEPS}"
    elif agent.name == GEMINI and (words := trust(GEMINI, repo.worktree).words):
        yield words
    if not agent.plugin and agent.name != CODEX and _is_below(start, repo):
        yield f"{agent.title} reads it when it is started in {repo.worktree}, not further down"


def _exclude(repo: Repo) -> Path:
    """The file of what only this machine ignores, which all worktrees share."""
    file = repo.common_dir / "info" / "exclude"
    return file.relative_to(repo.worktree) if file.is_relative_to(repo.worktree) else file


def _is_below(start: Path, repo: Repo) -> bool:
    return os.path.realpath(start) != os.path.realpath(repo.worktree)


# Status


def _status(repo: Repo, home: Path, agent: Agent, failure: dict[str, Any] | None) -> AgentStatus:
    try:
        found = _with_ours(repo, agent, strict=True)
    except GitSessionError as error:
        return AgentStatus(agent.name, "unreadable", (), detail=str(error), failure=failure)
    files = tuple(file.relative for file, _ in found)
    if not found:
        return AgentStatus(agent.name, "off", ())
    state, detail = _proved(repo, agent, found)
    if state == "runs" and (place := _obstacle(home, agent)) is not None:
        state, detail = "broken", f"no session can be written: {place} is not writable, or no directory"
    if state != "runs":
        return AgentStatus(agent.name, state, files, None, detail, failure)
    trusted = trust(agent.name, repo.worktree)
    off = levels.switched_off(agent.name, repo.worktree, {command.line for _, ours in found for command in ours})
    state = "skipped" if off or trusted.given is False else "runs"
    return AgentStatus(agent.name, state, files, trusted.given, off or trusted.words, failure)


def _with_ours(repo: Repo, agent: Agent, *, strict: bool = False) -> list[tuple[SettingsFile, list[Command]]]:
    """The agent's files that hold hooks of ours, with their commands."""
    found = []
    for relative in agent.files:
        file = SettingsFile(repo, agent, relative)
        try:
            if ours := file.commands():
                found.append((file, ours))
        except ConflictError:
            if strict:
                raise
    return found


def _proved(repo: Repo, agent: Agent, found: list[tuple[SettingsFile, list[Command]]]) -> tuple[str, str | None]:
    if len(found) > 1:
        return "stale", "both files have them, and each event is told twice: pinable-agents disable --local"
    file, ours = found[0]
    enable = f"pinable-agents enable{' --shared' if ours[0].shared else ''}"
    try:
        file.check_replaceable()
    except ConflictError as error:
        return "stale", f"{error}: {error.hint}, then {enable}"
    again = f"{enable} brings it up to date"
    own = commands.local(agent.name)
    for command in dict.fromkeys(ours):
        if command.python is not None and not os.access(command.python, os.X_OK):
            return "stale", f"the Python it was enabled with is gone ({command.python}): {again}"
        # What a repository brings along is not run: it could be anything.
        if not command.shared and command != own and not file.is_as_left():
            return "stale", f"it was enabled with another installation ({command.python}): {again}"
        if (problem := _dry_call(repo, agent, command)) is not None:
            return "broken", problem
    if not file.is_current(ours[0]):
        return "stale", f"it is not what this version writes: {again}"
    return "runs", None


def _obstacle(home: Path, agent: Agent) -> Path | None:
    """What keeps hooks from writing sessions, which they could not even note."""
    directories = (home / "sessions", home / "owners", home / "agents" / agent.name)
    return next((place for place in map(obstacle, directories) if place is not None), None)


def _dry_call(repo: Repo, agent: Agent, command: Command) -> str | None:
    """Why a hook does not answer, ``None`` if it does."""
    reply = drycall.call(command.words if agent.plugin else ["/bin/sh", "-c", command.line], repo.worktree)
    if f"{ANSWER} {agent.name} " in reply.output:
        return None
    if command.shared and shutil.which(commands.PROGRAM) is None:
        return f"{commands.PROGRAM} is not on PATH"
    if reply.failure is None:  # the line keeps to itself what is wrong
        reply = drycall.call(command.words, repo.worktree)
    return reply.failure or f"it does not answer{f': {reply.last_line}' if reply.last_line else ''}"
