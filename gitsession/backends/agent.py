"""The agent's loop: a conversation that is gone on with from wherever it stopped.

The loop's only state is the conversation (``gitsession.conversation``), and every step of it is told, and durable,
before the next one is made.  So a run that died is gone on with by the same rule as one that lives: answer the calls
that have no result, else ask for a reply.

How a reply is got is the business of a ``Model``; this module knows no SDK.
"""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from typing import Any, Final, Protocol, TypeVar

from gitsession import conversation
from gitsession.backends import prompts, shell, tools
from gitsession.backends.base import (
    Answer,
    CheckpointHint,
    Compacted,
    Done,
    Edit,
    EditOutcome,
    Event,
    Failed,
    FailureKind,
    FileProblem,
    Finding,
    Findings,
    FindingsChecked,
    Job,
    Notice,
    Output,
    Phase,
    Prompt,
    Reply,
    ReviewWanted,
    Tick,
    ToolResult,
    ToolStarted,
    Turn,
    Usage,
)
from gitsession.conversation import FINISHED, Message
from gitsession.secrets import without_keys

_T = TypeVar("_T")
_Work = Generator[Event, Answer, _T]

_TICK: Final = 0.05
_FIRST_LIMIT: Final = 16_384  # tokens of a reply; doubled when one is cut
_LAST_LIMIT: Final = 65_536
_CUTS: Final = 4  # replies in a row that may be cut
_EMPTIES: Final = 2  # empty replies in a row that are not taken for the end of a phase
_KEPT: Final = (4, 1)  # newest messages whose results are kept when the conversation is too long
_STEP: Final = 120  # characters of a line that says what is being done
_CACHED: Final = {"type": "ephemeral"}


class Trouble(Exception):
    """The run cannot go on; the text says why, to a person."""

    def __init__(self, text: str, kind: FailureKind) -> None:
        super().__init__(text)
        self.kind: FailureKind = kind


class TooLong(Exception):
    """The conversation does not fit into the model."""


class OutputLimited(Exception):
    """The model's replies can have at most ``maximum`` tokens."""

    def __init__(self, maximum: int) -> None:
        super().__init__(maximum)
        self.maximum = maximum


class Model(Protocol):
    """Gets replies."""

    def reply(self, request: Mapping[str, Any], tell: Callable[[Notice | Usage], None]) -> tuple[Message, Usage]:
        """The complete reply to ``request``; ``Trouble``, ``TooLong`` or ``OutputLimited``.  May take minutes."""

    def cancel(self) -> None:
        """Give up what is under way, from another thread."""


class Stopped(Exception):
    """The run was asked to stop."""


class Agent:
    """One run of one job; ``stop`` says whether it was asked to end."""

    def __init__(self, job: Job, model_name: str, model: Model, stop: shell.StopRequest) -> None:
        if job.workspace is None:
            raise TypeError("a job for a model needs a workspace")
        self._job = job
        self._name = model_name
        self._model = model
        self._stop = stop
        self._history = copy.deepcopy(list(job.history))
        self._tools = tools.Tools(job.workspace)
        self._news = list(job.news)
        self._owed: str | None = None  # the description of a step whose checkpoint is still to be taken
        self._announced = set(_paths_named(self._history))
        self._limit = _FIRST_LIMIT
        self._most = _LAST_LIMIT

    def events(self) -> Generator[Event, Answer, None]:
        """Everything from here to the end; the last one is ``Done`` or ``Failed``."""
        try:
            yield from self._work()
        except Stopped:
            self._model.cancel()
            yield Failed("interrupted", "interrupted")
        except Trouble as trouble:
            yield Failed(str(trouble), trouble.kind)
        else:
            yield Done()

    # The loop

    def _work(self) -> _Work[None]:
        if self._phase is None:
            yield from self._begin()
        elif self._phase != FINISHED:
            yield Phase(self._phase, self._step_so_far())
        while not self._stop.asked:
            if calls := conversation.open_calls(self._history):
                yield from self._answer(calls)
            elif self._phase == FINISHED:
                return
            elif self._history[-1]["role"] == "assistant":
                yield from self._after_words(self._history[-1])
            else:
                yield from self._tell_news()
                yield from self._turn()
        raise Stopped

    @property
    def _phase(self) -> str | None:
        return conversation.phase_of(self._history)

    def _begin(self) -> _Work[None]:
        """The first message; phases that another backend has completed are not done again."""
        done = self._job.phases_completed
        name = next((one for one in prompts.WORKFLOW if one not in done), prompts.WORKFLOW[-1])
        text, name = yield from self._opening(name)
        yield from self._prompt(prompts.first(self._job, text), phase=name, task=self._job.task)
        yield from self._announce(name)

    def _opening(self, name: str) -> _Work[tuple[str, str]]:
        """How phase ``name`` begins, and the phase that then is."""
        if name == FINISHED:
            return "The work is finished.", name
        if name != "review":
            return prompts.beginning(name), name
        manifest = yield ReviewWanted()
        if not isinstance(manifest, str) or not manifest:
            yield Phase("review", "Nothing was changed, there is nothing to review", done=True)
            return "Nothing was changed, so there is nothing to review: the work is finished.", FINISHED
        return prompts.beginning(name, manifest), name

    def _announce(self, name: str) -> _Work[None]:
        """The line that says that a phase has begun, for those whose first step is known."""
        if name == "analysis":
            count = len(self._job.files)
            about = f"{count} file{'s' if count != 1 else ''}" if count else "the repository"
            yield Phase(name, f"Analyzing {about}...")
        elif name == "review":
            yield Phase(name, "Running code review...")

    def _tell_news(self) -> _Work[None]:
        if self._job.task != conversation.task_of(self._history):
            yield from self._prompt(prompts.task_changed(self._job.task), task=self._job.task)
        if self._news:
            news, self._news = self._news, []
            yield from self._prompt(prompts.news(news))

    def _prompt(self, text: str, phase: str | None = None, task: str | None = None) -> _Work[None]:
        yield Prompt(text, phase, task)
        conversation.add_prompt(self._history, text, phase, task)

    # A reply

    def _turn(self) -> _Work[None]:
        enough = yield Turn(self._name)
        if isinstance(enough, str):
            raise Trouble(enough, "limit")
        message, usage = yield from self._reply()
        message = _with_new_ids(_usable(message), self._history)
        yield Reply(message, usage)
        conversation.add_reply(self._history, message)
        if message["stop_reason"] == "refusal":
            raise Trouble(f"the model declined to go on{_explanation(message)}", "exit")
        if message["stop_reason"] == "max_tokens":
            self._limit = min(self._limit * 2, self._most)
        yield from self._show(message)

    def _reply(self) -> _Work[tuple[Message, Usage]]:
        for keep in (*_KEPT, None):
            try:
                return (yield from self._ask())
            except TooLong as trouble:
                calls = [] if keep is None else conversation.compactable(self._history, keep=keep)
                if keep is None:
                    raise Trouble(f"the conversation is too long for the model: {trouble}", "limit") from None
                if calls:
                    yield Notice(
                        f"the conversation is too long for the model: {len(calls)} older tool results are left out"
                    )
                    yield Compacted(tuple(calls))
                    conversation.compact(self._history, calls)
        raise AssertionError("unreachable")

    def _ask(self) -> _Work[tuple[Message, Usage]]:
        try:
            return (yield from self._in_thread(lambda tell: self._model.reply(self._request(), tell)))
        except OutputLimited as limited:
            self._limit = self._most = limited.maximum
            return (yield from self._in_thread(lambda tell: self._model.reply(self._request(), tell)))

    def _request(self) -> dict[str, Any]:
        """What the Messages API is asked; what comes first changes least, so that its cache can serve."""
        allow = self._job.allow_commands
        phase = self._phase or prompts.WORKFLOW[0]
        messages = conversation.as_request(self._history, self._name)
        last = messages[-1]
        *before, newest = last["content"]
        messages[-1] = {**last, "content": [*before, {**newest, "cache_control": _CACHED}]}
        return {
            "model": self._name,
            "max_tokens": self._limit,
            "system": [
                {"type": "text", "text": prompts.stable(allow_commands=allow), "cache_control": _CACHED},
                {"type": "text", "text": prompts.phase(phase), "cache_control": _CACHED},
            ],
            "tools": tools.definitions(allow_commands=allow),
            "messages": messages,
        }

    def _show(self, message: Message) -> _Work[None]:
        """What the model says: a short line before it works is the step's, anything else is just printed."""
        text = conversation.text_of(message)
        if not text:
            return
        names = {block["name"] for block in message["content"] if block.get("type") == "tool_use"}
        first, _, rest = text.partition("\n")
        if names - tools.ENDING.keys() and len(first) <= _STEP and self._phase:
            yield Phase(self._phase, first)
            text = rest.strip()
        if text:
            yield Output(text + "\n")

    def _after_words(self, message: Message) -> _Work[None]:
        """A reply without calls: it was cut, it was empty, or the phase is over."""
        reason = message["stop_reason"]
        if reason == "max_tokens":
            if self._in_a_row(lambda one: one.get("stop_reason") == "max_tokens") >= _CUTS:
                raise Trouble(f"the model's replies are longer than the limit of {self._limit} tokens", "limit")
            yield from self._prompt(prompts.CUT)
        elif reason == "model_context_window_exceeded":
            calls = conversation.compactable(self._history, keep=_KEPT[-1])
            if not calls:
                raise Trouble("the conversation fills the model's context window", "limit")
            yield Notice(f"the model's context window is full: {len(calls)} older tool results are left out")
            yield Compacted(tuple(calls))
            conversation.compact(self._history, calls)
            yield from self._prompt(prompts.CUT)
        elif not message["content"] and self._in_a_row(lambda one: not one["content"]) <= _EMPTIES:
            yield from self._prompt(prompts.GO_ON)
        else:
            yield from self._end_phase(conversation.text_of(message).partition("\n")[0], call=message["id"])
            text, phase = yield from self._opening(self._next_phase())
            yield from self._prompt(text, phase=phase)
            yield from self._announce(phase)

    def _in_a_row(self, holds: Callable[[Message], bool]) -> int:
        """How many of the newest replies are of a kind."""
        count = 0
        for message in reversed(conversation.replies(self._history)):
            if not holds(message):
                break
            count += 1
        return count

    def _next_phase(self) -> str:
        order = [*prompts.WORKFLOW, FINISHED]
        return order[order.index(self._phase or order[0]) + 1]

    def _end_phase(self, summary: str, call: str) -> _Work[None]:
        phase = self._phase or prompts.WORKFLOW[0]
        yield Phase(phase, summary, done=True)
        if phase == "analysis":
            yield CheckpointHint("analysis results", call=call)

    # Calls

    def _answer(self, calls: list[Message]) -> _Work[None]:
        """Answer the calls of a reply that have no result yet, one after the other; what ends the phase comes last."""
        calls = sorted(calls, key=lambda call: call["name"] in tools.ENDING)
        bad = conversation.replies(self._history)[-1].get("bad", {})
        for call, following in zip(calls, [*calls[1:], None], strict=True):
            if self._stop.asked:
                raise Stopped
            try:
                if call["id"] in bad:
                    raise FileProblem(bad[call["id"]])
                given = tools.parse(call["name"], call["input"], allow_commands=self._job.allow_commands)
                yield from self._call(call, given, following)
            except FileProblem as problem:
                yield from self._result(call, str(problem), error=True)

    def _call(self, call: Message, given: Any, following: Message | None) -> _Work[None]:
        name, phase = call["name"], self._phase
        if name in tools.EDITING:
            if phase != "implementation":
                raise FileProblem(f"files cannot be changed in the {phase} phase")
            yield from self._edit(call, given, following)
        elif name in tools.ENDING and "phase" in self._history[-1]:
            raise FileProblem("this reply has ended a phase already")
        elif name in tools.READING:
            yield from self._working_on(given)
            text = yield from self._in_thread(lambda _tell: self._tools.look(given))
            yield from self._result(call, text)
        elif name == tools.COMMAND:
            yield from self._command(call, given)
        elif name == "finish_phase":
            if phase == "review":
                raise FileProblem("the review is ended with report_findings")
            yield from self._end_phase(given.summary, call["id"])
            text, following_phase = yield from self._opening(self._next_phase())
            yield from self._result(call, text, phase=following_phase)
            yield from self._announce(following_phase)
        else:
            if phase != "review":
                raise FileProblem(f"findings are reported in the review phase; this is the {phase} phase")
            yield from self._report(call, given)

    def _edit(self, call: Message, given: Any, following: Message | None) -> _Work[None]:
        yield from self._working_on(given)
        try:
            planned = yield from self._in_thread(lambda _tell: self._tools.plan(given))
            more = _same_step(given, following)
            edit = Edit(call["id"], planned.changes, planned.told, self._safe(planned.result), planned.what, more)
            outcome = yield edit
            if not isinstance(outcome, EditOutcome):
                # It could not even be written down, or is, and is made later: either way the run ends here.
                raise Stopped
            if outcome.reason is not None:
                raise FileProblem(outcome.reason)
        except FileProblem:
            if self._owed is not None:
                yield CheckpointHint(self._owed, always=False)
                self._owed = None
            raise
        self._owed = planned.what if more else None
        self._tools.made(planned)
        conversation.add_result(self._history, call["id"], edit.result)

    def _working_on(self, given: Any) -> _Work[None]:
        """Say which file is being worked on when the model has not said anything."""
        path = getattr(given, "path", "")
        if self._phase != "implementation" or path in self._announced or path not in self._job.files:
            return
        self._announced.add(path)
        if not conversation.text_of(conversation.replies(self._history)[-1]):
            yield Phase("implementation", f"Working on {path}...")

    def _command(self, call: Message, given: tools.RunCommand) -> _Work[None]:
        if conversation.was_started(self._history, call["id"]):
            yield CheckpointHint("what an interrupted command left", always=False)
            yield from self._result(call, prompts.UNKNOWN_OUTCOME, error=True)
            return
        yield ToolStarted(call["id"], given.command)
        if self._stop.asked:
            raise Stopped
        conversation.add_started(self._history, call["id"])
        yield Phase(self._phase or prompts.WORKFLOW[0], f"Running {_shortened(given.command)}")
        command = shell.Command(given.command, self._job.worktree, self._job.session_id, given.timeout_seconds)
        with closing(command.run(self._stop)) as running:
            for _ in running:
                yield Tick()
        if self._stop.asked:
            raise Stopped
        yield CheckpointHint(f"what {_shortened(given.command)} changed", always=False)
        yield from self._result(call, command.text)

    def _report(self, call: Message, given: tools.ReportFindings) -> _Work[None]:
        found = tuple(Finding(**one.model_dump()) for one in given.findings)
        checked = yield Findings(call["id"], found)
        if not isinstance(checked, FindingsChecked):
            checked = FindingsChecked(found, ())
        for one in checked.kept:
            yield Output(f"{one.severity}: {one.file}:{one.line}: {one.message}\n")
        yield Phase("review", verdict(checked), done=True)
        yield from self._result(call, "\n".join(["The review is ended.", *checked.dropped]), phase=FINISHED)

    def _result(self, call: Message, text: str, *, error: bool = False, phase: str | None = None) -> _Work[None]:
        text = self._safe(text) or "(nothing)"
        yield ToolResult(call["id"], text, error, phase)
        conversation.add_result(self._history, call["id"], text, error=error, phase=phase)

    @staticmethod
    def _safe(text: str) -> str:
        return without_keys(text)

    def _step_so_far(self) -> str:
        """What was being done when the former run ended."""
        for message in reversed(conversation.replies(self._history)):
            first = conversation.text_of(message).partition("\n")[0]
            if first and len(first) <= _STEP:
                return first
        return "Going on..."

    def _in_thread(self, work: Callable[[Callable[[Notice | Usage], None]], _T]) -> _Work[_T]:
        """Do ``work`` beside, so that time passes here; what it tells on the way is told."""
        results: queue.SimpleQueue[Notice | Usage | tuple[_T | None, BaseException | None]] = queue.SimpleQueue()

        def do() -> None:
            try:
                results.put((work(results.put), None))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
                results.put((None, error))

        threading.Thread(target=do, name="agent-work", daemon=True).start()
        while True:
            try:
                result = results.get(timeout=_TICK)
            except queue.Empty:
                if self._stop.asked:
                    raise Stopped from None
                yield Tick()
                continue
            if not isinstance(result, tuple):
                yield result
            elif result[1] is not None:
                raise result[1]
            else:
                return result[0]  # type: ignore[return-value]


def verdict(checked: FindingsChecked) -> str:
    """The result of a review in one line: ``No critical issues found (2 warnings)``."""
    counts = {name: sum(one.severity == name for one in checked.kept) for name in ("critical", "warning", "note")}
    critical = counts.pop("critical")
    head = f"{_count(critical, 'critical issue')} found" if critical else "No critical issues found"
    others = [_count(number, name) for name, number in counts.items() if number]
    if checked.dropped:
        others.append(f"{_count(len(checked.dropped), 'finding')} dropped: the quote is not there")
    return f"{head} ({', '.join(others)})" if others else head


def _paths_named(history: conversation.History) -> Iterator[str]:
    """The paths that the calls of this phase have named."""
    since = max((place for place, message in enumerate(history) if "phase" in message), default=0)
    for message in conversation.replies(history[since:]):
        for block in message["content"]:
            if block.get("type") == "tool_use" and "path" in block["input"]:
                yield str(block["input"]["path"])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _same_step(given: Any, following: Message | None) -> bool:
    """Whether the next call is a change of the same stated purpose."""
    if following is None or following["name"] not in tools.EDITING or not given.purpose:
        return False
    return bool(following["input"].get("purpose") == given.purpose)


def _usable(message: Message) -> Message:
    """The reply without a tool call that was cut: its input is not what the model meant."""
    content = message["content"]
    if message["stop_reason"] in ("max_tokens", "model_context_window_exceeded") and content:
        if content[-1].get("type") == "tool_use":
            content = content[:-1]
        return {**message, "content": content or [{"type": "text", "text": "(cut)"}]}
    return message


def _with_new_ids(message: Message, history: conversation.History) -> Message:
    """The reply, its tool calls told apart from all before them: some servers begin to count anew in each reply."""
    used = {block.get("id") for one in conversation.replies(history) for block in one["content"]}
    content = []
    for block in message["content"]:
        if block.get("type") == "tool_use" and block["id"] in used:
            block = {**block, "id": f"{block['id']}_{len(used)}"}
        used.add(block.get("id"))
        content.append(block)
    return {**message, "content": content}


def _explanation(message: Message) -> str:
    words = conversation.text_of(message).partition("\n")[0]
    return f": {words[:200]}" if words else ""


def _shortened(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 60 else line[:60] + "…"
