"""A model's API on loopback that plays a script: what a model says, and how its server fails.

The script is a list of ``Step``.  The server keeps no conversation: which step is played is told by the number of the
model's own messages in the request, so a resumed conversation goes on where the script left off.  Faults of a step are
played first, each once, and then the reply.  It speaks Anthropic's Messages format unless it is given another ``Wire``
(``tests/agents/wire_*.py``).
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, Self

Json = dict[str, Any]

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class Fault:
    """One way in which a request fails.

    ``status``: an error answer with this status, ``message`` and ``headers``.  Otherwise the reply is begun and breaks:
    ``how`` is ``reset``, ``end`` (closed in good order, no last event), ``stall`` (nothing more comes for ``seconds``),
    ``error`` (an error event of type ``message``), ``garbage`` (an event that is not JSON), ``flood`` (an event without
    end) or ``silence`` (no answer at all for ``seconds``).
    """

    status: int | None = None
    message: str = "scripted"
    how: str = ""
    seconds: float = 0.0
    headers: tuple[tuple[str, str], ...] = (("retry-after-ms", "10"),)


@dataclass(frozen=True)
class Step:
    """One reply: ``blocks`` of content (see ``say``, ``call``), preceded by ``faults``; ``delay`` seconds before it.

    It comes when ``after`` checkpoints are recorded: some agents do not wait for those, and real models are slower.
    """

    blocks: tuple[Json, ...]
    faults: tuple[Fault, ...] = ()
    stop: str | None = None
    delay: float = 0.0
    after: int = 0
    usage: Json = field(default_factory=dict)


def say(text: str) -> Json:
    return {"type": "text", "text": text}


def call(name: str, /, **given: Any) -> Json:
    return {"type": "tool_use", "name": name, "input": given}


def step(*blocks: Json, **more: Any) -> Step:
    return Step(tuple(blocks), **more)


class Wire(Protocol):
    """How requests and replies are written; paths are without their query.

    ``number`` is that of the step; a step's ``usage`` is in the terms of ``USAGE`` and lacks what is as there.
    """

    def aside(self, path: str, body: Json | None) -> tuple[int, Json] | None:
        """Status and answer of a request that is not for a step's reply; ``body`` is ``None`` for a GET."""

    def turns(self, body: Json) -> int:
        """How many steps the conversation of this request has had."""

    def opening(self, body: Json) -> str:
        """The text in which a script's key is looked for."""

    def problem(self, body: Json) -> str | None:
        """What the API would refuse a request for."""

    def refusal(self, status: int, message: str) -> Json:
        """The body of an error answer."""

    def events(self, path: str, body: Json, number: int, chosen: Step) -> list[tuple[str, Json]]:
        """A reply as the API streams it: each event's name (empty: it has none) and data."""

    def error(self, message: str) -> tuple[str, Json]:
        """An error in the middle of a reply."""

    def closing(self) -> bytes:
        """What ends a stream after its last event."""


USAGE = {
    "input_tokens": 1200,
    "output_tokens": 34,
    "cache_creation_input_tokens": 800,
    "cache_read_input_tokens": 4000,
}


class ModelServer:
    """As a context manager it serves; ``url`` is for ``ANTHROPIC_BASE_URL``, ``requests`` are the bodies it got."""

    def __init__(self, script: Sequence[Step] | Mapping[str, Sequence[Step]], wire: Wire | None = None) -> None:
        """One script, or several, each for the conversations whose first message has its key in it."""
        self.wire = wire or Messages()
        self.scripts = dict(script) if isinstance(script, Mapping) else {"": list(script)}
        self.requests: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.steps: list[int] = []
        self.saved: Callable[[], int] = lambda: 0
        """How many checkpoints are recorded, see ``Step.after``."""
        self.closing = threading.Event()
        self._played: dict[int, int] = {}
        self._lock = threading.Lock()
        self._server = _Http(self)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def forget(self) -> None:
        """Begin anew: no requests, all faults still to be played."""
        self.requests.clear()
        self.headers.clear()
        self.steps.clear()
        self._played.clear()

    def take(self, body: Json, headers: dict[str, str]) -> tuple[int, Step, Fault | None]:
        """The step for a request, and the fault that is due."""
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            number = self.wire.turns(body)
            self.steps.append(number)
            first = self.wire.opening(body)
            script = next(script for key, script in self.scripts.items() if key in first)
            chosen = script[min(number, len(script) - 1)]
            played = self._played.get(number, 0)
            self._played[number] = played + 1
        return number, chosen, chosen.faults[played] if played < len(chosen.faults) else None


class Messages:
    """Anthropic's format."""

    def aside(self, path: str, body: Json | None) -> tuple[int, Json] | None:
        return None if body is not None else (404, self.refusal(404, path))

    def turns(self, body: Json) -> int:
        return sum(message["role"] == "assistant" for message in body["messages"])

    def opening(self, body: Json) -> str:
        return json.dumps(body["messages"][0], ensure_ascii=False)

    def problem(self, body: Json) -> str | None:
        return check_request(body)

    def refusal(self, status: int, message: str) -> Json:
        return {"type": "error", "error": {"type": ERRORS.get(status, "api_error"), "message": message}}

    def events(self, path: str, body: Json, number: int, chosen: Step) -> list[tuple[str, Json]]:
        return [(event["type"], event) for event in _events(body, number, chosen)]

    def whole(self, body: Json, number: int, chosen: Step) -> Json:
        """A reply in one piece, for a request that wants no stream."""
        streamed = list(_events(body, number, chosen))
        message: Json = streamed[0]["message"]
        content = [
            block if block["type"] != "tool_use" else {"id": f"toolu_{number}_{index}", **block}
            for index, block in enumerate(chosen.blocks)
        ]
        end = streamed[-2]
        return message | {"content": content, "usage": message["usage"] | end["usage"]} | end["delta"]

    def error(self, message: str) -> tuple[str, Json]:
        return "error", {"type": "error", "error": {"type": message, "message": "Overloaded"}}

    def closing(self) -> bytes:
        return b""


def check_request(body: Json) -> str | None:
    """What the Messages API would refuse a request for."""
    messages = body["messages"]
    if not messages or messages[0]["role"] != "user":
        return "messages: first message must use the user role"
    for before, after in zip(messages, [*messages[1:], {"role": "user", "content": []}], strict=True):
        if before["role"] == after["role"] and after is not messages[-1] and after["content"]:
            return "messages: roles must alternate"
        if not before["content"]:
            return "messages: content must not be empty"
        if before["role"] == "assistant":
            asked = [block["id"] for block in _blocks(before) if block["type"] == "tool_use"]
            given = [block["tool_use_id"] for block in _blocks(after) if block["type"] == "tool_result"]
            if sorted(asked) != sorted(given):
                return f"tool_use ids were found without tool_result blocks immediately after: {asked} {given}"
    return None


def _blocks(message: Json) -> list[Json]:
    """A message's content, which may be given as a text alone."""
    content = message["content"]
    return [say(content)] if isinstance(content, str) else content


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 100  # the sixth connection that waits to be accepted would be put off for a second

    def __init__(self, model: ModelServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_GET(self) -> None:
        self._reply_aside(None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self._reply_aside(body):
            return None
        wire = self._model.wire
        number, chosen, fault = self._model.take(body, dict(self.headers))
        problem = wire.problem(body)
        if problem is not None:
            return self._refuse(400, problem)
        if chosen.after:
            wait_for(lambda: self._model.closing.is_set() or self._model.saved() >= chosen.after)
        if fault is None and chosen.delay:
            self._model.closing.wait(chosen.delay)
        if fault is not None and fault.status is not None:
            return self._refuse(fault.status, fault.message, fault.headers)
        if fault is not None and fault.how == "silence":
            self._model.closing.wait(fault.seconds)
            self.close_connection = True
            return None
        if fault is None and isinstance(wire, Messages) and not body.get("stream"):
            return self._answer(200, wire.whole(body, number, chosen))
        try:
            self._stream(wire.events(self._path, body, number, chosen), fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        return None

    @property
    def _path(self) -> str:
        return self.path.split("?")[0]

    def _reply_aside(self, body: Json | None) -> bool:
        found = self._model.wire.aside(self._path, body)
        if found is not None:
            self._answer(*found)
        return found is not None

    def _refuse(self, status: int, message: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        self._answer(status, self._model.wire.refusal(status, message), headers)

    def _answer(self, status: int, answer: Json, headers: Sequence[tuple[str, str]] = ()) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: list[tuple[str, Json]], fault: Fault | None) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        sent = events if fault is None else events[: max(3, len(events) - 3)]
        for name, event in sent:
            self._event(name, json.dumps(event))
        if fault is not None and self._break(fault):
            return
        if fault is None and (last := self._model.wire.closing()):
            self._chunk(last)
        self._chunk(b"")

    def _break(self, fault: Fault) -> bool:
        """Fail in the middle; whether the connection is gone."""
        if fault.how == "error":
            name, error = self._model.wire.error(fault.message)
            self._event(name, json.dumps(error))
        elif fault.how == "flood":
            while not self._model.closing.is_set():
                self.wfile.write(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
        elif fault.how == "garbage":
            self._event("content_block_delta", "{not json")
        elif fault.how == "stall":
            self._model.closing.wait(fault.seconds)
            self.close_connection = True
            return True
        elif fault.how == "reset":
            # Closing with this option set sends a reset instead of a farewell.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return True
        return False

    def _event(self, name: str, data: str) -> None:
        self._chunk(((f"event: {name}\n" if name else "") + f"data: {data}\n\n").encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    @property
    def _model(self) -> ModelServer:
        assert isinstance(self.server, _Http)
        return self.server.model


def _events(body: Json, number: int, chosen: Step) -> Iterator[Json]:
    """A reply as the API streams it."""
    usage = USAGE | chosen.usage
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage | {"output_tokens": 1},
    }
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    for index, block in enumerate(chosen.blocks):
        yield from _block(index, number, block)
    calls = any(block["type"] == "tool_use" for block in chosen.blocks)
    stop = chosen.stop or ("tool_use" if calls else "end_turn")
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {"output_tokens": usage["output_tokens"]},
    }
    yield {"type": "message_stop"}


def _block(index: int, number: int, block: Json) -> Iterator[Json]:
    if block["type"] == "text":
        begun, pieces, kind, key = {"type": "text", "text": ""}, block["text"], "text_delta", "text"
    elif block["type"] == "thinking":
        begun = {"type": "thinking", "thinking": "", "signature": ""}
        pieces, kind, key = block["thinking"], "thinking_delta", "thinking"
    else:
        begun = {
            "type": "tool_use",
            "id": block.get("id", f"toolu_{number}_{index}"),
            "name": block["name"],
            "input": {},
        }
        given = block["input"]
        pieces = given["_raw"] if "_raw" in given else json.dumps(given)
        kind, key = "input_json_delta", "partial_json"
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    half = len(pieces) // 2
    for piece in (pieces[:half], pieces[half:]):
        yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: piece}}
    if block["type"] == "thinking":
        delta = {"type": "signature_delta", "signature": "signed"}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    """Until ``condition()`` holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
