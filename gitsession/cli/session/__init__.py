"""``pinable-agents session …``: one module a command, loaded when it is called."""

from __future__ import annotations

from gitsession.cli.lazy import LazyGroup
from gitsession.cli.startup import at_start

_HERE = "gitsession.cli.session"
_COMMANDS = {
    "list": (f"{_HERE}.list:command", "List sessions."),
    "inspect": (f"{_HERE}.inspect:command", "Show one session: state, checkpoints, changed files, remaining work."),
    "checkpoints": (f"{_HERE}.checkpoints:command", "List a session's checkpoints."),
    "checkpoint": (f"{_HERE}.checkpoint:command", "Take a checkpoint now."),
    "commits": (f"{_HERE}.commits:command", "List the commits that hold a session's work."),
    "pause": (f"{_HERE}.pause:command", "Pause a running session."),
    "delete": (f"{_HERE}.delete:command", "Move a session to the trash."),
    "log": (f"{_HERE}.log:command", "Show what happened in a session, step by step."),
    "diff": (f"{_HERE}.diff:command", "Show what checkpoints changed."),
    "restore": (f"{_HERE}.restore:restore_command", "Bring back the files of a checkpoint."),
    "undo": (f"{_HERE}.restore:undo_command", "Take a restore back."),
    "recover": (f"{_HERE}.recover:command", "Find and repair interrupted sessions."),
    "undelete": (f"{_HERE}.undelete:command", "Bring a deleted session back."),
    "cleanup": (f"{_HERE}.cleanup:command", "Move old sessions to the trash."),
    "archive": (f"{_HERE}.archive:archive_command", "Pack sessions into files that can be kept anywhere."),
    "unarchive": (f"{_HERE}.archive:unarchive_command", "Bring an archived session back."),
    "export": (f"{_HERE}.export:command", "Write a session as a report, as JSON or as patches."),
    "stats": (f"{_HERE}.stats:command", "Count sessions and the space they take."),
    "chain": (f"{_HERE}.chain:group", "Put sessions in an order."),
}

group = LazyGroup(
    "session",
    table=_COMMANDS,
    callback=at_start(but={"recover"}),
    help="List, inspect, checkpoint, pause and delete sessions.\n\nAn ID may be shortened to any unique beginning, "
    "or be 'latest'. Times are local; JSON has them in UTC.",
)
