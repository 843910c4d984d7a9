"""Members of a chain wait for each other, and hand over what they found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import GitRepo

from gitsession import SessionStore
from gitsession.config import Settings
from gitsession.errors import BadValue, IllegalTransition, StoreError, UsageError
from gitsession.store.chains import Chain, ChainStore
from gitsession.verbs import events
from gitsession.verbs.chainrun import ChainRunner, tasks
from gitsession.verbs.chains import status
from gitsession.verbs.run import Runner, RunRequest

CHAIN = Chain("c", ("sess_a", "sess_b", "sess_c"), "2026-02-25T10:00:00Z")
Run = Callable[..., events.Outcome]


@pytest.fixture
def store() -> SessionStore:
    return SessionStore()


@pytest.fixture
def chain(store: SessionStore) -> Chain:
    return ChainStore(store.home).create("c", CHAIN.sessions)


def request(repo: GitRepo, script: str, session_id: str | None = None, **more: object) -> RunRequest:
    return RunRequest(
        start=repo.path, task="do it", command=("sh", "-c", script), session_id=session_id, **more  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.fixture
def run(repo: GitRepo, store: SessionStore) -> Run:
    def runs(session_id: str | None, script: str, **more: object) -> events.Outcome:
        return Runner(store, request(repo, script, session_id, **more), lambda _: None, Settings()).run()

    return runs


@pytest.mark.parametrize("state", ["missing", "paused", "corrupted"])
def test_a_member_waits_for_the_one_before_it(
    run: Run, store: SessionStore, chain: Chain, repo: GitRepo, state: str
) -> None:
    if state != "missing":
        run("sess_a", "exit 1")
    if state == "corrupted":
        (store.sessions_dir / "sess_a.json").write_text("{")
        (store.sessions_dir / "sess_a.journal").unlink()
    how = {"missing": "does not exist yet", "paused": "is paused", "corrupted": "cannot be read"}[state]
    with pytest.raises(IllegalTransition, match=rf"^session sess_b waits for sess_a, which {how} \(chain c\)$"):
        run("sess_b", "touch begun")
    assert not store.exists("sess_b")
    assert not repo.at("begun").exists()
    assert run("sess_b", "touch begun", force=True).status == "completed"


def test_a_member_begins_with_what_the_one_before_it_found(run: Run, repo: GitRepo, chain: Chain) -> None:
    run("sess_a", "touch found; echo '::checkpoint::The parser is in src'")
    run("sess_b", 'cp "$PINABLE_CONTEXT" ../context; echo "$PINABLE_CONTEXT" > ../place; exit 1')
    context = repo.path.parent / "context"
    assert "task: do it\n" in context.read_text()
    assert "- 0: The parser is in src\n" in context.read_text()
    assert "- added found\n" in context.read_text()
    assert context.stat().st_mode & 0o777 == 0o600
    assert not Path((repo.path.parent / "place").read_text().strip()).exists()
    context.unlink()
    # The same in a resume, whatever becomes of the one before it.
    run("sess_b", 'cp "$PINABLE_CONTEXT" ../context')
    assert "The parser is in src" in context.read_text()


def test_chain_and_context_from_are_both_handed_over(
    run: Run, repo: GitRepo, chain: Chain, store: SessionStore
) -> None:
    for session_id in ("other", "sess_a"):
        run(session_id, "true")
    run("sess_b", "true", context_from=("other", "sess_a"))
    handed = store.read("sess_b")["context"]["handed_over"]
    assert [one["session"] for one in handed] == ["sess_a", "other"]


def test_without_a_context_there_is_no_variable(run: Run, repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINABLE_CONTEXT", "of somebody else")
    assert run("alone", '[ -z "${PINABLE_CONTEXT+set}" ]').status == "completed"


def test_forced_a_member_inherits_from_one_that_is_paused(run: Run, chain: Chain, store: SessionStore) -> None:
    run("sess_a", "exit 1")
    run("sess_b", "true", force=True)
    assert store.read("sess_b")["context"]["handed_over"][0]["session"] == "sess_a"


def test_a_session_that_has_run_goes_on(run: Run, chain: Chain) -> None:
    run("sess_b", "exit 1", force=True)
    assert run("sess_b", "true").status == "completed"


def test_a_members_name_is_no_beginning_of_another(run: Run, chain: Chain, store: SessionStore) -> None:
    run("sess_a", "true")
    run("sess_bbb", "true")
    assert run("sess_b", "true").session_id == "sess_b"


def test_a_chain_that_cannot_be_read_lets_nobody_begin_by_name(run: Run, chain: Chain, store: SessionStore) -> None:
    (store.home / "chains" / "c.json").write_text("")
    with pytest.raises(StoreError, match="is not a chain"):
        run("sess_b", "true")
    assert run(None, "true").exit_status == 0


def test_the_status_says_who_waits_for_whom(run: Run, chain: Chain, store: SessionStore) -> None:
    run("sess_a", "true")
    found = status(store, chain)
    assert [(one.state, one.waits_for) for one in found.members] == [
        ("completed", None),
        ("pending", None),
        ("pending", "sess_b"),
    ]
    assert found.members[0].since == store.read("sess_a")["runs"][0]["ended_at"]
    run("sess_b", "exit 1")
    assert [(one.state, one.waits_for) for one in status(store, chain).remaining] == [
        ("paused", None),
        ("pending", "sess_b"),
    ]


def test_one_task_for_all() -> None:
    text = "# Do it\n\n## other\nsess_a\n"
    assert tasks(CHAIN, text) == {"sess_a": text, "sess_b": text, "sess_c": text}


def test_a_task_for_each() -> None:
    text = "For all\n\n# sess_a\none\n## more\nof one\n### sess_b \ntwo\n"
    assert tasks(CHAIN, text) == {"sess_a": "For all\n\none\n## more\nof one", "sess_b": "For all\n\ntwo"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# sess_a\nx\n# sess_a\ny", "two sections sess_a"),
        ("# sess_a\n\n# sess_b\ny", "section sess_a of the task file is empty"),
    ],
)
def test_task_files_that_cannot_be(text: str, words: str) -> None:
    with pytest.raises(BadValue, match=words):
        tasks(CHAIN, text)


def test_the_rest_of_a_chain_runs_until_one_does_not_complete(
    repo: GitRepo, run: Run, chain: Chain, store: SessionStore
) -> None:
    run("sess_a", "exit 1")
    script = 'echo "$PINABLE_SESSION_ID: $PINABLE_TASK" >> ../log; [ $PINABLE_SESSION_ID != sess_b ]'
    runner = ChainRunner(store, chain, request(repo, script), lambda _: None, Settings())
    outcomes = list(runner.run(dict.fromkeys(chain.sessions, "a new task")))
    assert [(one.session_id, one.exit_status) for one in outcomes] == [("sess_a", 0), ("sess_b", 3)]
    assert (repo.path.parent / "log").read_text() == "sess_a: do it\nsess_b: a new task\n"
    assert not store.exists("sess_c")


def test_a_missing_task_is_told_before_anything_runs(repo: GitRepo, chain: Chain, store: SessionStore) -> None:
    runner = ChainRunner(store, chain, request(repo, "true"), lambda _: None, Settings())
    with pytest.raises(UsageError, match="there is no task for sess_b"):
        list(runner.run({"sess_a": "x", "sess_c": "x"}))
    assert store.ids() == []


def test_a_stop_ends_the_run_and_begins_no_other(repo: GitRepo, chain: Chain, store: SessionStore) -> None:
    def stop(event: events.RunEvent) -> None:
        if isinstance(event, events.AgentOutput):
            runner.request_stop("enough")

    runner = ChainRunner(store, chain, request(repo, "echo; exec sleep 60"), stop, Settings(stop_grace=0.3))
    outcomes = list(runner.run(dict.fromkeys(chain.sessions, "x")))
    assert [(one.status, one.reason) for one in outcomes] == [("paused", "enough")]
    assert store.ids() == ["sess_a"]
