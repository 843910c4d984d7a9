"""A checkpoint's record, and what the ref holds beyond it."""

from __future__ import annotations

from contextlib import closing

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession.config import Settings
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.verbs.checkpoint import Recorder, checkpoint, repository_of


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    return TestSession(repo)


def test_a_text_that_is_no_unicode_is_escaped_before_it_is_committed(session: TestSession) -> None:
    with closing(Recorder(session.store, "s1", repository_of(session.doc), Settings())) as recorder:
        recorder.take("agent", "caf\udce9", always=True, call="call\ud800", agent={"agent": "x\udcff"})
    [record] = session.records
    assert (record["description"], record["call"]) == ("caf\\udce9", "call\\ud800")
    assert record["agent"] == {"agent": "x\\udcff"}
    assert session.user.git("rev-parse", "refs/pinable/s1") == record["commit"]


def test_a_commit_whose_text_is_no_unicode_is_adopted(session: TestSession) -> None:
    session.checkpoint("first")
    before = session.records[-1]
    with closing(Objects(repository_of(session.doc))) as objects:
        record = {name: value for name, value in before.items() if name not in ("commit", "tree", "said")}
        commit = Ledger(repository_of(session.doc), objects, "s1").append(
            before["tree"],
            tip=before["commit"],
            parent=before["commit"],
            subject="checkpoint 1",
            index=1,
            record={**record, "index": 1, "description": "caf\udce9"},
        )
    checkpoint(session.store, "s1", "after", Settings())
    assert [one["description"] for one in session.records] == ["first", "caf\\udce9", "after"]
    assert session.records[1]["commit"] == commit
