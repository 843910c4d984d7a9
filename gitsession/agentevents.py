"""Which events of the agents' own hooks feed a session, and what each means.

``WANTED`` is, for each agent, what goes into its hook settings; by ``wanted`` the hook (``gitsession.agenthook``) knows
an event again.  An agent's events are called what it calls them itself; each arrives as one JSON object on standard
input::

    hook_event_name    the event
    session_id         the agent's own session
    cwd                where it works
    transcript_path    its record of the conversation, if it keeps one
    model, source, reason, prompt, tool_name, tool_input, tool_response, tool_use_id    as the event has them

opencode has no hooks that start programs: a plugin sends what it is told in this form.  There ``tool_use_id`` is the
``callID``, ``tool_input`` the ``args``, ``model`` the model's id, and ``prompt`` the text parts of the message.  A
subagent of opencode has a session of its own: ``parent_id``, in its first event, is the one that started it.

Observed with Claude Code 2.1.197, Codex 0.171.0, Gemini CLI 0.61.0 and opencode 1.18.33.  Standard library only, and
little of it: this is loaded for every event.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

CLAUDE_CODE: Final = "claude-code"
CODEX: Final = "codex"
GEMINI: Final = "gemini"
OPENCODE: Final = "opencode"

START: Final = "start"
"""The agent begins, or goes on with, a session of its own."""
PROMPT: Final = "prompt"
"""The person said something: a turn begins."""
BEFORE: Final = "before"
"""A tool is about to run: what changed until now is not its work."""
TOOL: Final = "tool"
"""A tool ran, with or without success: what changed is its work."""
TURN: Final = "turn"
"""A turn ended, or a subagent's."""
END: Final = "end"
"""The agent's session ended, for now or for good."""


_PLAIN: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"


def file_name(native_id: str) -> str:
    """The name of a file for an agent's session."""
    import re

    if not re.fullmatch(_PLAIN, native_id) or native_id.endswith("."):
        from hashlib import sha256

        return sha256(native_id.encode("utf-8", "surrogatepass")).hexdigest()
    return native_id


class Wanted:
    """An event that is wanted.

    ``matcher`` is a regular expression for the names of the tools, None where the event is not about a tool;
    ``timeout`` is how long the agent should wait at most, in seconds.  Our own limit (``limit``) is below it.
    """

    __slots__ = ("event", "kind", "matcher", "timeout")

    def __init__(self, event: str, kind: str, timeout: int, matcher: str | None = None) -> None:
        self.event = event
        self.kind = kind
        self.timeout = timeout
        self.matcher = matcher

    @property
    def limit(self) -> float:
        """Seconds after which the hook gives up by itself, before the agent has to kill it."""
        return self.timeout - 0.5


EDITING: Final = {
    CLAUDE_CODE: ("Write", "Edit", "MultiEdit", "NotebookEdit"),
    CODEX: ("apply_patch", "Write", "Edit"),
    GEMINI: ("write_file", "replace"),
    OPENCODE: ("write", "edit", "multiedit", "patch", "apply_patch"),
}
"""The tools that say which files they change."""
SHELL: Final = {
    CLAUDE_CODE: ("Bash", "PowerShell"),
    CODEX: ("Bash",),
    GEMINI: ("run_shell_command",),
    OPENCODE: ("bash",),
}
"""The tools that may change any file."""


FOR_GOOD: Final = {
    CLAUDE_CODE: ("prompt_input_exit", "clear"),
    CODEX: (),
    GEMINI: ("prompt_input_exit", "clear"),
    OPENCODE: ("deleted",),
}
"""The reasons of an ``END`` by which a person is done with a session: ``/exit`` and Ctrl-D, ``/clear``, deleting it.

Codex always says ``other``, and Gemini CLI says ``exit`` however it ends.  opencode says it by the event's name.
"""


def _tools(agent: str) -> str:
    return f"^({'|'.join(EDITING[agent] + SHELL[agent])})$"


# The first event of a session takes the base, for which a large repository is read once; the last one is waited for by
# a person who wants to leave (Codex allows it three seconds).
WANTED: Final = {
    CLAUDE_CODE: (
        Wanted("SessionStart", START, 30),
        Wanted("UserPromptSubmit", PROMPT, 30),
        Wanted("PreToolUse", BEFORE, 15, _tools(CLAUDE_CODE)),
        Wanted("PostToolUse", TOOL, 15, _tools(CLAUDE_CODE)),
        Wanted("PostToolUseFailure", TOOL, 15, _tools(CLAUDE_CODE)),
        Wanted("SubagentStop", TURN, 15),
        Wanted("Stop", TURN, 15),
        Wanted("SessionEnd", END, 10),
    ),
    CODEX: (
        Wanted("SessionStart", START, 30),
        Wanted("UserPromptSubmit", PROMPT, 30),
        Wanted("PreToolUse", BEFORE, 15, _tools(CODEX)),
        Wanted("PostToolUse", TOOL, 15, _tools(CODEX)),
        Wanted("SubagentStop", TURN, 15),
        Wanted("Stop", TURN, 15),
        Wanted("SessionEnd", END, 3),
    ),
    GEMINI: (
        Wanted("SessionStart", START, 30),
        Wanted("BeforeAgent", PROMPT, 30),
        Wanted("BeforeTool", BEFORE, 15, _tools(GEMINI)),
        Wanted("AfterTool", TOOL, 15, _tools(GEMINI)),
        Wanted("AfterAgent", TURN, 15),
        Wanted("SessionEnd", END, 10),
    ),
    OPENCODE: (
        Wanted("session.created", START, 30),
        Wanted("chat.message", PROMPT, 30),
        Wanted("tool.execute.before", BEFORE, 15, _tools(OPENCODE)),
        Wanted("tool.execute.after", TOOL, 15, _tools(OPENCODE)),
        Wanted("session.idle", TURN, 15),
        Wanted("session.deleted", END, 10),
    ),
}


def wanted(agent: str, event: object) -> Wanted | None:
    """The entry of an agent's event; None for one that is not wanted (or for an agent that is not known)."""
    return next((one for one in WANTED.get(agent, ()) if one.event == event), None)


def looks_at_all(agent: str, kind: str, tool: object) -> bool:
    """Whether an event leads to a look at the whole tree."""
    return kind not in (BEFORE, TOOL) or tool not in EDITING.get(agent, ())
