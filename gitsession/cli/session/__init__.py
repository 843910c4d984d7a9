"""``pinable-agents session …``: one module a command, loaded when it is called."""

from __future__ import annotations

from gitsession.cli.lazy import LazyGroup

_HERE = "gitsession.cli.session"
_COMMANDS = {
    "list": (f"{_HERE}.list:command", "List sessions."),
    "inspect": (f"{_HERE}.inspect:command", "Show one session: state, checkpoints, changed files, remaining work."),
    "checkpoints": (f"{_HERE}.checkpoints:command", "List a session's checkpoints."),
    "checkpoint": (f"{_HERE}.checkpoint:command", "Take a checkpoint now."),
    "pause": (f"{_HERE}.pause:command", "Pause a running session."),
    "delete": (f"{_HERE}.delete:command", "Move a session to the trash."),
    "log": (f"{_HERE}.log:command", "Show what happened in a session, step by step."),
    "diff": (f"{_HERE}.diff:command", "Show what checkpoints changed."),
    "restore": (f"{_HERE}.restore:restore_command", "Bring back the files of a checkpoint."),
    "undo": (f"{_HERE}.restore:undo_command", "Take a restore back."),
    "recover": (None, "Find and repair interrupted sessions."),
    "cleanup": (None, "Remove old sessions."),
    "archive": (None, "Pack old sessions into a file."),
    "export": (None, "Write a session as a report."),
    "stats": (None, "Count sessions and the space they take."),
    "chain": (None, "Put sessions in an order."),
}

group = LazyGroup(
    "session",
    table=_COMMANDS,
    help="List, inspect, checkpoint, pause and delete sessions.\n\nAn ID may be shortened to any unique beginning, "
    "or be 'latest'. Times are local; JSON has them in UTC.",
)
