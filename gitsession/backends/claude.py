"""The ``claude`` backend: a model on the Anthropic API, or any server that speaks its Messages API.

    ANTHROPIC_API_KEY     the key (or ANTHROPIC_AUTH_TOKEN)
    ANTHROPIC_BASE_URL    another server
    ANTHROPIC_MODEL       the model when none is asked for

Requests that the SDK retries, it retries; what it does not (a stream that breaks, that brings an error event, or that
ends without its last event) is asked for again here.  Both are told.  The SDK takes over a second to import, so that is
begun as soon as a job is known to be possible, beside the first capture of the files.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from gitsession.backends.agent import Agent, OutputLimited, TooLong, Trouble
from gitsession.backends.base import Answer, Capabilities, Event, Failed, Job, Notice, Tick, Usage
from gitsession.backends.shell import StopRequest
from gitsession.conversation import Message
from gitsession.errors import BackendMissing, BadValue, GitSessionError, UsageError
from gitsession.secrets import KEYS, without_secrets

if TYPE_CHECKING:
    import anthropic

DEFAULT_MODEL: Final = "claude-opus-5-5"
_REPLY_LIMIT: Final = 8 * 1024 * 1024  # characters; no model's reply is that long
_BYTES_LIMIT: Final = 24 * 1024 * 1024  # of a response: an event of a few characters is two hundred bytes
_TICK: Final = 0.05
_FIRST_PAUSE: Final = 0.5  # seconds before a broken reply is asked for again; doubled each time
_LONGEST_PAUSE: Final = 8.0
_WORDS: Final = 300
_RETRIED: Final = (408, 409, 429)
_TOO_LONG: Final = re.compile(r"prompt is too long|context (window|length)|too many (input )?tokens", re.IGNORECASE)
_TOO_MANY: Final = re.compile(r"max_tokens: \d+ > (\d+)")
# Error events that are not the request's fault.
_PASSING: Final = ("overloaded_error", "api_error", "rate_limit_error", "timeout_error")


class ClaudeBackend:
    """Holds a conversation with a model; ``timeout`` is how many seconds may pass without a sign of the server's."""

    name = "claude"

    def __init__(self, *, stop_grace: float = 5.0, timeout: float = 30.0, max_retries: int = 3) -> None:
        self._stop = StopRequest(grace=stop_grace)
        self._timeout = timeout
        self._max_retries = max_retries
        self._importing: threading.Thread | None = None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            takes_command=False,
            takes_model=True,
            limits_turns=True,
            limits_cost=True,
            takes_leave=True,
            default_model=os.environ.get("ANTHROPIC_MODEL") or DEFAULT_MODEL,
        )

    @property
    def pid(self) -> int | None:
        """Always ``None``: the work is done in this process."""
        return None

    def validate(self, job: Job) -> None:
        if job.command:
            raise UsageError("the claude backend runs no program", hint="leave out what follows the --")
        if importlib.util.find_spec("anthropic") is None:
            raise BackendMissing("the anthropic package is not installed", hint="pip install 'anthropic>=2.14,<3'")
        _check_key()
        _check_address()
        self._import()

    def run(self, job: Job) -> Generator[Event, Answer, None]:
        if self._stop.asked:
            yield Failed("interrupted before it began", "interrupted")
            return
        importing = self._import()
        while importing.is_alive():
            importing.join(_TICK)
            yield Tick()
        api = _Api(self._timeout, self._max_retries)
        try:
            model = job.model or self.capabilities.default_model or DEFAULT_MODEL
            yield from Agent(job, model, api, self._stop).events()
        finally:
            api.cancel()

    def stop(self) -> None:
        self._stop.asked = True

    def kill(self) -> None:
        self._stop.asked = self._stop.at_once = True

    def _import(self) -> threading.Thread:
        if self._importing is None:
            self._importing = threading.Thread(target=_import_sdk, name="import-anthropic", daemon=True)
            self._importing.start()
        return self._importing


class _Broken(Exception):
    """A reply that began and is not complete; asking again may help."""


class _Api:
    """The SDK, asked for one complete reply at a time."""

    def __init__(self, timeout: float, max_retries: int) -> None:
        import anthropic

        self._timeout = timeout
        self._max_retries = max_retries
        self._cancelled = threading.Event()
        self._tell: Callable[[Notice | Usage], None] = lambda _: None
        self._client = anthropic.Anthropic(
            **_credentials(),
            timeout=timeout,
            max_retries=max_retries,
            middleware=[self._attempt],
            open_telemetry=False,
        )

    def cancel(self) -> None:
        """Give up what is under way."""
        self._cancelled.set()
        with suppress(Exception):
            self._client.close()

    def reply(self, request: Mapping[str, Any], tell: Callable[[Notice | Usage], None]) -> tuple[Message, Usage]:
        """See ``gitsession.backends.agent.Model``."""
        self._tell = tell
        for retry in range(1, self._max_retries + 2):
            gathered = _Gathered(str(request["model"]))
            try:
                self._stream(request, gathered)
                return gathered.message(), gathered.usage
            except _Broken as broken:
                if gathered.began:
                    tell(gathered.usage)
                if retry > self._max_retries:
                    raise Trouble(f"CONNECTION ERROR: {broken}", "network") from None
                tell(Notice(f"{broken}; asking again ({retry} of {self._max_retries})"))
                if self._cancelled.wait(min(_FIRST_PAUSE * 2 ** (retry - 1), _LONGEST_PAUSE)):
                    break
        raise Trouble("interrupted", "interrupted")

    def _stream(self, request: Mapping[str, Any], gathered: _Gathered) -> None:
        """Gather one reply; ``_Broken`` if it is not complete, other errors when asking again is of no use."""
        import anthropic
        import httpx2

        try:
            with self._client.messages.create(**request, stream=True) as stream:
                for event in stream:
                    gathered.add(event)
        except anthropic.APIStatusError as error:
            if error.status_code != 200:
                raise _refusal(error, str(request["model"]), self._max_retries) from None
            kind = getattr(error, "type", None)
            if kind is not None and kind not in _PASSING:
                raise Trouble(f"the API broke off with an error: {_words(error)}", "refused") from None
            raise _Broken(f"the API broke off its reply: {_words(error)}") from None
        except anthropic.APIConnectionError as error:
            raise Trouble(f"CONNECTION ERROR: {self._why_no_connection(error)}", "network") from None
        except httpx2.TimeoutException:
            raise _Broken(f"network timeout after {self._timeout:g}s") from None
        except httpx2.HTTPError as error:
            raise _Broken(f"the connection was lost in the middle of a reply ({_one_line(str(error))})") from None
        except json.JSONDecodeError:
            raise _Broken("the server sent an event that is not JSON") from None
        if not gathered.complete:
            raise _Broken("the reply ended without its last event")

    def _attempt(self, request: Any, call_next: Callable[[Any], Any]) -> Any:
        """Tell what the SDK is about to retry: it calls this for each attempt."""
        import anthropic

        try:
            response = call_next(request)
        except anthropic.APIConnectionError as error:
            self._tell_retry(request, self._why_no_connection(error))
            raise
        # The SDK holds an event in memory until its end, however long it is.
        response.http_response.stream = _bounded(response.http_response.stream)
        status, should = response.status_code, response.headers.get("x-should-retry")
        if status >= 400 and should != "false" and (should == "true" or status in _RETRIED or status >= 500):
            self._tell_retry(request, f"the API answered with status {status}")
        return response

    def _tell_retry(self, request: Any, why: str) -> None:
        retry = request.retries_taken + 1
        if retry <= self._max_retries and not self._cancelled.is_set():
            self._tell(Notice(f"{why}; trying again ({retry} of {self._max_retries})"))

    def _why_no_connection(self, error: anthropic.APIConnectionError) -> str:
        import anthropic

        if isinstance(error, anthropic.APITimeoutError):
            return f"network timeout after {self._timeout:g}s"
        where = urlsplit(str(self._client.base_url)).netloc
        cause = error.__cause__ or error
        return f"no connection to {where} ({_one_line(str(cause)) or type(cause).__name__})"


def _bounded(stream: Any) -> Any:
    """A response's bytes, no more of them than any reply has."""
    import httpx2

    class Bounded(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            left = _BYTES_LIMIT
            for chunk in stream:
                left -= len(chunk)
                if left < 0:
                    raise _too_long()
                yield chunk

        def close(self) -> None:
            stream.close()

    return Bounded()


def _too_long() -> Trouble:
    return Trouble(f"the server's reply is longer than {_REPLY_LIMIT // 1024**2} MB: it was not taken", "exit")


class _Gathered:
    """A reply as it comes in, piece by piece.

    The SDK's own gathering parses a tool's input anew with each piece of it, and takes a reply without an end for
    a whole one.
    """

    def __init__(self, asked: str) -> None:
        self.complete = False
        self.began = False
        self._asked = asked
        self._about: dict[str, Any] = {}
        self._blocks: list[dict[str, Any]] = []
        self._pieces: list[dict[str, list[str]]] = []
        self._tokens: dict[str, int] = {}
        self._size = 0

    def add(self, event: Any) -> None:
        """Take in one event of the stream; unknown ones do nothing."""
        kind = getattr(event, "type", None)
        try:
            if kind == "message_start":
                self.began = True
                self._about = {"id": event.message.id, "model": event.message.model}
                self._count(getattr(event.message, "usage", None))
            elif kind == "content_block_start":
                self._blocks.append(_plain(event.content_block))
                self._pieces.append({})
            elif kind == "content_block_delta":
                self._add_piece(self._pieces[event.index], _plain(event.delta))
            elif kind == "message_delta":
                self._about["stop_reason"] = event.delta.stop_reason
                self._count(getattr(event, "usage", None))
            elif kind == "message_stop":
                self.complete = self._about.get("stop_reason") is not None
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise _Broken(f"the server sent a {kind} event that does not fit") from error

    def message(self) -> Message:
        """The whole reply (see ``gitsession.conversation``)."""
        bad: dict[str, str] = {}
        content = []
        for block, pieces in zip(self._blocks, self._pieces, strict=True):
            joined = {name: "".join(texts) for name, texts in pieces.items()}
            partial = joined.pop("partial_json", "")
            whole = {**block, **{name: block.get(name, "") + text for name, text in joined.items()}}
            if block.get("type") == "tool_use":
                whole["input"], problem = _input(block.get("input"), partial)
                if problem:
                    bad[block["id"]] = problem
            content.append(whole)
        return {**self._about, "asked": self._asked, "content": content, **({"bad": bad} if bad else {})}

    @property
    def usage(self) -> Usage:
        """The tokens that the server has counted so far."""
        return Usage(
            input=self._tokens.get("input_tokens", 0),
            output=self._tokens.get("output_tokens", 0),
            cache_write=self._tokens.get("cache_creation_input_tokens", 0),
            cache_read=self._tokens.get("cache_read_input_tokens", 0),
            model=self._asked,
        )

    def _add_piece(self, pieces: dict[str, list[str]], delta: Mapping[str, Any]) -> None:
        for name, text in delta.items():
            if name != "type" and isinstance(text, str):
                self._size += len(text)
                pieces.setdefault(name, []).append(text)
        if self._size > _REPLY_LIMIT:
            raise _too_long()

    def _count(self, usage: Any) -> None:
        """Counts are sums so far; later ones replace earlier ones."""
        for name, value in (_plain(usage) if usage is not None else {}).items():
            if type(value) is int:
                self._tokens[name] = value


def _plain(value: Any) -> dict[str, Any]:
    """What the SDK made of a JSON object, as one again."""
    plain: dict[str, Any] = value.to_dict(mode="json") if hasattr(value, "to_dict") else dict(value)
    return plain


def _input(started: Any, partial: str) -> tuple[dict[str, Any], str | None]:
    """A tool call's input, and what is wrong with it; it has to be an object to be sent back."""
    try:
        given = json.loads(partial) if partial else started
    except ValueError as error:
        return {}, f"the input of this call was not valid JSON ({error}): nothing was done; give it again"
    if not isinstance(given, dict):
        return {}, "the input of this call was not a JSON object: nothing was done; give it again"
    return given, None


def _refusal(error: anthropic.APIStatusError, model: str, retries: int) -> Exception:
    """What an answer with an error status means for the run."""
    status, words = error.status_code, _words(error)
    if (limit := _TOO_MANY.search(words)) is not None:
        return OutputLimited(int(limit[1]))
    if status == 413 or (status == 400 and _TOO_LONG.search(words)):
        return TooLong(words)
    if status in (401, 403):
        variable = next(iter(_credentials_from(os.environ)), "ANTHROPIC_API_KEY")
        return Trouble(f"the API refused the key in {variable} ({status}): {words}", "refused")
    if status == 404:
        return Trouble(f"the API refused the model {model!r} ({status}): {words}", "refused")
    if status in _RETRIED or status >= 500:
        tries = f", {retries} retries were in vain" if retries else ""
        return Trouble(f"the API answered with status {status}{tries}: {words}", "network")
    return Trouble(f"the API refused the request ({status}): {words}", "refused")


def _words(error: anthropic.APIStatusError) -> str:
    """The API's own words, on one line."""
    body = error.body
    inner = body.get("error") if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    return _one_line(str(message or error.message or "no message"))


def _one_line(text: str) -> str:
    line = without_secrets(" ".join(text.split()))
    return line if len(line) <= _WORDS else line[:_WORDS] + "…"


def _credentials_from(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable that holds the key, and the key."""
    for name in KEYS:
        if value := environ.get(name, "").strip():
            return {name: value}
    return {}


def _credentials() -> dict[str, Any]:
    found = _credentials_from(os.environ)
    return {"api_key" if name == "ANTHROPIC_API_KEY" else "auth_token": value for name, value in found.items()}


def _check_key() -> None:
    found = _credentials_from(os.environ)
    if not found:
        raise GitSessionError(
            "the claude backend needs a key in ANTHROPIC_API_KEY",
            hint="export ANTHROPIC_API_KEY=…; --backend command needs none",
        )
    for name, value in found.items():
        if not (value.isascii() and value.isprintable() and " " not in value):
            raise GitSessionError(f"what {name} holds cannot be a key", hint="copy the key once more, nothing else")


def _check_address() -> None:
    address = os.environ.get("ANTHROPIC_BASE_URL")
    if address and (urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).netloc):
        raise BadValue(
            f"ANTHROPIC_BASE_URL is {address!r}, which is no address of a server",
            hint="write it like https://host or http://127.0.0.1:8080",
        )


def _import_sdk() -> None:
    import anthropic  # noqa: F401
