"""Google's ``generateContent`` format, as Gemini CLI speaks it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from backends.model_server import USAGE, Step

Json = dict[str, Any]

STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
STATUSES |= {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}


class GenerateContent:
    """A ``Wire`` (``backends.model_server``) for ``GOOGLE_GEMINI_BASE_URL``."""

    def aside(self, path: str, body: Json | None) -> tuple[int, Json] | None:
        """All that is not a step of the task: a question that may call no tools, such as one for a summary."""
        if body is not None and path.endswith(":streamGenerateContent") and body.get("tools"):
            return None
        return (200, _reply([{"text": "aside"}], "STOP", USAGE)) if body is not None else (404, self.refusal(404, path))

    def turns(self, body: Json) -> int:
        return sum(content["role"] == "model" for content in body["contents"])

    def opening(self, body: Json) -> str:
        """What the user said: the first content tells of the surroundings, the task comes after it."""
        said = [content for content in body["contents"] if content["role"] == "user"]
        return json.dumps(said[:2], ensure_ascii=False)

    def problem(self, body: Json) -> str | None:
        """A model's calls have to be answered, each, by what follows."""
        contents = body["contents"]
        if not contents or contents[-1]["role"] != "user":
            return "contents: the last one has to be the user's"
        for before, after in pairwise(contents):
            if before["role"] != "model":
                continue
            asked = sum("functionCall" in part for part in before["parts"])
            given = sum("functionResponse" in part for part in after["parts"])
            if asked != given:
                return f"{asked} function calls are answered by {given} function responses"
        return None

    def refusal(self, status: int, message: str) -> Json:
        return {"error": {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}}

    def events(self, path: str, body: Json, number: int, chosen: Step) -> list[tuple[str, Json]]:
        """One event a block, then one with the reason of the end and the tokens; a cut takes the latter away."""
        usage = USAGE | chosen.usage
        parts = [("", _reply([_part(block)], None, None)) for block in chosen.blocks]
        padding = [("", _reply([{"text": ""}], None, None)) for _ in range(2)]
        return [*parts, *padding, ("", _reply([{"text": ""}], chosen.stop or "STOP", usage))]

    def error(self, message: str) -> tuple[str, Json]:
        return "", self.refusal(500, message)

    def closing(self) -> bytes:
        return b""


def _part(block: Json) -> Json:
    if block["type"] == "text":
        return {"text": block["text"]}
    return {"functionCall": {"name": block["name"], "args": block["input"]}}


def _reply(parts: list[Json], stop: str | None, usage: Json | None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    reply: Json = {"candidates": [candidate], "modelVersion": "scripted-gemini", "responseId": "scripted"}
    if stop is not None:
        candidate["finishReason"] = stop
    if usage is not None:
        cached = usage["cache_read_input_tokens"]
        prompt = usage["input_tokens"] + cached
        reply["usageMetadata"] = {
            "promptTokenCount": prompt,
            "cachedContentTokenCount": cached,
            "candidatesTokenCount": usage["output_tokens"],
            "totalTokenCount": prompt + usage["output_tokens"],
        }
    return reply
