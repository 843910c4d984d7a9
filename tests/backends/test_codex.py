"""The ``codex`` backend on what Codex really said once, and on lines made up for what was not recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agents.player import STREAMS, Player, path_with
from backends.agents import PATIENT, command_job
from backends.scenes_codex import (
    THREAD,
    VERSION,
    begins,
    completed,
    edits,
    failed,
    item,
    line,
    runs,
    says,
    sums,
)

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
from gitsession.backends.codex import Dialect
from gitsession.backends.wrapped import WrappedBackend
from gitsession.errors import UsageError

RECORDED = "01a2273a-8759-7f42-824b-1932ca92a83a"
GONE = f"Error: thread/resume: thread/resume failed: no rollout found for thread id {THREAD} (code -32600)\n"
METADATA = Notice(
    "codex: Model metadata for `fake-model` not found. Defaulting to fallback metadata; this can degrade performance "
    "and cause issues."
)
ROUTER = "2026-11-29T17:23:41.253471Z ERROR codex_core::tools::router: error="


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Player:
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setenv("PATH", path_with(tmp_path))
    return Player(tmp_path, "codex", VERSION)


def run(player: Player, **facts: Any) -> list[Event]:
    """The events of a run of the backend but ``Tick``."""
    backend = WrappedBackend(Dialect(), stop_grace=0.3, terminate_grace=0.3, pipe_grace=0.3)
    job = command_job(player.program.parent, **{"task": "Do it", **facts})
    backend.validate(job)
    return [event for event in backend.run(job) if not isinstance(event, Tick)]


def replay(player: Player, name: str, status: int = 0, **facts: Any) -> list[Event]:
    player.act(STREAMS / f"codex_0.171.0_{name}.jsonl", status=status)
    return run(player, **facts)


def act(player: Player, *lines: str, status: int = 0, stderr: str = "", **facts: Any) -> list[Event]:
    player.act([*begins(), *lines], status=status, stderr=stderr)
    return run(player, **facts)


def only(events: Sequence[Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def shown(events: Sequence[Event]) -> str:
    return "".join(event.text for event in only(events, Output) if event.stream == "stdout")


def record(home: Path, thread: str = THREAD, *, model: str = "gpt-6-sol", **counts: int) -> Path:
    """Codex's own record of a session, as far as it is read."""
    path = home / ".codex" / "sessions" / "2026" / "11" / "29" / f"rollout-2026-11-29T17-17-42-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [
        {"type": "session_meta", "payload": {"id": thread}},
        {"type": "turn_context", "payload": {"model": model}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": sums(**counts)}}},
    ]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_a_recorded_run_that_went_well(player: Player) -> None:
    events = replay(player, "ok")
    place = player.program.parent
    begun = Native(RECORDED, place, VERSION, counted={})
    counted = {
        "input_tokens": 15600,
        "cached_input_tokens": 12000,
        "cache_write_input_tokens": 0,
        "output_tokens": 102,
    }
    assert events == [
        Bound(begun),
        METADATA,
        Output("[shell] cat > '/home/dev/project/a.txt' <<'EOF'\n"),
        CheckpointHint("shell: cat > '/home/dev/project/a.txt' <<'EOF'", always=False, call=f"{RECORDED}/0/item_1"),
        Output("[shell] ls\n"),
        CheckpointHint("shell: ls", always=False, call=f"{RECORDED}/0/item_2"),
        Output("Done.\n"),
        Bound(Native(RECORDED, place, VERSION, counted=counted)),
        Usage(3600, 102, cache_read=12000),
        Done(said="Done."),
    ]


def test_a_recorded_change_of_files_is_hinted_at(player: Player) -> None:
    events = replay(player, "file_change", resume=4)
    what = "/home/dev/project/README.md, /home/dev/project/b.txt"
    [hint] = only(events, CheckpointHint)
    assert hint == CheckpointHint(f"edit: {what}", always=False, call="01a2273c-4777-7713-a6a1-95ac94f35f87/4/item_1")
    assert shown(events) == f"[edit] {what}\nDone.\n"
    assert only(events, Usage) == [Usage(2400, 68, cache_read=8000)]


def test_a_recorded_command_that_failed_may_have_changed_files_too(player: Player) -> None:
    events = replay(player, "failed_command")
    assert [hint.description for hint in only(events, CheckpointHint)] == ["shell: exit 3"]
    assert events[-1] == Done(said="Done.")


def test_a_recorded_failure_of_the_api(player: Player) -> None:
    events = replay(player, "http500", status=1)
    words = "We’re currently experiencing high demand, which may cause temporary errors."
    assert only(events, Notice) == [METADATA, Notice(f"codex: Reconnecting... 1/1 ({words})")]
    assert events[-1] == Failed(f"CONNECTION ERROR: {words}", "network")


def test_a_recorded_run_that_goes_on_counts_only_its_own_tokens(player: Player) -> None:
    replay(player, "ok")
    bound = only(replay(player, "ok"), Bound)[-1].native
    player.act(STREAMS / "codex_0.171.0_resume.jsonl")
    events = run(player, native=bound, resume=2)
    assert player.calls[-1]["argv"] == ["exec", "--json", "--sandbox", "workspace-write", "resume", RECORDED, "-"]
    assert player.calls[-1]["given"].startswith("The run was interrupted. Go on with the task:\n\nDo it")
    assert only(events, Usage) == [Usage(1200, 34, cache_read=4000)]
    assert only(events, Bound)[-1].native.counted["input_tokens"] == 20800
    assert events[-1] == Done(said="more")


def test_what_is_counted_is_durable_before_it_is_counted(player: Player) -> None:
    events = act(player, completed(100, 7, cached=40, written=10))
    usage = events.index(Usage(50, 7, cache_read=40, cache_write=10))
    assert isinstance(events[usage - 1], Bound)
    assert events[usage - 1].native.counted["output_tokens"] == 7


def test_a_session_that_others_used_before_is_counted_from_what_its_record_says(player: Player, seal: Path) -> None:
    path = record(seal, input=1000, output=50, cached=400)
    events = act(player, completed(1300, 60, cached=600), native=Native(THREAD, player.program.parent))
    assert only(events, Usage) == [Usage(100, 10, cache_read=200, model="gpt-6-sol")]
    assert only(events, Bound)[-1].native.model == "gpt-6-sol"
    assert only(events, Bound)[0].native.transcript == str(path)


def test_where_nothing_says_what_was_spent_before_nothing_is_counted_twice(player: Player) -> None:
    native = Native(THREAD, player.program.parent)
    events = act(player, completed(1300, 60), native=native)
    assert not only(events, Usage)
    assert "what this run of Codex spent is not known" in only(events, Notice)[0].text
    later = only(events, Bound)[-1].native
    player.act([*begins(), completed(1350, 61)])
    assert only(run(player, native=later), Usage) == [Usage(50, 1)]


def test_sums_that_shrink_are_no_spending(player: Player) -> None:
    native = Native(THREAD, player.program.parent, counted=sums(1000, 50))
    assert not only(act(player, completed(400, 20), native=native), Usage)


def test_what_a_turn_spent_that_failed_is_taken_from_the_record(player: Player, seal: Path) -> None:
    record(seal, model="gpt-6-luna", input=500, output=9)
    events = act(player, *failed("exceeded retry limit, last status: 503 Service Unavailable"), status=1)
    assert only(events, Usage) == [Usage(500, 9, model="gpt-6-luna")]
    assert events[-1] == Failed(
        "CONNECTION ERROR: exceeded retry limit, last status: 503 Service Unavailable", "network"
    )


def test_the_model_that_was_asked_for_is_the_one_that_is_told(player: Player, seal: Path) -> None:
    record(seal, input=500, output=9)
    events = act(player, completed(), model="gpt-6-sol-mini")
    assert only(events, Usage)[0].model == only(events, Bound)[-1].native.model == "gpt-6-sol-mini"


def test_what_a_turn_spent_that_was_interrupted_is_taken_from_the_record_and_not_counted_again(
    player: Player, seal: Path
) -> None:
    record(seal, input=500, output=9)
    player.act([*begins(), says(1, "ready")], stays=True)
    backend = WrappedBackend(Dialect(), stop_grace=PATIENT)
    events = []
    for event in backend.run(command_job(player.program.parent)):
        events.append(event)
        if isinstance(event, Output):
            backend.stop()
    assert only(events, Usage) == [Usage(500, 9, model="gpt-6-sol")]
    assert events[-1] == Failed("interrupted", "interrupted")
    player.act([*begins(), completed(700, 10)])
    later = run(player, native=only(events, Bound)[-1].native)
    assert only(later, Usage) == [Usage(200, 1, model="gpt-6-sol")]


@pytest.mark.parametrize(
    ("facts", "argv"),
    [
        ({}, ["--sandbox", "workspace-write"]),
        ({"allow_commands": True}, ["--sandbox", "danger-full-access"]),
        ({"model": "gpt-6-sol"}, ["--sandbox", "workspace-write", "--model", "gpt-6-sol"]),
        ({"arguments": ("--sandbox=read-only",)}, ["--sandbox=read-only"]),
        ({"arguments": ("-sread-only",), "allow_commands": True}, ["-sread-only"]),
        ({"arguments": ("-c", 'sandbox_mode="read-only"')}, ["-c", 'sandbox_mode="read-only"']),
        (
            {"arguments": ("-c", 'model_reasoning_effort="high"'), "model": "m"},
            ["--sandbox", "workspace-write", "--model", "m", "-c", 'model_reasoning_effort="high"'],
        ),
    ],
)
def test_how_it_is_called(player: Player, facts: dict[str, Any], argv: list[str]) -> None:
    act(player, completed(), **facts)
    [call] = player.calls
    assert call["argv"] == ["exec", "--json", *argv, "-"]
    assert call["given"] == "Do it"
    assert call["cwd"] == str(player.program.parent)
    assert not any("Do it" in value for value in call["env"].values())


@pytest.mark.parametrize(
    "arguments",
    [
        ("-C", "/elsewhere"),
        ("--cd=/elsewhere",),
        ("-C/elsewhere",),
        ("--worktree",),
        ("--ephemeral",),
        ("-mgpt-6",),
        ("--model", "gpt-6"),
        ("--json",),
        ("--help",),
        ("--",),
        ("resume", "--last"),
        ("say hello",),
    ],
)
def test_arguments_that_would_break_what_is_built_on_are_refused(player: Player, arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        run(player, arguments=arguments)
    assert caught.value.hint
    assert not player.calls


REFUSED = "the API refused the request: "
BROKEN = "CONNECTION ERROR: "
ENDS = [
    (
        "unexpected status 401 Unauthorized: scripted words, url: http://127.0.0.1:39915/v1/responses",
        "refused",
        REFUSED + "unexpected status 401 Unauthorized: scripted words",
    ),
    ("unexpected status 403 Forbidden: no", "refused", REFUSED + "unexpected status 403 Forbidden: no"),
    ("unexpected status 404 Not Found: no model", "refused", REFUSED + "unexpected status 404 Not Found: no model"),
    ('{"error": {"type": "invalid", "message": "bad  request"}}', "refused", REFUSED + "bad request"),
    ("Missing environment variable: `OPENAI_KEY`.", "refused", "Missing environment variable: `OPENAI_KEY`."),
    (
        "exceeded retry limit, last status: 429 Too Many Requests",
        "limit",
        "the API's limit is reached: exceeded retry limit, last status: 429 Too Many Requests",
    ),
    ("You've hit your usage limit.", "limit", "You've hit your usage limit."),
    ("Quota exceeded. Check your plan.", "limit", "Quota exceeded. Check your plan."),
    ("Codex ran out of room in the model's context window.", "limit", None),
    (
        "unexpected status 503 Service Unavailable: x",
        "network",
        BROKEN + "unexpected status 503 Service Unavailable: x",
    ),
    ("unexpected status 408 Request Timeout: x", "network", BROKEN + "unexpected status 408 Request Timeout: x"),
    (
        "stream disconnected before completion: stream closed before response.completed",
        "network",
        BROKEN + "stream disconnected before completion: stream closed before response.completed",
    ),
    ("Selected model is at capacity.", "network", BROKEN + "Selected model is at capacity."),
    ("something nobody has seen\nbefore", "exit", "something nobody has seen before"),
]


@pytest.mark.parametrize(("message", "kind", "reason"), ENDS)
def test_a_turn_that_failed_is_never_done_and_says_why(
    player: Player, message: str, kind: str, reason: str | None
) -> None:
    events = act(player, says(1, "Looking"), *failed(message), status=1)
    assert events[-1] == Failed(reason or message, kind, said="Looking")  # type: ignore[arg-type]
    assert not only(events, Notice), "the same words are the reason"


def test_an_error_that_the_turn_survives_is_a_warning_told_once(player: Player) -> None:
    warning = line("error", message="careful")
    events = act(player, warning, warning, item(0, "error", message="careful"), says(1, "fine"), completed())
    assert only(events, Notice) == [Notice("codex: careful")]
    assert events[-1] == Done(said="fine")


def test_an_end_in_the_middle_of_a_turn_is_no_success(player: Player) -> None:
    expected = Failed("codex ended before its turn did", "exit", "Done!")
    assert act(player, says(1, "Done!"))[-1] == expected
    assert act(player, says(1, "Done!"), completed(), line("turn.started"))[-1] == expected


@pytest.mark.parametrize(("status", "how"), [(1, "exited with status 1"), (-9, "was killed by SIGKILL")])
def test_an_end_by_itself_says_the_last_that_was_heard(player: Player, status: int, how: str) -> None:
    events = act(player, status=status, stderr="warning: x\nError: no such profile\n")
    assert events[-1] == Failed(f"codex {how}: Error: no such profile", "exit")


ESCALATION = "approval policy is Never; reject command — you cannot ask for escalated permissions if it is Never"
DENIALS = [
    (
        "patch rejected: writing outside of the project; rejected by user approval settings",
        "patch rejected: writing outside of the project; rejected by user approval settings",
        True,
    ),
    (ESCALATION, ESCALATION, True),
    (
        'exec_command failed: CreateProcess { message: "Rejected(\\"`git commit` rejected: policy forbids it\\")" }',
        "`git commit` rejected: policy forbids it",
        False,
    ),
]


@pytest.mark.parametrize(("error", "words", "sandbox"), DENIALS)
def test_what_it_was_not_allowed_is_no_success(player: Player, error: str, words: str, *, sandbox: bool) -> None:
    """Codex says so on its standard error, and ends as if nothing had been."""
    events = act(player, says(1, "end"), completed(), stderr=f"{ROUTER}{error}\nwarning: something else\n")
    how = "; --allow-commands takes its sandbox away" if sandbox else ""
    assert events[-1] == Failed(f"Codex was not allowed what it wanted ({words}){how}", "denied", "end")


def test_a_command_that_was_declined_is_no_success(player: Player) -> None:
    events = act(player, *runs(1, "git push", status="declined"), completed())
    assert events[-1] == Failed("Codex was not allowed what it wanted (shell: git push)", "denied")


def test_a_tool_that_failed_is_no_denial(player: Player) -> None:
    words = "apply_patch verification failed: Failed to find expected lines in a.py: state = 'rejected'"
    events = act(player, completed(), stderr=f"{ROUTER}{words}\n")
    assert isinstance(events[-1], Done)


def test_a_session_that_is_gone_is_begun_anew_with_what_was_done(player: Player) -> None:
    player.act([], status=1, stderr=GONE)
    player.act([*begins("01a22850-3cf9-75c3-aec1-a07c5c3d7d32"), completed(300, 20)])
    native = Native(THREAD, player.program.parent, version=VERSION, counted=sums(1000, 50))
    events = run(player, native=native, briefing="a.txt was written")
    first, second = player.calls
    assert "resume" in first["argv"]
    assert second["argv"] == ["exec", "--json", "--sandbox", "workspace-write", "-"]
    assert "a.txt was written" in second["given"]
    assert any("cannot go on with its session" in notice.text for notice in only(events, Notice))
    assert only(events, Usage) == [Usage(300, 20)], "a new session has spent nothing before"
    assert isinstance(events[-1], Done)


def test_a_session_that_somebody_else_writes_is_not_given_up(player: Player) -> None:
    words = f"Error: thread/resume: thread/resume failed: thread {THREAD} already has an active writer (code -32600)"
    player.act([], status=1, stderr=words + "\n")
    events = run(player, native=Native(THREAD, player.program.parent, version=VERSION))
    assert events[-1] == Failed(f"codex exited with status 1: {words}", "exit")
    assert len(player.calls) == 1


@pytest.mark.parametrize("name", ["--last", "a thread of that name", f"{THREAD}x"])
def test_only_a_uuid_is_taken_for_a_session(player: Player, name: str) -> None:
    """Codex would begin a new session for any other name, without a word."""
    act(player, completed(), native=Native(name, player.program.parent, version=VERSION), briefing="b was done")
    [call] = player.calls
    assert call["argv"] == ["exec", "--json", "--sandbox", "workspace-write", "-"]
    assert "b was done" in call["given"]


def test_waiting_for_a_network_is_told_once_and_is_no_sign_of_life(player: Player) -> None:
    waits = line("error", message="Reconnecting... waiting for network (Connection failed)")
    player.act([*begins(), waits, waits, waits], stays=True)
    backend = WrappedBackend(Dialect(), stop_grace=0.3, terminate_grace=0.3, pipe_grace=0.3)
    events, ticks = [], []
    for event in backend.run(command_job(player.program.parent)):
        if not isinstance(event, Tick):
            events.append(event)
        elif only(events, Notice):
            ticks.append(event.heard)
            if len(ticks) == 5:
                backend.stop()
    assert len(only(events, Notice)) == 1
    assert not any(ticks)


def test_a_line_of_anything_else_is_a_sign_of_life(player: Player) -> None:
    backend = WrappedBackend(Dialect(), stop_grace=0.3, terminate_grace=0.3, pipe_grace=0.3)
    player.act(
        [*begins(), line("error", message="Reconnecting... 1/5 (x)"), item(1, "reasoning", text="hm")], stays=True
    )
    heard = []
    for event in backend.run(command_job(player.program.parent)):
        if isinstance(event, Tick):
            heard.append(event.heard)
            if any(heard):
                backend.stop()
        assert len(heard) < 2000
    assert any(heard)


def test_files_are_named_from_the_worktree_and_only_a_few(player: Player) -> None:
    place = player.program.parent
    paths = [place / "src" / f"{name}.py" for name in "abcd"]
    events = act(player, *edits(1, *paths), *edits(2, "/etc/hosts", status="failed"), completed())
    assert [hint.description for hint in only(events, CheckpointHint)] == [
        "edit: src/a.py, src/b.py, src/c.py and 1 more",
        "edit: /etc/hosts",
    ]


def test_a_command_is_shown_by_its_first_line_without_secrets(player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "tok-0123456789")
    events = act(player, *runs(1, "\ncurl -H tok-0123456789 " + "x" * 300 + "\nSECOND"), completed())
    assert shown(events).startswith("[shell] curl -H *** xxx")
    assert len(shown(events)) < 130
    [hint] = only(events, CheckpointHint)
    assert "SECOND" not in hint.description
    assert "tok-" not in hint.description


def test_tools_of_others_and_subagents_may_change_files_too(player: Player) -> None:
    mcp = {"server": "files", "tool": "write", "arguments": {"content": "secret"}}
    events = act(
        player,
        item(1, "mcp_tool_call", event="item.started", status="in_progress", **mcp),
        item(1, "mcp_tool_call", status="completed", **mcp),
        item(2, "collab_tool_call", status="completed", tool="wait"),
        item(3, "web_search", query="how to", action={}),
        item(4, "todo_list", items=[]),
        completed(),
    )
    assert [hint.description for hint in only(events, CheckpointHint)] == ["files.write", "agents: wait"]
    assert shown(events) == "[files.write]\n[web_search] how to\n"


@pytest.mark.parametrize(
    "strange",
    [
        '{"type": "thread.started", "thread_id": 7}',
        '{"type": "item.completed", "item": "none"}',
        '{"type": "item.completed", "item": {"id": 1, "type": "file_change", "changes": "x"}}',
        '{"type": "item.completed", "item": {"type": "agent_message", "text": null}}',
        '{"type": "item.updated"}',
        '{"type": "error"}',
        '{"type": ["x"]}',
        '{"no": "type"}',
    ],
)
def test_lines_that_do_not_fit_are_borne(player: Player, strange: str) -> None:
    events = act(player, strange, says(1, "end"), completed())
    assert events[-1] == Done(said="end")
    assert only(events, Usage) == [Usage(10, 5)]


def test_usage_that_is_no_numbers_is_none(player: Player) -> None:
    usage = {"input_tokens": "many", "output_tokens": None, "cached_input_tokens": True}
    events = act(player, line("turn.completed", usage=usage))
    assert not only(events, Usage)
    assert isinstance(events[-1], Done)


def test_a_record_that_cannot_be_read_is_as_none(player: Player, seal: Path) -> None:
    path = record(seal, input=1, output=1)
    path.write_bytes(b'\xff{"turn_context"\n{"type":"turn_context","payload":[]}\n{"type":"token_count"}\n')
    events = act(player, completed(), native=Native(THREAD, player.program.parent))
    assert not only(events, Usage)
    assert isinstance(events[-1], Done)
