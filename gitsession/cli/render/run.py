"""How a run is shown: as text for a person, as one JSON object, or as one JSON object a line.

``--output json`` ends with one object::

    {"session_id", "status", "exit_status", "reason", "checkpoint",
     "checkpoints": [{"index", "description", "files_changed", "skipped": [{"path", "reason"}], "trigger"}],
     "warnings": [text], "errors": [text], "totals": {…}}

``status`` is ``completed`` or ``paused``; ``checkpoint`` is the newest one's index or null; ``totals`` has
``active_seconds``, ``paused_seconds``, ``cost_usd`` (null when unknown), ``input_tokens``, ``output_tokens``,
``created``, ``modified``, ``deleted``.  What the agent prints goes to standard error then.

``--output markdown`` ends with the session's report, as ``session export`` writes it; all else goes to standard error.

``--output stream-json`` writes these as they happen, each with its ``type``::

    session_created {session_id}                      resuming {session_id, checkpoint, description}
    phase {phase, text, done}                         output {stream, text}
    checkpoint {index, description, files_changed, skipped, trigger}
    warning {text}   error {text}
    ended {session_id, status, exit_status, reason, checkpoint, totals}
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TextIO

from gitsession.cli.render.out import is_terminal, lead_to_one_place, write_json
from gitsession.cli.render.text import one_line, safe_text
from gitsession.cli.render.units import duration, money
from gitsession.verbs import events

if TYPE_CHECKING:
    from gitsession.cli.render.progress import Progress


class TextRun:
    """Plain lines, each written when it happens; on a terminal a status line stands below them."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._told: str | None = None
        self._open: set[TextIO] = set()  # where the agent is in the middle of a line
        self._one_place = lead_to_one_place(sys.stdout, sys.stderr)

    def __call__(self, event: events.RunEvent) -> None:
        if isinstance(event, events.BackendError):
            self._told = event.text
        elif isinstance(event, events.Ended):
            self.close()
        if isinstance(event, events.AgentOutput):
            stream = sys.stderr if event.stream == "stderr" else sys.stdout
            self._end_lines(self._open - {stream} if self._one_place else set())
            self._write(_printed(event.text), stream)
        else:
            stream = sys.stderr if isinstance(event, events.Warned) else sys.stdout
            self._end_lines(self._open if self._one_place else self._open & {stream})
            for line in lines(event, self._told):
                self._write(line + "\n", stream)
        self._show(event)

    def _show(self, event: events.RunEvent) -> None:
        if isinstance(event, events.SessionCreated | events.Resuming) and is_terminal(sys.stdout):
            from gitsession.cli.render.progress import Progress

            self._progress = Progress()
        elif self._progress is not None and isinstance(event, events.PhaseChanged):
            self._progress.show(phase=one_line(event.name))
        elif self._progress is not None and isinstance(event, events.CheckpointSaved):
            self._progress.show(checkpoint=event.index)

    def close(self) -> None:
        """End what the agent left open, take the status line away."""
        self._end_lines(self._open)
        if self._progress is not None:
            self._progress.close()
            self._progress = None

    def _write(self, text: str, stream: TextIO) -> None:
        if self._progress is not None and is_terminal(stream):
            self._progress.write(text)
        else:
            stream.write(text)
            stream.flush()
        self._open = self._open - {stream} if text.endswith("\n") else self._open | {stream}

    def _end_lines(self, streams: set[TextIO]) -> None:
        for stream in streams:
            self._write("\n", stream)


class StreamJsonRun:
    """One JSON object a line, as it happens."""

    def __call__(self, event: events.RunEvent) -> None:
        write_json(as_object(event), indent=None)
        sys.stdout.flush()

    def close(self) -> None:
        """Nothing is open."""


class JsonRun:
    """One JSON object at the end; the agent's own output goes to standard error."""

    def __init__(self, deliver: Callable[[Any], None] = write_json) -> None:
        self._deliver = deliver
        self._lists: dict[str, list[Any]] = {"checkpoint": [], "warning": [], "error": []}

    def __call__(self, event: events.RunEvent) -> None:
        shown = as_object(event)
        kind = shown.pop("type")
        if kind == "output":
            sys.stderr.write(_printed(shown["text"]))
        elif kind == "ended":
            totals = shown.pop("totals")
            gathered = {f"{name}s": told for name, told in self._lists.items()}
            self._deliver({**shown, **gathered, "totals": totals})
        elif kind in self._lists:
            self._lists[kind].append(shown if kind == "checkpoint" else shown["text"])

    def close(self) -> None:
        """Nothing is open."""


class MarkdownRun:
    """The session's report at the end, as ``session export`` writes it; all else goes to standard error."""

    def __call__(self, event: events.RunEvent) -> None:
        if isinstance(event, events.Ended):
            sys.stdout.write(_markdown(event.outcome.session_id))
            sys.stdout.flush()
            return
        for line in lines(event):
            sys.stderr.write(line + "\n")

    def close(self) -> None:
        """Nothing is open."""


RUNS: dict[str, Callable[[], TextRun | JsonRun | StreamJsonRun | MarkdownRun]] = {
    "text": TextRun,
    "json": JsonRun,
    "stream-json": StreamJsonRun,
    "markdown": MarkdownRun,
}


def _markdown(session_id: str) -> str:
    """The session's report, keys masked."""
    from gitsession.cli.render.markdown import document
    from gitsession.store.sessions import SessionStore
    from gitsession.verbs.export import gather, masked
    from gitsession.verbs.redact import Redactor

    return document(masked(gather(SessionStore(), session_id), Redactor()))


def lines(event: events.RunEvent, told: str | None = None) -> list[str]:
    """An event as lines of text; ``told`` is the error told last, which the end does not repeat."""
    match event:
        case events.SessionCreated(session_id):
            return [f"Session created: {session_id}"]
        case events.Resuming(_, index, description):
            return [_resuming(index, description)]
        case events.Warned(text):
            return [f"warning: {one_line(text)}"]
        case events.PhaseChanged(name, text, done):
            return [_phase(name, text, done)]
        case events.AgentOutput(text, _):
            return [_printed(text).removesuffix("\n")]
        case events.CheckpointSaved(index=index, description=description):
            return [saved(index, description)]
        case events.BackendError(text):
            return [one_line(text)]
        case events.Ended(outcome):
            return _ending(outcome, told)


def as_object(event: events.RunEvent) -> dict[str, Any]:
    """An event as the documented JSON object."""
    match event:
        case events.SessionCreated(session_id):
            return {"type": "session_created", "session_id": session_id}
        case events.Resuming(session_id, index, description):
            return {"type": "resuming", "session_id": session_id, "checkpoint": index, "description": description}
        case events.Warned(text):
            return {"type": "warning", "text": text}
        case events.PhaseChanged(name, text, done):
            return {"type": "phase", "phase": name, "text": text, "done": done}
        case events.AgentOutput(text, stream):
            return {"type": "output", "stream": stream, "text": text}
        case events.CheckpointSaved(index, description, files_changed, skipped, trigger):
            return {
                "type": "checkpoint",
                "index": index,
                "description": description,
                "files_changed": list(files_changed),
                "skipped": [{"path": path, "reason": reason} for path, reason in skipped],
                "trigger": trigger,
            }
        case events.BackendError(text):
            return {"type": "error", "text": text}
        case events.Ended(outcome):
            return {
                "type": "ended",
                "session_id": outcome.session_id,
                "status": outcome.status,
                "exit_status": outcome.exit_status,
                "reason": outcome.reason,
                "checkpoint": outcome.index,
                "totals": asdict(outcome.totals),
            }


def saved(index: int, description: str) -> str:
    """``[Checkpoint 1] Saved user module changes``."""
    words = one_line(description)
    return f"[Checkpoint {index}] {words if words.startswith('Saved ') else 'Saved ' + words}"


def paused(session_id: str, index: int | None) -> str:
    """``Session paused: sess_… (checkpoint 1)``."""
    return f"Session paused: {session_id} ({_at(index)})"


def _printed(text: str) -> str:
    """What the agent printed, its line ends and tabs as they are."""
    return safe_text(text.replace("\r\n", "\n"), layout=True)


def _at(index: int | None) -> str:
    return "no checkpoint yet" if index is None else f"checkpoint {index}"


def _resuming(index: int | None, description: str | None) -> str:
    if index is None:
        return "Resuming from the start (no checkpoint yet)"
    return f"Resuming from checkpoint {index} ({one_line(description or '')})"


def _phase(name: str, text: str, done: bool) -> str:
    """``[Phase: analysis] DONE - Identified 15 functions to refactor``."""
    words = [part for part in ("DONE" if done else "", one_line(text)) if part]
    return " ".join([f"[Phase: {one_line(name)}]", " - ".join(words)]).rstrip()


def _ending(outcome: events.Outcome, told: str | None) -> list[str]:
    """The last lines; why it paused is told unless an error just told it."""
    totals = outcome.totals
    if outcome.status != "completed":
        why = [one_line(f"Stopped: {outcome.reason}")] if outcome.reason and outcome.reason != told else []
        if outcome.exit_status == 1:
            return [*why, f"Session failed: {outcome.session_id} (paused, {_at(outcome.index)})"]
        return [*why, paused(outcome.session_id, outcome.index)]
    pause = f" (excluding {duration(totals.paused_seconds)} pause)" if totals.paused_seconds >= 1 else ""
    deleted = f", Files deleted: {totals.deleted}" if totals.deleted else ""
    return [
        "",
        f"Session completed: {outcome.session_id}",
        f"Total time: {duration(totals.active_seconds)}{pause}",
        f"Total cost: {money(totals.cost_usd)}",
        f"Files created: {totals.created}, Files modified: {totals.modified}{deleted}",
    ]
