"""The ``claude-code`` backend on what Claude Code really said once, and on lines made up for what was not recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents.player import STREAMS, Player, path_with
from backends.agents import command_job
from backends.scenes_claude_code import SESSION, VERSION, init, line, reply, result, text, tool, tool_result

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
from gitsession.backends.claude_code import Dialect
from gitsession.backends.wrapped import WrappedBackend
from gitsession.errors import UsageError

PROJECT = Path("/home/dev/project")
TOKENS = {"cache_write": 800, "cache_read": 4000}
ALWAYS = ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
ALWAYS += ["--permission-mode", "acceptEdits"]


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Player:
    monkeypatch.setenv("PATH", path_with(tmp_path))
    return Player(tmp_path, "claude", VERSION)


def run(place: Path, **facts: Any) -> list[Event]:
    """The events of a run of the backend but ``Tick``, in ``place`` or in the ``worktree`` of ``facts``."""
    backend = WrappedBackend(Dialect(), stop_grace=0.3, terminate_grace=0.3, pipe_grace=0.3)
    job = command_job(place, **{"task": "Do it", **facts})
    backend.validate(job)
    return [event for event in backend.run(job) if not isinstance(event, Tick)]


def replay(player: Player, name: str, status: int = 0, **facts: Any) -> list[Event]:
    player.act(STREAMS / f"claude_{name}.jsonl", status=status)
    return run(player.program.parent, **facts)


def spent(events: Sequence[Event]) -> tuple[int, int, float | None]:
    """Tokens in without the cache's, tokens out, and the last word on what the run cost."""
    told = [event for event in events if isinstance(event, Usage)]
    cost = next((usage.run_cost_usd for usage in reversed(told) if usage.run_cost_usd is not None), None)
    return sum(usage.input for usage in told), sum(usage.output for usage in told), cost


def hints(events: Sequence[Event]) -> list[CheckpointHint]:
    return [event for event in events if isinstance(event, CheckpointHint)]


def place_of(events: Sequence[Event]) -> str | None:
    """Where the conversation was last."""
    return [event for event in events if isinstance(event, Bound)][-1].native.at


def test_a_session_is_bound_and_every_tool_call_that_may_have_changed_files_is_hinted_at(player: Player) -> None:
    events = replay(player, "2.1.197_hook_events")
    native = Native("168672f6-5475-4e09-bb21-4c3441d2abf5", PROJECT, "2.1.197", "claude-opus-4-8[1m]")
    assert events[0] == Bound(native)
    assert hints(events) == [
        CheckpointHint("Write: /home/dev/project/a.txt", always=False, call="toolu_4494b808ed3d4551943c6a22"),
        CheckpointHint("Bash: scripted", always=False, call="toolu_81654867bad641d39b653b8f"),
    ]
    before = events.index(hints(events)[1]) - 1
    assert events[before] == Bound(
        Native(native.id, PROJECT, "2.1.197", native.model, at="745aac9c-46e5-4a65-b3ec-3850eaad9ec5")
    )
    assert place_of(events) == "d8e73e86-d60d-40c3-86fa-a7eab06deb15"
    assert "".join(event.text for event in events if isinstance(event, Output)) == (
        "[Write] /home/dev/project/a.txt\n[Bash] scripted\nDone.\n"
    )
    assert spent(events) == (3600, 102, pytest.approx(0.04155))
    assert events[-1] == Done(said="Done.")


def test_a_newer_version_says_the_same(player: Player) -> None:
    events = replay(player, "2.1.332_ok")
    assert [event.description for event in hints(events)] == ["Write: /home/dev/project/a.txt"]
    assert spent(events) == (2400, 68, pytest.approx(0.02056))
    assert events[-1] == Done(said="Done.")


def test_the_tokens_of_a_reply_are_told_when_it_is_complete_and_once(player: Player) -> None:
    events = replay(player, "2.1.197_partial")
    told = [event for event in events if isinstance(event, Usage)]
    reply_usage = Usage(1200, 34, model="claude-opus-4-8", **TOKENS)
    total = Usage(0, 0, model="claude-opus-4-8", run_cost_usd=pytest.approx(0.0277))
    assert told == [reply_usage, reply_usage, total]
    assert events.index(told[0]) < events.index(hints(events)[0])


ENDS = [
    ("denied", 0, "denied", "Claude Code was not allowed to use Write; -- --allowedTools Write allows it", "Done."),
    ("http400", 1, "refused", "API Error: 400 scripted 400", None),
    ("http529", 1, "network", "API Error: 529 scripted 529. This is a server-side issue", None),
    ("max_turns", 1, "limit", "the limit of replies (--max-turns) is reached", None),
    ("max_budget", 1, "limit", "the limit of --max-cost is reached", None),
    ("sigint_midstream", 0, "interrupted", "claude was interrupted", None),
    ("sigint_midtool", 1, "interrupted", "claude was interrupted", None),
    ("sigkill_midtool", -9, "exit", "claude was killed by SIGKILL", None),
    ("resume_wrong_cwd", 1, "exit", "No conversation found with session ID: 9dbe09a0", None),
]


@pytest.mark.parametrize(("stream", "status", "kind", "reason", "said"), ENDS, ids=[end[0] for end in ENDS])
def test_a_run_that_did_not_do_its_work_says_why(
    player: Player, stream: str, status: int, kind: str, reason: str, said: str | None
) -> None:
    end = replay(player, f"2.1.197_{stream}", status)[-1]
    assert isinstance(end, Failed)
    assert (end.kind, end.said) == (kind, said)
    assert end.reason.startswith(reason)


def test_a_budget_that_is_used_up_was_spent(player: Player) -> None:
    """``usage`` is zero there, ``modelUsage`` is not."""
    assert spent(replay(player, "2.1.197_max_budget", 1)) == (1200, 34, pytest.approx(0.01385))


@pytest.mark.parametrize(
    ("version", "counts", "place"),
    [
        ("2.1.197", (1200, 34, pytest.approx(0.01385)), "c1edd928-ccc3-4958-ab35-0330d4e498ab"),
        ("2.1.332", (2400, 35, pytest.approx(0.0199)), "f7a04461-1c4b-464d-a622-77782a3bf711"),
    ],
)
def test_a_reply_that_was_cut_is_counted_as_claude_counts_it_and_is_no_place_to_go_back_to(
    player: Player, version: str, counts: tuple[int, int, float], place: str
) -> None:
    events = replay(player, f"{version}_sigint_midstream")
    assert spent(events) == counts
    assert place_of(events) == place


def test_what_a_killed_run_had_spent_is_told(player: Player, tmp_path: Path) -> None:
    usage = {"input_tokens": 10, "output_tokens": 5}
    player.act([init(tmp_path), *reply(text("one"), usage=usage), *reply(text("two"), usage=usage)[:-2]], status=-9)
    events = run(tmp_path)
    assert spent(events) == (10, 5, None)
    assert events[-1] == Failed("claude was killed by SIGKILL", "exit")


def test_subagents_are_paid_for(player: Player, tmp_path: Path) -> None:
    models = {
        "claude-opus-4-8[1m]": {"inputTokens": 100, "outputTokens": 20, "costUSD": 0.5},
        "claude-haiku-4-5": {"inputTokens": 7, "outputTokens": 3, "cacheReadInputTokens": 2, "costUSD": 0.1},
    }
    within = {"parent_tool_use_id": "toolu_1"}
    stream = [
        init(tmp_path),
        *reply(tool("toolu_1", "Task", description="look around"), usage={"input_tokens": 60, "output_tokens": 12}),
        line("assistant", message={"content": [tool("toolu_2", "Write", file_path=str(tmp_path / "b"))]}, **within),
        line("user", message={"content": [{"type": "tool_result", "tool_use_id": "toolu_2"}]}, **within),
        tool_result("toolu_1"),
        *reply(text("done"), usage={"input_tokens": 40, "output_tokens": 8}),
        result(modelUsage=models, total_cost_usd=0.6),
    ]
    player.act(stream)
    events = run(tmp_path)
    told = [event for event in events if isinstance(event, Usage)]
    assert told[-1] == Usage(7, 3, cache_read=2, model="claude-opus-4-8", run_cost_usd=0.6)
    assert spent(events) == (107, 23, 0.6)
    assert [(hint.call, hint.description) for hint in hints(events)] == [
        ("toolu_2", "Write: b"),
        ("toolu_1", "Task: look around"),
    ]


def test_a_retry_and_a_shortened_conversation_are_noticed(player: Player, tmp_path: Path) -> None:
    events = replay(player, "2.1.197_http529_recovered")
    assert [event for event in events if isinstance(event, Notice)] == [
        Notice("the API answered with status 529 (overloaded); trying again (1 of 3)"),
        Notice("the API answered with status 529 (overloaded); trying again (2 of 3)"),
    ]
    assert events[-1] == Done(said="recovered")
    gone = line("system", subtype="api_retry", attempt=1, max_retries=10, error_status=None, error="unknown")
    player.act([init(tmp_path), gone, line("system", subtype="compact_boundary"), result()])
    assert [event for event in run(tmp_path) if isinstance(event, Notice)] == [
        Notice("the API could not be reached; trying again (1 of 10)"),
        Notice("Claude Code shortened its conversation"),
    ]


API = {"is_error": True, "stop_reason": "stop_sequence"}
FAILURES = [
    ("401", {"api_error_status": 401} | API, "authentication_failed", "refused"),
    ("404", {"api_error_status": 404} | API, "model_not_found", "refused"),
    ("408", {"api_error_status": 408} | API, "unknown", "network"),
    ("429", {"api_error_status": 429} | API, "rate_limit", "limit"),
    ("500", {"api_error_status": 500} | API, "server_error", "network"),
    ("no connection", {"api_error_status": None} | API, "server_error", "network"),
    ("no credit", {"api_error_status": None} | API, "billing_error", "refused"),
    ("too long", {"api_error_status": None, "terminal_reason": "prompt_too_long"} | API, "unknown", "refused"),
    ("refusal", {"api_error_status": None, "is_error": True, "stop_reason": "refusal"}, "unknown", "refused"),
]


@pytest.mark.parametrize(("facts", "error", "kind"), [one[1:] for one in FAILURES], ids=[one[0] for one in FAILURES])
def test_who_can_mend_a_failure_of_the_api(
    player: Player, tmp_path: Path, facts: dict[str, Any], error: str, kind: str
) -> None:
    words = line("assistant", error=error, message={"model": "<synthetic>", "content": [text("API Error: no\nmore")]})
    player.act([init(tmp_path), words, result("API Error: no\nmore", **facts)], status=1)
    events = run(tmp_path)
    assert events[-1] == Failed("API Error: no", kind)  # type: ignore[arg-type]
    assert not any(isinstance(event, Output) for event in events), "the reason is not said twice"


NOT_DONE = [
    ("cut short", {"stop_reason": None}, "half", "network", "the model's reply broke off"),
    ("unknown command", {"terminal_reason": None, "stop_reason": None}, "Unknown command: /x", "refused", None),
    (
        "command for a terminal",
        {"terminal_reason": None, "stop_reason": None},
        "/model isn't available in this environment.",
        "refused",
        None,
    ),
    ("hook", {"terminal_reason": "hook_stopped"}, "", "exit", "Claude Code stopped before the end (hook_stopped)"),
    ("other error", {"subtype": "error_during_execution", "errors": ["no luck"]}, "", "exit", "no luck"),
]


@pytest.mark.parametrize(
    ("facts", "words", "kind", "reason"), [one[1:] for one in NOT_DONE], ids=[one[0] for one in NOT_DONE]
)
def test_what_claude_calls_a_success_and_is_none(
    player: Player, tmp_path: Path, facts: dict[str, Any], words: str, kind: str, reason: str | None
) -> None:
    player.act([init(tmp_path), result(words, **facts)])
    assert run(tmp_path)[-1] == Failed(reason or words, kind, words or None)  # type: ignore[arg-type]


def test_a_hook_of_the_users_that_drops_the_prompt_is_no_success(player: Player, tmp_path: Path) -> None:
    words = "UserPromptSubmit operation blocked by hook:\nnope\n\nOriginal prompt: secret words"
    blocked = line("system", subtype="informational", content=words, prevent_continuation=True)
    player.act([init(tmp_path), blocked, result(words, terminal_reason=None, stop_reason=None)])
    end = run(tmp_path)[-1]
    assert isinstance(end, Failed)
    assert (end.reason, end.kind) == ("UserPromptSubmit operation blocked by hook:", "refused")


def test_commands_that_claude_answers_itself_are_done(player: Player, tmp_path: Path) -> None:
    player.act([init(tmp_path), result("", terminal_reason=None, stop_reason=None)])
    assert run(tmp_path)[-1] == Done()


def test_the_places_of_parallel_calls_are_told_one_by_one(player: Player, tmp_path: Path) -> None:
    """Going back to the first of two calls must not bring the second one along."""
    said = [
        line("assistant", message={"content": [tool(f"toolu_{number}", "Write", file_path="x")]}, uuid=f"line-{number}")
        for number in (1, 2)
    ]
    late = line("assistant", message={"content": [text("both")]}, uuid="line-3")
    player.act([init(tmp_path), *said, tool_result("toolu_1"), tool_result("toolu_2"), late, result()])
    events = run(tmp_path)
    places = [(events[at - 1], event.call) for at, event in enumerate(events) if isinstance(event, CheckpointHint)]
    assert [(bound.native.at, call) for bound, call in places if isinstance(bound, Bound)] == [
        ("line-1", "toolu_1"),
        ("line-2", "toolu_2"),
    ]
    assert place_of(events) == "line-3"
    assert [hint.only for hint in hints(events)] == [("x",), ()], "while the second one may be writing"


def test_the_result_of_a_command_is_of_all_files_also_beside_other_calls(player: Player, tmp_path: Path) -> None:
    calls = [tool("toolu_1", "Bash", command="make"), tool("toolu_2", "Write", file_path="x"), tool("toolu_3", "Read")]
    results = [tool_result(f"toolu_{number}") for number in (1, 2, 3)]
    player.act([init(tmp_path), *reply(*calls), *results, result()])
    assert [(hint.call, hint.only) for hint in hints(run(tmp_path))] == [("toolu_1", ()), ("toolu_2", ())]


def test_tools_that_only_read_take_no_checkpoint(player: Player, tmp_path: Path) -> None:
    calls = [tool("toolu_1", "Read", file_path="a"), tool("toolu_2", "Grep", pattern="x"), tool("toolu_3", "mcp__x__y")]
    player.act([init(tmp_path), *reply(*calls), *(tool_result(f"toolu_{number}") for number in (1, 2, 3)), result()])
    assert [(hint.call, hint.description) for hint in hints(run(tmp_path))] == [("toolu_3", "mcp__x__y")]


def test_what_a_tool_call_is_about_is_one_short_line_without_secrets(
    player: Player, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "tok-123456789")
    calls = [
        tool("toolu_1", "Write", file_path=str(tmp_path / "src" / "a.py"), content="the content"),
        tool("toolu_2", "Bash", command="curl -H tok-123456789 x\nsecond line"),
        tool("toolu_3", "Bash", command="x" * 500, description="Long\nstory"),
        tool("toolu_4", "Bash", command="y" * 500),
    ]
    player.act([init(tmp_path), *reply(*calls), result()])
    said = [event.text for event in run(tmp_path) if isinstance(event, Output)]
    assert said == ["[Write] src/a.py\n", "[Bash] curl -H *** x\n", "[Bash] Long\n", "[Bash] " + "y" * 100 + "…\n"]


def test_claudes_own_record_is_named_where_it_is(player: Player, tmp_path: Path) -> None:
    record = tmp_path / f"{SESSION}.jsonl"
    begun = init(tmp_path, memory_paths={"auto": str(tmp_path / "memory")})
    player.act([begun, *reply(text("hello")), result()])
    assert [event.native.transcript for event in run(tmp_path) if isinstance(event, Bound)] == [None, None]
    record.write_text("{}\n")
    assert [event.native.transcript for event in run(tmp_path) if isinstance(event, Bound)] == [None, str(record)]


def test_a_cost_that_is_no_number_is_not_believed(player: Player, tmp_path: Path) -> None:
    models = {"m": {"inputTokens": 900}}
    player.act([init(tmp_path), *reply(text("x")), result(modelUsage=models, total_cost_usd=float("nan"))])
    [*_, told] = [event for event in run(tmp_path) if isinstance(event, Usage)]
    assert told.run_cost_usd is None


def test_lines_that_make_no_sense_are_left_alone(player: Player, tmp_path: Path) -> None:
    odd: list[str] = [
        line("system", subtype="init"),
        line("assistant", message={"content": "text"}),
        line("user", message=None),
        line("user", message={"content": [{"type": "tool_result", "tool_use_id": "toolu_9"}, 3, None]}),
        line("stream_event", event={"type": "message_stop"}),
        line("stream_event", event=[]),
        line("news", subtype="of a later version"),
        result(modelUsage=[], usage=None, permission_denials=None, total_cost_usd=None),
    ]
    player.act(odd)
    assert run(tmp_path) == [Done(said="All done")]


def test_how_it_is_called(player: Player, tmp_path: Path) -> None:
    player.act([init(tmp_path), result()])
    run(tmp_path)
    arguments = ("--add-dir", "/x", "--allowedTools", "WebFetch")
    run(tmp_path, model="opus", max_turns=3, max_cost=0.5, allow_commands=True, arguments=arguments, files=("a.py",))
    plain, full = player.calls
    assert plain["argv"] == ALWAYS
    assert plain["given"] == "Do it"
    assert plain["cwd"] == str(tmp_path)
    assert full["argv"] == [
        *(*ALWAYS, "--allowedTools", "Bash", "--model", "opus", "--max-turns", "3"),
        *("--max-budget-usd", "0.500000", "--add-dir", "/x", "--allowedTools", "WebFetch"),
    ]


def test_going_on_is_in_claudes_own_session_where_that_ran(player: Player, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    player.act([init(elsewhere), result()])
    native = Native(SESSION, elsewhere, VERSION, at="here")
    run(tmp_path, native=native, briefing="what was done")
    run(tmp_path, native=native, rewind=True)
    on, back = player.calls
    assert on["argv"] == [*ALWAYS, "--resume", SESSION]
    assert on["cwd"] == str(elsewhere)
    assert on["given"] == "The run was interrupted. Go on with the task:\n\nDo it"
    assert back["argv"] == [*ALWAYS, "--resume", SESSION, "--fork-session", "--resume-session-at", "here"]


@pytest.mark.parametrize(
    ("asked", "before", "model"),
    [(None, "claude-opus-4-8[1m]", ["claude-opus-4-8[1m]"]), ("haiku", "opus", ["haiku"]), (None, "--evil", [])],
)
def test_its_own_session_goes_on_with_its_model_unless_another_one_is_asked_for(
    player: Player, tmp_path: Path, asked: str | None, before: str, model: list[str]
) -> None:
    player.act([init(tmp_path), result()])
    run(tmp_path, model=asked, native=Native(SESSION, tmp_path, VERSION, model=before))
    [call] = player.calls
    flags = [word for name in model for word in ("--model", name)]
    assert call["argv"] == [*ALWAYS, *flags, "--resume", SESSION]


@pytest.mark.parametrize(
    "words", ["No conversation found with session ID: x", "No message found with message.uuid of: x"]
)
def test_a_session_or_a_place_that_claude_has_lost_begins_anew(player: Player, tmp_path: Path, words: str) -> None:
    lost = result("", subtype="error_during_execution", is_error=True, errors=[words])
    player.act([lost], status=1).act([init(tmp_path), result()])
    native = Native(SESSION, tmp_path / "removed", VERSION, at="here")
    events = run(tmp_path, native=native, rewind=True, briefing="This was done.")
    assert events[0] == Notice(
        f"claude-code cannot go on with its session {SESSION}; it begins anew, told what was done so far"
    )
    assert events[-1] == Done(said="All done")
    first, second = player.calls
    assert first["cwd"] == second["cwd"] == str(tmp_path), "its own directory is not there any more"
    assert second["argv"] == ALWAYS
    assert "<done>\nThis was done.\n</done>" in second["given"]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["do", "it"], "--task"),
        (["--output-format", "json"], "--output"),
        (["--output-format=json"], "--output"),
        (["--add-dir", "/x", "-c"], "--session-id"),
        (["--resume", "x"], "--session-id"),
        (["-rx"], "--session-id"),
        (["--model=opus"], "--model"),
        (["--max-budget-usd", "3"], "--max-cost"),
        (["--resume-session-at", "x"], "--restore-checkpoint"),
        (["--worktree"], "leave it out"),
        (["--no-session-persistence"], "leave it out"),
        (["--add-dir", "/x", "--", "words"], "leave it out"),
    ],
)
def test_arguments_that_would_break_the_run_are_refused(
    player: Player, tmp_path: Path, arguments: list[str], hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        run(tmp_path, arguments=tuple(arguments))
    assert hint in str(caught.value.hint)
    assert not player.calls
