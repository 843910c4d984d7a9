"""Rows: taking checkpoints and going back to them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from measuring import ENV, Result, Rival, alternate, change, forget_names, git, recorder, report


def checkpoint_row(repo: Path, home: Path, rounds: int, files: int, known: bool) -> Result:
    forget_names()
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


def known(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """checkpoint of 1, 10 and 100 known files"""
    return {f"{n} files": checkpoint_row(repo, home, rounds, n, known=True) for n in (1, 10, 100)}


def scan(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """checkpoint by scan of 1, 10 and 100 changed files"""
    return {f"{n} files": checkpoint_row(repo, home, rounds, n, known=False) for n in (1, 10, 100)}


def restore(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """going back over 10 and over 10,000 changed files, safety checkpoint included, against git restore"""
    total = len(git(repo, "ls-files").splitlines())
    return {f"{count:,} files": restore_row(repo, home, rounds, count) for count in (10, 10_000) if count < total}


def restore_row(repo: Path, home: Path, rounds: int, files: int) -> Result:
    from gitsession.config import Settings
    from gitsession.verbs.restore import restore as go_back

    forget_names()
    git(repo, "restore", ".")  # what other rows have left
    git(repo, "update-index", "-q", "--refresh")
    with recorder(repo, home, own=False) as session:
        settings, start = Settings(), git(repo, "rev-parse", "HEAD^{tree}")
        first = session.take("manual", "as it was", always=True)

        def level(number: int, turn: str) -> None:
            """The files are changed, and both sides know it."""
            names = change(repo, number, files, turn)
            session.take("manual", "changed", known=[name.encode() for name in names])

        def ours(number: int) -> float:
            level(number, "ours")
            begun = time.perf_counter()
            go_back(session.store, session.session_id, first["index"], settings=settings, start=repo, force=True)
            return time.perf_counter() - begun

        def rivals(number: int) -> float:
            level(number, "rival")
            begun = time.perf_counter()
            git(repo, "restore", f"--source={start}", "--worktree", ".")
            return time.perf_counter() - begun

        mine, theirs = alternate(rounds, ours, rivals)
    git(repo, "restore", ".")
    return report(mine, theirs)


MEMORY = """
import resource, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from measuring import recorder
repo, home = Path(sys.argv[1]), Path(sys.argv[2])
with recorder(repo, home) as session:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (repo / sys.argv[4]).open("ab") as file:
        for number in range(300):
            file.write(number.to_bytes(4, "big") * (1024 * 256))
    begun = time.perf_counter()
    session.take("manual", "300 MB more", always=True)
    spent = time.perf_counter() - begun
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(spent, more, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def memory(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """a checkpoint with 300 MB in an untracked file, and in a tracked one: peak memory over the start, in KB

    The rival is the time of ``git add`` of the same.
    """
    return {label: memory_row(repo, home, name) for label, name in (("untracked", "big"), ("tracked", "d0/s0/f0.txt"))}


def memory_row(repo: Path, home: Path, name: str) -> Result:
    command = [sys.executable, "-c", MEMORY, str(repo), str(home), str(Path(__file__).parent), name]
    done = subprocess.run(command, env=ENV, check=True, capture_output=True, text=True)
    spent, more, children = done.stdout.split()
    begun = time.perf_counter()
    git(repo, "add", name, GIT_INDEX_FILE=str(home / "index"))
    rival = time.perf_counter() - begun
    git(repo, "clean", "-qfd")
    git(repo, "checkout", "-q", ".")
    return report([float(spent)], [rival]) | {"peak_kb": int(more), "peak_of_children_kb": int(children)}
