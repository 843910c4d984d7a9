"""What one session hands over to the next."""

from __future__ import annotations

from typing import Any

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession.errors import SessionCorrupted, SessionNotFound, UsageError
from gitsession.verbs.handover import SESSION_LIMIT, hand_over, joined


def ended(repo: GitRepo, session_id: str = "first") -> TestSession:
    session = TestSession(repo, session_id)
    repo.write("src/new.py", "x = 1\n")
    session.checkpoint("analysis results")
    with session.store.edit(session_id) as draft:
        draft.log("status", to="running")
        draft.log("prompt", text="do it", phase="analysis", task="do it")
        call: dict[str, Any] = {
            "type": "tool_use",
            "id": "t1",
            "name": "finish_phase",
            "input": {"summary": "15 functions", "details": "They all talk SQL.", "decisions": ["one repository each"]},
        }
        message = {"id": "m", "stop_reason": "tool_use", "content": [call]}
        draft.log("reply", message=message, usage={"input": 1, "output": 1})
        draft.log("tool_result", call="t1", text="ok", phase="implementation")
        finding = {"file": "src/new.py", "line": 1, "severity": "warning", "message": "magic number", "quote": "x = 1"}
        draft.log("findings", call="t9", findings=[finding], dropped=0)
        draft.log("status", to="paused", reason="enough")
    return session


def test_conclusions_decisions_changes_and_findings(repo: GitRepo) -> None:
    session = ended(repo)
    (given,) = hand_over(session.store, ["first"])
    assert given["session"] == "first"
    lines = given["text"].splitlines()
    assert lines[0].startswith("Session first (paused ")
    assert lines[0].endswith("), task: task")
    assert lines[1:] == [
        "Result of the analysis: 15 functions",
        "They all talk SQL.",
        "Decisions:",
        "- one repository each",
        "Changes:",
        "- added src/new.py",
        "Findings of its review:",
        "- warning src/new.py:1: magic number",
    ]


def test_a_session_without_a_conversation_hands_over_its_checkpoints(repo: GitRepo) -> None:
    session = TestSession(repo, "plain")
    session.checkpoint("first step")
    with session.store.edit("plain") as draft:
        draft.log("status", to="running")
        draft.log("status", to="completed")
    assert "Checkpoints:\n- 0: first step" in hand_over(session.store, ["plain"])[0]["text"]


def test_several_sessions_each_once(repo: GitRepo) -> None:
    session = ended(repo)
    ended(repo, "second")
    given = hand_over(session.store, ["first", "second", "fir"])
    assert [one["session"] for one in given] == ["first", "second"]
    text = joined(given)
    assert text is not None
    assert text.count("15 functions") == 2
    assert joined([]) is None


def test_it_is_bounded(repo: GitRepo) -> None:
    session = ended(repo)
    with session.store.edit("first") as draft:
        draft.log(
            "settings", values={"findings": [{"severity": "x", "file": "f", "line": 1, "message": "y" * 290}] * 99}
        )
    text = hand_over(session.store, ["first"])[0]["text"]
    assert len(text) < SESSION_LIMIT + 100
    assert text.endswith("more characters]")


def test_what_cannot_hand_over_is_refused(repo: GitRepo) -> None:
    session = ended(repo)
    with pytest.raises(SessionNotFound):
        hand_over(session.store, ["nobody"])
    TestSession(repo, "fresh")
    with pytest.raises(UsageError, match="session fresh is created"):
        hand_over(session.store, ["first", "fresh"])
    with session.store.own("first"):
        with session.store.edit("first") as draft:
            draft.log("status", to="running")
        with pytest.raises(UsageError, match="is running"):
            hand_over(session.store, ["first"])
    assert len(hand_over(session.store, ["first"])) == 1, "one that died has something to say"
    (session.store.sessions_dir / "first.json").write_text("{")
    with pytest.raises(SessionCorrupted):
        hand_over(session.store, ["first"])
