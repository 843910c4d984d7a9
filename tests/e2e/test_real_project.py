"""A run on a real project, killed at random moments and resumed, ends where an undisturbed run ends."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from support import GitRepo, run_cli, start_cli

PACKAGE = "requests"
RELEASES = ("2.28.0", "2.31.0", "2.32.3")
AGENT = Path(__file__).with_name("agent.sh")
pytestmark = pytest.mark.timeout(900)  # with what it takes to fetch the releases


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose commits are released source archives of a well-known package, in order."""
    place = tmp_path_factory.mktemp("releases")
    repo = GitRepo.init(place / "repo")
    for release in RELEASES:
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        command = [*fetch, "--dest", str(place), f"{PACKAGE}=={release}"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=110)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(f"{PACKAGE} {release} cannot be fetched from the package index")
        for old in repo.path.iterdir():
            if old.name != ".git":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        with tarfile.open(place / f"{PACKAGE}-{release}.tar.gz") as archive:
            archive.extractall(place / "unpacked", filter="data")
        for new in (place / "unpacked" / f"{PACKAGE}-{release}").iterdir():
            new.rename(repo.path / new.name)
        repo.commit(f"Release {release}")
    # What a developer's tree has: something staged, something edited, something stashed, something untracked.
    repo.write("stashed.txt", "put away\n")
    repo.git("add", "stashed.txt")
    repo.git("stash", "--quiet")
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write("untracked.txt", "mine\n")
    return repo.path


def copy_of(project: Path, place: Path) -> GitRepo:
    shutil.copytree(project, place, symlinks=True)
    return GitRepo(place)


def run_args() -> tuple[str, ...]:
    return ("--backend", "command", "--session-id", "real", "--task", "Tidy the project", "--", str(AGENT))


@pytest.fixture
def undisturbed(project: Path, tmp_path: Path) -> tuple[GitRepo, float]:
    """The repository after a run nobody disturbed, and how long that took."""
    repo = copy_of(project, tmp_path / "undisturbed")
    start = time.monotonic()
    done = run_cli("codeagent-wrapper", *run_args(), cwd=repo.path, env={"PINABLE_HOME": str(tmp_path / "h0")})
    assert done.returncode == 0, done.stderr
    return repo, time.monotonic() - start


def check_whole(repo: GitRepo, home: Path) -> None:
    """Every recorded checkpoint is a commit whose tree is complete, on one chain, and git finds nothing wrong."""
    doc = json.loads((home / "sessions" / "real.json").read_text())
    chain = repo.git("rev-list", "--first-parent", "refs/pinable/real").splitlines()
    recorded = [checkpoint["commit"] for checkpoint in doc["checkpoints"]]
    assert [checkpoint["index"] for checkpoint in doc["checkpoints"]] == list(range(len(recorded)))
    assert chain[: len(recorded)] == recorded[::-1]
    assert chain[len(recorded)] == doc["base"]["commit"]
    faults = repo.git("fsck", "--strict", "--no-dangling", "--no-progress")
    assert faults == ""


@pytest.mark.parametrize("rounds", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_anywhere_and_resumed_it_ends_like_an_undisturbed_run(
    rounds: int, project: Path, undisturbed: tuple[GitRepo, float], tmp_path: Path
) -> None:
    expected, duration = undisturbed
    seed = int.from_bytes(os.urandom(4), "big")
    chance = random.Random(seed)
    for number in range(rounds):
        told = f"seed {seed}, round {number}"
        repo = copy_of(project, tmp_path / f"repo{number}")
        home = tmp_path / f"home{number}"
        before = repo.user_state()
        kills = 0
        while True:
            wrapper = start_cli("codeagent-wrapper", *run_args(), cwd=repo.path, env={"PINABLE_HOME": str(home)})
            try:
                if kills < 2:
                    wrapper.wait(chance.uniform(0.05, duration))
                else:
                    wrapper.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(wrapper.pid, signal.SIGKILL)
                kills += 1
            out, err = wrapper.communicate()
            # Killed between its last durable step and its exit, a run is complete and is not run again.
            if wrapper.returncode == 0 or (kills and "session real is completed" in err):
                break
            assert wrapper.returncode == -signal.SIGKILL, f"{told}: {wrapper.returncode}\n{out}{err}"
        assert json.loads((home / "sessions" / "real.json").read_text())["status"] == "completed", told
        assert repo.snapshot() == expected.snapshot(), told
        assert repo.user_state() == before, told
        check_whole(repo, home)


def test_the_user_s_repository_is_as_it_was(project: Path, undisturbed: tuple[GitRepo, float]) -> None:
    """Index bytes, HEAD, branches, stash, config, hooks: untouched by a whole run."""
    repo, _ = undisturbed
    assert repo.user_state() == GitRepo(project).user_state()
    assert "staged.txt" in repo.git("diff", "--cached", "--name-only")
