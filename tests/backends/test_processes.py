"""Who belongs to a session, and who is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from backends.agents import PATIENT, lives
from backends.model_server import wait_for

from gitsession.backends.processes import descendants_of, end_survivors, ending, find_survivors, finish, mark, marked

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process with variables on top of the environment; it is ended with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(*command: str, **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command or ("sleep", "60"), env={**os.environ, **variables}, stdout=subprocess.PIPE, start_new_session=True
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def orphan(start: Start, session_id: str) -> int:
    """A process of the session whose parent is gone, so that it is nobody's child here."""
    parent = start("sh", "-c", "sleep 60 >/dev/null & echo $!", PINABLE_SESSION_ID=session_id)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.wait()
    wait_for(lambda: psutil.Process(pid).name() == "sleep")  # and the shell's copy of itself no more
    return pid


def test_a_survivor_is_found_and_ended(start: Start) -> None:
    pid = orphan(start, "sess_orphan")
    [found] = find_survivors("sess_orphan")
    assert (found.pid, found.name) == (pid, "sleep")
    assert abs(found.started - time.time()) < PATIENT
    assert [process.pid for process in end_survivors("sess_orphan")] == [pid]
    assert find_survivors("sess_orphan") == []
    assert end_survivors("sess_orphan") == []


def test_the_same_id_under_another_home_is_another_session(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    orphan(start, "sess_home")
    mine = os.environ["PINABLE_HOME"]
    monkeypatch.setenv("PINABLE_HOME", "/elsewhere")
    assert find_survivors("sess_home") == []
    assert end_survivors("sess_home") == []
    monkeypatch.setenv("PINABLE_HOME", mine)
    assert len(end_survivors("sess_home")) == 1


def test_a_process_is_found_while_it_becomes_another_program(start: Start, tmp_path: Path) -> None:
    """In the middle of that the system shows neither its variables nor its arguments."""
    script = tmp_path / "again.sh"
    script.write_text(f"exec sh {script}\n")
    process = start("sh", str(script), PINABLE_SESSION_ID="sess_exec")
    looks = [[found.pid for found in marked("sess_exec")] for _ in range(200)]
    # One that does nothing else can be missed; without looking again, every seventh look misses it.
    assert looks.count([process.pid]) >= 190
    assert looks.count([process.pid]) + looks.count([]) == 200


def test_another_user_directory_is_another_home(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PINABLE_HOME")
    orphan(start, "sess_home")
    mine = os.environ["HOME"]
    monkeypatch.setenv("HOME", str(tmp_path / "other"))
    assert find_survivors("sess_home") == []
    (tmp_path / "link").symlink_to(mine)
    for spelled in (f"{mine}/.pinable-agents/", str(tmp_path / "link" / ".pinable-agents")):
        monkeypatch.setenv("PINABLE_HOME", spelled)
        assert len(find_survivors("sess_home")) == 1
    monkeypatch.setenv("HOME", mine)
    monkeypatch.setenv("PINABLE_HOME", "~/.pinable-agents")
    assert len(end_survivors("sess_home")) == 1


def test_one_whose_home_cannot_be_told_is_no_obstacle(start: Start) -> None:
    start(PINABLE_SESSION_ID="sess_home", PINABLE_HOME="~no-such-user-here/x")
    orphan(start, "sess_home")
    assert len(end_survivors("sess_home")) == 1


def test_a_mark_names_the_home_as_an_absolute_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PINABLE_HOME", "here")
    assert mark("s") == {"PINABLE_SESSION_ID": "s", "PINABLE_HOME": str(tmp_path / "here")}
    monkeypatch.delenv("PINABLE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert mark("s")["PINABLE_HOME"] == "/home/me/.pinable-agents"


def test_own_children_and_other_sessions_are_no_survivors(start: Start) -> None:
    start(PINABLE_SESSION_ID="sess_mine")
    start(PINABLE_SESSION_ID="sess_mine2")
    assert find_survivors("sess_mine") == []
    assert len(marked("sess_mine")) == 1


def test_a_dead_process_that_nobody_collected_is_no_survivor(start: Start) -> None:
    process = start("true", PINABLE_SESSION_ID="sess_dead")
    wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    assert marked("sess_dead") == []


def test_neither_itself_nor_an_ancestor_is_ever_ended() -> None:
    """A session resumed from a shell that its own agent opened."""
    code = """
import os, sys
from gitsession.backends.processes import end_survivors, find_survivors, marked
print(len(marked("sess_nested")), len(find_survivors("sess_nested")), len(end_survivors("sess_nested")))
"""
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1"; echo alive', sys.executable, code],
        env={**os.environ, "PINABLE_SESSION_ID": "sess_nested"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("0 0 0\nalive\n", "")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start another user's process")
def test_another_users_process_is_left_alone() -> None:
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, "PINABLE_SESSION_ID": "sess_user"}, user=65534)
    try:
        assert marked("sess_user") == []
        assert end_survivors("sess_user") == []
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_one_that_ignores_terminate_is_killed_and_its_child_ended(start: Start) -> None:
    """The child has no mark: it is known by its parent."""
    process = start(
        "sh", "-c", "trap '' TERM; env -i sleep 62 & echo ready; while :; do :; done", PINABLE_SESSION_ID="sess_deaf"
    )
    assert process.stdout is not None
    process.stdout.readline()
    children = descendants_of(process.pid)
    met = finish(ending("sess_deaf", wait=0.2))
    assert {facts.pid for facts in met} == {process.pid, *(child.pid for child in children)}
    assert process.wait() == -9
    assert not [child for child in children if lives(child)]


def test_a_shell_is_ended_before_its_command(start: Start, tmp_path: Path) -> None:
    """Else it goes on with what follows."""
    for number in range(20):
        shell = start("sh", "-c", f"sleep 60; : > {tmp_path}/late-{number}", PINABLE_SESSION_ID="sess_shells")
        wait_for(lambda pid=shell.pid: descendants_of(pid))
    assert len(finish(ending("sess_shells"))) == 40
    assert list(tmp_path.iterdir()) == []


def test_known_processes_are_ended_without_a_mark(start: Start) -> None:
    process = start()
    assert [facts.pid for facts in finish(ending("sess_none", [psutil.Process(process.pid)]))] == [process.pid]
    assert process.wait() == -15


def test_descendants_of_a_process_that_is_gone() -> None:
    assert descendants_of(2**22 + 1) == []
