"""Beside the real husky, lefthook and pre-commit, in both orders: commits are linked, and every byte comes back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import GitRepo, Snapshot, run_cli
from working import PAGE, Worker, edited

from gitsession import links
from gitsession.verbs import hooks

pytestmark = pytest.mark.slow

PRE_COMMIT_CONFIG = """\
default_install_hook_types: [prepare-commit-msg, post-commit]
repos:
- repo: local
  hooks:
  - {id: said, name: said, language: system, entry: sh -c 'echo ran >> ../said', always_run: true,
     stages: [prepare-commit-msg, post-commit], pass_filenames: false}
"""
LEFTHOOK_CONFIG = "post-commit:\n  commands:\n    said:\n      run: echo ran >> ../said\n"


def fetched(command: list[str | Path], what: str) -> None:
    """Run an installer, or skip with a word."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{what} cannot be had: {error}")
    if done.returncode:
        pytest.skip(f"{what} cannot be had: {done.stderr.strip().splitlines()[-1:]}")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with husky and lefthook from npm."""
    place = tmp_path_factory.mktemp("npm")
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--cache", str(place / "cache"), "--prefix", str(place)]
    fetched(["npm", "install", *options, "husky@9", "lefthook@2"], "husky and lefthook")
    return place / "node_modules"


@pytest.fixture(scope="module")
def pre_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pre-commit program."""
    place = tmp_path_factory.mktemp("pre-commit")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    fetched([place / "bin" / "pip", "--quiet", "install", "pre-commit"], "pre-commit")
    return place / "bin" / "pre-commit"


@pytest.fixture
def worker(repo: GitRepo) -> Iterator[Worker]:
    """A session in a repository that is about to commit; nothing is done yet."""
    repo.write("a.txt", PAGE)
    repo.commit("Page")
    built = Worker(repo)
    yield built
    built.close()


def tool(program: str | Path, *args: str, cwd: Path) -> None:
    path = os.pathsep.join([str(Path(program).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path}
    subprocess.run([program, *args], cwd=cwd, env=env, check=True, capture_output=True, text=True)


def commit_of_work(worker: Worker, line: int, tools: Path) -> str:
    """Commit a change of the agent's as the user would, with the manager's program on the PATH."""
    worker.work({"a.txt": edited(line)})
    env = {"PATH": os.pathsep.join([str(tools), os.environ["PATH"]])}
    worker.repo.git("commit", "--quiet", "-m", f"Line {line}", "--", "a.txt", env=env)
    return worker.repo.git("rev-parse", "HEAD")


def is_linked(repo: GitRepo, commit: str) -> bool:
    said = repo.git("log", "-1", "--format=%(trailers:key=Pinable-Session,valueonly)", commit)
    return said.split() == ["worker"] and any(fact.get("commit") == commit for fact in links.read(repo.common_dir))


def hook_files(repo: GitRepo) -> Snapshot:
    directory = GitRepo(repo.common_dir / "hooks")
    return directory.snapshot() if directory.path.exists() else {}


def states(repo: GitRepo) -> set[str]:
    return {one.state for one in hooks.status(repo.path)}


def test_pre_commit_was_there_first(worker: Worker, pre_commit: Path) -> None:
    repo = worker.repo
    repo.write(".pre-commit-config.yaml", PRE_COMMIT_CONFIG)
    tool(pre_commit, "install", cwd=repo.path)
    before = hook_files(repo)
    hooks.install(repo.path)
    once = hook_files(repo)
    hooks.install(repo.path)
    assert hook_files(repo) == once
    assert states(repo) == {"runs", "called"}
    assert is_linked(repo, commit_of_work(worker, 2, pre_commit.parent))
    assert repo.at("../said").read_text() == "ran\nran\n"
    tool(pre_commit, "install", cwd=repo.path)  # it is run again and again
    assert is_linked(repo, commit_of_work(worker, 3, pre_commit.parent))
    hooks.uninstall(repo.path)
    assert hook_files(repo) == before


def test_pre_commit_comes_later(worker: Worker, pre_commit: Path) -> None:
    repo = worker.repo
    repo.write(".git/hooks/post-commit", "#!/bin/sh\necho mine >> ../said\n", mode=0o755)
    before = hook_files(repo)
    hooks.install(repo.path)
    ours = hook_files(repo)
    repo.write(".pre-commit-config.yaml", PRE_COMMIT_CONFIG)
    tool(pre_commit, "install", cwd=repo.path)
    assert states(repo) == {"runs", "called"}
    assert is_linked(repo, commit_of_work(worker, 2, pre_commit.parent))
    assert sorted(repo.at("../said").read_text().split()) == ["mine", "ran", "ran"]
    hooks.install(repo.path)  # which changes nothing now
    tool(pre_commit, "uninstall", cwd=repo.path)
    assert hook_files(repo) == ours
    assert states(repo) == {"runs"}
    hooks.uninstall(repo.path)
    assert hook_files(repo) == before


def test_ours_goes_while_pre_commit_stays_on_top(worker: Worker, pre_commit: Path) -> None:
    repo = worker.repo
    repo.write(".git/hooks/post-commit", "#!/bin/sh\necho mine >> ../said\n", mode=0o755)
    repo.write(".pre-commit-config.yaml", PRE_COMMIT_CONFIG)
    tool(pre_commit, "install", cwd=repo.path)
    before = hook_files(repo)
    hooks.install(repo.path)
    assert is_linked(repo, commit_of_work(worker, 2, pre_commit.parent))
    assert sorted(repo.at("../said").read_text().split()) == ["mine", "ran", "ran"]
    hooks.uninstall(repo.path)
    assert hook_files(repo) == before


def add_lines(repo: GitRepo, done: hooks.Installed) -> None:
    """Do what the user is told to."""
    for addition in done.additions:
        file = repo.at(addition.file)
        start = "" if file.suffix == ".yml" else "#!/bin/sh\n"
        text = (file.read_text() if file.exists() else start) + "\n".join(addition.lines) + "\n"
        repo.write(addition.file, text, mode=0o755)


@pytest.mark.parametrize("ours_first", [False, True], ids=["husky first", "ours first"])
def test_husky(worker: Worker, packages: Path, ours_first: bool) -> None:
    repo = worker.repo
    repo.write("package.json", '{"private": true}\n')
    if ours_first:
        hooks.install(repo.path)
    tool("node", str(packages / "husky" / "bin.js"), cwd=repo.path)
    repo.write(".husky/post-commit", "echo ran >> ../said\n")
    repo.commit("Husky")
    before = repo.snapshot()
    done = run_cli("pinable-agents", "hooks", "install", cwd=repo.path)
    assert done.returncode == 4, done.stderr
    assert "husky" in done.stdout
    assert ".husky/post-commit" in done.stdout
    assert repo.snapshot() == before
    assert states(repo) == {"unused"}
    add_lines(repo, hooks.install(repo.path))
    repo.commit("Lines for everybody")
    assert states(repo) == {"called"}
    assert hooks.install(repo.path).additions == ()
    assert is_linked(repo, commit_of_work(worker, 2, packages))
    assert "ran" in repo.at("../said").read_text()
    hooks.uninstall(repo.path)
    assert hook_files(repo) == {}
    assert not (repo.common_dir / hooks.OWN_DIRECTORY).exists()
    # Somebody without this program has the lines, too.
    commit_of_work(worker, 3, packages)


@pytest.mark.parametrize("ours_first", [False, True], ids=["lefthook first", "ours first"])
def test_lefthook(worker: Worker, packages: Path, ours_first: bool) -> None:
    repo = worker.repo
    lefthook = packages / ".bin" / "lefthook"
    if ours_first:
        hooks.install(repo.path)
    repo.write("lefthook.yml", LEFTHOOK_CONFIG)
    tool(lefthook, "install", cwd=repo.path)
    if ours_first:  # lefthook puts a hook that it finds out of use
        assert {one.name for one in hooks.status(repo.path) if one.state == "unused"} >= {"post-commit"}
    before, files = repo.snapshot(), hook_files(repo)
    done = hooks.install(repo.path)
    assert (done.manager, repo.snapshot()) == ("lefthook", before)
    assert hook_files(repo) == files
    add_lines(repo, done)
    tool(lefthook, "install", "--force", cwd=repo.path)
    assert states(repo) == {"called"}
    assert is_linked(repo, commit_of_work(worker, 2, lefthook.parent))
    assert repo.at("../said").read_text() == "ran\n"
    commit = commit_of_work(worker, 3, lefthook.parent)
    env = {"PATH": os.pathsep.join([str(lefthook.parent), os.environ["PATH"]])}
    repo.git("commit", "--quiet", "--amend", "-m", "Other words", env=env)
    assert [fact["old"] for fact in links.read(repo.common_dir) if "rewrite" in fact] == [commit]
    hooks.uninstall(repo.path)
    tool(lefthook, "uninstall", cwd=repo.path)
    assert {name for name in hook_files(repo) if not name.endswith(b".sample")} <= {b"post-commit.old"}
