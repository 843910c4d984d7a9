"""The ``gemini`` backend on what Gemini CLI really said once, and on lines made up for what was not recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents.player import STREAMS, Player, path_with
from backends.agents import command_job
from backends.scenes_gemini import SESSION, VERSION, init, result, stats, text, tool, tool_result, warning

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
from gitsession.backends.gemini import Dialect
from gitsession.backends.wrapped import WrappedBackend
from gitsession.errors import UsageError

PROJECT = Path("/home/dev/project")
ALWAYS = ["--output-format", "stream-json", "--skip-trust"]
DOUBLED = "Please ensure that the number of function response parts is equal to the number of function call parts"


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Player:
    monkeypatch.setenv("PATH", path_with(tmp_path))
    return Player(tmp_path, "gemini", VERSION)


def run(player: Player, **facts: Any) -> list[Event]:
    """The events of a run of the backend but ``Tick``."""
    backend = WrappedBackend(Dialect(), stop_grace=0.3, terminate_grace=0.3, pipe_grace=0.3)
    job = command_job(player.program.parent, **{"task": "Do it", **facts})
    backend.validate(job)
    return [event for event in backend.run(job) if not isinstance(event, Tick)]


def replay(player: Player, name: str, status: int = 0) -> list[Event]:
    player.act(STREAMS / f"gemini_{VERSION}_{name}.jsonl", status=status)
    return run(player)


def printed(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Output) and event.stream == "stdout")


def test_a_run_that_ended_well(player: Player) -> None:
    events = replay(player, "ok")
    assert events == [
        Bound(Native(SESSION, player.program.parent, VERSION, "gemini-2.5-flash")),
        Output("[write_file] /home/dev/project/a.txt\n"),
        CheckpointHint(
            "write_file: /home/dev/project/a.txt", always=False, call="write_file__write_file_1795954891154_0"
        ),
        Output("Done."),
        Output("\n"),
        Bound(Native(SESSION, player.program.parent, VERSION, "gemini-2.5-flash")),
        Usage(2400, 68, cache_read=8000, model="fake-gemini"),
        Done(said="Done."),
    ]


def test_a_refused_request(player: Player) -> None:
    events = replay(player, "http401", status=145)
    assert not [event for event in events if isinstance(event, Usage | CheckpointHint)]
    assert events[-1] == Failed("the API refused the request: scripted 401", "refused")


def test_commands_that_were_cut_short_may_have_changed_files(player: Player) -> None:
    """The parent was killed, and what it had started worked on."""
    events = replay(player, "sigkill_parent", status=-9)
    assert [event.description for event in events if isinstance(event, CheckpointHint)] == [
        "run_shell_command: echo 1 > one.txt",
        "run_shell_command: sleep 49",
    ]
    assert [event for event in events if isinstance(event, Usage)] == [
        Usage(3600, 102, cache_read=12000, model="fake-gemini")
    ]
    assert events[-1] == Failed("gemini was killed by SIGKILL", "exit", "x")


def test_text_comes_in_pieces_and_a_tool_call_begins_a_line(player: Player, tmp_path: Path) -> None:
    inside = str(tmp_path / "src" / "a.py")
    player.act(
        [
            init(),
            text("I will "),
            text("look."),
            tool("1", "read_file", file_path=inside),
            tool("2", "replace", file_path=inside, old_string="secret", new_string="words"),
            tool_result("1"),
            tool_result("2", "edit_no_occurrence_found"),
            tool("3", "run_shell_command", command="make\nmake install", description="Build it"),
            tool_result("3"),
            text("All\ndone\n"),
            result(),
        ]
    )
    events = run(player)
    assert printed(events) == (
        "I will look.\n[read_file] src/a.py\n[replace] src/a.py\n[run_shell_command] Build it\nAll\ndone\n"
    )
    assert [event for event in events if isinstance(event, CheckpointHint)] == [
        CheckpointHint("replace: src/a.py", always=False, call="2"),
        CheckpointHint("run_shell_command: Build it", always=False, call="3"),
    ]
    assert events[-1] == Done(said="All\ndone")


def test_the_result_of_an_edit_is_of_its_file_alone_while_other_calls_run(player: Player) -> None:
    calls = [
        tool("1", "write_file", file_path="a"),
        tool("2", "replace", file_path="b"),
        tool("3", "glob", pattern="*"),
    ]
    player.act([init(), *calls, *(tool_result(str(number)) for number in (1, 2, 3)), result()])
    hints = [event for event in run(player) if isinstance(event, CheckpointHint)]
    assert [(hint.call, hint.only) for hint in hints] == [("1", ("a",)), ("2", ())]


def test_thoughts_are_paid_for_as_output_and_each_model_is_told(player: Player) -> None:
    spent = {"a": stats(100, 7, cached=30, thoughts=5), "b": stats(1, 2), "c": stats()}
    models = {name: counts["models"]["gemini-2.5-flash"] for name, counts in spent.items()}
    player.act([init(), json.dumps({"type": "result", "status": "success", "stats": {"models": models}})])
    assert [event for event in run(player) if isinstance(event, Usage)] == [
        Usage(100, 12, cache_read=30, model="a"),
        Usage(1, 2, model="b"),
    ]


def test_what_a_run_spent_that_was_cut_short_is_in_the_record(
    player: Player, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply has a line there when it is complete, and again when its tool calls are done."""
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path))
    tokens = {"input": 5200, "output": 34, "cached": 4000, "thoughts": 6, "tool": 0, "total": 5240}

    def reply(number: int, day: int, **more: Any) -> str:
        facts = {"id": f"reply-{number}", "timestamp": f"2026-11-{day}T12:21:31.101Z", "type": "gemini"}
        return json.dumps(facts | {"tokens": tokens, "model": "gemini-2.5-flash"} | more)

    lines = [
        reply(0, 28),
        '{"type": "user", "id": "u"}',
        reply(1, 29),
        reply(1, 29, toolCalls=[]),
        reply(2, 29),
        '{"tokens"',
    ]
    record = tmp_path / ".gemini" / "tmp" / "repo" / "chats" / f"session-2026-11-29T12-21-{SESSION[:8]}.jsonl"
    record.parent.mkdir(parents=True)
    record.write_text("\n".join(lines))
    player.act([init(), text("so ")])
    events = run(player)
    spent = Usage(1200, 40, cache_read=4000, model="gemini-2.5-flash")
    assert [event for event in events if isinstance(event, Usage)] == [spent, spent]
    player.act([init(), result(given=1, output=1)])
    assert [event for event in run(player) if isinstance(event, Usage)] == [Usage(1, 1, model="gemini-2.5-flash")]


API = "[API Error: %s]"
QUOTED = API % json.dumps([{"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}])
UNKNOWN = "models/nope is not found for API version v1beta"
ENDS: dict[str, tuple[list[str], int, Failed]] = {
    "nothing at all": ([], 0, Failed("gemini ended without saying how the work went", "exit")),
    "a signal, and exit status 0": (
        [init(), text("so ")],
        0,
        Failed("gemini ended without saying how the work went", "exit", "so"),
    ),
    "too many requests": (
        [init(), result("error", QUOTED)],
        173,
        Failed("the API's limit is reached: slow down", "limit"),
    ),
    "a quota": (
        [init(), result("error", API % "You have exhausted your daily quota on this model.")],
        1,
        Failed("You have exhausted your daily quota on this model.", "limit"),
    ),
    "a model that is not there": ([init(), result("error", API % UNKNOWN)], 1, Failed(UNKNOWN, "refused")),
    "a status and no words that say so": (
        [init(), result("error", API % "Bad things")],
        147,
        Failed("the API refused the request: Bad things", "refused"),
    ),
    "a server that fails": (
        [init(), result("error", API % "Bad things")],
        247,
        Failed("CONNECTION ERROR: Bad things", "network"),
    ),
    "no network": (
        [init(), result("error", API % "fetch failed")],
        1,
        Failed("CONNECTION ERROR: fetch failed", "network"),
    ),
    "a cut stream, and exit status 0": (
        [init(), text("x"), warning("Model stream ended without a finish reason."), result("error")],
        0,
        Failed("CONNECTION ERROR: Model stream ended without a finish reason.", "network", "x"),
    ),
    "a refusal of the model's": (
        [init(), warning("The model response was blocked due to safety settings."), result("error")],
        0,
        Failed("The model response was blocked due to safety settings.", "refused"),
    ),
    "too long a reply": (
        [init(), warning("Model response was truncated because it exceeded the token limit."), result("error")],
        0,
        Failed("Model response was truncated because it exceeded the token limit.", "limit"),
    ),
    "a loop": (
        [init(), warning("Loop detected, stopping execution", "warning"), result()],
        0,
        Failed("Loop detected, stopping execution", "limit"),
    ),
    "the user's own limit of turns": (
        [
            init(),
            json.dumps(
                {
                    "type": "result",
                    "status": "error",
                    "error": {"type": "FatalTurnLimitedError", "message": "Reached max session turns"},
                }
            ),
        ],
        53,
        Failed("Reached max session turns", "limit"),
    ),
    "a command that is not allowed": (
        [
            init(),
            tool("1", "run_shell_command", command="make"),
            tool_result("1", "tool_not_registered"),
            text("I could not."),
            result(),
        ],
        0,
        Failed(
            "Gemini CLI was not allowed what it wanted (run_shell_command: make); --allow-commands allows it",
            "denied",
            "I could not.",
        ),
    ),
    "something else that is not allowed": (
        [init(), tool("1", "mcp_db_drop"), tool_result("1", "policy_violation"), result()],
        0,
        Failed("Gemini CLI was not allowed what it wanted (mcp_db_drop)", "denied"),
    ),
    "success, and another exit status": (
        [init(), text("ok"), result()],
        1,
        Failed("gemini exited with status 1", "exit", "ok"),
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_that_is_none(player: Player, name: str) -> None:
    lines, status, failed = ENDS[name]
    player.act(lines, status=status)
    assert run(player)[-1] == failed


def test_without_access_it_is_said_what_to_do(player: Player) -> None:
    player.act([], status=41, stderr="Update your environment and try again!\n")
    assert run(player)[-1] == Failed(
        "Gemini CLI has no access to a model: log in with it once, or set GEMINI_API_KEY", "refused"
    )


def test_a_report_of_a_failure_is_for_nobody_else_to_read(player: Player, tmp_path: Path) -> None:
    """Gemini CLI writes it for everybody; it has the whole conversation in it."""
    report, link = (tmp_path / f"gemini-client-error-Turn.run-{name}.json" for name in ("a", "b"))
    other = tmp_path / "other.json"
    for file in (report, other):
        file.touch(mode=0o644)
    link.symlink_to(other)
    said = "Error when talking to Gemini API Full report available at: %s _ApiError: {}\n    at throwErrorIfNotOK\n"
    player.act([init(), result("error", API % "fetch failed")], status=1, stderr=said % report + said % link)
    assert isinstance(run(player)[-1], Failed)
    assert report.stat().st_mode & 0o777 == 0o600
    assert other.stat().st_mode & 0o777 == 0o644


def test_a_tool_that_the_model_made_up_is_no_refusal(player: Player) -> None:
    player.act([init(), tool("1", "frobnicate"), tool_result("1", "tool_not_registered"), text("Well."), result()])
    assert run(player)[-1] == Done(said="Well.")


def test_a_warning_is_passed_on(player: Player) -> None:
    player.act([init(), warning("Agent execution blocked: a hook", "warning"), text("Done."), result()])
    events = run(player)
    assert Notice("gemini: Agent execution blocked: a hook") in events
    assert events[-1] == Done(said="Done.")


def test_how_it_is_called(player: Player) -> None:
    player.act([init(), result()])
    run(player)
    run(player, allow_commands=True, model="gemini-2.5-pro", arguments=("--include-directories", "../lib"))
    run(player, allow_commands=True, arguments=("--approvalMode=plan",))
    assert [call["argv"] for call in player.calls] == [
        [*ALWAYS, "--approval-mode", "auto_edit"],
        [*ALWAYS, "--approval-mode", "yolo", "--model", "gemini-2.5-pro", "--include-directories", "../lib"],
        [*ALWAYS, "--approvalMode=plan"],
    ]
    assert [call["given"] for call in player.calls] == ["Do it"] * 3


def test_a_session_goes_on_where_it_ran(player: Player, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its record, which Gemini CLI itself keeps, is known by its name."""
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path))
    record = tmp_path / ".gemini" / "tmp" / "repo" / "chats" / f"session-2026-11-29T12-21-{SESSION[:8]}.jsonl"
    record.parent.mkdir(parents=True)
    record.touch()
    before = tmp_path / "elsewhere"
    before.mkdir()
    player.act([init(), text("On."), result()])
    events = run(player, native=Native(SESSION, before))
    assert player.calls[0]["cwd"] == str(before)
    assert player.calls[0]["argv"] == [*ALWAYS, "--approval-mode", "auto_edit", f"--resume={SESSION}"]
    assert "Go on with the task:\n\nDo it" in player.calls[0]["given"]
    assert events[0] == Bound(Native(SESSION, before, VERSION, "gemini-2.5-flash", str(record)))
    assert events[-1] == Done(said="On.")


GONE = [
    "Error resuming session: No previous sessions found for this project.\n",
    (
        'Error resuming session: Invalid session identifier "x".\n'
        "  Use --list-sessions to see available sessions, then use --resume {number}.\n"
    ),
]


@pytest.mark.parametrize("stderr", GONE)
def test_a_session_that_is_gone_begins_anew(player: Player, tmp_path: Path, stderr: str) -> None:
    other = "51cbc398-de57-4dd1-9479-9e113306f6b7"
    player.act([], status=42, stderr=stderr).act([init(other), text("Again."), result()])
    events = run(player, native=Native(SESSION, tmp_path / "gone"), briefing="half of it")
    assert [call["cwd"] for call in player.calls] == [str(tmp_path)] * 2
    assert "half of it" in player.calls[1]["given"]
    assert player.calls[1]["argv"] == [*ALWAYS, "--approval-mode", "auto_edit"]
    assert [event.native.id for event in events if isinstance(event, Bound)][-1] == other
    assert events[-1] == Done(said="Again.")


def test_a_session_that_the_api_refuses_as_it_was_recorded_begins_anew(player: Player) -> None:
    """Gemini CLI sends the results of a resumed session's tool calls twice."""
    doubled = API % json.dumps({"error": {"code": 400, "message": DOUBLED, "status": "INVALID_ARGUMENT"}})
    player.act([init(), result("error", doubled)], status=144).act([init(), text("Again."), result()])
    events = run(player, native=Native(SESSION, player.program.parent), briefing="half of it")
    assert "half of it" in player.calls[1]["given"]
    assert Notice("gemini: the API refuses the conversation as Gemini CLI recorded it") in events
    assert events[-1] == Done(said="Again.")


def test_the_same_refusal_of_a_new_session_is_a_failure(player: Player) -> None:
    doubled = API % json.dumps({"error": {"code": 400, "message": DOUBLED, "status": "INVALID_ARGUMENT"}})
    player.act([init(), result("error", doubled)], status=144)
    assert run(player)[-1] == Failed(f"the API refused the request: {DOUBLED}", "refused")
    assert len(player.calls) == 1


REFUSED = [
    ("do", "'do' is no flag of Gemini CLI's"),
    ("-p", "-p of Gemini CLI is not passed on"),
    ("--prompt=x", "--prompt of Gemini CLI is not passed on"),
    ("--outputFormat=text", "--output-format of Gemini CLI is not passed on"),
    ("-rlatest", "-r of Gemini CLI is not passed on"),
    ("--sessionId", "--session-id of Gemini CLI is not passed on"),
    ("--acp", "--acp of Gemini CLI is not passed on"),
    ("-w", "-w of Gemini CLI is not passed on"),
    ("--", "-- of Gemini CLI is not passed on"),
]


@pytest.mark.parametrize(("argument", "message"), REFUSED)
def test_flags_that_would_break_it_are_refused(player: Player, argument: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        run(player, arguments=(argument,))
    assert str(caught.value) == message
    assert caught.value.hint


def test_lines_that_are_no_sense_are_passed_over(player: Player) -> None:
    player.act(
        ["[]", '{"type": 1}', '{"type": "tool_use"}', '{"type": "tool_result"}', '{"type": "init"}', init(), result()]
    )
    assert run(player)[-1] == Done()
