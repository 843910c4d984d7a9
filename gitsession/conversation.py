"""A conversation with a model, as plain JSON: what was said, and what has to be said next.

The list is what the Messages API takes, with keys of ours beside ``role`` and ``content``::

    user       phase   the phase that begins with this message; ``finished`` after the last one
               task    the task as it was told here
    assistant  id, model, stop_reason     as the API gave them
               asked                      the model's name as it was asked for
               bad     {call: reason}: tool calls whose input could not be read
               started [call]: commands that were begun

It changes only by the functions below, one for each journal entry (``gitsession.lifecycle``), so whoever folds the
journal has the same conversation as whoever held it.  Where it stopped is where it goes on: calls without a result
are to be answered, else a reply is to be asked for.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

Message = dict[str, Any]
History = list[Any]

FINISHED: Final = "finished"
LEFT_OUT: Final = "[left out to make room: call the tool again if this is needed]"
NOT_DONE: Final = "This was not done: the user put the files back to what they were before it."
_THINKING: Final = ("thinking", "redacted_thinking")


def add_prompt(history: History, text: str, phase: str | None = None, task: str | None = None) -> None:
    """Our own words to the model, which may begin a phase and tell the task."""
    message = _users_turn(history)
    message["content"].append({"type": "text", "text": text})
    if phase is not None:
        message["phase"] = phase
    if task is not None:
        message["task"] = task


def add_reply(history: History, message: Message) -> None:
    """A complete reply.  One in which the model refuses is not gone on from, so it is not kept here."""
    if message.get("stop_reason") != "refusal":
        history.append({"role": "assistant", **message})


def add_started(history: History, call: str) -> None:
    """A command was begun: without a result later, its outcome is unknown."""
    message = _last_reply(history)
    if message is not None:
        message.setdefault("started", []).append(call)


def add_result(history: History, call: str, text: str, *, error: bool = False, phase: str | None = None) -> None:
    """What a tool call came to; it may begin a phase.  A call has one result: another one changes nothing."""
    if call not in {block["id"] for block in open_calls(history)}:
        return
    message = _users_turn(history)
    message["content"].append(
        {"type": "tool_result", "tool_use_id": call, "content": text, **({"is_error": True} if error else {})}
    )
    if phase is not None:
        message["phase"] = phase


def compact(history: History, calls: Sequence[str]) -> None:
    """Shorten the results of these calls; thinking that was done with them in view goes as well."""
    wanted = set(calls)
    last = _last_reply(history)
    for message in history:
        if message["role"] == "user":
            for block in message["content"]:
                if block.get("tool_use_id") in wanted:
                    block["content"] = LEFT_OUT
        elif message is not last:
            message["content"] = [block for block in message["content"] if block.get("type") not in _THINKING]


def compactable(history: History, *, keep: int) -> list[str]:
    """The calls whose results would be shortened, all but those of the newest ``keep`` user messages."""
    users = [message for message in history if message["role"] == "user"]
    return [
        block["tool_use_id"]
        for message in users[: max(0, len(users) - keep)]
        for block in message["content"]
        if block.get("type") == "tool_result" and len(str(block.get("content"))) > len(LEFT_OUT)
    ]


def open_calls(history: History) -> list[Message]:
    """The tool calls of the last reply that have no result yet, in order."""
    last = _last_reply(history)
    if last is None:
        return []
    after = history[-1]["content"] if history[-1]["role"] == "user" else []
    answered = {block.get("tool_use_id") for block in after}
    return [block for block in last["content"] if block.get("type") == "tool_use" and block["id"] not in answered]


def was_started(history: History, call: str) -> bool:
    """Whether the command of this call was begun."""
    last = _last_reply(history)
    return last is not None and call in last.get("started", ())


def mark(history: History) -> Message:
    """Where the conversation is: ``rewind`` comes back here."""
    newest = history[-1] if history else {"role": "assistant"}
    here: Message = {"messages": len(history)}
    if newest["role"] == "user":
        here["blocks"] = len(newest["content"])
        here |= {key: newest[key] for key in ("phase", "task") if key in newest}
    return here


def rewind(history: History, here: Message, call: str | None) -> tuple[History, History]:
    """The conversation as it was at a ``mark``, and what was said since.

    The ``call`` that led there is answered as it was; calls beside it that were not made by then are answered so.
    """
    count = here["messages"]
    back: History = copy.deepcopy(history[:count])
    if "blocks" in here:
        newest = {key: value for key, value in back[-1].items() if key not in ("phase", "task")}
        kept = {key: here[key] for key in ("phase", "task") if key in here}
        back[-1] = {**newest, **kept, "content": newest["content"][: here["blocks"]]}
    for message in history[max(0, count - 1) : count + 1]:
        for block in message["content"] if message["role"] == "user" else ():
            if call is not None and block.get("tool_use_id") == call:
                # What ends a phase is the last of its message.
                phase = message.get("phase") if block is message["content"][-1] else None
                add_result(back, call, block["content"], error=block.get("is_error", False), phase=phase)
    for left in open_calls(back):
        add_result(back, left["id"], NOT_DONE, error=True)
    return back, history[len(back) :]


def phase_of(history: History) -> str | None:
    """The phase it is in."""
    return next((message["phase"] for message in reversed(history) if "phase" in message), None)


def task_of(history: History) -> str | None:
    """The task as it was last told."""
    return next((message["task"] for message in reversed(history) if "task" in message), None)


def replies(history: History) -> list[Message]:
    """The model's replies, in order."""
    return [message for message in history if message["role"] == "assistant"]


def text_of(message: Message) -> str:
    """What a message says in words."""
    return "\n".join(block["text"] for block in message["content"] if block.get("type") == "text").strip()


def as_request(history: History, model: str) -> list[Message]:
    """The messages as the API takes them.

    A model does not take another one's thinking, and nobody takes an empty message.
    """
    messages = []
    for message in history:
        content = message["content"]
        if message["role"] == "assistant":
            if message.get("asked") != model:
                content = [block for block in content if block.get("type") not in _THINKING]
            content = content or [{"type": "text", "text": "(nothing)"}]
        messages.append({"role": message["role"], "content": content})
    return messages


def _users_turn(history: History) -> Message:
    """The user message that is being put together."""
    if not history or history[-1]["role"] != "user":
        history.append({"role": "user", "content": []})
    message: Message = history[-1]
    return message


def _last_reply(history: History) -> Message | None:
    """The reply that is being answered, or has been."""
    for message in reversed(history[-2:]):
        if message["role"] == "assistant":
            found: Message = message
            return found
    return None
