"""The session file: the published example is one, field for field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from gitsession.model import Session
from gitsession.store import record
from gitsession.store.record import FIELD_ORDER, parse, serialize

EXAMPLE = Path(__file__).parent / "data" / "session_example.json"


def example() -> dict[str, Any]:
    """The published example, its elisions read as empty lists, under the id it says it has."""
    doc: dict[str, Any] = json.loads(EXAMPLE.read_bytes())
    return doc


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(item)


def test_the_published_example_is_a_session() -> None:
    session = Session.model_validate(example())
    assert (session.id, session.status, session.model) == ("sess_1740480000_a3f7b2c1", "paused", "claude-opus-4-6")
    assert session.task == "将用户模块从单体架构重构为微服务架构"
    assert [checkpoint.index for checkpoint in session.checkpoints] == [0, 1]
    assert session.last_checkpoint is session.checkpoints[1]
    assert session.checkpoints[1].files_changed == ["src/user/service.go"]
    assert session.context.working_branch == "refactor/user-microservice"
    assert session.cost.total_tokens == sum(c.tokens_used.input + c.tokens_used.output for c in session.checkpoints)
    assert session.metadata.git_commit == "a7e37ab"


def test_the_published_example_comes_back_field_for_field() -> None:
    assert Session.model_validate(example()).model_dump(mode="json", exclude_unset=True) == example()


def test_unknown_fields_survive_at_every_level() -> None:
    doc = example()
    doc["repository"] = {"worktree": "/w", "git_dir": "/w/.git", "common_dir": "/w/.git"}
    doc["base"] = {"commit": "c", "tree": "t"}
    doc["runs"] = [{"started_at": "2026-02-25T10:00:00Z"}]
    doc["checkpoints"][0] |= {
        "changes": [{"path": "a", "status": "added"}], "skipped": [{"path": "b", "reason": "fifo"}]
    }  # fmt: skip
    for place in list(objects(doc)):
        place["from_the_future"] = {"kept": [1, None, "é"]}
    assert Session.model_validate(doc).model_dump(mode="json", exclude_unset=True) == doc


def test_defaults_fill_in_what_the_example_lacks() -> None:
    session = Session.model_validate(example())
    assert (session.schema_version, session.priority, session.repository, session.runs) == (1, 0, None, [])
    assert session.checkpoints[0].commit is None


@pytest.mark.parametrize(
    ("field", "value"), [("status", 5), ("files", "a.py"), ("checkpoints", [{}]), ("metadata", {}), ("cost", [])]
)
def test_a_field_of_another_shape_is_named(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        Session.model_validate(example() | {field: value})
    assert caught.value.errors()[0]["loc"][0] == field


def test_the_file_tells_its_fields_in_the_order_of_the_model() -> None:
    assert (*Session.model_fields, "journal") == FIELD_ORDER


@pytest.mark.parametrize("size", [0, 1 << 30])
def test_the_text_of_a_file_is_indented_utf8_in_the_published_order(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "sys", SimpleNamespace(modules={}))  # a process that has not loaded pydantic
    doc = dict(reversed(example().items())) | {"zz_unknown": 1}
    data = serialize(doc, size)
    assert data.startswith(b'{\n  "id": "sess_1740480000_a3f7b2c1",\n  "status": "paused",')
    assert "将用户模块".encode() in data
    assert data.endswith(b"}\n")
    assert [*json.loads(data)] == [*example(), "zz_unknown"]
    read = parse(data, tmp_path / f"{doc['id']}.json")
    assert read == doc | {"journal": {"seq": 0, "offset": 0}}
