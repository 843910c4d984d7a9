"""A conversation goes on from wherever it stopped, and is always one that the API takes."""

from __future__ import annotations

from typing import Any

from gitsession import conversation


def use(number: int, **given: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"t{number}", "name": "read_file", "input": given}


def reply(*content: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"id": "m", "asked": "model", "stop_reason": "tool_use", "content": list(content), **more}


def begun() -> list[Any]:
    history: list[Any] = []
    conversation.add_prompt(history, "do it", "analysis", "do it")
    return history


def test_calls_are_open_until_they_have_a_result() -> None:
    history = begun()
    conversation.add_reply(history, reply(use(1), use(2)))
    assert [call["id"] for call in conversation.open_calls(history)] == ["t1", "t2"]
    conversation.add_result(history, "t2", "two")
    assert [call["id"] for call in conversation.open_calls(history)] == ["t1"]
    conversation.add_result(history, "t1", "one", phase="implementation")
    assert conversation.open_calls(history) == []
    assert conversation.phase_of(history) == "implementation"


def test_a_call_has_one_result() -> None:
    history = begun()
    conversation.add_reply(history, reply(use(1)))
    conversation.add_result(history, "t1", "one")
    conversation.add_result(history, "t1", "again")
    conversation.add_result(history, "unknown", "x")
    assert [block["content"] for block in history[-1]["content"]] == ["one"]


def test_a_refusal_is_not_gone_on_from() -> None:
    history = begun()
    conversation.add_reply(history, reply(stop_reason="refusal"))
    assert len(history) == 1


def test_words_after_a_result_join_it() -> None:
    history = begun()
    conversation.add_reply(history, reply(use(1)))
    conversation.add_result(history, "t1", "one")
    conversation.add_prompt(history, "news", task="another")
    assert [message["role"] for message in history] == ["user", "assistant", "user"]
    assert conversation.task_of(history) == "another"
    assert conversation.phase_of(history) == "analysis"


def test_a_request_has_nothing_of_ours_and_no_thinking_of_others() -> None:
    history = begun()
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    conversation.add_reply(history, reply(thought, use(1), bad={"t1": "x"}))
    conversation.add_started(history, "t1")
    assert conversation.was_started(history, "t1")
    assert [set(message) for message in conversation.as_request(history, "model")] == [{"role", "content"}] * 2
    assert thought in conversation.as_request(history, "model")[1]["content"]
    assert conversation.as_request(history, "other")[1]["content"] == [use(1)]
    conversation.add_reply(history, reply(stop_reason="end_turn"))
    assert conversation.as_request(history, "model")[-1]["content"] == [{"type": "text", "text": "(nothing)"}]


def test_compacting_shortens_older_results() -> None:
    history = begun()
    for number in range(4):
        conversation.add_reply(history, reply({"type": "thinking", "thinking": "h"}, use(number)))
        conversation.add_result(history, f"t{number}", "x" * 1000)
    calls = conversation.compactable(history, keep=2)
    assert calls == ["t0", "t1"]
    conversation.compact(history, calls)
    texts = [block["content"] for message in history[1:] if message["role"] == "user" for block in message["content"]]
    assert texts == [conversation.LEFT_OUT, conversation.LEFT_OUT, "x" * 1000, "x" * 1000]
    assert conversation.compactable(history, keep=2) == []
    assert [len(message["content"]) for message in conversation.replies(history)] == [1, 1, 1, 2]


def test_rewinding_answers_what_led_there_and_leaves_the_rest_undone() -> None:
    """A mark stands between two calls of one reply; the first was answered after it."""
    history = begun()
    conversation.add_reply(history, reply(use(1)))
    conversation.add_result(history, "t1", "looked")
    conversation.add_reply(history, reply(use(2), use(3)))
    here = conversation.mark(history)
    conversation.add_result(history, "t2", "edited")
    conversation.add_result(history, "t3", "edited, too")
    conversation.add_reply(history, reply(use(4)))
    back, since = conversation.rewind(history, here, "t2")
    assert [block["content"] for block in back[-1]["content"]] == ["edited", conversation.NOT_DONE]
    assert back[-1]["content"][1]["is_error"]
    assert conversation.open_calls(back) == []
    assert since == history[5:]
    assert history[4]["content"][1]["content"] == "edited, too", "what is set aside is as it was"


def test_rewinding_into_a_message_takes_off_what_came_later() -> None:
    history = begun()
    conversation.add_reply(history, reply(use(1), use(2)))
    conversation.add_result(history, "t1", "one")
    here = conversation.mark(history)
    conversation.add_result(history, "t2", "two", phase="implementation")
    conversation.add_prompt(history, "another task", task="another")
    back, _ = conversation.rewind(history, here, None)
    assert [block["content"] for block in back[-1]["content"]] == ["one", conversation.NOT_DONE]
    assert conversation.phase_of(back) == "analysis"
    assert conversation.task_of(back) == "do it"


def test_rewinding_to_the_call_that_ended_a_phase_begins_the_next() -> None:
    history = begun()
    conversation.add_reply(history, reply(use(1)))
    here = conversation.mark(history)
    conversation.add_result(history, "t1", "now change files", phase="implementation")
    conversation.add_reply(history, reply(use(2)))
    back, since = conversation.rewind(history, here, "t1")
    assert conversation.phase_of(back) == "implementation"
    assert since == history[3:]


def test_rewinding_to_before_the_first_word() -> None:
    assert conversation.rewind(begun(), conversation.mark([]), None) == ([], begun())
