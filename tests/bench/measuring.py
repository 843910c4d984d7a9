"""What the benches measure with: a repository, a rival, two sides in turns."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

ENV = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
ENV.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled once, by pip or at the first start
for name in ("AUTHOR", "COMMITTER"):
    ENV[f"GIT_{name}_NAME"] = "bench"
    ENV[f"GIT_{name}_EMAIL"] = "bench@localhost"

Result = dict[str, Any]


def git(repo: Path, *args: str, **env: str) -> str:
    done = subprocess.run(["git", *args], cwd=repo, env=ENV | env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def make_repository(place: Path, count: int) -> Path:
    """A repository of ``count`` files of about 2.5 KB, 40 to a directory, committed."""
    repo = place / f"files-{count}"
    for number in range(count):
        directory = repo / f"d{number // 40 % 50}" / f"s{number // 2000}"
        if number % 40 == 0:
            directory.mkdir(parents=True, exist_ok=True)
        (directory / f"f{number}.txt").write_text(f"line of file {number}\n" * 110)
    git(repo, "init", "-q")
    git(repo, "config", "gc.auto", "0")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "start")
    time.sleep(1.1)  # beyond git's racy-timestamp window, as in any repository somebody works in
    git(repo, "update-index", "--refresh")
    return repo


def forget_names() -> None:
    """The next ``change`` is of another repository."""
    change.__dict__.pop("names", None)


def change(repo: Path, number: int, count: int, turn: str) -> list[str]:
    """Rewrite ``count`` files spread over the repository; their names."""
    names = git(repo, "ls-files").splitlines() if not hasattr(change, "names") else change.names
    change.names = names
    step = max(1, len(names) // count)
    chosen = [names[(number * 7 + k * step) % len(names)] for k in range(count)]
    for name in chosen:
        (repo / name).write_text(f"{turn} {number} {name}\n" * 110)
    return chosen


def alternate(
    rounds: int, ours: Callable[[int], float], rival: Callable[[int], float], warmup: int = 2
) -> tuple[list[float], list[float]]:
    """Seconds of each side over ``rounds`` rounds, taken in turns after ``warmup`` uncounted ones."""
    mine, theirs = [], []
    for number in range(rounds + warmup):
        for side, times in ((ours, mine), (rival, theirs)):
            spent = side(number)
            if number >= warmup:
                times.append(spent)
    return mine, theirs


class Rival:
    """The temporary-index recipe, its index kept warm."""

    def __init__(self, repo: Path) -> None:
        self.repo = repo
        self.index = repo / ".git" / "bench-index"
        shutil.copy(repo / ".git" / "index", self.index)
        self.parent = git(repo, "rev-parse", "HEAD")

    def checkpoint(self) -> None:
        index = {"GIT_INDEX_FILE": str(self.index)}
        git(self.repo, "add", "-A", **index)
        tree = git(self.repo, "write-tree", **index)
        commit = git(self.repo, "commit-tree", tree, "-p", self.parent, "-m", "checkpoint")
        git(self.repo, "update-ref", "refs/bench/rival", commit)
        self.parent = commit


@contextmanager
def recorder(repo: Path, home: Path, *, own: bool = True) -> Iterator[Any]:
    """A session of ours, its base taken; with ``own`` it is as good as running."""
    from gitsession.config import Settings
    from gitsession.git.repo import Repo
    from gitsession.store.sessions import SessionStore
    from gitsession.verbs.checkpoint import Recorder
    from gitsession.verbs.run import RunRequest, new_doc

    store = SessionStore(home)
    found = Repo.discover(repo)
    doc = new_doc(RunRequest(start=repo), "bench", f"bench-{time.time_ns()}", found, "command")
    store.create(doc)
    with store.own(doc["id"]) if own else nullcontext():
        ours = Recorder(store, doc["id"], found, Settings())
        ours.base()
        yield ours
        ours.close()


def report(mine: list[float], theirs: list[float]) -> Result:
    ours, rival = statistics.median(mine), statistics.median(theirs)
    return {"ours_ms": round(ours * 1000, 1), "rival_ms": round(rival * 1000, 1), "ratio": round(ours / rival, 3)}
