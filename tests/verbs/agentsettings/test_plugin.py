"""The plugin for opencode tells its events, in order, and never gets in the way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gitsession.agentevents import WANTED
from gitsession.verbs.agentsettings.commands import Command
from gitsession.verbs.agentsettings.form import NotOurs
from gitsession.verbs.agentsettings.jsontext import replaced
from gitsession.verbs.agentsettings.plugin import Plugin, text_of

NODE = shutil.which("node")
ODD = '/a b/it\'s/"x"/$HOME/`id`/é\\n/python3'
# Plays opencode: loads the plugin, and calls its hooks with what the real one gave (1.18.33).
PLAYER = """
import { gitsession } from "./gitsession.mjs"
const hooks = await gitsession({ directory: process.cwd() })
const event = (type, properties) => hooks.event({ event: { type, properties } })
const session = "ses_1"
void event("session.created", { sessionID: session, info: { id: session, parentID: "ses_0" } })
await event("message.updated", { sessionID: session, info: { id: "msg_1" } })
await hooks["chat.message"](
  { sessionID: session },
  {
    message: { model: { providerID: "p", modelID: "m" } },
    parts: [{ type: "text", text: "do" }, { type: "text", text: "secret file", synthetic: true }, { type: "file" },
            { type: "text", text: "it" }],
  },
)
const input = { tool: "write", sessionID: session, callID: "call_1" }
await hooks["tool.execute.before"](input, { args: { filePath: "a" } })
await hooks["tool.execute.after"]({ ...input, args: { filePath: "a" } }, { output: "Wrote" })
await hooks["tool.execute.after"]({ ...input, tool: "read" }, {})
await event("session.idle", { sessionID: session })
await event("session.deleted", { info: { id: session } })
await event("session.idle", undefined)
console.log("went on")
"""


def play(directory: Path, command: Command, patience: float = 60) -> None:
    """Run the player with the plugin that starts ``command``."""
    (directory / "gitsession.mjs").write_text(text_of(command))
    (directory / "player.mjs").write_text(PLAYER)
    assert NODE is not None
    done = subprocess.run(
        [NODE, "player.mjs"], cwd=directory, env=dict(os.environ), capture_output=True, text=True, timeout=patience
    )
    assert (done.stdout, done.stderr, done.returncode) == ("went on\n", "", 0)


def told(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "told").read_text().splitlines()]


needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


@needs_node
def test_each_event_is_told_in_order(tmp_path: Path) -> None:
    program = tmp_path / "it's $HOME" / "python3"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s " "$@" >> args\ncat >> told; echo >> told\n')
    program.chmod(0o755)
    play(tmp_path, Command("opencode", str(program)))
    common = {"cwd": str(tmp_path), "session_id": "ses_1"}
    tool = {**common, "tool_name": "write", "tool_use_id": "call_1", "tool_input": {"filePath": "a"}}
    assert told(tmp_path) == [
        {"hook_event_name": "session.created", "parent_id": "ses_0", **common},
        {"hook_event_name": "chat.message", "model": "m", "prompt": "do\nit", **common},
        {"hook_event_name": "tool.execute.before", **tool},
        {"hook_event_name": "tool.execute.after", **tool},
        {"hook_event_name": "session.idle", **common},
        {"hook_event_name": "session.deleted", **common},
        {"hook_event_name": "session.idle", "cwd": str(tmp_path)},
    ]
    assert (tmp_path / "args").read_text().strip() == " ".join(["-I -m gitsession.agenthook opencode"] * 7)
    assert {one["hook_event_name"] for one in told(tmp_path)} == {one.event for one in WANTED["opencode"]}


@needs_node
@pytest.mark.parametrize("text", [None, "#!/bin/sh\nexit 3\n", "#!/bin/sh\nexec <&-\necho noise; echo noise >&2\n"])
def test_a_hook_that_fails_is_no_trouble(tmp_path: Path, text: str | None) -> None:
    program = tmp_path / "python3"
    if text is not None:
        program.write_text(text)
        program.chmod(0o755)
    play(tmp_path, Command("opencode", str(program)))


@needs_node
def test_a_hook_that_hangs_is_ended_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\nexec sleep 100\n")
    program.chmod(0o755)
    for one in WANTED["opencode"]:
        monkeypatch.setattr(one, "timeout", 0.1)
    began = time.monotonic()
    play(tmp_path, Command("opencode", str(program)))
    assert time.monotonic() - began < 60


def test_known_again() -> None:
    for command in (Command("opencode", ODD), Command("opencode", None)):
        text = text_of(command)
        assert Plugin().commands(text) == [command]
        assert Plugin().is_current(text, command)
        assert not Plugin().is_current(text, Command("opencode", sys.executable))
        assert Plugin().take_out(text, None) == ""
    assert Plugin().commands("") == []


def test_in_and_out() -> None:
    done = Plugin().insert("", Command("opencode", ODD))
    assert replaced(done.text, done.undo) == ""
    for text in ("// mine", done.text):
        with pytest.raises(NotOurs):
            Plugin().insert(text, Command("opencode", ODD))


@pytest.mark.parametrize("line", ['["/bin/sh", "-c", "evil"]', "[broken", '["pinable-hook", "codex"]', "[]"])
def test_a_command_that_is_not_ours(line: str) -> None:
    ours = text_of(Command("opencode", None))
    text = ours.replace('["pinable-hook", "opencode"]', line)
    assert text != ours
    assert Plugin().commands(text) == []


def test_what_somebody_changed_is_not_taken_out() -> None:
    for text in ("export const mine = 1\n", text_of(Command("opencode", None)) + "\n"):
        with pytest.raises(NotOurs, match=r"not our plugin|somebody changed it"):
            Plugin().take_out(text, None)
    with pytest.raises(NotOurs, match="not our plugin"):
        Plugin().commands("export const mine = 1\n")
