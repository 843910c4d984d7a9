"""Row: what the git hooks cost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from measuring import ENV, Result, alternate, change, forget_names, git, recorder, report


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
    forget_names()
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
