"""OpenAI's Responses format for the tests' model server, as far as Codex speaks it.

Seen with Codex 0.171.0: a request has the whole conversation in ``input``, the model's own items among it.  Calls come
back with their ``call_id``, which is why that one carries the step's number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from backends.model_server import USAGE, Json, Step

CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


def shell(command: str, **more: object) -> Json:
    """A block that runs a shell command, by the tool that Codex offers for models it does not know."""
    return {"type": "tool_use", "name": "exec_command", "input": {"cmd": command, **more}}


def patch(*files: str) -> Json:
    """A block that changes files by ``apply_patch``, a command that Codex recognises and carries out itself.

    Each of ``files`` is one section of the patch, beginning with its ``*** Add File: ...`` line.
    """
    text = "\n".join(["*** Begin Patch", *files, "*** End Patch"])
    return shell(f"apply_patch <<'EOF'\n{text}\nEOF")


class Responses:
    """See ``backends.model_server.Wire``; the base URL ends in ``/v1``."""

    def aside(self, path: str, body: Json | None) -> tuple[int, Json] | None:
        if body is None:
            return (200, {"object": "list", "data": [], "models": []}) if path == "/v1/models" else (404, {})
        return None if path == "/v1/responses" else (404, self.refusal(404, path))

    def turns(self, body: Json) -> int:
        """Items of one step stand together, unless results of its calls come between.

        Of a reply that broke off the words stay in the conversation, at its end when it is asked for again.
        """
        number, said = 0, False
        for item in body["input"]:
            if item["type"] in CALLS:
                number = max(number, int(item["call_id"].split("_")[1]) + 1)
            elif said and not _is_said(item):
                number += 1
            said = _is_said(item)
        return number

    def opening(self, body: Json) -> str:
        users = (item for item in body["input"] if item["type"] == "message" and item["role"] == "user")
        return json.dumps(list(users), ensure_ascii=False)

    def problem(self, body: Json) -> str | None:
        asked = {item["call_id"] for item in body["input"] if item["type"] in CALLS}
        given = {item["call_id"] for item in body["input"] if item["type"] in CALLS.values()}
        if asked != given:
            return f"No tool output found for function call {sorted(asked ^ given)}"
        return None

    def refusal(self, status: int, message: str) -> Json:
        return {"error": {"type": "api_error", "code": None, "param": None, "message": message}}

    def events(self, path: str, body: Json, number: int, chosen: Step) -> list[tuple[str, Json]]:
        return [(event["type"], event) for event in _events(number, chosen)]

    def error(self, message: str) -> tuple[str, Json]:
        failed = {"id": "resp", "status": "failed", "error": {"code": message, "message": "Overloaded"}}
        return "response.failed", {"type": "response.failed", "response": failed}

    def closing(self) -> bytes:
        return b""


def _is_said(item: Json) -> bool:
    return bool(item["type"] == "message" and item["role"] == "assistant")


def _events(number: int, chosen: Step) -> Iterator[Json]:
    response = {"id": f"resp_{number}", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    items = [_item(f"{number}_{index}", block) for index, block in enumerate(chosen.blocks)]
    for index, item in enumerate(items):
        place = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        if item["type"] == "message":
            text = item["content"][0]["text"]
            yield {"type": "response.output_text.delta", "content_index": 0, "delta": text, **place}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    done = {"id": f"resp_{number}", "status": "completed", "output": items, "usage": _usage(USAGE | chosen.usage)}
    yield {"type": "response.completed", "response": done}


def _item(tag: str, block: Json) -> Json:
    if block["type"] == "text":
        content = [{"type": "output_text", "text": block["text"], "annotations": []}]
        return {"type": "message", "id": f"msg_{tag}", "role": "assistant", "status": "completed", "content": content}
    called = {"call_id": f"call_{tag}", "name": block["name"], "status": "completed"}
    return {"type": "function_call", "id": f"fc_{tag}", "arguments": json.dumps(block["input"]), **called}


def _usage(usage: Json) -> Json:
    """Here the input includes what came from the cache, and what went into it."""
    read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    given, out = usage["input_tokens"] + read + written, usage["output_tokens"]
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + out,
    }
