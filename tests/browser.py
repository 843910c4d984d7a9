"""A headless Chromium, spoken to over two pipes in its DevTools protocol: JSON messages that end in a NUL byte."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60.0  # seconds


def chromium() -> str | None:
    """The browser's program, ``None`` where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def _pipe() -> tuple[int, int]:
    """Both ends of a pipe, with numbers that are in nobody's way."""
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 100) for end in low)
    for end in low:
        os.close(end)
    return high[0], high[1]


class Page:
    """One tab; ``events`` holds what the browser told of its own accord, by method."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._out = _pipe()
        self._in, from_browser = _pipe()
        self._numbers = itertools.count(1)
        self._unread = b""
        self.events: list[dict[str, Any]] = []
        options = [
            "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-extensions", "--hide-scrollbars", f"--user-data-dir={profile}", "--window-size=1000,1400",
        ]  # fmt: skip
        # The protocol wants to be read from descriptor 3 and written to descriptor 4.
        script = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, *options, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.write(self._out, json.dumps({"id": next(self._numbers), "method": "Browser.close"}).encode() + b"\0")
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask the browser to do something and wait for what it says."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(self, address: str) -> None:
        """Go there, and wait until all is loaded."""
        # The page before may still tell that it is loaded.
        loader = self.call("Page.navigate", url=address)["loaderId"]
        self.wait_for("Page.lifecycleEvent", name="load", loaderId=loader)

    def wait_for(self, method: str, **facts: Any) -> None:
        """Until the browser has told this of its own accord."""
        while not any(facts.items() <= event.items() for event in self.told(method)):
            self.events.append(self._read())

    def evaluate(self, expression: str) -> Any:
        """What JavaScript makes of it, as JSON."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def emulate(self, *, scheme: str, width: int) -> None:
        """Let it prefer light or dark, and be as wide as a phone or a desk."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG file."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def told(self, *methods: str) -> list[dict[str, Any]]:
        """The events of these kinds so far."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser says nothing"
            data = os.read(self._in, 1 << 20)
            assert data, "the browser has ended"
            self._unread += data
        message, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found
