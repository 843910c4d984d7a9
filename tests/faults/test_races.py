"""Two and five processes that want the same session at once: one at a time has it, the others are told who."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import GitRepo, program

from gitsession import SessionStore

ROUNDS = 8
MANY = 200
RUN = """
import json, os, sys
from gitsession.cli import boundary
wants = json.loads(sys.argv[1])
ready, go = int(sys.argv[2]), int(sys.argv[3])
# Loaded before the start, so that the race is about the work.
import gitsession.cli.session.recover, gitsession.cli.session.checkpoint, gitsession.cli.session.pause
import gitsession.cli.session.delete, gitsession.cli.session.restore, gitsession.cli.wrapper
import gitsession.verbs.checkpoint, gitsession.model, pygit2
os.write(ready, b".")
os.read(go, 1)
sys.argv = wants
sys.exit({"codeagent-wrapper": boundary.codeagent_wrapper, "pinable-agents": boundary.pinable_agents}[wants[0]]())
"""
AGENT = "echo ::phase::p; echo $PINABLE_SESSION_ID >> log; echo ::checkpoint::step; sleep 0.1; exit 3"
WANTS = {
    "resume": ("codeagent-wrapper", "--session-id", "s1"),
    "checkpoint": ("pinable-agents", "session", "checkpoint", "s1", "--description", "by hand"),
    "pause": ("pinable-agents", "session", "pause", "s1"),
    "restore": ("pinable-agents", "session", "restore", "s1", "0", "--force"),
    "scan": ("pinable-agents", "session", "recover", "--scan"),
    "recover": ("pinable-agents", "session", "recover", "s1"),
    "cleanup": ("pinable-agents", "session", "cleanup", "--older-than", "30d"),
    "delete": ("pinable-agents", "session", "delete", "s1"),
}
ALLOWED = {0, 1, 2, 3, 4}
WHO = re.compile(
    r"process \d+|another process|is running|no session|is paused|was paused|completed|locked|no task given"
)


def race(repo: GitRepo, wants: list[str]) -> list[tuple[str, int, str, str]]:
    """Start all at once; what each came to."""
    ready, ready_in = os.pipe()
    go, go_in = os.pipe()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, json.dumps(WANTS[want]), str(ready_in), str(go)],
            cwd=repo.path, pass_fds=(ready_in, go), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, text=True,
        )
        for want in wants
    ]  # fmt: skip
    try:
        started = 0
        while started < len(processes):
            started += len(os.read(ready, 16))
        os.write(go_in, b"." * len(processes))
        said = [process.communicate(timeout=60) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for descriptor in (ready, ready_in, go, go_in):
            os.close(descriptor)
    return [(want, each.returncode, *words) for want, each, words in zip(wants, processes, said, strict=True)]


def new_session(repo: GitRepo) -> None:
    subprocess.run(
        [program("codeagent-wrapper"), "--session-id", "s1", "--task", "t", "--", "sh", "-c", AGENT],
        cwd=repo.path, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def check(repo: GitRepo, home: Path, results: list[tuple[str, int, str, str]], before: int) -> None:
    told = "\n".join(f"{want} {status}\n{out}{err}" for want, status, out, err in results)
    for _, status, out, err in results:
        assert status in ALLOWED, told
        assert "Traceback" not in err, told
        assert "internal error" not in err, told
        assert status in (0, 3) or WHO.search(out + err), told
    store = SessionStore(home)
    if not store.exists("s1"):
        assert any(want == "delete" and status == 0 for want, status, *_ in results), told
        store.untrash("s1")
        repo.git("update-ref", "refs/pinable/s1", repo.git("rev-parse", "refs/pinable-trash/s1"))
        repo.git("update-ref", "-d", "refs/pinable-trash/s1")
    doc = store.read("s1")
    records = doc["checkpoints"]
    assert [record["index"] for record in records] == list(range(len(records))), told
    reported = [
        int(number) for _, _, out, _ in results for number in re.findall(r"^\[Checkpoint (\d+)\]", out, re.MULTILINE)
    ]
    assert len(reported) == len(set(reported)), f"two had the same checkpoint\n{told}"
    assert set(reported) <= set(range(before, len(records))), told
    chain = repo.git("rev-list", "--first-parent", "--reverse", "refs/pinable/s1", "--not", "HEAD").splitlines()
    assert chain == [doc["base"]["commit"], *(record["commit"] for record in records)], told
    assert store.owner("s1") is None
    assert repo.git("fsck", "--strict", "--no-dangling") == ""


def rounds(repo: GitRepo, home: Path, number: int, several: int) -> None:
    """The same session again and again; a new one when it was deleted or completed."""
    chance = random.Random(f"{several}")
    new_session(repo)
    names = sorted(WANTS)
    for turn in range(number):
        # Every kind gets its turn, and resumes meet themselves.
        wants = [names[turn % len(names)], *chance.choices(["resume", "resume", *names], k=several - 1)]
        before = len(SessionStore(home).read("s1")["checkpoints"])
        check(repo, home, race(repo, wants), before)


@pytest.mark.parametrize("several", [2, 5])
def test_one_wins_and_the_others_are_told(repo: GitRepo, pinable_home: Path, several: int) -> None:
    rounds(repo, pinable_home, ROUNDS, several)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("several", [2, 5])
def test_one_wins_two_hundred_times(repo: GitRepo, pinable_home: Path, several: int) -> None:
    rounds(repo, pinable_home, MANY, several)
