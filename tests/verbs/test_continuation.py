"""How a session goes on with the same agent or with another one: Claude Code and Codex, played by stand-ins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agents.player import Player, path_with
from backends import scenes_claude_code as claude
from backends import scenes_codex as codex
from backends.model_server import Fault, ModelServer, say, step
from support import GitRepo

from gitsession import backends
from gitsession.config import Settings
from gitsession.git.repo import Repo
from gitsession.lifecycle import Doc
from gitsession.store import natives
from gitsession.store.sessions import SessionStore
from gitsession.verbs import events
from gitsession.verbs.continuation import brief, continuation
from gitsession.verbs.dialogue import Limits
from gitsession.verbs.handover import SESSION_LIMIT
from gitsession.verbs.run import Runner, RunRequest

FIRST = "11111111-1111-4111-8111-111111111111"
SECOND = "22222222-2222-4222-8222-222222222222"
THREAD = codex.THREAD


class Desk:
    """A repository, a store, and both agents' programs."""

    def __init__(self, repo: GitRepo, home: Path, place: Path) -> None:
        self.repo = repo
        self.store = SessionStore(home)
        self.told: list[events.RunEvent] = []
        self.claude = Player(place, "claude", claude.VERSION)
        self.codex = Player(place, "codex", codex.VERSION)

    def run(self, backend: str | None = None, **request: Any) -> events.Outcome:
        self.told.clear()
        asked = RunRequest(start=self.repo.path, session_id="s1", backend=backend, **request)
        return Runner(self.store, asked, self.told.append, Settings(stop_grace=0.3)).run()

    def claude_works(self, path: str, session: str = FIRST, **end: Any) -> None:
        """Claude's next run writes a file, whose line has the id ``at-<path>``."""
        call = claude.tool(f"call-{path}", "Write", file_path=str(self.repo.path / path))
        begun = claude.init(self.repo.path, session)
        said = claude.line("assistant", message={"content": [call]}, uuid=f"at-{path}")
        done = claude.tool_result(f"call-{path}")
        limit = {"subtype": "error_max_turns", "is_error": True, "terminal_reason": "max_turns"}
        self.claude.act([begun, said, {"write": {path: f"{path}\n"}}, done, claude.result(**(limit | end))])

    def codex_works(self, path: str, words: str = "I am half through.") -> None:
        """Codex's next run writes a file and says something, and its turn fails."""
        failed = codex.line("turn.failed", error={"message": "unexpected status 503"})
        works = [{"write": {path: f"{path}\n"}}, *codex.edits(1, path), codex.says(2, words)]
        self.codex.act([*codex.begins(), *works, failed], status=1)

    @property
    def doc(self) -> Doc:
        return self.store.read("s1")

    @property
    def briefings(self) -> list[str]:
        entries, _ = self.store.journal("s1").read()
        return [entry["text"] for entry in entries if entry["event"] == "briefed"]

    @property
    def warnings(self) -> list[str]:
        return [event.text for event in self.told if isinstance(event, events.Warned)]

    def agents(self) -> list[tuple[str, str]]:
        return [(agent["agent"], agent["id"]) for agent in self.doc["agents"]]


@pytest.fixture
def desk(repo: GitRepo, pinable_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    place = tmp_path / "programs"
    place.mkdir()
    monkeypatch.setenv("PATH", path_with(place))
    return Desk(repo, pinable_home, place)


def test_the_same_agent_goes_on_in_its_own_session(desk: Desk) -> None:
    desk.claude_works("a.txt")
    desk.claude_works("b.txt", subtype="success", is_error=False, terminal_reason="completed")
    assert desk.run("claude-code", task="Do it").exit_status == 3
    desk.repo.write("mine.txt", "the user's\n")
    assert desk.run().exit_status == 0
    call = desk.claude.calls[1]
    assert call["argv"][-2:] == ["--resume", FIRST]
    assert call["given"] == (
        "The run was interrupted. Go on with the task:\n\nDo it\n\n"
        "Since you last worked here: the user changed mine.txt; read files again before you change them."
    )
    assert desk.agents() == [("claude-code", FIRST)]
    assert natives.find(desk.store.home, "claude-code", FIRST) == "s1"
    assert desk.briefings == [], "it knows what was done"
    assert desk.warnings == []


def test_checkpoints_say_where_the_agents_conversation_was(desk: Desk) -> None:
    desk.claude_works("a.txt")
    desk.run("claude-code", task="Do it")
    [checkpoint] = desk.doc["checkpoints"]
    assert checkpoint["agent"] == {"agent": "claude-code", "id": FIRST, "at": "at-a.txt"}
    assert checkpoint["call"] == "call-a.txt"
    assert desk.doc["agents"][0] | {"at": None} == {
        "agent": "claude-code",
        "id": FIRST,
        "version": claude.VERSION,
        "model": "claude-opus-4-8[1m]",
        "directory": str(desk.repo.path),
        "transcript": None,
        "counted": None,
        "at": None,
    }


def test_edits_of_one_reply_that_were_made_at_once_have_a_checkpoint_each(desk: Desk) -> None:
    names = ("a.txt", "ignored.log", "excluded.tmp", "b.txt")
    desk.repo.write(".gitignore", "*.log\n")
    desk.repo.write(".pinable.toml", '[capture]\nexclude = ["*.tmp"]\n')
    calls = [claude.tool(f"call-{name}", "Write", file_path=str(desk.repo.path / name)) for name in names]
    said = [claude.line("assistant", message={"content": [call]}, uuid=f"at-{call['id']}") for call in calls]
    done = [claude.tool_result(call["id"]) for call in calls]
    written = {"write": {name: f"{name}\n" for name in (*names, "beside.txt")}}
    desk.claude.act([claude.init(desk.repo.path, FIRST), *said, written, *done, claude.result()])
    assert desk.run("claude-code", task="Do it").exit_status == 0
    steps = [(one["files_changed"], one["agent"]["at"]) for one in desk.doc["checkpoints"]]
    assert steps == [(["a.txt"], "at-call-a.txt"), (["b.txt", "beside.txt"], "at-call-b.txt")]


def test_another_agent_takes_over_and_is_told_what_was_done(desk: Desk) -> None:
    desk.claude_works("src/a.txt", result="I still have to write b.txt.", is_error=False)
    desk.codex_works("b.txt")
    desk.run("claude-code", task="Do it", model="opus", files=("src/a.txt", "b.txt"))
    assert desk.doc["model"] == "opus"
    assert desk.run("codex").exit_status == 3
    assert desk.warnings[0] == "codex takes over from claude-code: it begins anew, told what was done so far"
    [call] = desk.codex.calls
    assert "resume" not in call["argv"]
    assert "--model" not in call["argv"], "the other agent's model means nothing to this one"
    assert (desk.doc["backend"], desk.doc["model"]) == ("codex", None)
    assert call["given"].startswith("Do it\n\nThe task is about these files:\n- src/a.txt\n- b.txt\n")
    [briefing] = desk.briefings
    assert f"<done>\n{briefing}\n</done>" in call["given"]
    for words in (
        "- 0: Write: src/a.txt",
        "The agent's last words:\nI still have to write b.txt.",
        "- added src/a.txt",
        "Files of the task that nobody has changed yet:\n- b.txt",
        " src/a.txt | 1 +",
    ):
        assert words in briefing
    assert desk.agents() == [("claude-code", FIRST), ("codex", THREAD)]
    assert [run["backend"] for run in desk.doc["runs"]] == ["claude-code", "codex"]


@pytest.mark.parametrize("before", [[], ["a.txt"]], ids=["before-any-checkpoint", "after-one"])
def test_it_is_told_what_a_killed_run_left_without_a_checkpoint(desk: Desk, before: list[str]) -> None:
    for path in before:
        desk.claude_works(path)
    if not before:
        desk.claude.act([claude.init(desk.repo.path, FIRST)], status=1)
    desk.run("claude-code", task="Do it")
    desk.repo.write("left.txt", "written in the instant before the kill\n")
    desk.codex_works("b.txt")
    desk.run("codex")
    [call] = desk.codex.calls
    [briefing] = desk.briefings
    assert f"<done>\n{briefing}\n</done>" in call["given"]
    for path in ("left.txt", *before):
        assert f"- added {path}" in briefing


def test_an_agent_that_comes_back_after_another_one_begins_anew(desk: Desk) -> None:
    """Its own session knows nothing of what the other one did."""
    desk.claude_works("a.txt")
    desk.codex_works("b.txt")
    desk.claude_works("c.txt", SECOND)
    desk.claude_works("d.txt", SECOND)
    desk.run("claude-code", task="Do it")
    desk.run("codex")
    desk.run("claude-code")
    assert desk.warnings[0] == "claude-code takes over from codex: it begins anew, told what was done so far"
    call = desk.claude.calls[1]
    assert "--resume" not in call["argv"]
    assert "The agent's last words:\nI am half through." in call["given"]
    assert "- added b.txt" in call["given"]
    assert desk.agents() == [("claude-code", FIRST), ("codex", THREAD), ("claude-code", SECOND)]
    assert len(desk.briefings) == 2
    desk.run()
    assert desk.claude.calls[2]["argv"][-2:] == ["--resume", SECOND]
    assert len(desk.briefings) == 2


def test_going_back_takes_the_conversation_along(desk: Desk) -> None:
    desk.claude_works("a.txt")
    desk.claude_works("b.txt")
    desk.claude_works("c.txt", SECOND)
    desk.run("claude-code", task="Do it")
    desk.run()
    desk.run(restore_checkpoint=0)
    assert "claude-code goes on from its conversation as it was at checkpoint 0" in desk.warnings
    call = desk.claude.calls[2]
    assert call["argv"][-5:] == ["--resume", FIRST, "--fork-session", "--resume-session-at", "at-a.txt"]
    assert call["given"].startswith("The files and this conversation were put back to here.")
    assert desk.agents() == [("claude-code", FIRST), ("claude-code", SECOND)]
    assert desk.doc["rewound"] is None
    assert desk.briefings == []
    assert sorted(path.name for path in desk.repo.path.glob("*.txt")) == ["a.txt", "c.txt"]


def test_going_back_to_what_another_agent_did_finds_its_conversation(desk: Desk) -> None:
    desk.claude_works("a.txt")
    desk.codex_works("b.txt")
    desk.claude_works("c.txt", SECOND)
    desk.run("claude-code", task="Do it")
    desk.run("codex")
    desk.run("claude-code", restore_checkpoint=0)
    assert desk.claude.calls[1]["argv"][-2:] == ["--resume-session-at", "at-a.txt"]


def test_an_agent_that_cannot_go_back_begins_anew_with_what_was_done_by_then(desk: Desk) -> None:
    desk.codex_works("a.txt", words="First words.")
    desk.codex_works("b.txt", words="Last words.")
    desk.codex_works("c.txt")
    desk.run("codex", task="Do it")
    desk.run()
    assert "resume" in desk.codex.calls[1]["argv"]
    desk.run(restore_checkpoint=0)
    told = "codex cannot go back in its conversation: it begins anew, told what was done by checkpoint 0"
    assert told in desk.warnings
    call = desk.codex.calls[2]
    assert "resume" not in call["argv"]
    assert "a.txt" in call["given"]
    assert "b.txt" not in call["given"]
    assert "words" not in call["given"]


def test_a_session_that_was_lost_is_told_of_in_the_journal(desk: Desk) -> None:
    desk.claude_works("a.txt")
    lost = {"subtype": "error_during_execution", "errors": [f"No conversation found with session ID: {FIRST}"]}
    desk.claude.act([claude.result(**lost)], status=1)
    desk.claude_works("b.txt", SECOND)
    desk.run("claude-code", task="Do it")
    desk.run()
    [briefing] = desk.briefings
    assert briefing in desk.claude.calls[2]["given"]
    assert desk.agents() == [("claude-code", FIRST), ("claude-code", SECOND)]


def test_an_agent_that_never_began_leaves_nothing_to_go_on_from(desk: Desk) -> None:
    desk.claude.act(["please log in"], status=1)
    desk.claude_works("a.txt")
    desk.run("claude-code", task="Do it")
    assert desk.doc.get("agents") is None
    desk.run()
    assert desk.claude.calls[1]["argv"] == desk.claude.calls[0]["argv"]
    assert desk.claude.calls[1]["given"] == "Do it"


def test_a_session_of_a_program_goes_on_with_an_agent_and_back(desk: Desk) -> None:
    desk.claude_works("b.txt")
    desk.run(command=("sh", "-c", "echo a > a.txt; exit 1"), task="Do it")
    desk.run("claude-code")
    assert "- added a.txt" in desk.claude.calls[0]["given"]
    assert len(desk.briefings) == 1
    assert desk.run("command", command=("true",)).exit_status == 0
    assert len(desk.briefings) == 1


def test_a_model_that_is_talked_with_here_is_told_as_well(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.codex_works("a.txt")
    desk.run("codex", task="Write two files")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0123456789")
    with ModelServer([step(say(""), faults=(Fault(status=400),))]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        assert desk.run("claude").status == "paused"
        (message,) = server.requests[0]["messages"]
    told = json.dumps(message, ensure_ascii=False)
    assert "Write two files" in told
    assert "I am half through." in told
    assert "a.txt | 1 +" in told
    assert "claude takes over from codex" in " ".join(desk.warnings)
    assert desk.doc["model"].startswith("claude-")


def test_what_is_told_is_bounded(desk: Desk) -> None:
    desk.claude_works("a.txt", result="words " * 5_000, is_error=False)
    desk.run("claude-code", task="Do it")
    text = brief(desk.doc, Repo.discover(desk.repo.path))
    assert text is not None
    assert text.endswith("\n[cut]")
    assert len(text) <= SESSION_LIMIT + 10


@pytest.mark.parametrize("change", [{"directory": "/"}, {"id": "--help"}, {"directory": "/nowhere"}])
def test_a_record_from_elsewhere_does_not_say_where_an_agent_is_started(desk: Desk, change: dict[str, str]) -> None:
    desk.claude_works("a.txt")
    desk.run("claude-code", task="Do it")
    doc = desk.doc
    doc["agents"][0].update(change)
    goes_on = continuation(doc, backends.load("claude-code"), Repo.discover(desk.repo.path))
    assert goes_on.native is None
    assert goes_on.briefs


def test_what_claude_says_of_the_cost_takes_the_place_of_what_was_reckoned(desk: Desk) -> None:
    usage = {"input_tokens": 100, "output_tokens": 10}
    begun = claude.init(desk.repo.path, FIRST)
    spoken = claude.reply(claude.text("one"), usage=usage)
    unknown = [line.replace("claude-opus-4-8", "my-model") for line in claude.reply(claude.text("two"), usage=usage)]
    models = {"x": {"inputTokens": 250, "outputTokens": 25}}
    limit = {"subtype": "error_max_turns", "is_error": True, "modelUsage": models}
    desk.claude.act([begun, *spoken, *unknown, claude.result(**limit, total_cost_usd=0.5)])
    desk.claude.act([begun, *spoken], status=-9)
    desk.run("claude-code", task="Do it")
    cost = desk.doc["cost"]
    assert (cost["total_tokens"], cost["estimated_cost_usd"]) == (275, 0.5)
    desk.run(limits=Limits(max_cost=2.0))
    assert desk.claude.calls[1]["argv"][-4:-2] == ["--max-budget-usd", "1.500000"]
    cost = desk.doc["cost"]
    reckoned = (100 * 5 + 10 * 25) / 1e6
    assert (cost["total_tokens"], cost["estimated_cost_usd"]) == (385, pytest.approx(0.5 + reckoned))
