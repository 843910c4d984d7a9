"""``session log``: the journal in words, and as it grows."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

from support import run_cli, start_cli

from gitsession import SessionStore
from gitsession.cli.render import log as render

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
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        process.communicate()


def test_no_entry_is_shown_as_a_dictionary(make_session: MakeSession) -> None:
    make_session("work", status="paused", pending_edit={"call": "c"})
    log("edit_intent", edit={"call": "c", "changes": [{"path": f"f{number}"} for number in range(7)]})
    log("edit_dropped", call="c", reason="cannot be written")
    log("restore_planned", plan={"target": None, "paths": [], "force": False, "token": "t", "known": 1, "safety": 1})
    log("restore_done", checkpoint=2, left=[{"path": "a.txt", "reason": "it changed"}])
    log("settings", values={"command": ["sh", "-c", "x"], "model": "m"})
    log("pause_requested", pid=7)
    log("future", deep={"a": ["\x1b[2J" * 300]})
    log("restore_done", checkpoint={"of": "another shape"})
    lines = run_cli("pinable-agents", "session", "log", "work").stdout.splitlines()
    told = [line[38:] for line in lines[1:]]
    assert told[:6] == [
        "f0, f1, f2, f3, f4 and 2 more",
        "not made: cannot be written",
        "to the base; checkpoint 1 has what was before",
        "as checkpoint 2; left as they are: a.txt (it changed)",
        'command ["sh", "-c", "x"], model m',
        "by process 7",
    ]
    assert told[6].startswith('deep {"a": ["')
    assert len(told[6]) < 100
    assert "\x1b" not in told[6]
    assert told[7] == 'checkpoint {"of": "another shape"}'


def test_conversations_and_repairs_in_words() -> None:
    entries: list[tuple[dict[str, object], str]] = [
        ({"event": "prompt", "text": "do\nit", "phase": "plan"}, "[plan] do it"),
        ({"event": "tool_started", "call": "c", "text": "make"}, "make"),
        ({"event": "tool_result", "call": "c", "text": "no", "error": True}, "failed: no"),
        ({"event": "edit_done", "call": "c", "text": "wrote a"}, "wrote a"),
        ({"event": "compacted", "calls": ["a", "b"]}, "2 results shortened"),
        ({"event": "findings", "findings": [{}], "dropped": 2}, "1 finding, 2 more dropped"),
        ({"event": "rewound", "to": 3}, "the conversation is back at checkpoint 3"),
        (
            {"event": "repaired", "found": ["bad"], "source": "the journal", "session": {"x": 1}},
            "written anew from the journal; wrong was: bad",
        ),
    ]
    for entry, words in entries:
        assert render._words(entry) == words
