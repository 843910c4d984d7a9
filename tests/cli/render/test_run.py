"""How a run is drawn: the lines of the worked example, and the JSON of both kinds."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gitsession.cli.render.run import JsonRun, StreamJsonRun, TextRun, saved
from gitsession.verbs import events

TOTALS = events.Totals(
    active_seconds=754.0,
    paused_seconds=7200.0,
    cost_usd=0.87,
    input_tokens=30800,
    output_tokens=8300,
    created=3,
    modified=3,
    deleted=0,
)
ID = "sess_1740480000_a3f7b2c1"
FIRST = [
    events.SessionCreated(ID),
    events.PhaseChanged("analysis", "Analyzing 3 files...", done=False),
    events.PhaseChanged("analysis", "Identified 15 functions to refactor", done=True),
    events.CheckpointSaved(0, "analysis results", (), (), "agent"),
    events.PhaseChanged("implementation", "Refactoring src/user/db.go...", done=False),
    events.PhaseChanged("implementation", "Created src/user/repository.go", done=True),
    events.CheckpointSaved(1, "Saved user module changes", ("src/user/db.go",), (), "agent"),
    events.PhaseChanged("implementation", "Refactoring src/order/db.go...", done=False),
    events.BackendError("CONNECTION ERROR: network timeout after 30s"),
    events.Ended(events.Outcome(ID, "paused", 3, "CONNECTION ERROR: network timeout after 30s", 1, TOTALS)),
]
SECOND = [
    events.Resuming(ID, 1, "user module completed"),
    events.PhaseChanged("review", "Running code review...", done=False),
    events.PhaseChanged("review", "No critical issues found", done=True),
    events.Ended(events.Outcome(ID, "completed", 0, None, 3, TOTALS)),
]


def drawn(run: TextRun | JsonRun | StreamJsonRun, told: list[events.RunEvent]) -> None:
    for event in told:
        run(event)
    run.close()


def test_a_run_that_loses_its_network(capsys: pytest.CaptureFixture[str]) -> None:
    drawn(TextRun(), FIRST)
    assert capsys.readouterr().out == (
        "Session created: sess_1740480000_a3f7b2c1\n"
        "[Phase: analysis] Analyzing 3 files...\n"
        "[Phase: analysis] DONE - Identified 15 functions to refactor\n"
        "[Checkpoint 0] Saved analysis results\n"
        "[Phase: implementation] Refactoring src/user/db.go...\n"
        "[Phase: implementation] DONE - Created src/user/repository.go\n"
        "[Checkpoint 1] Saved user module changes\n"
        "[Phase: implementation] Refactoring src/order/db.go...\n"
        "CONNECTION ERROR: network timeout after 30s\n"
        "Session paused: sess_1740480000_a3f7b2c1 (checkpoint 1)\n"
    )


def test_a_run_that_completes(capsys: pytest.CaptureFixture[str]) -> None:
    drawn(TextRun(), SECOND)
    assert capsys.readouterr().out == (
        "Resuming from checkpoint 1 (user module completed)\n"
        "[Phase: review] Running code review...\n"
        "[Phase: review] DONE - No critical issues found\n"
        "\n"
        "Session completed: sess_1740480000_a3f7b2c1\n"
        "Total time: 12m 34s (excluding 2h pause)\n"
        "Total cost: $0.87\n"
        "Files created: 3, Files modified: 3\n"
    )


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (
            events.Outcome(ID, "paused", 3, "the time limit is reached", None, TOTALS),
            ["Stopped: the time limit is reached", f"Session paused: {ID} (no checkpoint yet)"],
        ),
        (
            events.Outcome(ID, "paused", 1, "the last checkpoint failed: disk full", 4, TOTALS),
            ["Stopped: the last checkpoint failed: disk full", f"Session failed: {ID} (paused, checkpoint 4)"],
        ),
        (
            events.Outcome(ID, "completed", 0, None, 0, events.Totals(1.0, 0.0, None, 0, 0, 0, 1, 2)),
            [
                "",
                f"Session completed: {ID}",
                "Total time: 1s",
                "Total cost: unknown",
                "Files created: 0, Files modified: 1, Files deleted: 2",
            ],
        ),
    ],
)
def test_other_endings(outcome: events.Outcome, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    TextRun()(events.Ended(outcome))
    assert capsys.readouterr().out.splitlines() == expected


def test_resuming_before_any_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    TextRun()(events.Resuming(ID, None, None))
    assert capsys.readouterr().out == "Resuming from the start (no checkpoint yet)\n"


@pytest.mark.parametrize(
    ("description", "line"),
    [
        ("analysis results", "[Checkpoint 2] Saved analysis results"),
        ("Saved analysis results", "[Checkpoint 2] Saved analysis results"),
        ("Savedata moved", "[Checkpoint 2] Saved Savedata moved"),
        ("完成代码分析", "[Checkpoint 2] Saved 完成代码分析"),
        ("two\nlines \x1b[2J", "[Checkpoint 2] Saved two lines ^[[2J"),
    ],
)
def test_a_checkpoint_is_saved_once(description: str, line: str) -> None:
    assert saved(2, description) == line


def test_agent_output_passes_through_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    run = TextRun()
    run(events.AgentOutput("a line\twith a tab\r\n", "stdout"))
    run(events.AgentOutput("\x1b[31mred\n", "stderr"))
    run(events.AgentOutput("half ", "stdout"))
    run(events.AgentOutput("aside\n", "stderr"))
    run(events.AgentOutput("a line", "stdout"))
    run(events.PhaseChanged("review", "", done=True))
    written = capsys.readouterr()
    assert written.out == "a line\twith a tab\nhalf a line\n[Phase: review] DONE\n"
    assert written.err == "^[[31mred\naside\n"


def test_a_line_left_open_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    drawn(TextRun(), [events.AgentOutput("no newline", "stdout")])
    assert capsys.readouterr().out == "no newline\n"


def test_warnings_are_beside_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    TextRun()(events.Warned("left out: big.bin (too large)"))
    assert capsys.readouterr() == ("", "warning: left out: big.bin (too large)\n")


def test_stream_json_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    aside = [events.Warned("careful"), events.AgentOutput("two\nlines\n", "stdout")]
    drawn(StreamJsonRun(), [*FIRST[:1], *aside, *FIRST[-4:], SECOND[0]])
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert objects == [
        {"type": "session_created", "session_id": ID},
        {"type": "warning", "text": "careful"},
        {"type": "output", "stream": "stdout", "text": "two\nlines\n"},
        {
            "type": "checkpoint",
            "index": 1,
            "description": "Saved user module changes",
            "files_changed": ["src/user/db.go"],
            "skipped": [],
            "trigger": "agent",
        },
        {"type": "phase", "phase": "implementation", "text": "Refactoring src/order/db.go...", "done": False},
        {"type": "error", "text": "CONNECTION ERROR: network timeout after 30s"},
        {
            "type": "ended",
            "session_id": ID,
            "status": "paused",
            "exit_status": 3,
            "reason": "CONNECTION ERROR: network timeout after 30s",
            "checkpoint": 1,
            "totals": {
                "active_seconds": 754.0,
                "paused_seconds": 7200.0,
                "cost_usd": 0.87,
                "input_tokens": 30800,
                "output_tokens": 8300,
                "created": 3,
                "modified": 3,
                "deleted": 0,
            },
        },
        {"type": "resuming", "session_id": ID, "checkpoint": 1, "description": "user module completed"},
    ]


def test_json_is_one_object_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    drawn(JsonRun(), [events.Warned("careful"), events.AgentOutput("hello\n", "stdout"), *FIRST])
    written = capsys.readouterr()
    result = json.loads(written.out)
    assert list(result) == [
        "session_id",
        "status",
        "exit_status",
        "reason",
        "checkpoint",
        "checkpoints",
        "warnings",
        "errors",
        "totals",
    ]
    assert [one["index"] for one in result["checkpoints"]] == [0, 1]
    assert result["warnings"] == ["careful"]
    assert result["errors"] == ["CONNECTION ERROR: network timeout after 30s"]
    assert written.err == "hello\n"


def test_lines_do_not_run_together_where_both_streams_lead_to_one_place() -> None:
    code = (
        "from gitsession.cli.render.run import TextRun\n"
        "from gitsession.verbs import events\n"
        "run = TextRun()\n"
        "for text, stream in [('half', 'stdout'), ('aside', 'stderr'), ('rest\\n', 'stdout'), ('more', 'stderr')]:\n"
        "    run(events.AgentOutput(text, stream))\n"
        "run(events.Warned('careful'))\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.stdout == b"half\naside\nrest\nmore\nwarning: careful\n"
