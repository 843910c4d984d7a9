"""opencode: ``opencode run --format json`` with the prompt on its standard input.

What is said of the program here was seen with version 1.18.33:

- Where it works is told by ``PWD``, not by its working directory.  Its session goes on only from where it began: from
  elsewhere it does its turn, says nothing, and does not end.
- All tools are allowed unless its configuration says otherwise.  What it would ask for is rejected, as nobody is there,
  and said on standard error, also of a subagent's; then the run ends, with exit status 0, unless
  ``experimental.continue_loop_on_deny`` is set.  A tool that is forbidden altogether is not offered to the model.
- A run has ended well if its last ``step_finish`` says "stop".  ``tokens`` are the step's own; ``input`` is without the
  cache's, ``output`` without the model's thoughts.  ``cost`` is 0 where no price is known.  The model is not told, and
  of subagents nothing but what they come to.
- A failed request to the API is tried again, silently, up to five times, or as long as the API says.
- ``--fork`` copies a session as it is now, never as it was.
- Its tools run in process groups of their own and outlive it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
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
from gitsession.backends.passing import Refused
from gitsession.backends.wording import amount, kind_of, number, reason, table, text, what
from gitsession.backends.wrapped import Call

_READS: Final = frozenset(
    (
        "codesearch",
        "glob",
        "grep",
        "list",
        "lsp",
        "question",
        "read",
        "skill",
        "todoread",
        "todowrite",
        "webfetch",
        "websearch",
    )
)
"""Tools that leave the files alone."""
_FORBIDDEN: Final = ("apply_patch", "bash", "edit", "patch", "task", "webfetch", "websearch", "write")
"""Tools that are there unless somebody took them away."""
_REJECTED: Final = re.compile(r"rejected permission|rule which prevents")
_ASKED: Final = re.compile(r"permission requested: (.+); auto-rejecting")
_GONE: Final = re.compile(r"Session not found")
_LIMITS: Final = ("ContextOverflowError", "MessageOutputLengthError")
_BY_A_PERSON: Final = ("ContentFilterError", "ProviderAuthError", "ProviderModelNotFoundError")
_NETWORK: Final = re.compile(r"(?i)connect|fetch|socket|network|timed? ?out|econn|overloaded|unavailable|JSON parsing")
_HELD: Final = 4096


_REFUSED_FLAGS: Final = Refused(
    "opencode",
    {
        "--output": ("--format",),
        "--model": ("-m", "--model"),
        "--session-id": ("-s", "--session", "-c", "--continue", "--fork"),
    },
    ("--attach", "--dir", "--help", "-h", "--interactive", "-i", "--version", "-v"),
)


class Dialect:
    """How opencode is called (``wrapped.Dialect``)."""

    name = "opencode"
    program = "opencode"
    package = "npm install -g opencode-ai"
    known = r"1\.18\.\d+"
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
        job = _within_reach(job)
        native = job.native
        directory = native.directory if native is not None else job.worktree
        model = ("--model", job.model) if job.model is not None else ()
        session = (f"--session={native.id}",) if native is not None else ()
        leave = ("--auto",) if job.allow_commands and "--auto" not in job.arguments else ()
        return Call(
            arguments=("run", "--format", "json", *leave, *model, *session, *job.arguments),
            prompt=prompt(job),
            directory=directory,
            variables={"PWD": str(directory), **_permissions(job)},
        )

    def reader(self, job: Job) -> Reader:
        return Reader(job)


def _within_reach(job: Job) -> Job:
    """The job, which begins anew if the directory of its session is gone: from elsewhere it would not end."""
    if job.native is None or job.native.directory.is_dir():
        return job
    return replace(job, native=None)


def _permissions(job: Job) -> dict[str, str]:
    """Without leave it has to ask for commands, and after a refusal goes on as well as it can."""
    if job.allow_commands or "--auto" in job.arguments:
        return {}
    permission = {**(_given("OPENCODE_PERMISSION") or {}), "bash": "ask"}
    variables = {"OPENCODE_PERMISSION": json.dumps(permission)}
    content = _given("OPENCODE_CONFIG_CONTENT")
    if content is not None:
        experimental = {"continue_loop_on_deny": True, **table(content.get("experimental"))}
        variables["OPENCODE_CONFIG_CONTENT"] = json.dumps({**content, "experimental": experimental})
    return variables


def _given(name: str) -> dict[str, Any] | None:
    """The JSON object in a variable of the user's, empty if it is not set; ``None`` if it cannot be read."""
    value = os.environ.get(name)
    if not value:
        return {}
    with suppress(ValueError):
        found = json.loads(value)
        if isinstance(found, dict):
            return found
    return None


class Reader:
    """Understands one run of opencode's (``wrapped.Reader``, ``wrapped.Attentive``)."""

    waiting = False

    def __init__(self, job: Job) -> None:
        self._job = job
        self._native: Native | None = None
        self._said: str | None = None
        self._denied: str | None = None
        self._asked: str | None = None
        self._failure: tuple[str, FailureKind] | None = None
        self._finish: str | None = None
        self._stderr = ""

    def heard(self, line: Line) -> Iterator[Event]:
        if self._native is None:
            yield from self._begins(text(line.get("sessionID")))
        part = table(line.get("part"))
        match line.get("type"):
            case "step_start":
                self._finish = None
            case "text":
                self._said = text(part.get("text")).strip() or None
                yield Output(text(part.get("text")).rstrip("\n") + "\n")
            case "tool_use":
                yield from self._works(text(part.get("tool")), table(part.get("state")), text(part.get("id")))
            case "step_finish":
                self._finish = text(part.get("reason"))
                yield from self._spent(part)
            case "error":
                self._failure = _why(table(line.get("error")), self._job.model)

    def overheard(self, words: str) -> None:
        *lines, self._stderr = (self._stderr + words).split("\n")
        self._stderr = self._stderr[-_HELD:]
        for found in filter(None, map(_ASKED.search, lines)):
            self._asked = self._asked or found[1]

    def ended(self) -> Iterator[Event]:
        yield from ()

    def verdict(self, status: int, why: str) -> Done | Failed | None:
        if self._job.native is not None and self._native is None and _GONE.search(why):
            return None
        if self._failure is not None:
            return Failed(*self._failure, self._said)
        if status:
            return Failed(why, "exit", self._said)
        if denied := self._denied or self._asked:
            return Failed(self._not_allowed(denied), "denied", self._said)
        match self._finish:
            case "stop":
                return Done(said=self._said)
            case "length":
                return Failed("the model's reply was cut at its greatest length", "limit", self._said)
            case "content-filter":
                return Failed("the model's reply was held back by the provider's filter", "refused", self._said)
        return Failed("opencode ended in the middle of its work", "exit", self._said)

    def _begins(self, session: str) -> Iterator[Event]:
        if not session:
            return
        wanted, native = self._job.native, _within_reach(self._job).native
        if wanted is not None and native is None:
            yield Notice(
                f"opencode finds its session {wanted.id} only from {wanted.directory}, which is gone; "
                "it begins anew, told what was done so far"
            )
        directory = native.directory if native is not None else self._job.worktree
        self._native = Native(session, directory, model=self._job.model)
        yield Bound(self._native, briefed=native is None and self._job.briefing is not None)

    def _works(self, name: str, state: Mapping[str, Any], part: str) -> Iterator[Event]:
        """A tool call that has come to an end; also one that failed may have changed files."""
        given = table(state.get("input"))
        if name == "invalid":
            name = text(given.get("tool"))
            if name in _FORBIDDEN:
                self._denied = self._denied or name
            yield Output(f"[{name}] not available\n")
            return
        about = what(given, self._job.worktree)
        yield Output(f"[{name}] {about}".rstrip() + "\n")
        if _REJECTED.search(text(state.get("error"))):
            self._denied = self._denied or (f"{name} {about}".rstrip())
        elif name not in _READS:
            yield CheckpointHint(f"{name}: {about}" if about else name or "a tool", always=False, call=part)

    def _spent(self, part: Mapping[str, Any]) -> Iterator[Event]:
        tokens = table(part.get("tokens"))
        cache = table(tokens.get("cache"))
        usage = Usage(
            input=number(tokens.get("input")),
            output=number(tokens.get("output")) + number(tokens.get("reasoning")),
            cost_usd=amount(part.get("cost")) or None,
            cache_write=number(cache.get("write")),
            cache_read=number(cache.get("read")),
            model=self._job.model.rpartition("/")[2] if self._job.model else None,
        )
        if usage.input or usage.output or usage.cache_read or usage.cache_write or usage.cost_usd:
            yield usage

    def _not_allowed(self, call: str) -> str:
        how = "; --allow-commands allows it" if call.startswith("bash") and not self._job.allow_commands else ""
        return f"opencode was not allowed what it wanted ({reason(call)}){how}"


def _why(error: Mapping[str, Any], model: str | None) -> tuple[str, FailureKind]:
    """Why the run failed, with what kind of failure that is; of a model that it does not know it says nothing."""
    name, data = text(error.get("name")), table(error.get("data"))
    words = reason(text(data.get("message")) or name or "opencode failed")
    status = number(data.get("statusCode"))
    kind = kind_of(status)
    if kind == "limit" or name in _LIMITS:
        return (f"the API's limit is reached: {words}" if status else words), "limit"
    if name == "MessageAbortedError":
        return words, "interrupted"
    if name in _BY_A_PERSON or kind == "refused":
        return (f"the API refused the request: {words}" if status else words), "refused"
    if status or _NETWORK.search(words):
        return f"CONNECTION ERROR: {words}", "network"
    if model is not None and words.startswith("Unexpected server error"):
        words += f" Is {model} one of 'opencode models'?"
    return words, "exit"
