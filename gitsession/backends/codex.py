"""Codex: ``codex exec --json`` with the prompt on its standard input.

What is said of the program here was seen with version 0.171.0:

- It asks nobody (``approval: never``).  In its sandbox (``workspace-write``) commands may change the worktree but for
  ``.git``, and temporary files, and reach no network.  What it refuses to do it says on standard error only; the turn
  goes on and ends as any other.  Of a command that the sandbox kept from something nothing is told.
- A session is found from anywhere, by its UUID; any other name that is not known begins a new session.  Its launcher
  may die without it, and then it works on, as the session's only writer.
- ``turn.completed`` sums up all tokens the session ever spent, also in former runs and in turns that were cut short;
  ``input_tokens`` has those that came from the cache, and those that went into it, in it.
- ``error`` lines and items are warnings; a turn has failed only with ``turn.failed``, whose words come as an ``error``
  before.  Without network it says that it waits for one, again and again.
- ``fork`` copies a session as it is now, never as it was.
- Items are numbered anew in each run.  The model's name is told only in its own record of the session
  (``$CODEX_HOME/sessions/YYYY/MM/DD/rollout-*-UUID.jsonl``), with the same sums (``token_count``).
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

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
from gitsession.backends.passing import Refused, flag_of
from gitsession.backends.wording import UUID, kind_of, reason, short, table
from gitsession.backends.wrapped import Call
from gitsession.secrets import without_secrets

_SANDBOXES: Final = ("-s", "--sandbox", "--approve-for-me", "--dangerously-bypass-approvals-and-sandbox")
_GONE: Final = re.compile(r"no rollout found|failed to read (?:thread|session metadata)")
_WAITS: Final = "Reconnecting"
_WRITING: Final = ("command_execution", "file_change", "mcp_tool_call", "collab_tool_call")
"""Items after which files may differ; the last is what a subagent did."""
_ROUTER: Final = re.compile(r"codex_core::tools::router: error=(.*)")
_REFUSED: Final = re.compile(r"patch rejected|rejected by user|reject command|Rejected\(")
_INSIDE: Final = re.compile(r'Rejected\(\\?"(.*?)\\?"\)')
_BY_SANDBOX: Final = re.compile(r"outside of the project|read-only sandbox|escalated permissions")
_STATUS: Final = re.compile(r"(?:unexpected|last) status:? (\d{3})")
_KINDS: Final[tuple[tuple[re.Pattern[str], FailureKind], ...]] = (
    (re.compile(r"usage limit|[Qq]uota|out of credits|rate limit|upgrade to|context window"), "limit"),
    (re.compile(r"Missing environment variable|[Ll]og in|[Ss]ign in|refresh token"), "refused"),
    (
        re.compile(r"disconnected|[Cc]onnection|sending request|high demand|high load|at capacity|timed? ?out|network"),
        "network",
    ),
)
"""What a failure without a status is, by Codex's words for it."""
_COUNTS: Final = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens")
_RECORD: Final = 8 * 1024 * 1024  # bytes at its end that are looked at: a turn's tool results are cut by Codex
_NAMED: Final = 3
_HELD: Final = 4096


_REFUSED_FLAGS: Final = Refused(
    "Codex",
    {"--model": ("-m", "--model"), "--output": ("--json",)},
    ("-C", "--cd", "--worktree", "--remote", "--ephemeral", "-h", "--help", "-V", "--version"),
)


class Dialect:
    """How Codex is called (``wrapped.Dialect``)."""

    name = "codex"
    program = "codex"
    package = "npm install -g @openai/codex"
    known = r"0\.171\.\d+"
    capabilities = Capabilities(
        takes_command=False,
        takes_model=True,
        takes_leave=True,
        keeps_conversation=True,
        takes_arguments=True,
    )

    def refuse(self, job: Job) -> None:
        _REFUSED_FLAGS.check(job)

    def call(self, job: Job) -> Call:
        job = _known(job)
        model = ("--model", job.model) if job.model is not None else ()
        resume = ("resume", job.native.id) if job.native is not None else ()
        # Of the flags before ``resume`` all apply to it; after it, it does not know them all.
        arguments = ("exec", "--json", *_leave(job), *model, *job.arguments, *resume, "-")
        return Call(arguments, prompt(job), job.worktree)

    def reader(self, job: Job) -> Reader:
        return Reader(_known(job))


def _known(job: Job) -> Job:
    """The job, which begins anew if what is recorded as its session cannot be one of Codex's."""
    if job.native is None or UUID.fullmatch(job.native.id):
        return job
    return replace(job, native=None)


def _leave(job: Job) -> tuple[str, ...]:
    """Where its commands may reach, unless the user says so in Codex's terms."""
    if any(flag_of(argument) in _SANDBOXES or "sandbox_mode=" in argument for argument in job.arguments):
        return ()
    return ("--sandbox", "danger-full-access" if job.allow_commands else "workspace-write")


class Reader:
    """Understands one run of Codex's (``wrapped.Reader``, ``wrapped.Attentive``)."""

    def __init__(self, job: Job) -> None:
        self.waiting = False
        self._job = job
        self._native = job.native
        self._begun = False
        self._finished = False
        self._failure: str | None = None
        self._denied: str | None = None
        self._said: str | None = None
        self._error: str | None = None
        self._notices: set[str] = set()
        self._stderr = ""
        self._counted: dict[str, int] | None = {}
        if job.native is not None:
            # What a session spent that others used before was told by nobody, but Codex knows it.
            self._counted = job.native.counted if job.native.counted is not None else _record(job.native)[1]

    def heard(self, line: Line) -> Iterator[Event]:
        kind, words = line.get("type"), str(line.get("message") or "")
        self.waiting = kind == "error" and words.startswith(_WAITS)
        error, self._error = self._error, None
        if error is not None and kind != "turn.failed":
            yield from self._notice(error)
        match kind:
            case "thread.started":
                yield from self._begins(line.get("thread_id"))
            case "item.started" | "item.completed":
                yield from self._works(table(line.get("item")), done=kind == "item.completed")
            case "turn.started":
                self._finished = False
            case "turn.completed":
                self._finished = True
                yield from self._spent(_sums(table(line.get("usage"))))
            case "turn.failed":
                self._failure = str(table(line.get("error")).get("message") or "the turn failed")
            case "error" if self.waiting:
                yield from self._notice(words)
            case "error":
                self._error = words

    def overheard(self, text: str) -> None:
        *lines, self._stderr = (self._stderr + text).split("\n")
        self._stderr = self._stderr[-_HELD:]
        for line in lines:
            if (found := _ROUTER.search(line)) and _REFUSED.search(found[1]):
                inside = _INSIDE.search(found[1])
                self._denied = inside[1] if inside else found[1]

    def ended(self) -> Iterator[Event]:
        """What a turn spent that was cut short is in the record only."""
        if self._begun and not self._finished and self._native is not None and self._counted is not None:
            sums = _record(self._native)[1]
            if sums is not None and sums != self._counted:
                yield from self._spent(sums)

    def verdict(self, status: int, why: str) -> Done | Failed | None:
        if self._job.native is not None and not self._begun and _GONE.search(why):
            return None
        if failure := self._failure or (self._error if status else None):
            reason, kind = _why_not(failure)
            return Failed(reason, kind, self._said)
        if status:
            return Failed(why, "exit", self._said)
        if not self._finished:
            return Failed("codex ended before its turn did", "exit", self._said)
        if self._denied is not None:
            return Failed(self._not_allowed(self._denied), "denied", self._said)
        return Done(said=self._said)

    def _begins(self, thread: Any) -> Iterator[Event]:
        if not isinstance(thread, str):
            return
        self._begun = True
        before = self._native
        if before is None or before.id != thread:
            self._counted = {}
            before = Native(thread, self._job.worktree)
        self._native = replace(
            before,
            directory=self._job.worktree,
            version=None,
            model=self._job.model or before.model,
            transcript=before.transcript or _transcript(thread),
            counted=self._counted,
        )
        yield Bound(self._native)

    def _works(self, item: Mapping[str, Any], *, done: bool) -> Iterator[Event]:
        kind = str(item.get("type"))
        if kind == "agent_message" and done:
            self._said = str(item.get("text") or "") or self._said
            yield Output(str(item.get("text") or "").rstrip("\n") + "\n")
        elif kind == "error":
            yield from self._notice(str(item.get("message") or ""))
        elif what := self._what(kind, item):
            # Of the others it tells only when they are done.
            if done == (kind in ("file_change", "web_search")):
                yield Output(f"[{what[0]}] {what[1]}".rstrip() + "\n")
            if done and kind in _WRITING:
                if item.get("status") == "declined":
                    self._denied = ": ".join(what)
                yield CheckpointHint(": ".join(filter(None, what)), always=False, call=self._call(item))

    def _what(self, kind: str, item: Mapping[str, Any]) -> tuple[str, str] | None:
        """A tool, and in one short line what it is called for."""
        match kind:
            case "command_execution":
                return "shell", short(without_secrets(_command(str(item.get("command") or ""))))
            case "file_change":
                return "edit", self._paths(item.get("changes"))
            case "mcp_tool_call":
                return f"{item.get('server')}.{item.get('tool')}", ""
            case "collab_tool_call":
                return "agents", str(item.get("tool") or "")
            case "web_search":
                return "web_search", short(without_secrets(str(item.get("query") or "")))
        return None

    def _paths(self, changes: Any) -> str:
        paths = [Path(str(table(change).get("path"))) for change in changes] if isinstance(changes, list) else []
        worktree = self._job.worktree
        names = [str(path.relative_to(worktree) if path.is_relative_to(worktree) else path) for path in paths]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return short(", ".join(names[:_NAMED])) + more

    def _call(self, item: Mapping[str, Any]) -> str:
        """An id that no other run has: with the checkpoint that this one goes on from, its items are its own."""
        thread = self._native.id if self._native else ""
        return f"{thread}/{self._job.resume or 0}/{item.get('id')}"

    def _spent(self, sums: dict[str, int]) -> Iterator[Event]:
        """What was spent since it was last told; that it is told is durable before: better not at all than twice."""
        if self._native is None:
            return
        before, self._counted = self._counted, sums
        model = self._job.model or _record(self._native)[0] or self._native.model
        transcript = self._native.transcript or _transcript(self._native.id)
        self._native = replace(self._native, counted=sums, model=model, transcript=transcript)
        yield Bound(self._native)
        if before is None:
            yield Notice("what this run of Codex spent is not known: its session was used before, and tells sums only")
            return
        given, read, written, output = (max(0, sums[name] - before.get(name, 0)) for name in _COUNTS)
        if given or output:
            yield Usage(max(0, given - read - written), output, cache_write=written, cache_read=read, model=model)

    def _notice(self, text: str) -> Iterator[Event]:
        """Each warning once."""
        text = _api_words(text)
        if text and text not in self._notices:
            self._notices.add(text)
            yield Notice(f"codex: {reason(text)}")

    def _not_allowed(self, what: str) -> str:
        how = ""
        if _BY_SANDBOX.search(what) and not self._job.allow_commands:
            how = "; --allow-commands takes its sandbox away"
        return f"Codex was not allowed what it wanted ({reason(what)}){how}"


def _why_not(message: str) -> tuple[str, FailureKind]:
    """Why a turn failed, with what kind of failure that is."""
    words = reason(re.sub(r", url: \S+", "", _api_words(message)))
    if found := _STATUS.search(message):
        by_status = kind_of(int(found[1]))
        if by_status == "limit":
            return f"the API's limit is reached: {words}", "limit"
        if by_status == "refused":
            return f"the API refused the request: {words}", "refused"
        return f"CONNECTION ERROR: {words}", "network"
    if words != reason(message):
        return f"the API refused the request: {words}", "refused"
    kind: FailureKind = next((kind for pattern, kind in _KINDS if pattern.search(words)), "exit")
    return (f"CONNECTION ERROR: {words}" if kind == "network" else words), kind


def _api_words(message: str) -> str:
    """The words in an error of the API, which Codex passes on as it came when the status was 400."""
    with suppress(ValueError, AttributeError):
        error = json.loads(message).get("error")
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            return str(error["message"])
    return message


def _transcript(thread: str) -> str | None:
    """Codex's own record of a session."""
    if not UUID.fullmatch(thread):
        return None
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    return next((str(path) for path in home.glob(f"sessions/*/*/*/rollout-*-{thread}.jsonl")), None)


def _record(native: Native) -> tuple[str | None, dict[str, int] | None]:
    """The model that worked last in a session, and its sums of tokens, as far as its record tells."""
    model, sums = None, None
    path = native.transcript or _transcript(native.id)
    if path is None:
        return None, None
    with suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _RECORD))
        for line in file:
            if b'"turn_context"' not in line and b'"token_count"' not in line:
                continue
            with suppress(ValueError, AttributeError, KeyError, TypeError):
                entry = json.loads(line)
                payload = entry["payload"]
                if entry["type"] == "turn_context":
                    model = str(payload["model"])
                elif payload["type"] == "token_count":
                    sums = _sums(payload["info"]["total_token_usage"])
    return model, sums


def _sums(usage: Mapping[str, Any]) -> dict[str, int]:
    return {name: value if type(value := usage.get(name)) is int else 0 for name in _COUNTS}


def _command(text: str) -> str:
    """The first line of a command, without the shell that Codex runs it in."""
    with suppress(ValueError):
        words = shlex.split(text)
        if len(words) == 3 and words[1] in ("-c", "-lc"):
            text = words[2]
    return next((line for line in text.splitlines() if line.strip()), "")
