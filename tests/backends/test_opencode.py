"""The ``opencode`` backend on what opencode really said once, and on lines made up for what was not recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents.player import STREAMS, Player, path_with
from backends.agents import command_job
from backends.scenes_opencode import SESSION, VERSION, begin, error, finish, line, part, text, tool

from gitsession.backends.base import (
    Bound,
    CheckpointHint,
    Done,
    Event,
    Failed,
    Native,
    Notice,
    Output,
    Tick,
    Usage,
)
from gitsession.backends.opencode import Dialect
from gitsession.backends.wrapped import WrappedBackend
from gitsession.errors import UsageError

ALWAYS = ["run", "--format", "json"]
REJECTED = "The user rejected permission to use this specific tool call."
ASKED = "\x1b[93m\x1b[1m! \x1b[0mpermission requested: %s; auto-rejecting\n"


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Player:
    monkeypatch.setenv("PATH", path_with(tmp_path))
    for name in ("OPENCODE_PERMISSION", "OPENCODE_CONFIG_CONTENT"):
        monkeypatch.delenv(name, raising=False)
    return Player(tmp_path, "opencode", VERSION)


def run(player: Player, **facts: Any) -> list[Event]:
    """The events of a run of the backend but ``Tick``."""
    backend = WrappedBackend(Dialect(), stop_grace=0.3, terminate_grace=0.3, pipe_grace=0.3)
    job = command_job(player.program.parent, **{"task": "Do it", **facts})
    backend.validate(job)
    return [event for event in backend.run(job) if not isinstance(event, Tick)]


def replay(player: Player, name: str, status: int = 0, **facts: Any) -> list[Event]:
    player.act(STREAMS / f"opencode_{VERSION}_{name}.jsonl", status=status)
    return run(player, **facts)


def printed(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Output) and event.stream == "stdout")


def test_a_run_that_ended_well(player: Player) -> None:
    step = Usage(1200, 34, cost_usd=0.00885, cache_read=4000, model="fake-model")
    assert replay(player, "ok", model="fake/fake-model") == [
        Bound(Native(SESSION, player.program.parent, VERSION, "fake/fake-model")),
        Output("[write] /home/dev/project/a.txt\n"),
        CheckpointHint("write: /home/dev/project/a.txt", always=False, call="prt_2274409f600110dQP3L6hNXO4B"),
        step,
        Output("Done.\n"),
        step,
        Done(said="Done."),
    ]


def test_a_refused_request(player: Player) -> None:
    assert replay(player, "http401", status=1) == [
        Bound(Native("ses_dd8b383b1ffet05f63alWH72Ck", player.program.parent, VERSION)),
        Failed("the API refused the request: scripted 401", "refused"),
    ]


def test_a_tool_that_was_rejected_ends_nothing_well(player: Player) -> None:
    """Its exit status is 0; and as no price is known, neither is the cost."""
    events = replay(player, "permission_rejected")
    assert events[1:] == [
        Output("[write] /home/dev/project/a.txt\n"),
        Usage(1200, 34, cache_read=4000),
        Failed("opencode was not allowed what it wanted (write /home/dev/project/a.txt)", "denied"),
    ]


def test_every_tool_that_may_have_changed_files_is_hinted_at(player: Player, tmp_path: Path) -> None:
    inside = str(tmp_path / "src" / "a.py")
    player.act(
        [
            begin(),
            tool("read", filePath=inside),
            tool("edit", "prt_1", error="oldString not found", filePath=inside, oldString="secret", newString="words"),
            tool("bash", "prt_2", command="make\nmake install", description="Build it"),
            tool("db_query", "prt_3"),
            finish("tool-calls"),
            begin(),
            text("All\ndone\n"),
            finish(),
        ]
    )
    events = run(player)
    assert printed(events) == "[read] src/a.py\n[edit] src/a.py\n[bash] Build it\n[db_query]\nAll\ndone\n"
    assert [event for event in events if isinstance(event, CheckpointHint)] == [
        CheckpointHint("edit: src/a.py", always=False, call="prt_1"),
        CheckpointHint("bash: Build it", always=False, call="prt_2"),
        CheckpointHint("db_query", always=False, call="prt_3"),
    ]
    assert not [event for event in events if isinstance(event, Usage)]
    assert events[-1] == Done(said="All\ndone")


def test_thoughts_are_paid_for_as_output(player: Player) -> None:
    player.act([begin(), text("x"), finish(given=10, output=5, reasoning=7, cached=3)])
    assert Usage(10, 12, cache_read=3) in run(player)


ENDS: dict[str, tuple[list[str], int, Failed]] = {
    "nothing at all": ([], 0, Failed("opencode ended in the middle of its work", "exit")),
    "a step that was not finished": (
        [begin(), text("so"), finish(), begin()],
        0,
        Failed("opencode ended in the middle of its work", "exit", "so"),
    ),
    "a step after which another comes": (
        [begin(), tool("read"), finish("tool-calls")],
        0,
        Failed("opencode ended in the middle of its work", "exit"),
    ),
    "a reply that broke off": (
        [begin(), text("x"), finish("unknown")],
        0,
        Failed("opencode ended in the middle of its work", "exit", "x"),
    ),
    "too long a reply": (
        [begin(), text("x"), finish("length")],
        0,
        Failed("the model's reply was cut at its greatest length", "limit", "x"),
    ),
    "a filter": (
        [begin(), finish("content-filter"), error("ContentFilterError", "The response was blocked")],
        1,
        Failed("The response was blocked", "refused"),
    ),
    "a filter, and exit status 0": (
        [begin(), finish("content-filter")],
        0,
        Failed("the model's reply was held back by the provider's filter", "refused"),
    ),
    "too many requests": (
        [error("APIError", "slow down", 429)],
        1,
        Failed("the API's limit is reached: slow down", "limit"),
    ),
    "a server that fails": (
        [error("APIError", "overloaded", 529)],
        1,
        Failed("CONNECTION ERROR: overloaded", "network"),
    ),
    "no network": (
        [error("UnknownError", "Unable to connect. Is the computer able to access the url?")],
        1,
        Failed("CONNECTION ERROR: Unable to connect. Is the computer able to access the url?", "network"),
    ),
    "no key": ([error("ProviderAuthError", "no key")], 1, Failed("no key", "refused")),
    "too long a conversation": ([error("ContextOverflowError", "too long")], 1, Failed("too long", "limit")),
    "something else": (
        [error("UnknownError", "Unexpected server error. Check server logs for details.")],
        1,
        Failed("Unexpected server error. Check server logs for details.", "exit"),
    ),
    "success, and another exit status": (
        [begin(), text("ok"), finish()],
        1,
        Failed("opencode exited with status 1", "exit", "ok"),
    ),
    "a command that was rejected": (
        [begin(), tool("bash", error=REJECTED, command="make"), finish("tool-calls"), begin(), text("No."), finish()],
        0,
        Failed("opencode was not allowed what it wanted (bash make); --allow-commands allows it", "denied", "No."),
    ),
    "a tool that was taken away": (
        [
            begin(),
            tool("invalid", tool="bash", error="Model tried to call unavailable tool 'bash'."),
            text("No."),
            finish(),
        ],
        0,
        Failed("opencode was not allowed what it wanted (bash); --allow-commands allows it", "denied", "No."),
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_that_is_none(player: Player, name: str) -> None:
    lines, status, failed = ENDS[name]
    player.act(lines, status=status)
    assert run(player)[-1] == failed


def test_a_model_that_it_does_not_know_is_asked_about(player: Player) -> None:
    player.act([error("UnknownError", "Unexpected server error. Check server logs for details.")], status=1)
    reason = "Unexpected server error. Check server logs for details. Is fake/none one of 'opencode models'?"
    assert run(player, model="fake/none")[-1] == Failed(reason, "exit")


def test_what_was_rejected_of_a_subagent_is_told_on_standard_error_only(player: Player) -> None:
    player.act([begin(), tool("task"), text("Done."), finish()], stderr=ASKED % "bash (echo x > s.txt)")
    assert run(player)[-1] == Failed(
        "opencode was not allowed what it wanted (bash (echo x > s.txt)); --allow-commands allows it", "denied", "Done."
    )


def test_a_tool_that_the_model_made_up_is_no_refusal(player: Player) -> None:
    player.act([begin(), tool("invalid", tool="frobnicate", error="unavailable tool"), text("Well."), finish()])
    events = run(player)
    assert printed(events) == "[frobnicate] not available\nWell.\n"
    assert events[-1] == Done(said="Well.")


def test_how_it_is_called(player: Player, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It works where ``PWD`` says, whatever its working directory is."""
    monkeypatch.setenv("PWD", "/")
    player.act([begin(), text("x"), finish()])
    run(player)
    run(player, allow_commands=True, model="fake/fake-model", arguments=("--variant", "high"))
    run(player, arguments=("--auto",))
    without, leave, own = player.calls
    assert without["argv"] == ALWAYS
    assert leave["argv"] == [*ALWAYS, "--auto", "--model", "fake/fake-model", "--variant", "high"]
    assert own["argv"] == [*ALWAYS, "--auto"]
    assert [(call["cwd"], call["env"]["PWD"], call["given"]) for call in player.calls] == [
        (str(tmp_path), str(tmp_path), "Do it")
    ] * 3
    assert json.loads(without["env"]["OPENCODE_PERMISSION"]) == {"bash": "ask"}
    assert json.loads(without["env"]["OPENCODE_CONFIG_CONTENT"]) == {"experimental": {"continue_loop_on_deny": True}}
    for call in (leave, own):
        assert not {"OPENCODE_PERMISSION", "OPENCODE_CONFIG_CONTENT"} & set(call["env"])


def test_what_the_user_says_in_these_variables_still_holds(player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCODE_PERMISSION", '{"webfetch": "deny", "bash": "allow"}')
    monkeypatch.setenv(
        "OPENCODE_CONFIG_CONTENT", '{"model": "a/b", "experimental": {"continue_loop_on_deny": false, "x": 1}}'
    )
    player.act([begin(), text("x"), finish()])
    run(player)
    monkeypatch.setenv("OPENCODE_CONFIG_CONTENT", "// not JSON")
    run(player)
    given, unreadable = (call["env"] for call in player.calls)
    assert json.loads(given["OPENCODE_PERMISSION"]) == {"webfetch": "deny", "bash": "ask"}
    assert json.loads(given["OPENCODE_CONFIG_CONTENT"]) == {
        "model": "a/b",
        "experimental": {"continue_loop_on_deny": False, "x": 1},
    }
    assert unreadable["OPENCODE_CONFIG_CONTENT"] == "// not JSON"


def test_a_session_goes_on_where_it_ran(player: Player, tmp_path: Path) -> None:
    before = tmp_path / "elsewhere"
    before.mkdir()
    player.act([begin(), text("On."), finish()])
    events = run(player, native=Native(SESSION, before))
    (call,) = player.calls
    assert (call["cwd"], call["env"]["PWD"]) == (str(before), str(before))
    assert call["argv"] == [*ALWAYS, f"--session={SESSION}"]
    assert "Go on with the task:\n\nDo it" in call["given"]
    assert events[0] == Bound(Native(SESSION, before, VERSION))
    assert events[-1] == Done(said="On.")


def test_a_session_whose_directory_is_gone_begins_anew(player: Player, tmp_path: Path) -> None:
    """From elsewhere opencode would work on it, and then not end."""
    other = "ses_dd8b2a7ddffe4zNonJArLqWxG8"
    player.act([begin(other), part("text", "text", other, text="Again."), finish()])
    events = run(player, native=Native(SESSION, tmp_path / "gone"), briefing="half of it")
    (call,) = player.calls
    assert call["argv"] == ALWAYS
    assert call["cwd"] == str(tmp_path)
    assert "half of it" in call["given"]
    assert isinstance(events[0], Notice)
    assert "begins anew" in events[0].text
    assert events[1] == Bound(Native(other, tmp_path, VERSION), briefed=True)
    assert events[-1] == Done(said="Again.")


def test_a_session_that_is_gone_begins_anew(player: Player, tmp_path: Path) -> None:
    player.act([], status=1, stderr="\x1b[91m\x1b[1mError: \x1b[0mSession not found\n").act(
        [begin("ses_other"), text("Again."), finish()]
    )
    events = run(player, native=Native(SESSION, tmp_path), briefing="half of it")
    assert [(call["argv"], "half of it" in call["given"]) for call in player.calls] == [
        ([*ALWAYS, f"--session={SESSION}"], False),
        (ALWAYS, True),
    ]
    assert events[-1] == Done(said="Again.")


REFUSED = [
    ("do", "'do' is no flag of opencode's"),
    ("--format=default", "--format of opencode is not passed on"),
    ("-sses_1", "-s of opencode is not passed on"),
    ("--fork", "--fork of opencode is not passed on"),
    ("--model", "--model of opencode is not passed on"),
    ("--attach=http://localhost:4096", "--attach of opencode is not passed on"),
    ("--dir", "--dir of opencode is not passed on"),
    ("--", "-- of opencode is not passed on"),
]


@pytest.mark.parametrize(("argument", "message"), REFUSED)
def test_flags_that_would_break_it_are_refused(player: Player, argument: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(player, arguments=(argument,))
    assert str(caught.value) == message
    assert caught.value.hint


def test_lines_that_are_no_sense_are_passed_over(player: Player) -> None:
    player.act(["[]", '{"type": 1}', line("tool_use"), line("step_finish"), line("text"), begin(), text("x"), finish()])
    assert run(player)[-1] == Done(said="x")
