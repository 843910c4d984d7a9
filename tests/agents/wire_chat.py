"""OpenAI's Chat Completions format, as opencode speaks it to a provider of its ``@ai-sdk/openai-compatible``."""

from __future__ import annotations

import json
from typing import Any

from backends.model_server import USAGE, Step

Json = dict[str, Any]


class ChatCompletions:
    """A ``Wire`` (``backends.model_server``) for a ``baseURL`` that ends in ``/v1``."""

    def aside(self, path: str, body: Json | None) -> tuple[int, Json] | None:
        """All that is not a step of the task; a question without tools asks for a title, and is refused."""
        if body is not None and path.endswith("/chat/completions") and body.get("tools"):
            return None
        return 404, self.refusal(404, path)

    def turns(self, body: Json) -> int:
        return sum(message["role"] == "assistant" for message in body["messages"])

    def opening(self, body: Json) -> str:
        first = next(message for message in body["messages"] if message["role"] == "user")
        return json.dumps(first, ensure_ascii=False)

    def problem(self, body: Json) -> str | None:
        """A model's calls have to be answered, each, before anything else is said."""
        open_calls: set[str] = set()
        for message in body["messages"]:
            if message["role"] == "tool":
                open_calls.discard(message["tool_call_id"])
            elif open_calls:
                return f"tool calls are not answered: {sorted(open_calls)}"
            for asked in message.get("tool_calls") or ():
                open_calls.add(asked["id"])
        return f"tool calls are not answered: {sorted(open_calls)}" if open_calls else None

    def refusal(self, status: int, message: str) -> Json:
        return {"error": {"message": message, "type": "scripted", "code": status}}

    def events(self, path: str, body: Json, number: int, chosen: Step) -> list[tuple[str, Json]]:
        """A delta a block, then the reason of the end, then the tokens; a cut takes the last three away."""
        calls = any(block["type"] == "tool_use" for block in chosen.blocks)
        deltas = [_delta(number, index, block) for index, block in enumerate(chosen.blocks)]
        stop = chosen.stop or ("tool_calls" if calls else "stop")
        chunks: list[Json] = [_choice({"role": "assistant", "content": ""}), *map(_choice, deltas)]
        chunks += [_choice({}), _choice({}, stop), {"choices": [], "usage": _usage(USAGE | chosen.usage)}]
        head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
        return [("", head | chunk) for chunk in chunks]

    def error(self, message: str) -> tuple[str, Json]:
        return "", self.refusal(500, message)

    def closing(self) -> bytes:
        return b"data: [DONE]\n\n"


def _delta(number: int, index: int, block: Json) -> Json:
    if block["type"] == "text":
        return {"content": block["text"]}
    function = {"name": block["name"], "arguments": json.dumps(block["input"])}
    call = {"index": index, "id": f"call_{number}_{index}", "type": "function", "function": function}
    return {"tool_calls": [call]}


def _choice(delta: Json, stop: str | None = None) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}


def _usage(usage: Json) -> Json:
    cached = usage["cache_read_input_tokens"]
    prompt = usage["input_tokens"] + cached
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage["output_tokens"],
        "total_tokens": prompt + usage["output_tokens"],
        "prompt_tokens_details": {"cached_tokens": cached},
    }
