"""Whether an agent runs the hooks of a working tree: two of them ask a person first, and skip them silently until then.

- Codex wants the folder trusted, and each hook as it is now: a changed one is skipped again.  It keeps that in its
  ``config.toml`` under a hash of its own making.  It is asked itself, as its editor plugins do it: ``codex app-server``
  speaks JSON-RPC, and ``hooks/list`` tells (0.171.0).  Nothing is ever trusted here on a person's behalf.
- Gemini CLI wants the folder trusted (``~/.gemini/trustedFolders.json``), unless settings say that it is not to ask;
  ``--skip-trust`` does not run its hooks (0.61.0).

Claude Code asks about a folder before it does anything there, and opencode does not ask.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitsession.agentevents import CODEX, GEMINI
from gitsession.secrets import clean_environment
from gitsession.verbs.agentsettings import jsontext, levels
from gitsession.verbs.agentsettings.agents import named
from gitsession.verbs.agentsettings.commands import known_again

_PATIENCE: Final = 10.0  # seconds
_REQUESTS: Final[tuple[dict[str, Any], ...]] = (
    {"id": 0, "method": "initialize", "params": {"clientInfo": {"name": "gitsession", "version": "1"}}},
    {"method": "initialized"},
)
CODEX_STEPS: Final = "start codex here, and it asks whether you trust this folder, and its hooks (later: /hooks)"
GEMINI_STEPS: Final = "start gemini here, and it asks"


@dataclass(frozen=True)
class Trust:
    """``given`` is None where it cannot be told, or no question; ``words`` say what is missing and what to do."""

    given: bool | None
    words: str | None = None


def trust(agent: str, worktree: Path) -> Trust:
    """Whether the agent would run hooks of ours that stand in ``worktree``."""
    if agent == CODEX:
        return _codex(worktree)
    if agent == GEMINI:
        return _gemini(worktree)
    return Trust(None)


def _codex(worktree: Path) -> Trust:
    program = shutil.which("codex")
    if program is None:
        return Trust(None)
    if not (codex_home() / "config.toml").exists():
        return Trust(False, f"Codex has not been told to trust anything yet; {CODEX_STEPS}")
    known = _hooks_that_codex_knows(program, worktree)
    if known is None:
        return Trust(None, f"codex does not say whether it trusts them; if it does not, {CODEX_STEPS}")
    file = os.path.realpath(worktree / named(CODEX).local)
    here = [hook for hook in known if os.path.realpath(str(hook.get("sourcePath"))) == file]
    ours = [hook for hook in here if known_again(CODEX, hook.get("command"))]
    if not ours:
        return Trust(False, f"Codex does not load hooks of this folder; {CODEX_STEPS}")
    if not all(hook.get("enabled") for hook in ours):
        return Trust(False, "some are switched off in Codex: /hooks in codex")
    waiting = sum(hook.get("trustStatus") not in ("trusted", "managed") for hook in ours)
    if waiting:
        return Trust(False, f"Codex skips {waiting} of {len(ours)} hooks until you trust them; {CODEX_STEPS}")
    return Trust(True)


def codex_home() -> Path:
    """Where Codex keeps its own."""
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")


def _hooks_that_codex_knows(program: str, worktree: Path) -> list[dict[str, Any]] | None:
    """Every hook with its trust, by Codex's own word; ``None`` if it does not give it."""
    request = {"id": 1, "method": "hooks/list", "params": {"cwds": [str(worktree)]}}
    try:
        process = subprocess.Popen(
            [program, "app-server"],
            cwd=worktree,
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
    except OSError:
        return None
    late = threading.Timer(_PATIENCE, process.kill)
    late.start()
    try:
        with process:  # which closes its input, and so ends it
            return _answer(process, request)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    finally:
        late.cancel()


def _answer(process: subprocess.Popen[str], request: dict[str, Any]) -> list[dict[str, Any]] | None:
    assert process.stdin is not None  # noqa: S101 - both were asked for
    assert process.stdout is not None  # noqa: S101
    for message in (*_REQUESTS, request):
        process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        message = json.loads(line)
        if message.get("id") == request["id"]:
            return [hook for place in message["result"]["data"] for hook in place["hooks"]]
    return None


def _gemini(worktree: Path) -> Trust:
    for variable, value in (("GEMINI_RESTRICTED_MODE", "true"), ("GEMINI_CLI_TRUST_WORKSPACE", "false")):
        if os.environ.get(variable) == value:
            return Trust(False, f"{variable} is {value}")
    if os.environ.get("GEMINI_CLI_TRUST_WORKSPACE") == "true" or not levels.gemini_wants_trust():
        return Trust(True)
    # The longest rule counts, as Gemini CLI has it.
    rules = sorted(_gemini_rules(), key=lambda rule: len(rule[0]))
    for place, level in reversed(rules):
        folder = os.path.realpath(os.path.dirname(place) if level == "TRUST_PARENT" else place)  # noqa: PTH120 - as text
        if Path(os.path.realpath(worktree)).is_relative_to(folder):
            if level == "DO_NOT_TRUST":
                return Trust(False, "Gemini CLI was told not to trust this folder: /permissions in gemini")
            return Trust(True)
    return Trust(False, f"Gemini CLI runs hooks only in a folder that you trust; {GEMINI_STEPS}")


def _gemini_rules() -> Iterator[tuple[str, str]]:
    place = os.environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or levels.gemini_home() / "trustedFolders.json"
    with suppress(OSError, UnicodeDecodeError, jsontext.Problem):
        found = jsontext.parse(Path(place).read_text(encoding="utf-8"), comments=True).value
        if isinstance(found, dict):
            yield from ((str(folder), str(level)) for folder, level in found.items())
