"""The plugin that tells opencode's events to our hook: opencode starts no programs for its events by itself.

The file is ours alone.  Its first line says so and holds a check sum, so that one that somebody changed is neither
overwritten nor removed.  What it sends is told in ``gitsession.agentevents``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from typing import Final

from gitsession.agentevents import OPENCODE, WANTED
from gitsession.verbs.agentsettings.commands import MODULE, PROGRAM, Command
from gitsession.verbs.agentsettings.form import Inserted, Keys, NotOurs
from gitsession.verbs.agentsettings.jsontext import Edit

_FIRST_LINE: Final = re.compile(r"// pinable-agents plugin, format \d+, sum ([0-9a-f]{12})\n")
_COMMAND: Final = re.compile(r"^const COMMAND = (\[.*\])$", re.MULTILINE)
_NO_SUM: Final = "0" * 12
_SOURCE: Final = """\
// pinable-agents plugin, format 1, sum 000000000000
// Tells the session of gitsession what opencode does. "pinable-agents disable" removes it.
import { spawn } from "node:child_process"

const COMMAND = @COMMAND@
const WANTED = @WANTED@

// One event, as JSON on the standard input of a process of its own. Whatever goes wrong, opencode goes on.
const tell = (directory, name, facts) =>
  new Promise((done) => {
    try {
      const event = { hook_event_name: name, cwd: directory, ...facts }
      // A process group of its own: Ctrl-C is meant for opencode, not for what is being written down.
      const child = spawn(COMMAND[0], COMMAND.slice(1), {
        cwd: directory,
        stdio: ["pipe", "ignore", "ignore"],
        detached: true,
      })
      const late = setTimeout(() => child.kill("SIGKILL"), WANTED[name].timeout * 1000)
      const end = () => (clearTimeout(late), done())
      child.on("error", end)
      child.on("exit", end)
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(event))
    } catch {
      done()
    }
  })

const wanted = (name, tool) => name in WANTED && (!WANTED[name].tools || new RegExp(WANTED[name].tools).test(tool))

const textOf = (parts) =>
  (parts ?? [])
    .filter((part) => part.type === "text" && !part.synthetic)
    .map((part) => part.text)
    .join("\\n")

export const gitsession = async ({ directory }) => {
  let begun = Promise.resolve() // opencode does not wait for session.created before it goes on
  const send = async (name, facts) => {
    await begun
    await tell(directory, name, facts)
  }
  const tool = (name) => async (input, output) => {
    if (!wanted(name, input.tool)) return
    await send(name, {
      session_id: input.sessionID,
      tool_name: input.tool,
      tool_use_id: input.callID,
      tool_input: input.args ?? output?.args,
    })
  }
  return {
    event: async ({ event }) => {
      const { type: name, properties } = event
      if (!name.startsWith("session.") || !wanted(name)) return
      const info = properties?.info
      const facts = { session_id: properties?.sessionID ?? info?.id, parent_id: info?.parentID }
      if (name === "session.created") begun = tell(directory, name, facts)
      else await send(name, facts)
    },
    "chat.message": async (input, output) => {
      if (!wanted("chat.message")) return
      await send("chat.message", {
        session_id: input.sessionID,
        model: output?.message?.model?.modelID ?? input.model?.modelID,
        prompt: textOf(output?.parts),
      })
    },
    "tool.execute.before": tool("tool.execute.before"),
    "tool.execute.after": tool("tool.execute.after"),
  }
}
"""


class Plugin:
    """A ``Form``: the file is there or it is not."""

    def commands(self, text: str) -> list[Command]:
        if not text:
            return []
        if not _FIRST_LINE.match(text):
            raise _foreign()
        command = _command_in(text)
        return [] if command is None else [command]

    def is_current(self, text: str, command: Command) -> bool:
        return text == text_of(command)

    def insert(self, text: str, command: Command) -> Inserted:
        if text:
            raise _foreign()
        new = text_of(command)
        return Inserted(new, (Edit(0, len(new), ""),))

    def take_out(self, text: str, made: Collection[Keys] | None) -> str:  # noqa: ARG002 - nothing is in it but ours
        found = _FIRST_LINE.match(text)
        if found is None:
            raise _foreign()
        if _sum(text.replace(found[1], _NO_SUM, 1)) != found[1]:
            raise NotOurs("somebody changed it", "take the change out, or move the file away")
        return ""


def text_of(command: Command) -> str:
    """The plugin that starts ``command``."""
    wanted = {one.event: {"timeout": one.timeout, "tools": one.matcher} for one in WANTED[OPENCODE]}
    text = _SOURCE
    for name, value in {"@COMMAND@": command.words, "@WANTED@": wanted}.items():
        text = text.replace(name, json.dumps(value, ensure_ascii=False))
    return text.replace(_NO_SUM, _sum(text), 1)


def _command_in(text: str) -> Command | None:
    """The command that the plugin starts; ``None`` if it is not one of ours."""
    found = _COMMAND.search(text)
    try:
        words = json.loads(found[1]) if found else None
    except ValueError:
        return None
    match words:
        case [program, "-I", "-m", module, agent] if module == MODULE and agent == OPENCODE:
            return Command(OPENCODE, str(program))
        case [program, agent] if program == PROGRAM and agent == OPENCODE:
            return Command(OPENCODE, None)
    return None


def _foreign() -> NotOurs:
    return NotOurs("it is not our plugin", "move the file away")


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
