"""Any program as an agent: what it gets, what is heard of it, how it ends."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from backends.agents import PATIENT, command_job, lives, patient_backend, python_script, quick_backend, script
from backends.conformance import run, spoken, when_ready
from backends.model_server import wait_for

from gitsession.backends.base import CheckpointHint, Done, Event, Failed, Job, Output, Phase, Tick, Usage
from gitsession.backends.command import CommandBackend
from gitsession.backends.processes import end_survivors, find_survivors
from gitsession.errors import BackendMissing, UsageError

ESC = "\x1b"


def events_of(job: Job) -> list[Event]:
    return spoken(run(quick_backend(), job))


def printed(events: list[Event], stream: str = "stdout") -> str:
    return "".join(event.text for event in events if isinstance(event, Output) and event.stream == stream)


def ended(events: list[Event]) -> Done | Failed:
    last = events[-1]
    assert isinstance(last, Done | Failed)
    return last


def seen_by(job: Job, place: Path) -> dict[str, str]:
    """The environment that the job's agent, which must be ``ENVIRONMENT``, was started with."""
    return json.loads(printed(events_of(job)))


@pytest.fixture
def environment_agent(tmp_path: Path) -> tuple[str, ...]:
    path = python_script(tmp_path, "import json, os; print(json.dumps(dict(os.environ)))")
    return (str(path),)


# -- what it gets ------------------------------------------------------------------------------------------


def test_it_runs_in_the_worktree_alone_in_its_session_with_no_input(tmp_path: Path) -> None:
    agent = python_script(
        tmp_path,
        """
        import os, sys
        print(os.getcwd(), os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid(), repr(sys.stdin.read()))
        """,
    )
    assert printed(events_of(command_job(tmp_path, command=(str(agent),)))) == f"{tmp_path} True True ''\n"


def test_the_environment_of_a_fresh_start(
    tmp_path: Path, environment_agent: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PINABLE_RESUME", "9")
    monkeypatch.setenv("PINABLE_RESUME_DESCRIPTION", "of another session")
    monkeypatch.setenv("PINABLE_MODEL", "other")
    monkeypatch.setenv("OWN_SETTING", "kept")
    job = command_job(
        tmp_path, command=environment_agent, session_id="sess_x", task="zwei\nZeilen 任务", files=("a b.py", "src/b.py")
    )
    seen = seen_by(job, tmp_path)
    assert seen["PINABLE_SESSION_ID"] == "sess_x"
    assert seen["PINABLE_TASK"] == "zwei\nZeilen 任务"
    assert seen["PINABLE_FILES"] == "a b.py\nsrc/b.py"
    assert seen["PINABLE_PHASE"] == ""
    assert seen["OWN_SETTING"] == "kept"
    assert not {"PINABLE_RESUME", "PINABLE_RESUME_DESCRIPTION", "PINABLE_MODEL"} & set(seen)


def test_the_environment_of_a_resume(tmp_path: Path, environment_agent: tuple[str, ...]) -> None:
    job = command_job(
        tmp_path,
        command=environment_agent,
        phase="implementation",
        resume=1,
        resume_description="user module completed",
        model="m-1",
    )
    seen = seen_by(job, tmp_path)
    assert seen["PINABLE_PHASE"] == "implementation"
    assert seen["PINABLE_RESUME"] == "1"
    assert seen["PINABLE_RESUME_DESCRIPTION"] == "user module completed"
    assert seen["PINABLE_MODEL"] == "m-1"


def test_its_git_is_not_pointed_at_another_repository(
    tmp_path: Path, environment_agent: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the run is started by a git hook, which has these set."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("GIT_SSH_COMMAND", "kept")
    seen = seen_by(command_job(tmp_path, command=environment_agent), tmp_path)
    assert not {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"} & set(seen)
    assert seen["GIT_SSH_COMMAND"] == "kept"


def test_arguments_pass_unchanged(tmp_path: Path) -> None:
    path = script(tmp_path, 'printf "<%s>" "$@"')
    events = events_of(command_job(tmp_path, command=(str(path), "a b", "", "$HOME", "*", "ü")))
    assert printed(events) == "<a b><><$HOME><*><ü>"


# -- which program -----------------------------------------------------------------------------------------


def test_a_name_is_looked_up_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, "echo found", name="my-agent")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    job = command_job(tmp_path, command=("my-agent",))
    quick_backend().validate(job)
    assert printed(events_of(job)) == "found\n"


def test_a_relative_path_is_the_worktrees(tmp_path: Path) -> None:
    script(tmp_path, "echo found")
    job = command_job(tmp_path, command=("./agent.sh",))
    quick_backend().validate(job)
    assert printed(events_of(job)) == "found\n"


def test_a_script_without_a_first_line_for_its_interpreter_is_the_shells(tmp_path: Path) -> None:
    path = tmp_path / "agent.sh"
    path.write_text("echo $0 $1\n")
    path.chmod(0o755)
    events = events_of(command_job(tmp_path, command=(str(path), "x")))
    assert printed(events) == f"{path} x\n"
    assert isinstance(ended(events), Done)


@pytest.mark.parametrize(
    ("command", "message", "hint"),
    [
        (("no-such-agent",), "no-such-agent: not found", "write ./no-such-agent"),
        (("./nowhere.sh",), "./nowhere.sh: not found", "check the path"),
        (("./plain.sh",), "./plain.sh: not executable", "chmod +x ./plain.sh"),
        (("./folder",), "./folder: is a directory", "name the program"),
    ],
)
def test_a_program_that_cannot_run_is_named(tmp_path: Path, command: tuple[str, ...], message: str, hint: str) -> None:
    script(tmp_path, "echo", name="plain.sh", mode=0o644)
    (tmp_path / "folder").mkdir()
    with pytest.raises(BackendMissing) as caught:
        quick_backend().validate(command_job(tmp_path, command=command))
    assert str(caught.value) == message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("command", [(), ("",)])
def test_no_program_is_a_usage_error(tmp_path: Path, command: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="no program given"):
        quick_backend().validate(command_job(tmp_path, command=command))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"task": "x" * 131_072}, "PINABLE_TASK would be 128 KB"),
        ({"task": "a\0b"}, "PINABLE_TASK cannot hold a NUL"),
        ({"files": ("a\nb",)}, "PINABLE_FILES cannot list a name with a newline"),
    ],
)
def test_what_the_environment_cannot_carry_is_refused(tmp_path: Path, facts: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        quick_backend().validate(command_job(tmp_path, "echo", **facts))
    assert ("--task" in (refused.value.hint or "")) is ("task" in facts)


def test_the_largest_task_that_is_accepted_arrives(tmp_path: Path) -> None:
    job = command_job(tmp_path, 'printf %s "$PINABLE_TASK" | wc -c', task="x" * (131_071 - len("PINABLE_TASK=")))
    quick_backend().validate(job)
    assert printed(events_of(job)).strip() == str(len(job.task))


def test_a_missing_interpreter_is_said(tmp_path: Path) -> None:
    path = script(tmp_path, "#!/no/such/interpreter\n")
    end = ended(events_of(command_job(tmp_path, command=(str(path),))))
    assert end == Failed("agent.sh could not be started: the interpreter named in its first line is not there", "exit")


def test_a_program_that_vanishes_after_it_was_looked_at(tmp_path: Path) -> None:
    job = command_job(tmp_path, "echo")
    Path(job.command[0]).unlink()
    assert ended(events_of(job)) == Failed(f"{job.command[0]}: not found", "exit")


# -- what is heard -----------------------------------------------------------------------------------------


def test_the_worked_example(tmp_path: Path) -> None:
    events = events_of(
        command_job(
            tmp_path,
            """
            echo '::phase::analysis::Analyzing 3 files...'
            echo '::tokens::in=12500,out=3200'
            echo '::done::Identified 15 functions to refactor'
            echo '::checkpoint::Saved analysis results'
            echo '::phase::implementation::Refactoring src/order/db.go...'
            echo '::error::CONNECTION ERROR: network timeout after 30s'
            exit 1
            """,
        )
    )
    assert events == [
        Phase("analysis", "Analyzing 3 files..."),
        Usage(12500, 3200),
        Phase("analysis", "Identified 15 functions to refactor", done=True),
        CheckpointHint("Saved analysis results"),
        Phase("implementation", "Refactoring src/order/db.go..."),
        Failed("CONNECTION ERROR: network timeout after 30s", "exit"),
    ]


def test_the_streams_are_kept_apart(tmp_path: Path) -> None:
    events = events_of(command_job(tmp_path, "echo out; echo err >&2; echo ::phase::x >&2"))
    assert printed(events) == "out\n"
    assert printed(events, "stderr") == "err\n::phase::x\n"


def test_a_done_belongs_to_the_phase_of_the_run_before(tmp_path: Path) -> None:
    events = events_of(command_job(tmp_path, "echo ::done::went on", phase="review"))
    assert events[0] == Phase("review", "went on", done=True)


def test_output_arrives_while_the_program_runs_on(tmp_path: Path) -> None:
    """Also a piece of a line, and without waiting for the end."""
    backend = quick_backend()
    events = run(backend, command_job(tmp_path, "printf 'ready 10%%\\r'; exec sleep 60"), when_ready(backend.stop))
    assert printed(events) == "ready 10%\r"


def test_no_byte_is_lost_at_the_end(tmp_path: Path) -> None:
    """A program that ends with its pipes full, heard by somebody slow."""
    agent = python_script(
        tmp_path,
        """
        import os
        for i in range(20000):
            os.write(1, b"%06d 0123456789\\n" % i)
            if i % 4 == 0:
                os.write(2, b"%06d\\n" % i)
        os.write(1, b"no newline")
        """,
    )
    slow = [time.sleep] * 3
    events = run(
        CommandBackend(pipe_grace=0.0),
        command_job(tmp_path, command=(str(agent),)),
        lambda event: slow.pop()(0.1) if slow and isinstance(event, Output) else None,
    )
    assert printed(events) == "".join(f"{i:06d} 0123456789\n" for i in range(20000)) + "no newline"
    assert printed(events, "stderr") == "".join(f"{i:06d}\n" for i in range(0, 20000, 4))


def test_a_line_of_many_megabytes_passes_in_pieces_and_little_memory(tmp_path: Path) -> None:
    agent = python_script(
        tmp_path,
        """
        import os
        for start in (b"", b"\\n::checkpoint::"):
            os.write(1, start)
            for _ in range(192):
                os.write(1, b"x" * 65536)
        """,
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = longest = hints = 0
    for event in quick_backend().run(command_job(tmp_path, command=(str(agent),))):
        if isinstance(event, Output):
            count += event.text.count("x")
            longest = max(longest, len(event.text))
        hints += isinstance(event, CheckpointHint)
    assert count == 2 * 192 * 65536
    assert longest <= 2 * 65536 + 100
    assert hints == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 * 1024


def test_bytes_that_are_not_utf8_are_shown_as_replacements(tmp_path: Path) -> None:
    events = events_of(command_job(tmp_path, r"printf 'caf\351 \000 \360\237\230\200\n'; printf '\342\202'"))
    assert printed(events) == "caf\ufffd \0 😀\n\ufffd"


def test_a_program_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    job = command_job(tmp_path, "exec >&- 2>&-; sleep 0.3; touch finished")
    assert ended(events_of(job)) == Done(None)
    assert (tmp_path / "finished").exists()


def test_ticks_come_while_it_prints_all_the_time(tmp_path: Path) -> None:
    backend = quick_backend()
    ticks = 0

    def on_event(event: Event) -> None:
        nonlocal ticks
        ticks += isinstance(event, Tick)
        if ticks == 5:
            backend.stop()

    assert isinstance(run(backend, command_job(tmp_path, "while :; do echo line; done"), on_event)[-1], Failed)


# -- how it ends -------------------------------------------------------------------------------------------


def test_a_silent_success(tmp_path: Path) -> None:
    assert events_of(command_job(tmp_path, "exit 0")) == [Done(None)]


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ("exit 7", "agent.sh exited with status 7"),
        ("echo out; exit 1", "agent.sh exited with status 1"),
        ("echo one >&2; echo two >&2; exit 1", "agent.sh exited with status 1: two"),
        ("printf 'no key\\n\\n  \\n' >&2; exit 1", "agent.sh exited with status 1: no key"),
        (f"printf '{ESC}[31mred{ESC}[0m 50%%\\r{ESC}[1mbold\\n' >&2; exit 1", "agent.sh exited with status 1: bold"),
        ("kill -KILL $$", "agent.sh was killed by SIGKILL"),
        ("echo last >&2; kill -SEGV $$", "agent.sh was killed by SIGSEGV: last"),
        ("kill -40 $$", "agent.sh was killed by signal 40"),
        ("echo ::error::not today; exit 0", "not today"),
    ],
)
def test_a_failure_says_how(tmp_path: Path, agent: str, reason: str) -> None:
    assert ended(events_of(command_job(tmp_path, agent))) == Failed(reason, "exit")


def test_a_long_last_line_is_cut(tmp_path: Path) -> None:
    end = ended(events_of(command_job(tmp_path, "printf '%09000d' 7 >&2; exit 1")))
    assert isinstance(end, Failed)
    assert end.reason.endswith("0…")
    assert len(end.reason) < 250


def test_a_reason_never_holds_a_key_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-verysecret")
    monkeypatch.setenv("KEY_SHORT", "a")
    end = ended(events_of(command_job(tmp_path, 'echo "invalid key $SOME_API_KEY, again" >&2; exit 1')))
    assert end == Failed("agent.sh exited with status 1: invalid key ***, again", "exit")
    end = ended(events_of(command_job(tmp_path, 'echo "::error::401 for $SOME_API_KEY"')))
    assert end == Failed("401 for ***", "exit")


def test_a_polite_agent_is_only_interrupted(tmp_path: Path) -> None:
    """It gets the time it needs, the whole group is asked, and its last words are heard."""
    agent = "trap 'echo saved; exit 0' INT; echo ready; sleep 60 & wait; sleep 60"
    backend = patient_backend()
    events = spoken(run(backend, command_job(tmp_path, agent), when_ready(backend.stop)))
    assert printed(events) == "ready\nsaved\n"
    assert events[-1] == Failed("interrupted", "interrupted")


def test_an_agent_that_heeds_only_terminate(tmp_path: Path) -> None:
    agent = "trap '' INT; trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.02; done"
    backend = CommandBackend(stop_grace=0.3, terminate_grace=PATIENT)
    events = spoken(run(backend, command_job(tmp_path, agent), when_ready(backend.stop)))
    assert printed(events) == "ready\nasked\n"
    assert events[-1] == Failed("interrupted", "interrupted")


def test_an_agent_that_has_to_be_killed(tmp_path: Path) -> None:
    backend = quick_backend()
    agent = "trap '' INT TERM; echo ready; while :; do sleep 0.05; done"
    events = run(backend, command_job(tmp_path, agent), when_ready(backend.stop))
    assert ended(events) == Failed("interrupted; agent.sh had to be killed", "interrupted")


def test_an_error_told_before_an_interrupt_is_shown(tmp_path: Path) -> None:
    backend = patient_backend()
    agent = "echo ::error::rate limited; echo ready; exec sleep 60"
    events = spoken(run(backend, command_job(tmp_path, agent), when_ready(backend.stop)))
    assert printed(events) == "ready\nrate limited\n"
    assert events[-1] == Failed("interrupted", "interrupted")


def test_a_stop_that_comes_after_the_end_changes_nothing(tmp_path: Path) -> None:
    backend = quick_backend()
    events = []
    for event in backend.run(command_job(tmp_path, "echo word")):
        events.append(event)
        if isinstance(event, Output):
            _wait_until_gone(backend.pid)
            backend.stop()
            backend.kill()
    assert ended(spoken(events)) == Done(None)


# -- what it leaves ----------------------------------------------------------------------------------------


def test_a_process_that_holds_the_output_does_not_hang_a_finished_run(tmp_path: Path) -> None:
    agent = """
        sleep 600 &
        until [ "$(ps -o comm= -p $!)" = sleep ]; do sleep 0.02; done
        echo done
        """
    job = command_job(tmp_path, agent, session_id="sess_left_running")
    started = time.monotonic()
    events = events_of(job)
    assert time.monotonic() - started < PATIENT
    assert printed(events) == "done\n"
    [left] = [process for process in psutil.process_iter() if _is_of(process, job)]
    assert ended(events) == Done(f"still running: sleep (process {left.pid})")
    left.kill()


def test_a_process_that_prints_on_does_not_hang_a_finished_run(tmp_path: Path) -> None:
    """Its output ends, too: the pipe is closed when it has said more than belongs to the run."""
    job = command_job(tmp_path, "(while echo noise; do :; done) & echo $!", session_id="sess_noise")
    events = events_of(job)
    assert isinstance(ended(events), Done)
    pid = int(next(line for line in printed(events).splitlines() if line.isdigit()))
    _wait_until_gone(pid)


@pytest.mark.parametrize("agent", ["exit 3", "echo ::error::lost; exit 0", "kill -KILL $$"])
def test_a_failed_run_leaves_no_process(tmp_path: Path, agent: str) -> None:
    job = command_job(tmp_path, f"setsid sleep 60 >/dev/null 2>&1 & sleep 60 & {agent}")
    assert isinstance(ended(events_of(job)), Failed)
    assert not [process for process in psutil.process_iter() if _is_of(process, job)]


def test_a_stopped_run_leaves_no_process_even_of_those_that_hide(tmp_path: Path) -> None:
    """One left the group, one also ignores every polite word, one also forgot the mark in its environment."""
    agent = """
        setsid sleep 60 &
        setsid sh -c "trap '' INT TERM; while :; do sleep 0.05; done" &
        setsid env -i sleep 61 &
        until [ "$(ps -o pid= --ppid $$ | wc -l)" -ge 4 ]; do sleep 0.02; done
        sleep 0.2
        echo ready
        wait
        """
    backend = quick_backend()
    job = command_job(tmp_path, agent)
    before: list[psutil.Process] = []

    def stop() -> None:
        before.extend(psutil.Process(backend.pid).children(recursive=True))
        backend.stop()

    assert isinstance(ended(run(backend, job, when_ready(stop))), Failed)
    assert len(before) >= 3
    assert not [process for process in before if lives(process)]


def test_closing_the_iterator_after_the_program_has_ended_leaves_no_process(tmp_path: Path) -> None:
    backend = quick_backend()
    job = command_job(tmp_path, "sleep 60 & echo ready; exit 3")
    events = backend.run(job)
    assert any(isinstance(event, Output) for event in iter(lambda: next(events), None))
    _wait_until_gone(backend.pid)
    events.close()  # type: ignore[attr-defined]
    assert not [process for process in psutil.process_iter() if _is_of(process, job)]


def test_an_agent_whose_wrapper_was_killed_is_found_and_ended(tmp_path: Path) -> None:
    """``kill -9`` of the whole group of the wrapper: the agent is in a group of its own and works on."""
    agent = script(tmp_path, "trap '' INT; echo ready; while :; do sleep 0.05; echo x >>log; done")
    code = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from backends.agents import command_job, quick_backend
for event in quick_backend().run(command_job(Path({str(tmp_path)!r}), command=({str(agent)!r},), session_id="sess_k")):
    if "ready" in getattr(event, "text", ""):
        print("ready", flush=True)
"""
    wrapper = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert wrapper.stdout is not None
    assert wrapper.stdout.readline() == b"ready\n"
    os.killpg(wrapper.pid, signal.SIGKILL)
    wrapper.wait()
    wrapper.stdout.close()
    assert "agent.sh" in [process.name for process in find_survivors("sess_k")]
    assert not find_survivors("sess_other")
    met = end_survivors("sess_k", wait=0.5)
    assert "agent.sh" in [process.name for process in met]
    assert not find_survivors("sess_k")


def _is_of(process: psutil.Process, job: Job) -> bool:
    try:
        return process.environ().get("PINABLE_SESSION_ID") == job.session_id and process.status() != "zombie"
    except psutil.Error:
        return False


def _wait_until_gone(pid: int | None) -> None:
    if pid is None:
        return
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        wait_for(lambda: not lives(process))


def test_a_job_in_the_background_can_be_interrupted(tmp_path: Path) -> None:
    """A shell starts it with SIGINT ignored, which the program would inherit."""
    agent = python_script(tmp_path, "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert printed(events_of(command_job(tmp_path, command=(str(agent),)))) == "False\n"
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
