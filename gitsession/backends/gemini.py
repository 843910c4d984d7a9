"""Gemini CLI: ``gemini -o stream-json`` with the prompt on its standard input.

What is said of the program here was seen with version 0.61.0:

- It finds a session of its own only from the directory it ran in, and writes it into
  ``~/.gemini/tmp/PROJECT/chats/session-TIME-XXXXXXXX.jsonl``, whose last eight digits begin the session's id.
- A session that goes on is sent to the API with the results of its tool calls in it twice, which the API refuses: only
  one without tool calls can go on.  Newer versions may do better, so it is always tried first.
- Without leave to run commands there is no tool for it (``tool_not_registered``); other refusals are
  ``policy_violation``.  Neither changes how the run ends.  A command that failed is a success.
- ``result`` is the last line.  Its ``stats`` are of this run only; ``input`` is without what came from the cache,
  ``total_tokens`` has the model's thoughts in it, ``output_tokens`` has not.  If the model's reply was of no use its
  ``status`` is "error", and the exit status 0.  If the API refused, the exit status is the API's, modulo 256.
- A signal ends it with exit status 0 and without a ``result``; what it had spent is in its record of the session, where
  a reply has a line as soon as it is complete, and another of the same id when its tool calls are done.
- In a prompt ``@name`` puts a file into it; at its beginning, ``/name`` is a command of the user's.
- When the API fails it writes a report with all that was said into the directory for temporary files, for everybody to
  read, and says on its standard error where.
- Its tools run in process groups of their own and outlive it.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gitsession.agentevents import EDITING, GEMINI
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
from gitsession.backends.wording import UUID, kind_of, number, reason, table, text, what
from gitsession.backends.wrapped import Call

_LEAVES: Final = ("--approval-mode", "--yolo", "-y")
_READS: Final = frozenset(
    (
        "activate_skill",
        "ask_user",
        "cli_help",
        "codebase_investigator",
        "enter_plan_mode",
        "exit_plan_mode",
        "get_internal_docs",
        "glob",
        "google_web_search",
        "grep_search",
        "list_directory",
        "list_mcp_resources",
        "read_file",
        "read_many_files",
        "read_mcp_resource",
        "search_file_content",
        "update_topic",
        "web_fetch",
        "write_todos",
    )
)
"""Tools that leave the files alone."""
_SHELL: Final = "run_shell_command"
_GONE: Final = re.compile(r"Error resuming session|--list-sessions")
_TWICE: Final = re.compile(r"function (?:response|call)s?\b")
_API_ERROR: Final = re.compile(r"^\[API Error: (.*)\]$", re.DOTALL)
_STOPPED: Final = re.compile(r"^Loop detected|turns exceeded")
_REPORT: Final = re.compile(r"report available at: (/.*?/gemini-client-error-[\w.-]+\.json)")
_HELD: Final = 4096
_NO_ACCESS: Final = 41
_KINDS: Final[tuple[tuple[re.Pattern[str], FailureKind], ...]] = (
    (re.compile(r"(?i)quota|exhausted|rate limit|max session turns|turns exceeded|token limit|Loop detected"), "limit"),
    (re.compile(r"(?i)response was blocked|not found|not supported|API key|permission|sign in|log ?in"), "refused"),
    (re.compile(r"(?i)operation cancelled"), "interrupted"),
    (re.compile(r"(?i)error executing tool|no space"), "exit"),
)
"""What a failure without a status is, by Gemini CLI's words for it; any other is the network's or the model's."""


def _spelled(argument: str) -> str:
    """A flag as it is listed: the program also takes ``--outputFormat``."""
    return (
        re.sub(r"(?<=[a-z])([A-Z])", r"-\1", flag_of(argument)).lower() if argument[:2] == "--" else flag_of(argument)
    )


_REFUSED_FLAGS: Final = Refused(
    "Gemini CLI",
    {
        "--task": ("-p", "--prompt", "-i", "--prompt-interactive"),
        "--output": ("-o", "--output-format"),
        "--model": ("-m", "--model"),
        "--session-id": ("-r", "--resume", "--session-id", "--session-file"),
    },
    ("--acp", "--experimental-acp", "--delete-session", "--help", "-h", "--list-extensions", "-l", "--list-sessions",
     "--version", "-v", "--worktree", "-w"),
    _spelled,
)  # fmt: skip


class Dialect:
    """How Gemini CLI is called (``wrapped.Dialect``)."""

    name = "gemini"
    program = "gemini"
    package = "npm install -g @google/gemini-cli"
    known = r"0\.61\.\d+"
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
        native = job.native
        resume = (f"--resume={native.id}",) if native is not None else ()
        model = ("--model", job.model) if job.model is not None else ()
        return Call(
            arguments=("--output-format", "stream-json", "--skip-trust", *_leave(job), *model, *resume, *job.arguments),
            prompt=prompt(job),
            # Where its session's directory is gone it knows no session, and begins anew.
            directory=native.directory if native is not None and native.directory.is_dir() else job.worktree,
        )

    def reader(self, job: Job) -> Reader:
        return Reader(job)


def _leave(job: Job) -> tuple[str, ...]:
    """What it may do without asking, unless the user says so in Gemini CLI's terms: nobody is there to be asked."""
    if any(_spelled(argument) in _LEAVES for argument in job.arguments):
        return ()
    return ("--approval-mode", "yolo" if job.allow_commands else "auto_edit")


class Reader:
    """Understands one run of Gemini CLI's (``wrapped.Reader``, ``wrapped.Attentive``)."""

    waiting = False

    def __init__(self, job: Job) -> None:
        self._job = job
        self._began = ""
        self._stderr = ""
        self._native: Native | None = None
        self._calls: dict[str, tuple[str, str, str | None]] = {}
        self._open: set[str] = set()
        """Calls that may change files and have no result yet."""
        self._said = ""
        self._within_line = False
        self._denied: str | None = None
        self._error: str | None = None
        self._stopped: str | None = None
        self._refuses_its_past = False
        self._result: Line | None = None

    def heard(self, line: Line) -> Iterator[Event]:
        match line.get("type"):
            case "init":
                self._began = text(line.get("timestamp"))
                yield from self._begins(text(line.get("session_id")), text(line.get("model")) or None)
            case "message" if line.get("role") == "assistant":
                yield from self._says(text(line.get("content")))
            case "tool_use":
                yield from self._calls_tool(line)
            case "tool_result":
                yield from self._learns(line)
            case "error":
                yield from self._warns(reason(text(line.get("message"))), fatal=line.get("severity") == "error")
            case "result":
                yield from self._ends(line)

    def overheard(self, words: str) -> None:
        *lines, self._stderr = (self._stderr + words).split("\n")
        self._stderr = self._stderr[-_HELD:]
        for found in filter(None, map(_REPORT.search, lines)):
            _hide(found[1])

    def ended(self) -> Iterator[Event]:
        """What was spent by a run that was cut short."""
        if self._result is None and self._native is not None and (record := _transcript(self._native.id)):
            yield from _recorded(record, self._began)

    def verdict(self, status: int, why: str) -> Done | Failed | None:
        resumes = self._job.native is not None
        if resumes and (self._refuses_its_past or (self._native is None and _GONE.search(why))):
            return None
        said = self._said.strip() or None
        if status == _NO_ACCESS and self._result is None:
            return Failed("Gemini CLI has no access to a model: log in with it once, or set GEMINI_API_KEY", "refused")
        if self._result is None:
            words = why if status else "gemini ended without saying how the work went"
            return Failed(words, "exit", said)
        if self._result.get("status") != "success":
            return Failed(*self._why_not(status, why), said)
        if self._stopped is not None:
            return Failed(self._stopped, "limit", said)
        if status:
            return Failed(why, "exit", said)
        if self._denied is not None:
            return Failed(self._not_allowed(self._denied), "denied", said)
        return Done(said=said)

    def _begins(self, session: str, model: str | None) -> Iterator[Event]:
        if not session:
            return
        before = self._job.native
        self._native = Native(
            id=session,
            directory=before.directory if before is not None and before.id == session else self._job.worktree,
            model=model,
            transcript=_transcript(session),
        )
        yield Bound(self._native)

    def _says(self, words: str) -> Iterator[Event]:
        """A piece of the model's text."""
        if words:
            self._said += words
            self._within_line = not words.endswith("\n")
            yield Output(words)

    def _calls_tool(self, line: Line) -> Iterator[Event]:
        self._said = ""
        name, about = text(line.get("tool_name")), what(table(line.get("parameters")), self._job.worktree)
        file = text(table(line.get("parameters")).get("file_path")) if name in EDITING[GEMINI] else None
        self._calls[text(line.get("tool_id"))] = (name, about, file or None)
        if name not in _READS:
            self._open.add(text(line.get("tool_id")))
        yield from self._end_line()
        yield Output(f"[{name}] {about}".rstrip() + "\n")

    def _learns(self, line: Line) -> Iterator[Event]:
        """The result of a tool call; also a command that failed may have changed files."""
        call = text(line.get("tool_id"))
        name, about, file = self._calls.get(call, ("", "", None))
        self._open.discard(call)
        refused = table(line.get("error")).get("type")
        if refused == "policy_violation" or (refused == "tool_not_registered" and name == _SHELL):
            self._denied = self._denied or (f"{name}: {about}" if about else name)
        elif name not in _READS:
            only = (file,) if file is not None and self._open else ()
            said = f"{name}: {about}" if about else name or "a tool"
            yield CheckpointHint(said, always=False, call=call, only=only)

    def _warns(self, words: str, *, fatal: bool) -> Iterator[Event]:
        if fatal:
            self._error = words
        if _STOPPED.search(words):
            self._stopped = words
        elif not fatal:
            yield Notice(f"gemini: {words}")

    def _ends(self, result: Line) -> Iterator[Event]:
        self._result = result
        yield from self._end_line()
        if self._native is not None and self._native.transcript is None:
            self._native = replace(self._native, transcript=_transcript(self._native.id))
            yield Bound(self._native)
        yield from _spent(table(result.get("stats")))
        error = text(table(result.get("error")).get("message"))
        if self._job.native is not None and not self._calls and _TWICE.search(error):
            self._refuses_its_past = True
            yield Notice("gemini: the API refuses the conversation as Gemini CLI recorded it")

    def _end_line(self) -> Iterator[Event]:
        if self._within_line:
            self._within_line = False
            yield Output("\n")

    def _why_not(self, status: int, why: str) -> tuple[str, FailureKind]:
        """Why the run failed, with what kind of failure that is."""
        error = table((self._result or {}).get("error"))
        code, words = _api_words(text(error.get("message")) or self._error or why)
        code = code or (status + 256 if 400 <= status + 256 < 512 else None)
        words = reason(words)
        if kind_of(code) == "limit":
            return f"the API's limit is reached: {words}", "limit"
        if kind_of(code) == "refused":
            return f"the API refused the request: {words}", "refused"
        if text(error.get("type")) == "FatalTurnLimitedError":
            return words, "limit"
        kind: FailureKind = next((kind for pattern, kind in _KINDS if pattern.search(words)), "network")
        return (f"CONNECTION ERROR: {words}" if kind == "network" else words), kind

    def _not_allowed(self, call: str) -> str:
        how = "; --allow-commands allows it" if call.startswith(_SHELL) and not self._job.allow_commands else ""
        return f"Gemini CLI was not allowed what it wanted ({reason(call)}){how}"


def _hide(report: str) -> None:
    """Let nobody else read a file of ours; another's, and what a link leads to, is left alone."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        opened = os.open(report, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            facts = os.fstat(opened)
            if stat.S_ISREG(facts.st_mode) and facts.st_uid == os.getuid():
                os.fchmod(opened, 0o600)
        finally:
            os.close(opened)


def _spent(stats: Mapping[str, Any]) -> Iterator[Usage]:
    """What each model spent in this run; thoughts are paid for as output."""
    for model, counts in table(stats.get("models")).items():
        count = table(counts)
        given, read, total = (number(count.get(name)) for name in ("input", "cached", "total_tokens"))
        output = max(number(count.get("output_tokens")), total - number(count.get("input_tokens")))
        if given or read or output:
            yield Usage(given, output, cache_read=read, model=model)


def _recorded(record: str, since: str) -> Iterator[Usage]:
    """What the replies spent that a session's record has since then, a time as it writes them."""
    replies: dict[str, Mapping[str, Any]] = {}
    with suppress(OSError), open(record, "rb") as lines:
        for line in lines:
            if b'"tokens"' not in line:
                continue
            with suppress(ValueError):
                reply = table(json.loads(line))
                if text(reply.get("id")) and text(reply.get("timestamp")) >= since:
                    replies[text(reply["id"])] = reply
    for reply in replies.values():
        tokens = table(reply.get("tokens"))
        given, read = number(tokens.get("input")), number(tokens.get("cached"))
        output = number(tokens.get("output")) + number(tokens.get("thoughts"))
        if given or output:
            yield Usage(max(0, given - read), output, cache_read=read, model=text(reply.get("model")) or None)


def _api_words(message: str) -> tuple[int | None, str]:
    """The status and the words in an error of the API, which Gemini CLI passes on as it came."""
    found = _API_ERROR.match(message)
    words = found[1] if found else message
    with suppress(ValueError):
        parsed = json.loads(words)
        error = table(table(parsed[0] if isinstance(parsed, list) and parsed else parsed).get("error"))
        if text(error.get("message")):
            return number(error.get("code")) or None, text(error["message"])
    return None, words


def _transcript(session: str) -> str | None:
    """Gemini CLI's own record of a session."""
    if not UUID.fullmatch(session):
        return None
    home = Path(os.environ.get("GEMINI_CLI_HOME") or Path.home()) / ".gemini"
    return next((str(path) for path in home.glob(f"tmp/*/chats/session-*-{session[:8]}.jsonl")), None)
