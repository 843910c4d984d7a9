"""How far Claude Code's conversation has come is read from its own record, as far as that tells."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from feeding import Claude, only_session
from support import GitRepo
from verbs.test_tracking import begin, tell

from gitsession.verbs.whereabouts import Whereabouts, whereabouts


def line(uuid: str, *blocks: dict[str, Any], kind: str = "assistant", **more: Any) -> str:
    """A line as Claude Code 2.1.197 writes it."""
    message = {"role": kind, "model": "claude-opus-4-8", "content": list(blocks)}
    return json.dumps(
        {"type": kind, "uuid": uuid, "isSidechain": False, "version": "2.1.197", "message": message, **more}
    )


def use(call: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "Write", "input": {}}


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "record.jsonl"
    lines = [
        line("u1", {"type": "text", "text": "do it"}, kind="user"),
        line("a1", use("toolu_1")),
        line("u2", {"type": "tool_result", "tool_use_id": "toolu_1"}, kind="user"),
        line("a2", use("toolu_2")),
        line("s1", use("toolu_s"), isSidechain=True),
        json.dumps({"type": "last-prompt"}),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_newest_message_of_the_agents_own(record: Path) -> None:
    assert whereabouts("claude-code", str(record)) == Whereabouts("a2", "2.1.197", "claude-opus-4-8")


def test_the_message_that_asked_for_a_call(record: Path) -> None:
    assert whereabouts("claude-code", str(record), "toolu_1").at == "a1"


@pytest.mark.parametrize("call", ["toolu_3", "toolu_s"])
def test_a_call_that_is_not_in_it_is_not_guessed(record: Path, call: str) -> None:
    assert whereabouts("claude-code", str(record), call) == Whereabouts()


def test_only_the_end_of_a_long_record_is_read(record: Path) -> None:
    with record.open("a") as file:
        file.write(line("x", {"type": "text", "text": "x" * 300_000}, kind="user") + "\n")
    assert whereabouts("claude-code", str(record)) == Whereabouts()
    with record.open("a") as file:
        file.write(line("a3") + "\n" + line("a4")[:20])
    assert whereabouts("claude-code", str(record)).at == "a3"


def test_what_is_no_record_tells_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "odd").write_text(
        '["assistant"]\n{"type": "assistant", "message": "assistant"}\n"assistant"\n[[[[assistant\n'
    )
    for path in ("/nowhere", str(tmp_path), str(tmp_path / "fifo"), str(tmp_path / "odd"), "a\0b", None):
        assert whereabouts("claude-code", path) == Whereabouts()


def test_other_agents_have_no_such_places(record: Path) -> None:
    assert whereabouts("codex", str(record)) == Whereabouts()


def test_a_checkpoint_says_where_the_conversation_was(repo: GitRepo, record: Path) -> None:
    claude = Claude(repo.path)
    begin(claude)
    repo.write("README.md", "changed\n")
    tell({**claude.wrote("toolu_1", "README.md"), "transcript_path": str(record)})
    tell({**claude.stop(), "transcript_path": str(record)})
    doc = only_session()
    assert doc["checkpoints"][0]["agent"] == {"agent": "claude-code", "id": claude.session, "at": "a1"}
    assert (doc["agents"][-1]["version"], doc["agents"][-1]["model"]) == ("2.1.197", "claude-opus-4-8")
