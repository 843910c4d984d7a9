"""A run from its first capture to its last, in process, with shell scripts as agents."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support import GitRepo

from gitsession.config import Settings
from gitsession.errors import (
    BackendMissing,
    CheckpointNotFound,
    DriftError,
    GitSessionError,
    IllegalTransition,
    NotARepository,
    OutsideRepository,
    RefMoved,
    RepositoryError,
    SessionBusy,
    UsageError,
)
from gitsession.git.repo import Repo
from gitsession.model import Session
from gitsession.store.sessions import SessionStore
from gitsession.verbs import events
from gitsession.verbs.checkpoint import checkpoint
from gitsession.verbs.pause import pause
from gitsession.verbs.run import Runner, RunRequest, new_doc

# Nothing is checkpointed on its own while a test is slow.
SETTINGS = Settings(stop_grace=0.5, checkpoint_settle=3600, checkpoint_interval=3600)


class Desk:
    """A repository, a store and a way to run shell scripts as agents under sessions."""

    def __init__(self, repo: GitRepo, home: Path) -> None:
        self.repo = repo
        self.store = SessionStore(home)
        self.told: list[events.RunEvent] = []
        self.settings = SETTINGS

    def runner(self, script: str | None = None, **request: object) -> Runner:
        command = ("sh", "-c", script) if script is not None else ()
        asked = RunRequest(start=self.repo.path, command=command, **request)  # type: ignore[arg-type]
        self.told.clear()
        return Runner(self.store, asked, self.told.append, self.settings)

    def run(self, script: str | None = None, **request: object) -> events.Outcome:
        return self.runner(script, **request).run()

    def doc(self, session_id: str) -> dict[str, object]:
        text = (self.store.sessions_dir / f"{session_id}.json").read_text(encoding="utf-8")
        loaded: dict[str, object] = json.loads(text)
        return loaded

    def of(self, kind: type[events.RunEvent]) -> list[events.RunEvent]:
        return [event for event in self.told if isinstance(event, kind)]

    def saved(self) -> list[tuple[int, str, tuple[str, ...]]]:
        return [
            (event.index, event.description, event.files_changed)
            for event in self.told
            if isinstance(event, events.CheckpointSaved)
        ]


@pytest.fixture
def desk(repo: GitRepo, pinable_home: Path) -> Desk:
    return Desk(repo, pinable_home)


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for ``condition``; fail when it does not come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_a_run_records_phases_checkpoints_tokens_and_completes(desk: Desk) -> None:
    outcome = desk.run(
        """
        echo '::phase::analysis::Analyzing 1 file...'
        echo '::tokens::in=12500,out=3200'
        echo '::done::Identified 2 functions'
        echo '::checkpoint::Saved analysis results'; read -r saved < "$PINABLE_ACK"
        echo '::phase::implementation'
        echo "saved $saved"
        echo 'new' > src/new.py; echo '# more' >> src/util.py
        echo '::tokens::in=18300,out=5100'
        echo '::checkpoint::Saved user module'
        """,
        task="refactor",
        session_id="one",
    )
    assert (outcome.status, outcome.exit_status, outcome.index) == ("completed", 0, 1)
    assert (outcome.totals.created, outcome.totals.modified, outcome.totals.deleted) == (1, 1, 0)
    assert (outcome.totals.input_tokens, outcome.totals.output_tokens) == (30800, 8300)
    assert outcome.totals.cost_usd is None
    assert desk.told[0] == events.SessionCreated("one")
    assert desk.saved() == [
        (0, "Saved analysis results", ()),
        (1, "Saved user module", ("src/new.py", "src/util.py")),
    ]
    assert events.AgentOutput("saved 0\n", "stdout") in desk.told
    session = desk.store.load("one")
    assert session.status == "completed"
    assert session.phases_completed == ["analysis", "implementation"]
    assert [(c.phase, c.tokens_used.input, c.tokens_used.output) for c in session.checkpoints] == [
        ("analysis", 12500, 3200),
        ("implementation", 18300, 5100),
    ]
    assert session.cost.total_tokens == 39100
    assert session.runs[0].ended_at is not None


def test_each_checkpoint_is_a_commit_with_its_record(desk: Desk) -> None:
    script = "echo x > x; echo '::checkpoint::first'; read -r saved < $PINABLE_ACK; rm x; echo '::checkpoint::second'"
    desk.run(script, task="t", session_id="s")
    log = desk.repo.git("log", "--first-parent", "--format=%s", "refs/pinable/s")
    assert log.splitlines()[:3] == ["checkpoint 1: second", "checkpoint 0: first", "base"]
    assert desk.repo.git("rev-parse", "refs/pinable/s~2^") == desk.repo.git("rev-parse", "HEAD")
    message = desk.repo.git("log", "-1", "--format=%(trailers:key=Pinable-Record,valueonly,unfold)", "refs/pinable/s~1")
    record = json.loads(message)
    assert (record["index"], record["description"], record["files_changed"]) == (0, "first", ["x"])
    assert desk.repo.tree("refs/pinable/s~1").keys() - desk.repo.tree("HEAD").keys() == {b"x"}
    assert desk.repo.tree("refs/pinable/s") == desk.repo.tree("HEAD")


def test_the_user_s_git_is_untouched(desk: Desk) -> None:
    desk.repo.write("staged.py", "staged\n")
    desk.repo.git("add", "staged.py")
    desk.repo.write("staged.py", "then edited\n")
    before = desk.repo.user_state()
    desk.run("echo y >> README.md; echo '::checkpoint::one'", task="t")
    assert desk.repo.user_state() == before


def test_a_failing_agent_pauses_and_a_resume_goes_on(desk: Desk) -> None:
    script = """
        if [ -z "${PINABLE_RESUME+set}" ]; then
            echo a > a; echo '::checkpoint::Saved a'
            echo '::error::CONNECTION ERROR: network timeout after 30s'; exit 7
        fi
        echo "resumed from $PINABLE_RESUME, $PINABLE_RESUME_DESCRIPTION, $PINABLE_TASK"; echo b > b
    """
    first = desk.run(script, task="two steps", session_id="s")
    assert (first.status, first.exit_status, first.index) == ("paused", 3, 0)
    assert events.BackendError("CONNECTION ERROR: network timeout after 30s") in desk.told
    assert "network timeout" in str(desk.doc("s")["pause_reason"])
    second = desk.run(session_id="s")
    assert desk.told[0] == events.Resuming("s", 0, "Saved a")
    assert events.AgentOutput("resumed from 0, Saved a, two steps\n", "stdout") in desk.told
    assert (second.status, second.exit_status) == ("completed", 0)
    assert (desk.repo.path / "b").read_text() == "b\n"
    assert len(desk.store.load("s").runs) == 2


def test_exit_status_and_last_words_are_the_reason(desk: Desk) -> None:
    outcome = desk.run("echo 'it broke' >&2; exit 7", task="t")
    assert outcome.exit_status == 3
    assert outcome.reason is not None
    assert "status 7" in outcome.reason
    assert "it broke" in outcome.reason


def test_no_checkpoint_without_a_change(desk: Desk) -> None:
    outcome = desk.run("echo '::phase::analysis'; echo '::phase::review'; echo hello", task="t", session_id="s")
    assert outcome.index is None
    assert desk.store.load("s").checkpoints == []
    assert desk.repo.git("rev-list", "--count", "HEAD..refs/pinable/s") == "1"


def test_changes_nobody_announced_are_in_the_last_checkpoint(desk: Desk) -> None:
    desk.run("echo quiet > quiet.txt", task="t", session_id="s")
    assert [(c.trigger, c.files_changed) for c in desk.store.load("s").checkpoints] == [("end", ["quiet.txt"])]


def run_until_saved(desk: Desk, name: str) -> None:
    """A run whose agent makes a file in one step, and ends when that is in a checkpoint, or after a minute without."""
    made, saved = desk.repo.path.parent / "made", desk.repo.path.parent / "saved"
    made.write_text("made\n")
    wait = f"n=0; until [ -e {saved} ] || [ $n = 600 ]; do sleep 0.1; n=$((n + 1)); done"
    asked = RunRequest(
        start=desk.repo.path, task="t", session_id="s", command=("sh", "-c", f"sleep 1; mv {made} {name}; {wait}")
    )

    def hear(event: events.RunEvent) -> None:
        if isinstance(event, events.CheckpointSaved):
            saved.touch()

    Runner(desk.store, asked, hear, desk.settings).run()


def test_files_that_settle_are_checkpointed_while_the_agent_works(desk: Desk) -> None:
    desk.settings = replace(SETTINGS, checkpoint_settle=0.3)
    run_until_saved(desk, "settled.txt")
    assert [(c.trigger, c.files_changed) for c in desk.store.load("s").checkpoints] == [("settled", ["settled.txt"])]


def test_the_interval_checkpoints_what_the_watcher_missed(desk: Desk) -> None:
    desk.settings = replace(SETTINGS, checkpoint_interval=0.3)
    run_until_saved(desk, "i.txt")
    assert [(c.trigger, c.files_changed) for c in desk.store.load("s").checkpoints] == [("interval", ["i.txt"])]


def test_a_stop_checkpoints_and_pauses(desk: Desk) -> None:
    runner = desk.runner("echo half > half.txt; echo ready; sleep 60", task="t", session_id="s")
    answers: list[events.Outcome] = []
    thread = threading.Thread(target=lambda: answers.append(runner.run()))
    thread.start()
    until(lambda: events.AgentOutput("ready\n", "stdout") in desk.told)
    runner.request_stop("interrupted")
    thread.join(60)
    assert [(a.status, a.exit_status, a.reason) for a in answers] == [("paused", 130, "interrupted")]
    assert [(c.trigger, c.files_changed) for c in desk.store.load("s").checkpoints] == [("pause", ["half.txt"])]


def test_a_reason_that_is_no_unicode_is_recorded_escaped(desk: Desk) -> None:
    """It may quote a path."""
    runner = desk.runner("sleep 60", task="t", session_id="s")
    runner.request_stop("no such file: caf\udce9")
    assert runner.run().status == "paused"
    assert desk.store.load("s").pause_reason == "no such file: caf\\udce9"


def test_an_agent_that_ignores_signals_is_killed_in_the_end(desk: Desk) -> None:
    runner = desk.runner("trap '' INT TERM; echo ready; while :; do sleep 0.1; done", task="t", session_id="s")
    thread = threading.Thread(target=runner.run)
    thread.start()
    until(lambda: events.AgentOutput("ready\n", "stdout") in desk.told)
    runner.request_stop("interrupted")
    runner.request_stop("interrupted")
    thread.join(60)
    assert desk.store.load("s").status == "paused"


def test_silence_pauses_and_words_do_not(desk: Desk) -> None:
    outcome = desk.run("echo one; sleep 60", task="t", idle_timeout=1.0)
    assert (outcome.status, outcome.exit_status) == ("paused", 3)
    assert "nothing was heard of command for the time of --idle-timeout" in str(outcome.reason)
    outcome = desk.run("for i in 1 2 3 4 5; do echo $i; sleep 0.5; done", task="t", idle_timeout=2.0)
    assert (outcome.status, outcome.exit_status) == ("completed", 0)


def test_the_time_limit_pauses(desk: Desk) -> None:
    outcome = desk.run("sleep 60", task="t", timeout=0.5)
    assert (outcome.status, outcome.exit_status) == ("paused", 3)
    assert "--timeout" in str(outcome.reason)


def test_pause_and_checkpoint_from_another_process(desk: Desk) -> None:
    runner = desk.runner("echo one > one.txt; echo ready; sleep 60", task="t", session_id="s")
    thread = threading.Thread(target=runner.run)
    thread.start()
    until(lambda: events.AgentOutput("ready\n", "stdout") in desk.told)
    other = SessionStore(desk.store.home)
    record = checkpoint(other, "s", "by hand", desk.settings)
    assert (record.index, record.description, record.files_changed) == (0, "by hand", ["one.txt"])
    desk.repo.write("two.txt", "2\n")
    assert pause(other, "s", wait=60) == "paused"
    thread.join(60)
    session = desk.store.load("s")
    assert [(c.index, c.trigger) for c in session.checkpoints] == [(0, "manual"), (1, "pause")]
    assert session.pause_reason == "paused by session pause"
    assert pause(other, "s") == "already paused"


def test_a_session_that_runs_is_not_resumed_a_second_time(desk: Desk) -> None:
    runner = desk.runner("echo ready; sleep 60", task="t", session_id="s")
    thread = threading.Thread(target=runner.run)
    thread.start()
    until(lambda: events.AgentOutput("ready\n", "stdout") in desk.told)
    second = Runner(
        SessionStore(desk.store.home), RunRequest(desk.repo.path, session_id="s"), lambda _: None, desk.settings
    )
    with pytest.raises(SessionBusy, match=str(os.getpid())):
        second.run()
    runner.request_stop("interrupted")
    thread.join(60)


def test_a_ref_ahead_of_its_record_is_adopted(desk: Desk) -> None:
    """What a kill between the ref and the session file leaves: the ref has a checkpoint more."""
    desk.run("echo a > a; echo '::checkpoint::first'; exit 1", task="t", session_id="s")
    kept = {path: path.read_bytes() for path in desk.store.sessions_dir.glob("s.*") if path.suffix != ".lock"}
    desk.run("echo b > b; echo '::checkpoint::second'; exit 1", session_id="s")
    for path in desk.store.sessions_dir.glob("s.*"):
        path.write_bytes(kept.get(path, b""))
    os.utime(desk.store.sessions_dir / "s.json")
    later = Desk(desk.repo, desk.store.home)
    later.run("true", session_id="s")
    session = later.store.load("s")
    assert [(c.index, c.description) for c in session.checkpoints] == [(0, "first"), (1, "second")]
    assert later.told[0] == events.Resuming("s", 1, "second")


def test_a_ref_that_somebody_moved_is_refused(desk: Desk) -> None:
    desk.run("echo a > a; echo '::checkpoint::first'; exit 1", task="t", session_id="s")
    desk.repo.git("update-ref", "refs/pinable/s", "HEAD")
    with pytest.raises(RefMoved):
        desk.run("true", session_id="s")


def test_changes_made_between_runs_are_checkpointed_before_the_agent_works(desk: Desk) -> None:
    desk.run("exit 1", task="t", session_id="s")
    desk.repo.write("mine.txt", "by the user\n")
    desk.run("true", session_id="s")
    assert [(c.trigger, c.files_changed) for c in desk.store.load("s").checkpoints] == [("resume", ["mine.txt"])]


def test_another_task_warns_and_goes_on(desk: Desk) -> None:
    desk.run("exit 1", task="first", session_id="s")
    outcome = desk.run('echo "$PINABLE_TASK"', task="second", session_id="s")
    assert outcome.status == "completed"
    assert any("task" in event.text for event in desk.told if isinstance(event, events.Warned))
    assert events.AgentOutput("second\n", "stdout") in desk.told
    assert desk.store.load("s").task == "first"


def test_a_completed_session_is_not_resumed(desk: Desk) -> None:
    desk.run("true", task="t", session_id="s")
    with pytest.raises(IllegalTransition, match="completed"):
        desk.run(session_id="s")


def test_files_are_kept_relative_to_the_worktree(desk: Desk) -> None:
    request = RunRequest(
        start=desk.repo.path / "src", task="t", session_id="s", files=("app.py", "../README.md"), command=("true",)
    )
    Runner(desk.store, request, desk.told.append, SETTINGS).run()
    assert desk.store.load("s").files == ["src/app.py", "README.md"]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", ".git/config"])
def test_files_outside_are_refused_before_a_session_exists(desk: Desk, name: str) -> None:
    with pytest.raises(OutsideRepository):
        desk.run("true", task="t", files=(name,))
    assert list(desk.store.ids()) == []


def refuse(desk: Desk, error: type[GitSessionError], start: Path, **request: object) -> None:
    asked = RunRequest(start=start, **{"task": "t", "command": ("true",), **request})  # type: ignore[arg-type]
    with pytest.raises(error):
        Runner(desk.store, asked, desk.told.append, SETTINGS).run()
    assert list(desk.store.ids()) == []


def test_what_cannot_begin_leaves_nothing_behind(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "no-repository"
    outside.mkdir()
    refuse(desk, NotARepository, outside)
    refuse(desk, BackendMissing, desk.repo.path, command=("no-such-program-here",))
    refuse(desk, UsageError, desk.repo.path, task=None)
    refuse(desk, UsageError, desk.repo.path, backend="no-such-backend")


def test_a_home_directory_that_is_a_repository_is_refused(desk: Desk, seal: Path) -> None:
    GitRepo.init(seal)
    refuse(desk, RepositoryError, seal)


def test_a_worktree_that_became_another_repository_is_refused(desk: Desk, tmp_path: Path) -> None:
    desk.run("exit 1", task="t", session_id="s")
    desk.repo.path.rename(tmp_path / "moved")
    with pytest.raises(RepositoryError, match="not there"):
        Runner(desk.store, RunRequest(tmp_path, session_id="s"), desk.told.append, SETTINGS).run()


def test_a_listener_that_is_gone_does_not_end_the_run(desk: Desk) -> None:
    def gone(_: events.RunEvent) -> None:
        raise BrokenPipeError

    asked = RunRequest(desk.repo.path, task="t", session_id="s", command=("sh", "-c", "echo z > z"))
    assert Runner(desk.store, asked, gone, SETTINGS).run().status == "completed"


def test_a_checkpoint_that_fails_stops_the_agent_and_is_never_recorded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gitsession import seam

    def full(point: str) -> None:
        if point.startswith("object") and (desk.repo.path / "x").exists():
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(seam, "hook", full)
    outcome = desk.run("echo x > x; echo '::checkpoint::never'; sleep 60; echo late > late", task="t", session_id="s")
    assert (outcome.status, outcome.exit_status) == ("paused", 1)
    assert "No space left" in str(outcome.reason)
    assert desk.store.load("s").checkpoints == []
    assert not (desk.repo.path / "late").exists()


def test_going_back_to_a_checkpoint_and_on_from_there(desk: Desk) -> None:
    script = """
        if [ "${PINABLE_RESUME-}" = 0 ]; then echo "$PINABLE_TASK" > other.txt; exit 0; fi
        echo 1 > one.txt; echo '::checkpoint::first'; read -r saved < "$PINABLE_ACK"
        echo 2 > two.txt; echo '::checkpoint::second'; exit 1
    """
    desk.run(script, task="t", session_id="s")
    outcome = desk.run(session_id="s", restore_checkpoint=0, task="another way")
    assert outcome.status == "completed"
    assert desk.told[0] == events.Resuming("s", 0, "first")
    assert sorted(path.name for path in desk.repo.path.glob("*.txt")) == ["one.txt", "other.txt"]
    kept = [(one.index, one.trigger, one.restored_from) for one in desk.store.load("s").checkpoints]
    assert kept[1:] == [(1, "agent", None), (2, "restore", 0), (3, "end", None)]


def test_going_back_over_changes_of_the_user_s_needs_force(desk: Desk) -> None:
    script = "echo 1 > one.txt; echo '::checkpoint::first'; read -r saved < $PINABLE_ACK; echo 2 > one.txt; exit 1"
    desk.run(script, task="t", session_id="s")
    desk.repo.write("one.txt", "mine\n")
    with pytest.raises(DriftError):
        desk.run("true", session_id="s", restore_checkpoint=0)
    assert (desk.repo.path / "one.txt").read_text() == "mine\n"
    desk.run("true", session_id="s", restore_checkpoint=0, force=True)
    assert (desk.repo.path / "one.txt").read_text() == "1\n"
    safety = desk.store.load("s").checkpoints[2].commit
    assert desk.repo.git("show", f"{safety}:one.txt") == "mine"


def test_a_checkpoint_that_is_not_there_and_a_session_that_is_not_there(desk: Desk) -> None:
    desk.run("exit 1", task="t", session_id="s")
    with pytest.raises(CheckpointNotFound):
        desk.run("true", session_id="s", restore_checkpoint=7)
    with pytest.raises(UsageError, match="is for a session that is there"):
        desk.run("true", task="t", session_id="new", restore_checkpoint=0)


def test_a_key_in_the_command_stays_out_of_git(desk: Desk) -> None:
    key = "sk-ant-" + "a1" * 20
    asked = RunRequest(desk.repo.path, task="t", session_id="s", command=("true", f"--api-key={key}"))
    Runner(desk.store, asked, desk.told.append, SETTINGS).run()
    assert desk.store.read("s")["command"][1].endswith(key)
    message = desk.repo.git("log", "-1", "--format=%B", "refs/pinable/s")
    assert '"command":["true","--api-key=[redacted]"]' in message
    assert key not in message


def test_a_new_record_is_what_the_format_says(desk: Desk) -> None:
    """Field for field, in the format's order, with nothing left to its defaults."""
    request = RunRequest(desk.repo.path, files=("src/app.py",), priority=3, model="m")
    doc = new_doc(request, "task", "s", Repo.discover(desk.repo.path), "command", ("/bin/agent.sh", "x"))
    assert json.dumps(Session.model_validate(doc).model_dump(mode="json")) == json.dumps(doc)
    assert doc["command"] == ["/bin/agent.sh", "x"]
