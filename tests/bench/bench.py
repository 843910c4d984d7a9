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
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
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


def recover(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """recover --scan of 10,000 sessions of which 20 are broken, against an interpreter that does nothing

    The repository plays no part; also told: the largest memory use, in KB.
    """
    store = fill_store(home.with_name("many"), 10_000, broken=20)
    command = [str(Path(sys.executable).with_name("pinable-agents")), "session", "recover", "--scan"]
    environment = {**os.environ, "PINABLE_HOME": str(store)}

    def timed(argv: list[str]) -> float:
        start = time.perf_counter()
        subprocess.run(argv, env=environment, check=True, capture_output=True)
        return time.perf_counter() - start

    mine, theirs = alternate(rounds, lambda _: timed(command), lambda _: timed([sys.executable, "-I", "-c", "pass"]))
    shutil.rmtree(store)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"10,000 sessions": report(mine, theirs) | {"peak_kb": peak}}


def fill_store(home: Path, count: int, broken: int) -> Path:
    """A store of ``count`` completed sessions, ``broken`` of them cut short or left by a killed run."""
    from gitsession.store.journal import encode
    from gitsession.store.record import serialize
    from gitsession.verbs.run import RunRequest, new_doc

    class Nowhere:
        """Stands for a repository: nothing is asked of it."""

        worktree = git_dir = common_dir = home / "w"
        object_format = "sha1"

        @staticmethod
        def head() -> Any:
            from gitsession.git.repo import Head

            return Head("0" * 40, "main")

    sessions = home / "sessions"
    sessions.mkdir(parents=True)
    nowhere: Any = Nowhere()
    model = new_doc(RunRequest(start=home), "Refactor the user module", "m", nowhere, "command")
    for number in range(count):
        bad, torn = number % (count // broken) == 0, number // (count // broken) % 2
        doc = {**model, "id": f"sess_{1740000000 + number}_{number:08x}", "status": "running" if bad else "completed"}
        line = encode({"seq": 1, "at": doc["updated_at"], "event": "created", "session": doc})
        data = serialize({**doc, "journal": {"seq": 1, "offset": len(line)}})
        (sessions / f"{doc['id']}.json").write_bytes(data[: len(data) // 2] if bad and torn else data)
        (sessions / f"{doc['id']}.journal").write_bytes(line)
    return home


def listing(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """session list of 50 and 10,000 sessions, against an interpreter that does nothing; whole processes"""
    program = Path(sysconfig.get_path("scripts"), "pinable-agents")
    command = [str(program), "session", "list"]
    return {f"{number:,} sessions": listing_row(command, home.parent, number, rounds) for number in (50, 10_000)}


def listing_row(command: list[str], place: Path, number: int, rounds: int) -> Result:
    home = place / f"listed-{number}"
    if not home.exists():
        make_sessions(home, number)

    def timed(arguments: list[str]) -> float:
        start = time.perf_counter()
        subprocess.run(arguments, stdout=subprocess.DEVNULL, env=ENV | {"PINABLE_HOME": str(home)}, check=True)
        return time.perf_counter() - start

    return report(*alternate(rounds, lambda _: timed(command), lambda _: timed([sys.executable, "-I", "-c", "pass"])))


def make_sessions(home: Path, number: int) -> None:
    """Completed sessions of about 5 KB each, as they lie there after months."""
    from gitsession.store.sessions import SessionStore

    sessions = SessionStore(home).sessions_dir
    sessions.mkdir(parents=True)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())  # else they are cleaned up while they are listed
    checkpoint = {"index": 0, "timestamp": now, "description": "x" * 80, "files_changed": ["a"] * 20}
    for count in range(number):
        name = f"sess_{1740480000 + count}_{count:08x}"
        doc = {
            "schema_version": 1, "id": name, "status": "completed", "backend": "command", "model": None,
            "task": f"Task number {count}, in a few words", "task_hash": "sha256:0", "files": ["a.py", "b.py"],
            "created_at": now, "updated_at": now,
            "checkpoints": [{**checkpoint, "index": index} for index in range(10)], "context": {},
            "cost": {"total_tokens": 0, "estimated_cost_usd": None}, "metadata": {},
        }  # fmt: skip
        first = json.dumps({"seq": 1, "at": now, "event": "created", "session": doc}) + "\n"
        doc["journal"] = {"seq": 1, "offset": len(first)}
        (sessions / f"{name}.journal").write_text(first)
        (sessions / f"{name}.json").write_text(json.dumps(doc, indent=2) + "\n")
        for ending in (".lock", ".mutex"):
            (sessions / f"{name}{ending}").touch()
    time.sleep(2.1)  # what was just written is read again each time


def hooks(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """each git hook, alone and in a commit, with no session and with 500; against an empty hook, a bare Python"""
    from gitsession.verbs import hooks as ours

    ours.install(repo)
    empty = repo.parent / "empty-hooks"
    empty.mkdir(exist_ok=True)
    for name in ours.NAMES:
        (empty / name).write_text("#!/bin/sh\nexit 0\n")
        (empty / name).chmod(0o755)
    results = {"unused": _timed(repo, rounds, [".git/hooks/post-commit"], [str(empty / "post-commit")])}
    change.__dict__.pop("names", None)
    with recorder(repo, home) as session:
        _old_sessions(repo, 499)
        message = repo / ".git" / "COMMIT_EDITMSG"

        def stage(number: int, turn: str) -> None:
            names = change(repo, number, 10, turn)
            session.take("agent", "bench", known=[name.encode() for name in names])
            git(repo, "add", "-u")

        def prepare(number: int) -> None:
            stage(number, "hook")
            git(repo, "write-tree")  # what git commit does before it calls the hook: the index knows its tree
            message.write_text("Said\n")

        python = [sys.executable, "-I", "-S", "-c", "pass"]
        arguments = {
            "prepare-commit-msg": [str(message), "message"],
            "commit-msg": [str(message)],
            "post-commit": [],
            "post-rewrite": ["amend"],
            "post-checkout": ["1" * 40, "2" * 40, "1"],
            "post-merge": ["0"],
            "pre-push": ["origin", "somewhere"],
        }
        for name, given in arguments.items():
            before = prepare if name == "prepare-commit-msg" else None
            results[name] = _timed(repo, rounds, [f".git/hooks/{name}", *given], python, before)
            if name == "prepare-commit-msg":
                git(repo, "commit", "-qm", "all that was staged in the rounds")
                stage(0, "one round's")
                git(repo, "commit", "-qm", "what the hooks that follow look at")

        def commit(number: int, turn: str, *options: str) -> float:
            stage(number, turn)
            start = time.perf_counter()
            git(repo, *options, "commit", "-qm", turn)
            return time.perf_counter() - start

        mine, theirs = alternate(
            rounds,
            lambda number: commit(number, "ours"),
            lambda number: commit(number, "rival", "-c", f"core.hooksPath={empty}"),
        )
        results["whole commit"] = report(mine, theirs)
    ours.uninstall(repo)
    return results


def _timed(
    repo: Path, rounds: int, mine: list[str], rival: list[str], before: Callable[[int], None] | None = None
) -> Result:
    """Two programs, started in turns; ``before`` is not counted."""

    def run(command: list[str]) -> float:
        start = time.perf_counter()
        subprocess.run(command, cwd=repo, env=ENV, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        return time.perf_counter() - start

    def ours(number: int) -> float:
        if before is not None:
            before(number)
        return run(mine)

    return report(*alternate(max(rounds, 15), ours, lambda _: run(rival)))


def _old_sessions(repo: Path, count: int) -> None:
    """Sessions that are over: a base and a checkpoint each."""
    head = git(repo, "rev-parse", "HEAD")
    stream = []
    for number in range(count):
        for index, parent in (("base", head), ("0", None)):
            text = f"checkpoint {index}: x\n\nPinable-Session: old-{number}\nPinable-Checkpoint: {index}\n"
            text += "Pinable-Record: {}\n"
            stream.append(f"commit refs/pinable/old-{number}\ncommitter a <a@b> 1700000000 +0000\n")
            stream.append(f"data {len(text)}\n{text}\n" + (f"from {parent}\n" if parent else ""))
            if parent is None:
                content = f"by session {number}\n"
                stream.append(f"M 100644 inline by-sessions/{number}\ndata {len(content)}\n{content}\n")
    done = subprocess.run(["git", "fast-import", "--quiet"], cwd=repo, env=ENV, input="".join(stream), text=True)
    done.check_returncode()


ROWS = {"known": known, "scan": scan, "recover": recover, "listing": listing, "hooks": hooks}


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
