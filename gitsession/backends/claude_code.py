"""Claude Code: ``claude -p`` with a stream of JSON lines, the prompt on its standard input.

What is said of the program here was seen with version 2.1.197, of some fields with 2.1.332:

- It finds a session of its own only from the directory it ran in.  ``--resume-session-at`` (not in its help) with the
  id of a line of the assistant's takes the conversation up to that line, the results of its tool calls with it;
  ``--fork-session`` makes a session of its own of that, so the other one stays as it is.  The lines of a reply that was
  interrupted are not in its record.
- ``result`` is the last line.  ``subtype`` is "success" also where the API failed (``is_error``), a tool was not
  allowed (``permission_denials``), or the model's reply broke off (``stop_reason`` is null).
- ``modelUsage`` counts all models and subagents, of this run only, and ``total_cost_usd`` is its price; ``usage``
  leaves subagents out.  A reply's own tokens are known when it ends (``message_delta``), which is told only with
  ``--include-partial-messages``; that also shows that a long reply is under way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from gitsession.agentevents import CLAUDE_CODE, EDITING
from gitsession.backends.asking import prompt
from gitsession.backends.base import (
    Bound,
    Capabilities,
    CheckpointHint,
    Done,
    Event,
    Failed,
    FailureKind,
    Job,
    Native,
    Notice,
    Output,
    Usage,
)
from gitsession.backends.jsonlines import Line
from gitsession.backends.passing import Refused
from gitsession.backends.wording import amount, first_line, kind_of, number, short, table
from gitsession.backends.wrapped import Call
from gitsession.secrets import without_secrets

_STREAM: Final = ("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages")
_READS: Final = frozenset(
    (
        "Glob",
        "Grep",
        "LS",
        "ListMcpResourcesTool",
        "Read",
        "ReadMcpResourceTool",
        "ReportFindings",
        "Skill",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskUpdate",
        "TodoWrite",
        "ToolSearch",
        "WebFetch",
        "WebSearch",
    )
)
"""Tools that leave the files alone."""
_GONE: Final = re.compile(r"No conversation found with session ID|No message found with message\.uuid")
_NO_COMMAND: Final = re.compile(r"Unknown (?:slash )?(?:command|skill): |/\S+ isn't available in this environment")
_MODEL: Final = re.compile(r"[A-Za-z0-9][\w.:/@\[\]-]*")
_VARIANT: Final = re.compile(r"\[[^\]]*\]$")
_BY_A_PERSON: Final = frozenset(
    ["authentication_failed", "billing_error", "invalid_request", "model_not_found", "oauth_org_not_allowed"]
)
"""``error`` of an assistant's line: the same request fails again until somebody changes something."""
_TOO_MUCH: Final = frozenset(["blocking_limit", "image_error", "prompt_too_long", "rapid_refill_breaker"])
_ABORTED: Final = ("aborted_streaming", "aborted_tools")
_FINISHED: Final = (None, "completed", "stop_hook_prevented")
_REASON: Final = 300


_REFUSED_FLAGS: Final = Refused(
    "Claude Code",
    {
        "--task": ("-p", "--print", "--input-format", "--replay-user-messages"),
        "--output": ("--output-format",),
        "--session-id": ("-c", "--continue", "-r", "--resume", "--session-id", "--fork-session", "--from-pr"),
        "--restore-checkpoint": ("--resume-session-at", "--rewind-files"),
        "--model": ("--model",),
        "--max-turns": ("--max-turns",),
        "--max-cost": ("--max-budget-usd",),
    },
    (
        "--bg",
        "--background",
        "--no-session-persistence",
        "--tmux",
        "--worktree",
        "-w",
        "--help",
        "-h",
        "--version",
        "-v",
    ),
)


class Dialect:
    """How Claude Code is called (``wrapped.Dialect``)."""

    name = "claude-code"
    program = "claude"
    package = "npm install -g @anthropic-ai/claude-code"
    known = r"2\.1\.\d+"
    capabilities = Capabilities(
        takes_command=False,
        takes_model=True,
        limits_turns=True,
        limits_cost=True,
        takes_leave=True,
        keeps_conversation=True,
        rewinds=True,
        takes_arguments=True,
    )

    def refuse(self, job: Job) -> None:
        _REFUSED_FLAGS.check(job)

    def call(self, job: Job) -> Call:
        native = job.native
        there = native is not None and native.directory.is_dir()
        return Call(
            arguments=(*_STREAM, *_leave(job), *_limits(job), *_resuming(job), *job.arguments),
            prompt=prompt(job),
            directory=native.directory if native is not None and there else job.worktree,
        )

    def reader(self, job: Job) -> Reader:
        return Reader(job)


def _leave(job: Job) -> Iterator[str]:
    """What it may do without asking, as nobody is there to be asked; what the user passes on comes later and wins."""
    yield from ("--permission-mode", "acceptEdits")
    if job.allow_commands:
        yield from ("--allowedTools", "Bash")


def _limits(job: Job) -> Iterator[str]:
    if (model := job.model or _model_before(job)) is not None:
        yield from ("--model", model)
    if job.max_turns is not None:
        yield from ("--max-turns", str(job.max_turns))
    if job.max_cost is not None:
        yield from ("--max-budget-usd", f"{job.max_cost:.6f}")


def _model_before(job: Job) -> str | None:
    """The model its own session worked with: left to itself it goes on without the variant, ``[1m]``."""
    model = job.native.model if job.native is not None else None
    return model if model is not None and _MODEL.fullmatch(model) else None


def _resuming(job: Job) -> Iterator[str]:
    if job.native is None:
        return
    yield from ("--resume", job.native.id)
    if job.rewind and job.native.at is not None:
        yield from ("--fork-session", "--resume-session-at", job.native.at)


@dataclass(frozen=True)
class _ToolCall:
    """A tool call that was announced, and the place in the conversation from which its result is known.

    ``file`` is the only one that it changes, if it says so.
    """

    name: str
    what: str
    place: _Place | None
    file: str | None


@dataclass(frozen=True)
class _Place:
    """A line of the assistant's: its number in this run, and its id."""

    number: int
    uuid: str


class Reader:
    """Understands one run of Claude Code's (``wrapped.Reader``)."""

    def __init__(self, job: Job) -> None:
        self._worktree = job.worktree
        self._resumes = job.native is not None
        self._native: Native | None = None
        self._transcript: Path | None = None
        self._calls: dict[str, _ToolCall] = {}
        self._open: set[str] = set()
        """Calls that may change files and have no result yet; a reply can have several, and they run at once."""
        self._lines = 0
        self._reached = 0
        self._next: _Place | None = None
        self._reply: tuple[str | None, dict[str, Any]] | None = None
        self._told = dict.fromkeys(_COUNTS, 0)
        self._error: str | None = None
        self._prevented: str | None = None
        self._result: Line | None = None

    def heard(self, line: Line) -> Iterator[Event]:
        match line.get("type"), line.get("subtype"):
            case "system", "init":
                yield from self._begins(line)
            case "system", "api_retry":
                yield Notice(_retry(line))
            case "system", "compact_boundary":
                yield Notice("Claude Code shortened its conversation")
            case "system", "informational" if line.get("prevent_continuation"):
                self._prevented = first_line(str(line.get("content") or ""))
            case "assistant", _:
                yield from self._says(line)
            case "user", _:
                yield from self._learns(line)
            case "stream_event", _ if line.get("parent_tool_use_id") is None:
                yield from self._streams(table(line.get("event")))
            case "result", _:
                self._result = line
                if line.get("terminal_reason") not in _ABORTED:
                    yield from self._reach(self._next)
                yield from self._spent(line)

    def verdict(self, status: int, why: str) -> Done | Failed | None:
        result = self._result
        errors = " ".join(str(error) for error in _list((result or {}).get("errors")))
        if self._resumes and (_GONE.search(errors) or (result is None and _GONE.search(why))):
            return None
        if result is None:
            return Failed(why if status else "claude ended without saying how the work went", "exit")
        words = _text(result.get("result")) or None
        said = None if result.get("is_error") else words
        failure = self._why_not(result, errors or words or why)
        if failure is None:
            return Failed(why, "exit", said) if status else Done(said=said)
        reason, kind = failure
        return Failed(reason, kind, said)

    def _begins(self, line: Line) -> Iterator[Event]:
        native_id, directory = line.get("session_id"), line.get("cwd")
        if not isinstance(native_id, str) or not isinstance(directory, str):
            return
        memory = table(line.get("memory_paths")).get("auto")
        if isinstance(memory, str):
            self._transcript = Path(memory).parent / f"{native_id}.jsonl"
        self._native = Native(
            id=native_id,
            directory=Path(directory),
            version=_text(line.get("claude_code_version")),
            model=_text(line.get("model")),
        )
        yield Bound(self._native)

    def _says(self, line: Line) -> Iterator[Event]:
        """A part of a reply.  Lines with ``error`` are Claude Code's own words on why there is none."""
        error = line.get("error")
        if error is not None:
            self._error = str(error)
            return
        message = table(line.get("message"))
        blocks = [table(block) for block in _list(message.get("content"))]
        place = self._place(line) if message.get("model") != "<synthetic>" else None
        for block in blocks:
            if block.get("type") == "text" and (text := str(block.get("text") or "")).strip():
                yield Output(text.rstrip("\n") + "\n")
            elif block.get("type") == "tool_use":
                call = _ToolCall(str(block.get("name")), self._what(block), place, _edited(block))
                self._calls[str(block.get("id"))] = call
                if call.name not in _READS:
                    self._open.add(str(block.get("id")))
                yield Output(f"[{call.name}] {call.what}".rstrip() + "\n")
        if place is not None and not any(block.get("type") == "tool_use" for block in blocks):
            self._next = place

    def _place(self, line: Line) -> _Place | None:
        """Where the conversation is with this line, when its reply is complete; ``None`` in a subagent's."""
        uuid = _text(line.get("uuid"))
        if uuid is None or line.get("parent_tool_use_id") is not None:
            return None
        self._lines += 1
        return _Place(self._lines, uuid)

    def _learns(self, line: Line) -> Iterator[Event]:
        """Results of tool calls; also a command that failed may have changed files."""
        content = table(line.get("message")).get("content")
        for block in map(table, _list(content)):
            call = self._calls.get(str(block.get("tool_use_id")))
            if block.get("type") != "tool_result" or call is None:
                continue
            if call.place is not None:
                yield from self._reach(call.place)
            if call.name not in _READS:
                what = f"{call.name}: {call.what}" if call.what else call.name
                self._open.discard(str(block["tool_use_id"]))
                only = (call.file,) if call.file is not None and self._open else ()
                yield CheckpointHint(what, always=False, call=str(block["tool_use_id"]), only=only)

    def _reach(self, place: _Place | None) -> Iterator[Event]:
        """The conversation has come to a place that it can go back to."""
        if self._native is None or place is None or place.number <= self._reached:
            return
        self._reached = place.number
        transcript = self._native.transcript
        if transcript is None and self._transcript is not None and self._transcript.exists():
            transcript = str(self._transcript)
        self._native = replace(self._native, at=place.uuid, transcript=transcript)
        yield Bound(self._native)

    def _streams(self, event: Mapping[str, Any]) -> Iterator[Event]:
        """The tokens of a reply, once it is complete."""
        if event.get("type") == "message_start":
            message = table(event.get("message"))
            self._reply = _text(message.get("model")), dict(table(message.get("usage")))
        elif event.get("type") == "message_delta" and self._reply is not None:
            self._reply[1].update(table(event.get("usage")))
        elif event.get("type") == "message_stop" and self._reply is not None:
            model, usage = self._reply
            self._reply = None
            yield from self._reach(self._next)
            yield self._tell({kind: number(usage.get(name)) for kind, (name, _) in _COUNTS.items()}, model)

    def _spent(self, result: Line) -> Iterator[Event]:
        """What the run spent beside the replies that were told, and what all of it cost."""
        models = [table(usage) for usage in table(result.get("modelUsage")).values()]
        usage = table(result.get("usage"))
        rest = {}
        for kind, (name, name_by_model) in _COUNTS.items():
            by_model = sum(number(one.get(name_by_model)) for one in models)
            rest[kind] = max(0, (by_model if models else number(usage.get(name))) - self._told[kind])
        cost = amount(result.get("total_cost_usd")) if models else None
        if cost is not None or any(rest.values()):
            yield replace(self._tell(rest, self._native.model if self._native else None), run_cost_usd=cost)

    def _tell(self, counts: dict[str, int], model: str | None) -> Usage:
        for kind, count in counts.items():
            self._told[kind] += count
        return Usage(**counts, model=_VARIANT.sub("", model) if model else None)

    def _what(self, block: Mapping[str, Any]) -> str:
        """What a tool call is about, in one short line: a file, or what a command is for."""
        given = table(block.get("input"))
        path = given.get("file_path") or given.get("notebook_path") or given.get("path")
        if isinstance(path, str):
            return short(str(Path(path).relative_to(self._worktree)) if _below(path, self._worktree) else path)
        return short(without_secrets(first_line(str(given.get("description") or given.get("command") or ""))))

    def _why_not(self, result: Line, words: str) -> tuple[str, FailureKind] | None:
        """Why the work is not done, with what kind of failure that is."""
        end = result.get("terminal_reason")
        match result.get("subtype"):
            case "error_max_turns":
                return "the limit of replies (--max-turns) is reached", "limit"
            case "error_max_budget_usd":
                return "the limit of --max-cost is reached", "limit"
        if end in _ABORTED:
            return "claude was interrupted", "interrupted"
        if result.get("subtype") != "success":
            return _cut(words), "exit"
        if result.get("is_error"):
            return _cut(words), self._api_failure(result)
        if self._prevented is not None:
            return _cut(self._prevented), "refused"
        if _NO_COMMAND.match(words):
            return _cut(words), "refused"
        if end == "completed" and result.get("stop_reason") is None:
            return "the model's reply broke off", "network"
        if denied := _denied(result):
            return denied, "denied"
        return None if end in _FINISHED else (f"Claude Code stopped before the end ({end})", "exit")

    def _api_failure(self, result: Line) -> FailureKind:
        kind = kind_of(result.get("api_error_status"))
        if self._error == "rate_limit" or kind == "limit":
            return "limit"
        too_much = result.get("terminal_reason") in _TOO_MUCH
        if result.get("stop_reason") == "refusal" or too_much or self._error in _BY_A_PERSON:
            return "refused"
        return kind or "network"


_COUNTS: Final = {
    "input": ("input_tokens", "inputTokens"),
    "output": ("output_tokens", "outputTokens"),
    "cache_write": ("cache_creation_input_tokens", "cacheCreationInputTokens"),
    "cache_read": ("cache_read_input_tokens", "cacheReadInputTokens"),
}
"""Of each count of ``Usage`` its name in a reply's usage, and in ``modelUsage``."""


def _denied(result: Line) -> str | None:
    """What it wanted to do and was not allowed to."""
    names = sorted({str(table(denial).get("tool_name")) for denial in _list(result.get("permission_denials"))})
    if not names:
        return None
    how = "--allow-commands" if "Bash" in names else f"-- --allowedTools {names[0]}"
    return f"Claude Code was not allowed to use {', '.join(names)}; {how} allows it"


def _retry(line: Line) -> str:
    status, error = line.get("error_status"), line.get("error")
    answered = "could not be reached" if status is None else f"answered with status {status}"
    what = f" ({error})" if error not in (None, "unknown") else ""
    return f"the API {answered}{what}; trying again ({line.get('attempt')} of {line.get('max_retries')})"


def _edited(block: Mapping[str, Any]) -> str | None:
    """The file that a tool call is to change, of a tool that changes no other."""
    if block.get("name") not in EDITING[CLAUDE_CODE]:
        return None
    given = table(block.get("input"))
    return _text(given.get("file_path") or given.get("notebook_path"))


def _below(path: str, directory: Path) -> bool:
    return Path(path).is_absolute() and Path(path).is_relative_to(directory)


def _cut(text: str) -> str:
    line = first_line(text)
    return line if len(line) <= _REASON else line[:_REASON] + "…"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
