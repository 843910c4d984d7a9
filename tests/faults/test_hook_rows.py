"""Unlucky places for a git hook: the user's git command does, says and returns what it would without us."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import GitRepo
from working import PAGE, Worker, edited

from gitsession import links
from gitsession.git.repo import Repo
from gitsession.githook import PATIENCE, TIME_LIMIT
from gitsession.verbs import hooks
from gitsession.verbs.linking import Linker


@pytest.fixture
def ready(repo: GitRepo) -> Iterator[GitRepo]:
    """A repository with our hooks, in which an agent's work is about to be committed."""
    repo.write("a.txt", PAGE)
    repo.commit("Page")
    hooks.install(repo.path)
    worker = Worker(repo)
    worker.work({"a.txt": edited(2)})
    yield repo
    worker.close()


def commit(repo: GitRepo, *before: str, env: dict[str, str] | None = None) -> float:
    """Commit the work, in words that must be all there is; the seconds it took."""
    head = repo.git("rev-parse", "HEAD")
    start = time.monotonic()
    done = subprocess.run(
        [*before, "git", "commit", "--quiet", "-am", "Work"], cwd=repo.path, env=env, capture_output=True, text=True
    )
    spent = time.monotonic() - start
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert repo.git("rev-parse", "HEAD^") == head
    assert repo.git("log", "-1", "--format=%s") == "Work"
    return spent


def be_patient(repo: GitRepo) -> None:
    """Let a busy machine take its time with hooks: one that is given up notes nothing."""
    code = "from gitsession.githook import main;"
    for name in hooks.NAMES:
        place = repo.at(f".git/hooks/{name}")
        text = place.read_text()
        assert text.count(code) == 1
        place.write_text(text.replace(code, f"from gitsession import githook; githook.TIME_LIMIT = 60; {code}"))


def is_found(repo: GitRepo) -> bool:
    """Whether the link is there when somebody asks."""
    return [link.label for link in Linker(Repo.discover(repo.path)).of(repo.git("rev-parse", "HEAD"))] == ["certain"]


def in_own_mounts(script: str) -> list[str]:
    """What runs a command after ``script`` has mounted something that only it sees."""
    command = ["unshare", "--mount", "sh", "-c", f'{script} && exec "$@"', "sh"]
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("mounts need root and unshare")
    if subprocess.run([*command, "true"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    return command


def test_our_directory_is_read_only(ready: GitRepo) -> None:
    place = ready.at(".git/pinable")
    script = f"mount --bind {place} {place} && mount -o remount,ro,bind {place}"
    commit(ready, *in_own_mounts(script))
    assert is_found(ready)


def test_the_disk_is_full(ready: GitRepo) -> None:
    place = ready.at(".git/pinable")
    script = f"mount -t tmpfs -o size=8k tmpfs {place} && {{ dd if=/dev/zero of={place}/x 2>/dev/null || :; }}"
    commit(ready, *in_own_mounts(script))
    assert is_found(ready)


def test_the_git_directory_is_read_only(ready: GitRepo) -> None:
    place = ready.at(".git")
    command = in_own_mounts(f"mount --bind {place} {place} && mount -o remount,ro,bind {place}")
    outcomes = []
    for options in ([], ["-c", "core.hooksPath=/dev/null"]):
        done = subprocess.run(
            [*command, "git", *options, "commit", "-am", "Work"], cwd=ready.path, capture_output=True, text=True
        )
        outcomes.append((done.returncode, done.stdout, done.stderr))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] != 0


def test_files_of_ours_are_something_else(ready: GitRepo) -> None:
    ready.at(".git/pinable/links.jsonl").mkdir()
    ready.write(".git/pinable/claims", "no directory")
    commit(ready)
    ready.at(".git/pinable/links.jsonl").rmdir()
    ready.at(".git/pinable/claims").unlink()
    assert is_found(ready)


def test_files_of_ours_hold_rubbish(ready: GitRepo) -> None:
    be_patient(ready)
    commit(ready)
    tips = ready.at(".git/pinable/claims/tips")
    for rubbish in (b"", b"\0\xff\n", b"settled - - -\nworker x y\n"):
        tips.write_bytes(rubbish)
        ready.write(".git/pinable/links.jsonl", b'{"v":1,"commit":7}\n[]\n\xff\n{"torn')
        ready.git("reset", "--quiet", "--soft", "HEAD^")
        commit(ready)
        assert is_found(ready)
        assert any(fact["commit"] == ready.git("rev-parse", "HEAD") for fact in links.read(ready.common_dir))


def with_git(ready: GitRepo, text: str) -> dict[str, str]:
    """An environment in which the git of our hooks, not the user's, first does ``text``; they have their usual time."""
    directory = ready.path.parent / "bin"
    real = shutil.which("git")
    script = directory / "git"
    directory.mkdir()
    script.write_text(f'#!/bin/sh\ncase "$*" in *core.hooksPath=/dev/null*) {text} ;; esac\nexec {real} "$@"\n')
    script.chmod(0o755)
    # Git puts its own directory before the PATH of hooks; there is a git in it, too.
    path = f"{directory}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "GIT_EXEC_PATH": str(directory), PATIENCE: ""}


def test_the_hook_is_killed(ready: GitRepo) -> None:
    commit(ready, env=with_git(ready, f'echo x >> {ready.path.parent}/killed; kill -{signal.SIGKILL.value} "$PPID"'))
    assert (ready.path.parent / "killed").exists()
    assert is_found(ready)


def test_the_hook_hangs(ready: GitRepo) -> None:
    spent = commit(ready, env=with_git(ready, "exec sleep 100"))
    assert 2 * TIME_LIMIT <= spent < 60
    assert is_found(ready)


def test_git_is_not_found_by_the_hook(ready: GitRepo) -> None:
    commit(ready, env=with_git(ready, "exit 127"))
    assert is_found(ready)


@pytest.mark.parametrize("line", ["python=/no/python", "package=/no/package", "python="])
def test_the_interpreter_or_the_package_is_gone(ready: GitRepo, line: str) -> None:
    name = line.split("=", maxsplit=1)[0]
    for hook in hooks.NAMES:
        place = ready.at(f".git/hooks/{hook}")
        old = next(one for one in place.read_text().splitlines() if one.startswith(f"{name}="))
        place.write_text(place.read_text().replace(old, line))
    commit(ready)
    assert {one.state for one in hooks.status(ready.path)} == {"broken"}
    assert is_found(ready)


def test_there_is_no_home(ready: GitRepo) -> None:
    be_patient(ready)
    identity = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    commit(ready, env={"PATH": os.environ["PATH"], **identity})
    assert links.read(ready.common_dir)


def test_there_is_no_path(ready: GitRepo) -> None:
    git = Path(str(shutil.which("git")))
    head = ready.git("rev-parse", "HEAD")
    env = {name: value for name, value in os.environ.items() if name != "PATH"}
    done = subprocess.run(
        [git, "commit", "--quiet", "-am", "Work"], cwd=ready.path, env=env, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert ready.git("rev-parse", "HEAD^") == head
    assert is_found(ready)


def test_two_commits_at_once(ready: GitRepo) -> None:
    be_patient(ready)
    patch = ready.git_bytes("diff")
    places = [ready.path]
    for number in range(3):
        ready.git("worktree", "add", "--quiet", "-b", f"b{number}", f"../w{number}")
        places.append(ready.path.parent / f"w{number}")
        GitRepo(places[-1]).git("apply", input=patch)
    shutil.rmtree(ready.at(".git/pinable/claims"), ignore_errors=True)
    running = [subprocess.Popen(["git", "commit", "--quiet", "-am", place.name], cwd=place) for place in places]
    assert [one.wait() for one in running] == [0] * len(places)
    noted = {fact["commit"] for fact in links.read(ready.common_dir) if fact["label"] == "certain"}
    assert noted == {GitRepo(place).git("rev-parse", "HEAD") for place in places}


def test_a_message_hook_without_a_place_to_write(ready: GitRepo) -> None:
    """Also an editor's message is the user's own when nothing can be kept between two hooks."""
    ready.at(".git/pinable/pending").mkdir()
    ready.git("commit", "--quiet", "--all", env={"GIT_EDITOR": "sed -i -e '1s/^/Said/'"})
    assert ready.git("log", "-1", "--format=%B") == "Said\n"
