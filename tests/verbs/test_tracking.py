"""What each event of an agent's hooks makes of a session, and whose work is whose."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from feeding import Claude, Event, only_session, steps
from support import GitRepo, run_cli
from working import Worker

from gitsession import SessionStore, lifecycle, living
from gitsession.agentevents import FOR_GOOD, WANTED, wanted
from gitsession.clock import precise
from gitsession.config import Settings
from gitsession.errors import SessionBusy
from gitsession.store import natives
from gitsession.verbs import tracking
from gitsession.verbs.delete import delete
from gitsession.verbs.tracked import NO_PROMPT
from gitsession.verbs.tracked import Event as Told
from gitsession.verbs.tracking import feed

OTHER = "0b2f7c1e-1111-4222-8333-944455556666"


def tell(event: Event, agent: str = "claude-code", settings: Settings | None = None) -> str | None:
    """One event, in this process."""
    which = wanted(agent, event["hook_event_name"])
    assert which is not None
    return feed(SessionStore(), Told(agent, which.kind, which.event, event), settings or Settings())


@pytest.fixture
def claude(repo: GitRepo) -> Claude:
    return Claude(repo.path)


@pytest.fixture(autouse=True)
def in_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the agent, whoever started it."""
    facts = living._facts(os.getpid())
    assert facts is not None
    monkeypatch.setattr(living, "starter", lambda: facts.process)


def begin(claude: Claude) -> str:
    """A session of Claude's that was told something."""
    session_id = tell(claude.start())
    assert session_id is not None
    tell(claude.prompt("do it"))
    return session_id


# Its beginning


def test_the_base_is_what_was_there_when_the_agent_began(repo: GitRepo, claude: Claude) -> None:
    repo.write("README.md", "changed before\n")
    session_id = tell(claude.start())
    doc = only_session()
    assert (doc["id"], doc["status"], doc["task"]) == (session_id, "running", NO_PROMPT)
    assert doc["base"]["tree"] == repo.git("rev-parse", f"refs/pinable/{session_id}^{{tree}}")
    assert repo.git("show", f"refs/pinable/{session_id}:README.md") == "changed before"
    assert doc["checkpoints"] == []
    assert (doc["runs"][0]["backend"], doc["runs"][0]["branch"]) == ("claude-code", "main")


def test_the_first_prompt_is_the_task_and_every_one_is_in_the_journal(claude: Claude) -> None:
    tell(claude.start())
    tell(claude.prompt("first: schöner machen"))
    tell(claude.stop())
    tell(claude.prompt("second"))
    doc = only_session()
    assert doc["task"] == "first: schöner machen"
    entries, _ = SessionStore().journal(doc["id"]).read()
    assert [entry["text"] for entry in entries if entry["event"] == "prompted"] == ["first: schöner machen", "second"]
    assert doc["context"]["conversation_history"] == [], "the agent keeps what was said, not we"


@pytest.mark.parametrize("first", ["UserPromptSubmit", "PreToolUse", "PostToolUse"])
def test_a_session_that_is_met_in_the_middle_begins_there(repo: GitRepo, claude: Claude, first: str) -> None:
    fields: dict[str, Any] = {"prompt": "go on"} if first == "UserPromptSubmit" else claude.before("toolu_1")
    tell({**claude.event(first), **fields, "hook_event_name": first})
    doc = only_session()
    assert (doc["status"], doc["base"] is not None) == ("running", True)


@pytest.mark.parametrize("name", ["Stop", "SubagentStop", "SessionEnd"])
def test_the_end_of_what_was_never_seen_begins_nothing(claude: Claude, name: str) -> None:
    assert tell(claude.event(name, reason="other")) is None
    assert SessionStore().ids() == []


def test_a_session_in_which_nothing_happened_is_put_away(repo: GitRepo, claude: Claude) -> None:
    session_id = tell(claude.start())
    tell(claude.end("prompt_input_exit"))
    assert SessionStore().ids() == []
    assert repo.git("for-each-ref", "refs/pinable") == ""
    assert SessionStore().last_trashed(str(session_id)).session_id == session_id
    again = tell(claude.start("resume"))
    assert again not in (None, session_id)
    assert only_session()["follows"] == session_id


def test_a_branch_without_a_commit(empty_repo: GitRepo) -> None:
    claude = Claude(empty_repo.path)
    begin(claude)
    empty_repo.write("a.txt", "a\n")
    tell(claude.wrote("toolu_1", "a.txt"))
    assert steps(only_session()) == [("agent", ["a.txt"], "toolu_1")]


def test_the_model_is_the_one_that_the_person_chose_last(repo: GitRepo) -> None:
    codex = Claude(repo.path)
    tell({**codex.start(), "model": "gpt-one"}, "codex")
    assert only_session()["model"] == "gpt-one"
    tell({**codex.prompt("x"), "model": "gpt-two"}, "codex")
    doc = only_session()
    assert (doc["model"], doc["agents"][-1]["model"], doc["metadata"]["model"]) == ("gpt-two", "gpt-two", "gpt-one")


def test_a_models_name_that_opencode_could_not_be_asked_for_is_only_noted(repo: GitRepo) -> None:
    said = {
        "session_id": "ses_1",
        "cwd": str(repo.path),
        "hook_event_name": "chat.message",
        "prompt": "x",
        "model": "m",
    }
    tell(said, "opencode")
    doc = only_session()
    assert (doc["model"], doc["agents"][-1]["model"]) == (None, "m")


# Its end


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("prompt_input_exit", "completed"),
        ("clear", "completed"),
        ("logout", "paused"),
        ("resume", "paused"),
        ("other", "paused"),
        ("bypass_permissions_disabled", "paused"),
        ("something new", "paused"),
        (None, "paused"),
    ],
)
def test_how_it_ends_is_by_the_agents_reason(claude: Claude, reason: str, status: str) -> None:
    begin(claude)
    tell(claude.stop())
    tell(claude.end(reason))
    doc = only_session()
    assert (doc["status"], doc["tracked"]) == (status, None)
    if status == "paused":
        assert doc["pause_reason"] == f"claude-code ended ({reason or 'no reason given'})"
    assert SessionStore().unended() == []


def test_who_leaves_in_the_middle_of_a_turn_may_come_back(claude: Claude) -> None:
    begin(claude)
    tell(claude.end("prompt_input_exit"))
    assert only_session()["status"] == "paused"


def test_reasons_are_of_known_agents() -> None:
    assert FOR_GOOD.keys() == WANTED.keys()


def test_a_paused_session_goes_on_with_the_same_native_one(claude: Claude) -> None:
    session_id = begin(claude)
    tell(claude.end())
    assert tell(claude.start("resume")) == session_id
    doc = only_session()
    assert (doc["status"], len(doc["runs"]), doc["task"]) == ("running", 2, "do it")


def test_a_completed_one_is_followed_by_another(claude: Claude) -> None:
    first = begin(claude)
    tell(claude.stop())
    tell(claude.end("prompt_input_exit"))
    second = tell(claude.start("resume"))
    assert second not in (None, first)
    doc = SessionStore().read(str(second))
    assert (doc["follows"], doc["status"]) == (first, "running")
    assert tell(claude.prompt("more")) == second
    assert SessionStore().read(str(first))["status"] == "completed"


def test_a_deleted_one_is_followed_by_another(claude: Claude) -> None:
    first = begin(claude)
    tell(claude.end())
    delete(SessionStore(), first)
    second = tell(claude.prompt("and now?"))
    assert second not in (None, first)
    assert only_session()["follows"] == first


@pytest.mark.parametrize("damage", ["{", '{"schema_version": 99, "id": "%s"}'])
def test_one_that_cannot_be_written_waits_and_the_work_is_in_another(
    repo: GitRepo, claude: Claude, damage: str
) -> None:
    first = begin(claude)
    store = SessionStore()
    path = store.sessions_dir / f"{first}.json"
    path.write_text(damage.replace("%s", first))
    repo.write("README.md", "changed\n")
    second = str(tell(claude.before("toolu_1")))
    repo.write("README.md", "changed again\n")
    assert tell(claude.wrote("toolu_2", "README.md")) == second != first
    assert (store.read(second)["follows"], steps(store.read(second))) == (first, [("agent", ["README.md"], "toolu_2")])
    assert path.read_text() == damage.replace("%s", first)


def test_late_events_of_a_completed_session_change_nothing(claude: Claude) -> None:
    first = begin(claude)
    tell(claude.stop())
    tell(claude.end("clear"))
    for event in (claude.stop(), claude.end("other")):
        tell(event)
    assert [SessionStore().read(known)["status"] for known in SessionStore().ids()] == ["completed"]
    assert SessionStore().ids() == [first]


def test_a_session_that_was_wrapped_before_goes_on(repo: GitRepo, claude: Claude) -> None:
    from sessions import TestSession

    session = TestSession(repo, "mine")
    natives.bind(session.store.home, "claude-code", claude.session, "mine")
    with session.store.edit("mine") as draft:
        draft.log("status", to=lifecycle.RUNNING, run={})
        draft.log("agent", agent={"agent": "claude-code", "id": claude.session, "counted": {"input_tokens": 5}})
        draft.log("status", to=lifecycle.PAUSED, reason="network")
    assert tell(claude.start("resume")) == "mine"
    doc = session.store.read("mine")
    assert (doc["status"], doc["backend"], doc["task"]) == ("running", "claude-code", "task")
    assert [one["id"] for one in doc["agents"]] == [claude.session]
    assert doc["agents"][0]["counted"] == {"input_tokens": 5}, "what it spent by then is not counted again"


def test_while_a_run_of_ours_has_it_nothing_is_fed(repo: GitRepo, claude: Claude) -> None:
    from sessions import TestSession

    session = TestSession(repo, "mine")
    natives.bind(session.store.home, "claude-code", claude.session, "mine")
    with session.store.own("mine"):
        with pytest.raises(SessionBusy):
            tell(claude.start("resume"))
        assert session.store.last_owner_facts("mine") is not None
        owner = session.store.owner("mine")
        assert owner is not None
        assert owner.pid == os.getpid()
    assert session.store.read("mine")["status"] == "created"


def test_a_command_that_has_it_for_an_instant_is_waited_for(
    repo: GitRepo, claude: Claude, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = begin(claude)
    tell(claude.end())
    lock = SessionStore().own(session_id)
    lock.acquire()
    monkeypatch.setattr(tracking, "time", SimpleNamespace(sleep=lambda _: lock.release()))
    assert tell(claude.start("resume")) == session_id
    assert only_session()["status"] == "running"


def test_a_conversation_that_goes_on_in_another_repository_has_a_session_there(
    repo: GitRepo, claude: Claude, tmp_path: Path
) -> None:
    first = begin(claude)
    tell(claude.end())
    elsewhere = GitRepo.init(tmp_path / "other")
    moved = Claude(elsewhere.path)
    second = str(tell(moved.start("resume")))
    elsewhere.write("a.txt", "a\n")
    tell(moved.wrote("toolu_1", "a.txt"))
    store = SessionStore()
    assert (store.read(second)["follows"], steps(store.read(second))) == (first, [("agent", ["a.txt"], "toolu_1")])
    assert store.read(first)["status"] == "paused"


def test_a_session_of_another_worktree_is_fed_there(repo: GitRepo, claude: Claude, tmp_path: Path) -> None:
    begin(claude)
    elsewhere = GitRepo.init(tmp_path / "other")
    repo.write("README.md", "by its full name\n")
    tell({**claude.wrote("toolu_1", "README.md"), "cwd": str(elsewhere.path)})
    assert steps(only_session()) == [("agent", ["README.md"], "toolu_1")]


# Whose work it is


def test_a_tool_that_names_its_file_brings_that_and_nothing_else(repo: GitRepo, claude: Claude) -> None:
    begin(claude)
    repo.write("README.md", "by the agent\n")
    repo.write("src/app.py", "# by the person, at the same time\n")
    tell(claude.wrote("toolu_1", "README.md"))
    doc = only_session()
    assert steps(doc) == [("agent", ["README.md"], "toolu_1")]
    assert doc["checkpoints"][0]["capture"] == "paths"
    assert doc["checkpoints"][0]["agent"] == {"agent": "claude-code", "id": claude.session, "at": None}


def test_in_the_middle_of_a_turn_the_journal_says_it_and_at_its_end_the_snapshot_too(
    repo: GitRepo, claude: Claude
) -> None:
    session = begin(claude)
    file = SessionStore().sessions_dir / f"{session}.json"
    before = file.read_bytes()
    repo.write("made.txt", "1\n")
    tell(claude.wrote("1", "made.txt"))
    assert file.read_bytes() == before
    assert only_session()["checkpoints"][-1]["call"] == "1"
    tell(claude.stop())
    assert json.loads(file.read_bytes())["checkpoints"] == only_session()["checkpoints"]


def test_what_a_person_changed_before_the_next_prompt_is_found(repo: GitRepo, claude: Claude) -> None:
    begin(claude)
    tell(claude.stop())
    repo.write("notes.txt", "by hand\n")
    tell(claude.prompt("go on"))
    doc = only_session()
    assert steps(doc) == [("found", ["notes.txt"], None)]
    assert doc["checkpoints"][0]["description"] == "Found: Added notes.txt"


def test_what_an_edit_is_about_to_replace_is_kept(repo: GitRepo, claude: Claude) -> None:
    begin(claude)
    repo.write("README.md", "by hand, not committed\n")
    call = {"file_path": str(repo.path / "README.md")}
    tell(claude.before("toolu_1", "Write", **call))
    repo.write("README.md", "by the agent\n")
    tell(claude.after("toolu_1", "Write", **call))
    doc = only_session()
    assert steps(doc) == [("found", ["README.md"], None), ("agent", ["README.md"], "toolu_1")]
    assert repo.git("show", f"{doc['checkpoints'][0]['commit']}:README.md") == "by hand, not committed"


@pytest.mark.parametrize("name", ["PostToolUse", "PostToolUseFailure"])
def test_a_command_brings_what_changed_since_it_began(repo: GitRepo, claude: Claude, name: str) -> None:
    begin(claude)
    repo.write("mine.txt", "by hand, before the command\n")
    tell(claude.before("toolu_1"))
    repo.write("made.txt", "by the command\n")
    repo.at("src/util.py").unlink()
    tell(claude.after("toolu_1", name=name))
    assert steps(only_session()) == [
        ("found", ["mine.txt"], None),
        ("agent", ["made.txt", "src/util.py"], "toolu_1"),
    ]


def test_what_no_tool_brought_is_found_at_the_end_of_the_turn(repo: GitRepo, claude: Claude) -> None:
    begin(claude)
    repo.write("late.txt", "by something in the background\n")
    tell(claude.stop())
    assert steps(only_session()) == [("found", ["late.txt"], None)]


def test_a_turn_in_which_nothing_changed_leaves_no_checkpoint(claude: Claude) -> None:
    begin(claude)
    for event in (claude.before("toolu_1"), claude.after("toolu_1"), claude.stop(), claude.end()):
        tell(event)
    assert steps(only_session()) == []


def test_what_changed_before_a_command_began_is_not_its_work_whoever_else_is_at_it(
    repo: GitRepo, claude: Claude
) -> None:
    begin(claude)
    tell(claude.before("toolu_1"))
    repo.write("half.txt", "the first command is at it, or somebody else\n")
    tell(claude.before("toolu_2"))
    repo.write("made.txt", "by either\n")
    tell(claude.after("toolu_2"))
    repo.write("half.txt", "whole\n")
    tell(claude.event("SubagentStop"))
    tell(claude.after("toolu_1"))
    assert steps(only_session()) == [
        ("found", ["half.txt"], None),
        ("agent", ["made.txt"], "toolu_2"),
        ("agent", ["half.txt"], "toolu_1"),
    ]
    assert only_session()["tracked"]["calls"] == []


def test_what_a_person_does_after_a_command_was_refused_is_found(repo: GitRepo, claude: Claude) -> None:
    begin(claude)
    tell(claude.before("toolu_1", command="curl example.org"))
    repo.write("mine.txt", "by hand\n")
    tell(claude.before("toolu_2", command="ls"))
    tell(claude.after("toolu_2", command="ls"))
    tell(claude.stop())
    assert steps(only_session()) == [("found", ["mine.txt"], None)]


def test_a_call_that_was_denied_is_forgotten_with_the_turn(repo: GitRepo, claude: Claude) -> None:
    begin(claude)
    tell(claude.before("toolu_1"))
    tell(claude.stop())
    repo.write("mine.txt", "by hand\n")
    tell(claude.prompt("better not"))
    assert steps(only_session()) == [("found", ["mine.txt"], None)]


def test_one_call_has_one_checkpoint(repo: GitRepo, claude: Claude) -> None:
    begin(claude)
    repo.write("README.md", "one\n")
    tell(claude.wrote("toolu_1", "README.md"))
    repo.write("README.md", "two\n")
    tell(claude.wrote("toolu_1", "README.md"))
    assert steps(only_session()) == [("agent", ["README.md"], "toolu_1")]


def test_calls_that_have_one_name_have_a_checkpoint_each(repo: GitRepo, claude: Claude) -> None:
    begin(claude)
    for path in ("one.txt", "two.txt"):
        tell(claude.before("call_0", "Write", file_path=str(repo.path / path)))
        repo.write(path, "x\n")
        tell(claude.wrote("call_0", path))
    for path in ("three.txt", "four.txt"):
        tell(claude.before("call_1"))
        repo.write(path, "x\n")
        tell(claude.after("call_1"))
    assert steps(only_session()) == [
        ("agent", ["one.txt"], "call_0"),
        ("agent", ["two.txt"], "call_0"),
        ("agent", ["three.txt"], "call_1"),
        ("agent", ["four.txt"], "call_1"),
    ]


def test_events_that_come_twice_make_one_checkpoint(repo: GitRepo, claude: Claude) -> None:
    begin(claude)
    tell(claude.before("toolu_1"))
    tell(claude.before("toolu_1"))
    repo.write("made.txt", "by the command\n")
    tell(claude.after("toolu_1"))
    repo.write("mine.txt", "by hand\n")
    tell(claude.after("toolu_1"))
    tell(claude.stop())
    assert steps(only_session()) == [("agent", ["made.txt"], "toolu_1"), ("found", ["mine.txt"], None)]


def test_two_agents_in_one_tree_have_what_their_calls_brought(repo: GitRepo, claude: Claude) -> None:
    other = Claude(repo.path, OTHER)
    one, two = begin(claude), begin(other)
    tell(claude.before("toolu_a"))
    tell(other.before("toolu_b", "Write", file_path=str(repo.path / "theirs.txt")))
    repo.write("theirs.txt", "an edit of the other's, while the command runs\n")
    tell(other.wrote("toolu_b", "theirs.txt"))
    repo.write("made.txt", "by the command\n")
    tell(claude.after("toolu_a"))
    tell(claude.stop())
    tell(other.stop())
    store = SessionStore()
    assert steps(store.read(one)) == [("found", ["theirs.txt"], None), ("agent", ["made.txt"], "toolu_a")]
    assert steps(store.read(two)) == [("agent", ["theirs.txt"], "toolu_b"), ("found", ["made.txt"], None)]


def test_the_edit_of_an_agent_that_has_ended_is_its_own(repo: GitRepo, claude: Claude) -> None:
    other = Claude(repo.path, OTHER)
    one, two = begin(claude), begin(other)
    tell(claude.before("toolu_a"))
    repo.write("theirs.txt", "an edit of the other's, while the command runs\n")
    tell(other.wrote("toolu_b", "theirs.txt"))
    tell(other.stop())
    tell(other.end())
    repo.write("made.txt", "by the command\n")
    tell(claude.after("toolu_a"))
    store = SessionStore()
    assert store.unended() == [one]
    assert steps(store.read(one)) == [("found", ["theirs.txt"], None), ("agent", ["made.txt"], "toolu_a")]
    assert steps(store.read(two)) == [("agent", ["theirs.txt"], "toolu_b")]


def test_what_a_run_brings_that_began_during_a_command_is_the_runs(repo: GitRepo, claude: Claude) -> None:
    session = begin(claude)
    tell(claude.before("toolu_a"))
    done = run_cli("codeagent-wrapper", "--task", "x", "--", "sh", "-c", "echo run > run.txt", cwd=repo.path)
    assert done.returncode == 0, done.stderr
    repo.write("made.txt", "by the command\n")
    tell(claude.after("toolu_a"))
    found = SessionStore().read(session)
    assert steps(found) == [("found", ["run.txt"], None), ("agent", ["made.txt"], "toolu_a")]


def test_what_a_run_and_a_command_both_saw_change_neither_leaves_to_the_other(repo: GitRepo, claude: Claude) -> None:
    session = begin(claude)
    run = Worker(repo)
    store = SessionStore()
    with store.edit("worker") as draft:
        draft.log("status", to=lifecycle.RUNNING, run={"started_at": precise()})
    tell(claude.before("toolu_a"))
    run.work({"made.txt": "by one of them\n"})
    tell(claude.after("toolu_a"))
    run.close()
    assert steps(store.read(session)) == [("agent", ["made.txt"], "toolu_a")]
    assert steps(store.read("worker")) == [("agent", ["made.txt"], None)]


def test_agents_in_two_worktrees_have_nothing_to_do_with_each_other(
    repo: GitRepo, claude: Claude, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "--quiet", tmp_path / "linked", "-b", "other")
    linked = GitRepo(tmp_path / "linked")
    other = Claude(linked.path, OTHER)
    one, two = begin(claude), begin(other)
    tell(other.before("toolu_b"))
    repo.write("same.txt", "the same\n")
    tell(claude.wrote("toolu_a", "same.txt"))
    linked.write("same.txt", "the same\n")
    tell(other.after("toolu_b"))
    store = SessionStore()
    assert steps(store.read(one)) == [("agent", ["same.txt"], "toolu_a")]
    assert steps(store.read(two)) == [("agent", ["same.txt"], "toolu_b")]
    assert store.read(two)["repository"]["worktree"] == str(linked.path)


def test_a_commit_of_both_agents_work_is_linked_to_each(repo: GitRepo, claude: Claude) -> None:
    from gitsession.git.repo import Repo
    from gitsession.verbs.linking import Linker

    other = Claude(repo.path, OTHER)
    one, two = begin(claude), begin(other)
    for who, call, path in ((claude, "toolu_a", "a.txt"), (other, "toolu_b", "b.txt")):
        repo.write(path, f"{path}\n")
        tell(who.wrote(call, path))
    tell(claude.stop())
    tell(other.stop())
    commit = repo.commit("both")
    linker = Linker(Repo.discover(repo.path))
    for session_id, path in ((one, "a.txt"), (two, "b.txt")):
        (found,) = linker.commits(session_id)
        assert (found.link.commit, found.link.label, list(found.link.files)) == (commit, "certain", [path])


def test_a_commit_made_in_a_command_is_the_agents_and_one_made_after_it_is_not(repo: GitRepo, claude: Claude) -> None:
    from gitsession.git.repo import Repo
    from gitsession.verbs import hooks
    from gitsession.verbs.linking import Linker

    hooks.install(repo.path)
    session = begin(claude)
    tell(claude.before("toolu_1"))
    repo.write("README.md", "by the agent\n")
    commit = repo.commit("edited and committed at once")
    tell(claude.after("toolu_1"))
    repo.write("src/app.py", "# by hand\n")
    repo.commit("by hand")
    tell(claude.stop())
    assert steps(only_session()) == [("agent", ["README.md"], "toolu_1"), ("found", ["src/app.py"], None)]
    (found,) = Linker(Repo.discover(repo.path)).commits(session)
    assert (found.link.commit, found.link.label, found.link.how) == (commit, "certain", "agent")
    assert f"Pinable-Session: {session}" in repo.git("log", "-1", "--format=%B", commit)


def test_ignored_files_stay_out_but_for_those_that_are_tracked(repo: GitRepo, claude: Claude) -> None:
    repo.write(".gitignore", "*.env\nbuild/\n")
    repo.write("kept.env", "tracked\n")
    repo.git("add", "-f", ".gitignore", "kept.env")
    repo.commit("ignore")
    begin(claude)
    for path in ("secret.env", "build/out.txt", "kept.env"):
        repo.write(path, "by the agent\n")
        tell(claude.wrote(f"toolu_{path}", path))
    assert steps(only_session()) == [("agent", ["kept.env"], "toolu_kept.env")]


def test_excluded_files_stay_out_as_well(repo: GitRepo, claude: Claude) -> None:
    settings = Settings(capture_exclude=("*.log",))
    begin(claude)
    repo.write("run.log", "x\n")
    tell(claude.wrote("toolu_1", "run.log"), settings=settings)
    assert steps(only_session()) == []


def test_a_notebook_is_a_file_too(repo: GitRepo, claude: Claude) -> None:
    begin(claude)
    repo.write("book.ipynb", "{}\n")
    tell(claude.after("toolu_1", "NotebookEdit", notebook_path=str(repo.path / "book.ipynb")))
    assert steps(only_session()) == [("agent", ["book.ipynb"], "toolu_1")]


def test_every_file_of_a_patch_is_brought(repo: GitRepo) -> None:
    codex = Claude(repo.path)
    tell(codex.start(), "codex")
    tell(codex.prompt("refactor"), "codex")
    repo.write("new name.txt", "new\n")
    repo.write("src/app.py", "print(2)\n")
    repo.at("src/util.py").rename(repo.at("src/sums.py"))
    patch = (
        "*** Begin Patch\n*** Add File: new name.txt\n+new\n*** Update File: src/app.py\n@@\n-x\n+print(2)\n"
        "*** Update File: src/util.py\n*** Move to: src/sums.py\n*** End Patch\n"
    )
    tell({**codex.after("call_1", "apply_patch", command=patch)}, "codex")
    assert steps(only_session()) == [("agent", ["new name.txt", "src/app.py", "src/sums.py", "src/util.py"], "call_1")]


def test_a_patch_in_a_command_that_ran_after_all_is_the_commands(repo: GitRepo) -> None:
    codex = Claude(repo.path)
    tell(codex.start(), "codex")
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: b.txt\n+b\n*** End Patch\nEOF"
    tell(codex.before("call_1", command=patch), "codex")
    repo.write("b.txt", "b\n")
    tell(codex.after("call_1", command=patch), "codex")
    assert steps(only_session()) == [("agent", ["b.txt"], "call_1")]


PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: README.md\n@@\n-one\n+two\n*** End Patch\nEOF"


@pytest.mark.parametrize(
    ("content", "step"),
    [("two\n", ("agent", ["README.md"], "call_1")), ("by hand\n", ("found", ["README.md"], None))],
)
def test_a_patch_in_a_command_that_is_never_heard_of_again(
    repo: GitRepo, content: str, step: tuple[str, list[str], str | None]
) -> None:
    codex = Claude(repo.path)
    repo.write("README.md", "one\n")
    tell(codex.start(), "codex")
    tell(codex.prompt("refactor"), "codex")
    tell(codex.before("call_1", command=PATCH), "codex")
    repo.write("README.md", content)
    tell(codex.stop(), "codex")
    assert steps(only_session()) == [step]


def test_a_patch_is_looked_for_until_the_turn_ends(repo: GitRepo) -> None:
    codex = Claude(repo.path)
    repo.write("README.md", "one\n")
    tell(codex.start(), "codex")
    tell(codex.before("call_1", command=PATCH), "codex")
    repo.write("mine.txt", "by hand, before the patch\n")
    tell(codex.before("call_2"), "codex")
    repo.write("README.md", "two\n")
    tell(codex.before("call_3"), "codex")
    assert steps(only_session()) == [("found", ["mine.txt"], None), ("agent", ["README.md"], "call_1")]
    assert [one["call"] for one in only_session()["tracked"]["calls"]] == ["call_2", "call_3"]


def test_calls_without_a_name_are_told_apart(repo: GitRepo) -> None:
    gemini = Claude(repo.path)
    call = {"tool_name": "run_shell_command", "tool_input": {"command": "make"}}

    def event(name: str, second: int) -> Event:
        return {**gemini.event(name), **call, "timestamp": f"2026-11-29T12:30:0{second}.000Z"}

    tell({**gemini.start()}, "gemini")
    for turn in range(2):
        tell(event("BeforeTool", turn * 2), "gemini")
        repo.write("made.txt", f"{turn}\n")
        tell(event("AfterTool", turn * 2 + 1), "gemini")
    doc = only_session()
    assert [files for _, files, _ in steps(doc)] == [["made.txt"], ["made.txt"]]
    assert len({call for *_, call in steps(doc)}) == 2


def test_a_large_checkpoint_of_a_command_is_one_pack(repo: GitRepo, claude: Claude) -> None:
    begin(claude)
    tell(claude.before("toolu_1"))
    for number in range(50):
        repo.write(f"made/{number}.txt", f"{number}\n")
    tell(claude.after("toolu_1"))
    (record,) = only_session()["checkpoints"]
    assert len(record["files_changed"]) == 50
    assert len(list((repo.common_dir / "objects" / "pack").glob("*.pack"))) == 1


def test_a_repository_of_sha256(tmp_path: Path) -> None:
    repo = GitRepo.init(tmp_path / "repo", object_format="sha256")
    repo.write("a.txt", "a\n")
    repo.commit()
    claude = Claude(repo.path)
    begin(claude)
    repo.write("a.txt", "b\n")
    tell(claude.wrote("toolu_1", "a.txt"))
    assert steps(only_session()) == [("agent", ["a.txt"], "toolu_1")]


def test_nothing_of_the_users_is_touched(repo: GitRepo, claude: Claude) -> None:
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    before, index = repo.user_state(), repo.index_bytes()
    begin(claude)
    tell(claude.before("toolu_1"))
    repo.write("made.txt", "x\n")
    for event in (claude.after("toolu_1"), claude.stop(), claude.end("clear")):
        tell(event)
    assert (repo.user_state(), repo.index_bytes()) == (before, index)
