"""Runs of the ``claude`` backend by the installed program, the real SDK, and a server that plays a script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from backends.model_server import Fault, ModelServer, Step, call, say, step, wait_for
from support import GitRepo, run_cli, start_cli

KEY = "sk-test-0123456789abcdef"
TASK = "将用户、订单、支付三个模块的数据库访问从直接 SQL 重构为 Repository 模式"
MODULES = ("user", "order", "payment")
FILES = [f"src/{name}/db.go" for name in MODULES]
ANALYSED = step(
    call(
        "finish_phase",
        summary="Identified 15 functions to refactor",
        details="Each module talks SQL in db.go.",
        decisions=["one repository a module"],
    )
)
REVIEWED = step(call("report_findings", findings=[]))


def module(name: str) -> list[Step]:
    """What the model does about one module: look at it, then change it in one reply."""
    path, purpose = f"src/{name}/db.go", f"{name} module changes"
    return [
        step(say(f"Refactoring {path}..."), call("read_file", path=path)),
        step(
            call("write_file", path=f"src/{name}/repository.go", content=f"package {name}\n", purpose=purpose),
            call("edit_file", path=path, old_text="db.Query(sql)", new_text="repository.Get()", purpose=purpose),
        ),
    ]


@pytest.fixture
def shop(empty_repo: GitRepo) -> GitRepo:
    for name, path in zip(MODULES, FILES, strict=True):
        empty_repo.write(path, f"package {name}\n\nfunc Get() {{ return db.Query(sql) }}\n")
    empty_repo.commit("A shop")
    return empty_repo


class Place:
    """A repository, a server, and the program run between them."""

    def __init__(
        self, repo: GitRepo, home: Path, monkeypatch: pytest.MonkeyPatch, zygote: subprocess.Popen[str]
    ) -> None:
        self._zygote = zygote
        self.repo = repo
        self.home = home
        self.server: ModelServer | None = None
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_MODEL", "claude-opus-4-6")
        monkeypatch.setenv("PINABLE_CLAUDE__TIMEOUT", "10m")
        monkeypatch.setenv("PINABLE_CHECKPOINT__SETTLE", "1h")
        self._patch = monkeypatch

    def serve(self, *script: Step) -> ModelServer:
        self.close()
        self.server = ModelServer(script)
        self.server.__enter__()
        self._patch.setenv("ANTHROPIC_BASE_URL", self.server.url)
        return self.server

    def close(self) -> None:
        if self.server is not None:
            self.server.__exit__()

    def begin(self, *flags: str, task: str = "do it", session: str = "one") -> subprocess.CompletedProcess[str]:
        return self.run("--backend", "claude", "--task", task, "--session-id", session, *flags)

    def run(self, *flags: str) -> subprocess.CompletedProcess[str]:
        """The program in a process of its own, in which what takes long to load is loaded already."""
        out, err = self.home.parent / "out", self.home.parent / "err"
        argv = ["codeagent-wrapper", *flags]
        request = {"argv": argv, "cwd": str(self.repo.path), "env": dict(os.environ), "seconds": 100}
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps(request | {"out": str(out), "err": str(err)}) + "\n")
        self._zygote.stdin.flush()
        status = json.loads(self._zygote.stdout.readline())
        return subprocess.CompletedProcess(argv, status, out.read_text("utf-8"), err.read_text("utf-8"))

    def doc(self, session: str = "one") -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.home / "sessions" / f"{session}.json").read_text("utf-8"))
        return loaded

    def everything_written(self) -> bytes:
        """All bytes in the store and the repository, git's objects opened."""
        files = [path.read_bytes() for path in [*self.home.rglob("*"), *self.repo.path.rglob("*")] if path.is_file()]
        objects = self.repo.git_bytes("cat-file", "--batch-all-objects", "--batch")
        return b"\n".join([*files, objects])


@pytest.fixture(scope="module")
def zygote() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, Path(__file__).parent.parent / "faults" / "zygote.py"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, env={**os.environ, "ZYGOTE_LOADS": "anthropic httpx2"}
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def place(
    shop: GitRepo, pinable_home: Path, monkeypatch: pytest.MonkeyPatch, zygote: subprocess.Popen[str]
) -> Iterator[Place]:
    made = Place(shop, pinable_home, monkeypatch, zygote)
    yield made
    made.close()


def test_the_worked_example(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source document's: three modules, the network lost in the second, resumed, reviewed."""
    monkeypatch.setenv("PINABLE_CLAUDE__TIMEOUT", "2s")
    user, order, payment = (module(name) for name in MODULES)
    silence = Fault(how="silence", seconds=600)
    server = place.serve(
        ANALYSED,
        *user,
        order[0],
        Step(order[1].blocks, faults=(silence,) * 4),
        *payment,
        step(call("finish_phase", summary="Three repositories")),
        REVIEWED,
    )
    before = place.repo.user_state()
    asked = ("--backend", "claude", "--session-id", "one", "--task", TASK, "--files", ",".join(FILES))
    first = run_cli("codeagent-wrapper", *asked, cwd=place.repo.path)
    assert first.returncode == 3, first.stderr
    assert first.stdout.splitlines() == [
        "Session created: one",
        "[Phase: analysis] Analyzing 3 files...",
        "[Phase: analysis] DONE - Identified 15 functions to refactor",
        "[Checkpoint 0] Saved analysis results",
        "[Phase: implementation] Refactoring src/user/db.go...",
        "[Phase: implementation] DONE - Created src/user/repository.go",
        "[Phase: implementation] DONE - Changed src/user/db.go",
        "[Checkpoint 1] Saved user module changes",
        "[Phase: implementation] Refactoring src/order/db.go...",
        "CONNECTION ERROR: network timeout after 2s",
        "Session paused: one (checkpoint 1)",
    ]
    retries = [f"warning: network timeout after 2s; trying again ({number} of 3)" for number in (1, 2, 3)]
    warned = first.stderr.splitlines()
    assert warned[-3:] == retries
    assert {*warned} == {*retries}, "a busy machine may be too slow for a reply before"
    monkeypatch.setenv("PINABLE_CLAUDE__TIMEOUT", "10m")
    shown = run_cli("pinable-agents", "session", "inspect", "one", cwd=place.repo.path).stdout
    assert "claude (claude-opus-4-6)" in shown
    for line in ("+ src/user/repository.go", "~ src/user/db.go", "- src/order/db.go", "- src/payment/db.go"):
        assert line in shown

    second = place.run("--session-id", "one")
    assert second.returncode == 0, second.stderr
    lines = second.stdout.splitlines()
    assert lines[:-3] == [
        "Resuming from checkpoint 1 (user module changes)",
        "[Phase: implementation] Refactoring src/order/db.go...",
        "[Phase: implementation] DONE - Created src/order/repository.go",
        "[Phase: implementation] DONE - Changed src/order/db.go",
        "[Checkpoint 2] Saved order module changes",
        "[Phase: implementation] Refactoring src/payment/db.go...",
        "[Phase: implementation] DONE - Created src/payment/repository.go",
        "[Phase: implementation] DONE - Changed src/payment/db.go",
        "[Checkpoint 3] Saved payment module changes",
        "[Phase: implementation] DONE - Three repositories",
        "[Phase: review] Running code review...",
        "[Phase: review] DONE - No critical issues found",
        "",
        "Session completed: one",
    ]
    assert lines[-1] == "Files created: 3, Files modified: 3"
    assert lines[-2] == "Total cost: $0.12"
    assert [*dict.fromkeys(server.steps)] == list(range(9))
    assert len(server.steps) == 9 + 1 + len(warned), "no reply that arrived is asked for again"
    assert place.repo.user_state() == before
    doc = place.doc()
    assert doc["phases_completed"] == ["analysis", "implementation", "review"]
    assert [checkpoint["tokens_used"] for checkpoint in doc["checkpoints"]] == [
        {"input": 6000 * count, "output": 34 * count} for count in (1, 2, 2, 2)
    ]
    assert doc["checkpoints"][1]["cost_usd"] == pytest.approx(2 * (1200 * 5 + 34 * 25 + 800 * 6.25 + 4000 * 0.5) / 1e6)
    assert doc["cost"]["total_tokens"] == 9 * 6034
    assert doc["findings"] == []
    assert KEY.encode() not in place.everything_written()


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        (Fault(status=401), 1, "the API refused the key in ANTHROPIC_API_KEY (401): scripted"),
        (Fault(status=400), 1, "the API refused the request (400): scripted"),
        (Fault(status=404, message="model: nope"), 1, "(404): model: nope"),
        (Fault(status=529), 3, "the API answered with status 529, 3 retries were in vain: scripted"),
        (Fault(how="end"), 3, "CONNECTION ERROR: the reply ended without its last event"),
    ],
)
def test_a_failing_api_pauses_the_session_and_it_can_be_resumed(
    place: Place, fault: Fault, status: int, words: str
) -> None:
    place.serve(Step(ANALYSED.blocks, faults=(fault,) * 9))
    failed = place.begin()
    assert failed.returncode == status, failed.stderr
    assert words in failed.stdout
    assert place.doc()["status"] == "paused"
    assert words in place.doc()["pause_reason"]
    end = "Session failed: one (paused" if status == 1 else "Session paused: one"
    assert failed.stdout.splitlines()[-1].startswith(end)
    place.serve(ANALYSED, step(call("finish_phase", summary="Nothing to do")))
    done = place.run("--session-id", "one")
    assert done.returncode == 0, done.stderr
    assert "[Phase: review] DONE - Nothing was changed" in done.stdout
    assert KEY.encode() not in place.everything_written()


def test_no_key_no_session(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.serve(ANALYSED)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    refused = place.begin()
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.splitlines() == [
        "codeagent-wrapper: the claude backend needs a key in ANTHROPIC_API_KEY",
        "hint: export ANTHROPIC_API_KEY=…; --backend command needs none",
    ]
    assert not list(place.home.rglob("*.json"))


def test_limits_on_replies_and_cost(place: Place) -> None:
    server = place.serve(ANALYSED, *module("user"), step(call("finish_phase", summary="x")), REVIEWED)
    paused = place.begin("--max-turns", "2")
    assert paused.returncode == 3
    assert "the limit of 2 replies (--max-turns) is reached" in paused.stdout
    assert len(server.requests) == 2
    paused = place.run("--session-id", "one", "--max-cost", "0.01")
    assert paused.returncode == 3
    assert "the limit of $0.01 (--max-cost) is reached: $0.03 are spent" in paused.stdout
    assert len(server.requests) == 2, "nothing more is spent"
    assert place.run("--session-id", "one", "--max-cost", "9").returncode == 0
    assert place.doc()["cost"]["total_tokens"] == 5 * 6034


def test_an_unknown_price_is_unknown_and_no_limit_can_be_put_on_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = place.serve(ANALYSED, step(call("finish_phase", summary="x")))
    paused = place.begin("--model", "local-7b", "--max-cost", "1")
    assert paused.returncode == 3
    assert "the price of local-7b is not known" in paused.stdout
    assert not server.requests
    done = place.run("--session-id", "one")
    assert "Total cost: unknown" in done.stdout
    assert place.doc()["cost"]["estimated_cost_usd"] is None
    (place.home / "config.toml").write_text('[prices."local-7b"]\ninput = 1000\noutput = 0\n')
    assert "Total cost: $12.00" in place.begin("--model", "local-7b", session="two").stdout


def test_a_time_limit_pauses(place: Place) -> None:
    place.serve(ANALYSED, step(call("list_files"), delay=600))
    paused = place.begin("--timeout", "3s")
    assert paused.returncode == 3, paused.stderr
    assert "the time limit (--timeout) is reached" in paused.stdout


def test_an_interrupt_while_waiting_leaves_a_conversation_that_goes_on(place: Place) -> None:
    server = place.serve(ANALYSED, step(call("list_files"), delay=600))
    running = start_cli(
        "codeagent-wrapper", "--backend", "claude", "--task", "t", "--session-id", "one", cwd=place.repo.path
    )
    wait_for(lambda: len(server.requests) == 2)
    os.kill(running.pid, signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert out.splitlines()[-1] == "Session paused: one (checkpoint 0)"
    place.serve(ANALYSED, step(call("finish_phase", summary="x")))
    assert place.run("--session-id", "one").returncode == 0


def test_a_change_of_the_user_s_in_a_half_done_edit_is_a_conflict(place: Place) -> None:
    place.serve(ANALYSED, *module("user"), step(call("finish_phase", summary="x")), REVIEWED)
    code = """
import os, signal, sys
from gitsession import seam
def hook(point):
    if point == "restore.replace":
        os.kill(os.getpid(), signal.SIGKILL)
seam.hook = hook
from gitsession.cli.boundary import codeagent_wrapper
sys.exit(codeagent_wrapper())
"""
    flags = ["--backend", "claude", "--task", "t", "--session-id", "one"]
    killed = subprocess.run([sys.executable, "-c", code, *flags], cwd=place.repo.path, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    place.repo.write("src/user/repository.go", "package mine\n")
    conflict = place.run("--session-id", "one")
    assert conflict.returncode == 4
    assert conflict.stdout.splitlines()[0] == "Resuming from checkpoint 0 (analysis results)"
    assert "src/user/repository.go was changed while an edit of it was under way" in conflict.stdout
    assert "resume with --force to keep yours" in conflict.stdout
    assert conflict.stdout.splitlines()[-1] == "Session paused: one (checkpoint 1)"
    assert place.repo.at("src/user/repository.go").read_text() == "package mine\n"
    assert place.repo.git("show", "refs/pinable/one:src/user/repository.go") == "package mine"
    done = place.run("--session-id", "one", "--force")
    assert done.returncode == 0, done.stderr
    assert place.repo.at("src/user/repository.go").read_text() == "package mine\n"
    assert "repository.Get()" in place.repo.at("src/user/db.go").read_text()
    assert place.server is not None
    told = json.dumps(place.server.requests[-3:], ensure_ascii=False)
    assert "the user changed the file, and their version stays" in told
    assert "the user changed src/user/repository.go" in told


def test_it_is_told_what_another_agent_did_in_between(place: Place) -> None:
    server = place.serve(ANALYSED, *module("user"), step(call("finish_phase", summary="x")), REVIEWED)
    assert place.begin("--max-turns", "3").returncode == 3
    other = place.run("--session-id", "one", "--backend", "command", "--", "sh", "-c", "echo > by_other.txt; exit 7")
    assert other.returncode == 3, other.stderr
    done = place.run("--session-id", "one", "--backend", "claude")
    assert done.returncode == 0, done.stderr
    told = json.dumps(server.requests[3]["messages"][-1])
    assert "Since you last worked here: command, another agent, changed by_other.txt; read files again" in told
    assert [run["backend"] for run in place.doc()["runs"]] == ["claude", "command", "claude"]


def test_escapes_write_nothing_and_are_told(place: Place) -> None:
    outside = place.repo.path.parent / "outside"
    outside.mkdir()
    place.repo.at("link").symlink_to(outside)
    os.mkfifo(place.repo.at("fifo"))
    bad = ["../outside/x", str(outside / "x"), ".git/hooks/pre-commit", ".GIT/hooks/pre-commit", "link/x", "fifo"]
    place.serve(
        ANALYSED,
        step(*(call("write_file", path=path, content="x") for path in bad)),
        step(call("finish_phase", summary="x")),
    )
    before, state = place.repo.snapshot(), place.repo.user_state()
    done = place.begin()
    assert done.returncode == 0, done.stderr
    assert place.repo.snapshot() == before
    assert place.repo.user_state() == state
    assert not list(outside.iterdir())
    assert place.server is not None
    results = place.server.requests[-1]["messages"][-1]["content"]
    assert [block.get("is_error") for block in results] == [True] * len(bad)


def test_what_a_session_found_is_handed_over(place: Place) -> None:
    finish = step(call("finish_phase", summary="Nothing to change"))
    place.serve(ANALYSED, finish)
    assert place.begin(session="analysis").returncode == 0
    server = place.serve(ANALYSED, finish)
    done = place.begin("--context-from", "analysis")
    assert done.returncode == 0, done.stderr
    first = server.requests[0]["messages"][0]["content"][0]["text"]
    for words in ("Session analysis (completed", "Identified 15 functions", "one repository a module", "in db.go"):
        assert words in first
    (recorded,) = place.doc()["context"]["handed_over"]
    assert recorded["session"] == "analysis"
    for flags, status in ((["--context-from", "nobody"], 2), (["--context-from", "two"], 2)):
        assert place.begin(*flags, session="three").returncode == status
    assert not (place.home / "sessions" / "three.json").exists()


def test_findings_are_checked_stored_and_shown(place: Place) -> None:
    finding = {"file": "src/user/db.go", "line": 1, "severity": "critical", "message": "Get is lost"}
    place.serve(
        ANALYSED,
        *module("user"),
        step(call("finish_phase", summary="x")),
        step(
            call(
                "report_findings",
                findings=[finding | {"quote": "repository.Get()"}, finding | {"quote": "this line is nowhere"}],
            )
        ),
    )
    done = place.begin()
    assert done.returncode == 0, done.stderr
    assert "critical: src/user/db.go:3: Get is lost\n" in done.stdout
    assert "[Phase: review] DONE - 1 critical issue found (1 finding dropped: the quote is not there)" in done.stdout
    doc = place.doc()
    assert doc["findings"] == [finding | {"line": 3, "quote": "repository.Get()"}]
    assert doc["findings_dropped"] == 1
    assert place.server is not None
    asked = json.dumps(place.server.requests[-1]["messages"][-1], ensure_ascii=False)
    assert "+func Get() { return repository.Get() }" in asked
    assert "A src/user/repository.go  +1 -0" in asked


def test_commands_run_only_when_allowed_and_without_the_key(place: Place) -> None:
    script = (
        ANALYSED,
        step(call("run_command", command="env > leaked; echo made > made.txt; ps -ef > processes")),
        step(call("finish_phase", summary="x")),
        REVIEWED,
    )
    place.serve(*script)
    assert place.begin().returncode == 0
    assert not place.repo.at("made.txt").exists()
    place.serve(*script)
    done = place.begin("--allow-commands", session="two")
    assert done.returncode == 0, done.stderr
    assert place.repo.at("made.txt").read_text() == "made\n"
    assert "[Checkpoint 1] Saved what env > leaked" in done.stdout
    assert KEY not in place.repo.at("leaked").read_text() + place.repo.at("processes").read_text()
    assert KEY.encode() not in place.everything_written()


def lives(pid: int) -> bool:
    """Whether it runs; one that is dead and that nobody has collected does not."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.parametrize("group", [False, True])
def test_a_command_that_outlives_a_kill_is_ended_and_not_run_again(place: Place, group: bool) -> None:
    command = "echo $$ > started.tmp; mv started.tmp started; sleep 600; echo twice > done"
    place.serve(ANALYSED, step(call("run_command", command=command)), step(call("finish_phase", summary="x")), REVIEWED)
    flags = ("--backend", "claude", "--task", "t", "--session-id", "one", "--allow-commands")
    running = start_cli("codeagent-wrapper", *flags, cwd=place.repo.path)
    wait_for(place.repo.at("started").exists)
    (os.killpg if group else os.kill)(running.pid, signal.SIGKILL)
    running.communicate()
    shell = int(place.repo.at("started").read_text())
    assert lives(shell)
    done = place.run("--session-id", "one", "--allow-commands")
    assert done.returncode == 0, done.stderr
    assert not lives(shell)
    assert not place.repo.at("done").exists()
    assert place.server is not None
    told = place.server.requests[2]["messages"][-1]["content"][0]
    assert "its outcome is unknown" in told["content"]


def test_everything_as_json(place: Place) -> None:
    place.serve(ANALYSED, *module("user"), step(call("finish_phase", summary="x")), REVIEWED)
    done = place.begin("--output", "stream-json")
    kinds = [json.loads(line)["type"] for line in done.stdout.splitlines()]
    assert kinds[0] == "session_created"
    assert kinds[-1] == "ended"
    assert kinds.count("checkpoint") == 2


def test_a_session_that_is_being_talked_to_can_be_paused_from_elsewhere(place: Place) -> None:
    server = place.serve(ANALYSED, step(call("list_files"), delay=600))
    running = start_cli(
        "codeagent-wrapper", "--backend", "claude", "--task", "t", "--session-id", "one", cwd=place.repo.path
    )
    wait_for(lambda: len(server.requests) == 2)
    paused = run_cli("pinable-agents", "session", "pause", "one", cwd=place.repo.path)
    assert paused.returncode == 0, paused.stderr
    running.communicate(timeout=60)  # the reply would take ten minutes
    assert running.returncode == 3


def test_going_back_to_a_checkpoint_takes_files_and_conversation_back(place: Place) -> None:
    """What was said after the checkpoint is kept in the record and not told to the model again."""
    user, order, payment = (module(name) for name in MODULES)
    ending = (step(call("finish_phase", summary="Three repositories")), REVIEWED)
    overloaded = Fault(status=529)
    server = place.serve(ANALYSED, *user, Step(order[0].blocks, faults=(overloaded,) * 4), order[1], *payment, *ending)
    assert place.begin().returncode == 3
    assert (place.repo.path / "src/user/repository.go").exists()
    said = place.doc()["context"]["conversation_history"]

    again = place.run("--session-id", "one", "--restore-checkpoint", "0", "--task", "go about it in another way")
    assert again.returncode == 0, again.stderr
    lines = again.stdout.splitlines()
    assert lines[0] == "Resuming from checkpoint 0 (analysis results)"
    assert "[Phase: implementation] Refactoring src/user/db.go..." in lines
    assert "Session completed: one" in lines
    assert server.steps[-8:] == [1, 2, 3, 4, 5, 6, 7, 8]
    doc = place.doc()
    history = doc["context"]["conversation_history"]
    assert history[:2] == said[:2]
    assert [aside["to"] for aside in doc["context"]["set_aside"]] == [0]
    assert doc["context"]["set_aside"][0]["messages"] == said[3:]
    words = json.dumps(history[2:4], ensure_ascii=False)
    assert "go about it in another way" in words
    assert "put the files back to checkpoint 0" in words
    assert [one["restored_from"] for one in doc["checkpoints"] if one.get("restored_from") is not None] == [0]
    assert doc["phases_completed"] == ["analysis", "implementation", "review"]
    for name in MODULES:
        assert (place.repo.path / f"src/{name}/repository.go").read_text() == f"package {name}\n"
