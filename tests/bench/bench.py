"""Time our checkpoints against what a careful shell script would do, in the same run.

    python tests/bench/bench.py [--files 1000,20000,100000] [--rounds 9] [--json FILE] [ROW …]

Rows are the functions at the bottom.  Each prints the median of both sides and their ratio; the two sides take
turns, so that a machine that slows down slows both.  The rival of the checkpoint rows is the usual
temporary-index recipe, warm (its index is kept between rounds): ``git add -A``, ``git write-tree``,
``git commit-tree``, ``git update-ref``.  Ours is everything a checkpoint is: objects and ref on disk
(fsynced), the journal line and the session file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ENV = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
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
def recorder(repo: Path, home: Path) -> Iterator[Any]:
    """A running session of ours, its base taken."""
    from gitsession.config import Settings
    from gitsession.git.repo import Repo
    from gitsession.store.sessions import SessionStore
    from gitsession.verbs.checkpoint import Recorder
    from gitsession.verbs.run import RunRequest, new_doc

    store = SessionStore(home)
    found = Repo.discover(repo)
    doc = new_doc(RunRequest(start=repo), "bench", f"bench-{time.time_ns()}", found, "command")
    store.create(doc)
    with store.own(doc["id"]):
        ours = Recorder(store, doc["id"], found, Settings())
        ours.base()
        yield ours
        ours.close()


def checkpoint_row(repo: Path, home: Path, rounds: int, files: int, known: bool) -> Result:
    change.__dict__.pop("names", None)
    rival = Rival(repo)
    with recorder(repo, home) as ours:

        def take(number: int) -> float:
            names = change(repo, number, files, "ours")
            paths = [name.encode() for name in names] if known else None
            start = time.perf_counter()
            record = ours.take("agent", "bench", known=paths)
            spent = time.perf_counter() - start
            assert record is not None
            assert len(record["files_changed"]) >= files
            # The rival's files of the last round were changed too; bring both sides level, unmeasured.
            rival.checkpoint()
            return spent

        def rivals(number: int) -> float:
            names = change(repo, number, files, "rival")
            start = time.perf_counter()
            rival.checkpoint()
            spent = time.perf_counter() - start
            ours.take("agent", "level", known=[name.encode() for name in names])
            return spent

        mine, theirs = alternate(rounds, take, rivals)
    return report(mine, theirs)


def report(mine: list[float], theirs: list[float]) -> Result:
    ours, rival = statistics.median(mine), statistics.median(theirs)
    return {"ours_ms": round(ours * 1000, 1), "rival_ms": round(rival * 1000, 1), "ratio": round(ours / rival, 3)}


def known(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """checkpoint of 1, 10 and 100 known files"""
    return {f"{n} files": checkpoint_row(repo, home, rounds, n, known=True) for n in (1, 10, 100)}


def scan(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """checkpoint by scan of 1, 10 and 100 changed files"""
    return {f"{n} files": checkpoint_row(repo, home, rounds, n, known=False) for n in (1, 10, 100)}


ROWS = {"known": known, "scan": scan}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS) + " (all by default)")
    parser.add_argument("--files", default="1000,20000,100000", help="repository sizes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    unknown = set(options.rows) - set(ROWS)
    if unknown:
        parser.error("no such row: " + ", ".join(sorted(unknown)))
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        os.environ["HOME"] = ENV["HOME"] = place
        for size in map(int, options.files.split(",")):
            repo = make_repository(Path(place), size)
            for row in options.rows or ROWS:
                for label, result in ROWS[row](repo, Path(place) / "home", options.rounds).items():
                    figures[f"{row}, {size:,} files in the repository, {label}"] = result
                    print(
                        f"{row:8} {size:>8,} files in the repository  {label:10} "
                        f"ours {result['ours_ms']:8.1f} ms   rival {result['rival_ms']:8.1f} ms   "
                        f"ratio {result['ratio']:.3f}",
                        flush=True,
                    )
            shutil.rmtree(repo)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
