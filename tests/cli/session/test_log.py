"""``session log``: the journal in words, and as it grows."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

from support import run_cli, start_cli

from gitsession import SessionStore

MakeSession = Callable[..., dict[str, object]]


def log(event: str, **fields: object) -> None:
    with SessionStore().edit("work") as draft:
        draft.log(event, **fields)


def test_every_entry_in_words(make_session: MakeSession) -> None:
    make_session("work", status="created", checkpoints=[], cost={"total_tokens": 0, "estimated_cost_usd": None})
    log("status", to="running", run={"branch": "main"})
    log("phase", phase="analysis")
    log("usage", input=12500, output=3200, cost_usd=None)
    log("checkpoint", record={"index": 0, "description": "found \x1b[2J it", "trigger": "agent"})
    log("phase", phase="analysis", done=True)
    log("future_thing", colour="\u202eblue", size=3)
    log("status", to="paused", reason="network timeout")
    lines = run_cli("pinable-agents", "session", "log", "work").stdout.splitlines()
    assert [line[21:] for line in lines[1:]] == [
        "status           running",
        "phase            analysis",
        "usage            12,500 tokens in, 3,200 tokens out",
        'checkpoint       [0] "found ^[[2J it" (agent)',
        "phase            analysis done",
        "future_thing     colour <U+202E>blue, size 3",
        "status           paused: network timeout",
    ]
    objects = [
        json.loads(line) for line in run_cli("pinable-agents", "session", "log", "work", "--json").stdout.splitlines()
    ]
    assert [one["seq"] for one in objects] == list(range(1, 9))
    assert objects[-1]["reason"] == "network timeout"


def test_following_shows_what_happens_next(make_session: MakeSession) -> None:
    make_session("work", status="created")
    process = start_cli("pinable-agents", "session", "log", "work", "--follow")
    try:
        assert process.stdout is not None
        assert "created" in process.stdout.readline()
        log("phase", phase="review")
        assert process.stdout.readline().endswith("phase            review\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
    finally:
        process.kill()
        process.communicate()
