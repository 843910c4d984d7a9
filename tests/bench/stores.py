"""Rows: whole programs on sessions, and a session that grows."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

from measuring import ENV, Result, alternate, git, report


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


def growth(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """one session from nothing to 5 MB in 1,000 checkpoints, against the same bytes appended and fsynced

    The repository plays no part; also told: the slowest checkpoint, in ms.
    """
    stalls: list[float] = []

    def ours(number: int) -> float:
        store, session_id = one_session(home.with_name(f"growing-{number}"))
        begun = time.perf_counter()
        for index in range(1000):
            step = time.perf_counter()
            with store.edit(session_id) as draft:
                draft.log("checkpoint", record=step_record(index))
            stalls.append(time.perf_counter() - step)
        return time.perf_counter() - begun

    def rival(number: int) -> float:
        line = (json.dumps(step_record(0)) + "\n").encode()
        begun = time.perf_counter()
        with home.with_name(f"appended-{number}").open("ab", buffering=0) as file:
            for _ in range(1000):
                file.write(line)
                os.fsync(file.fileno())
        return time.perf_counter() - begun

    result = report(*alternate(min(rounds, 5), ours, rival, warmup=1))
    return {"to 5 MB": result | {"slowest_ms": round(max(stalls) * 1000, 1)}}


def step_record(index: int) -> dict[str, Any]:
    names = [f"src/package_{index % 37}/module_{number}.py" for number in range(50)]
    changes = [{"path": name, "status": "modified"} for name in names]
    return {
        "index": index, "timestamp": "2026-02-25T10:00:00Z", "phase": "implementation", "description": "x" * 60,
        "files_changed": names, "tokens_used": {"input": 1, "output": 1}, "changes": changes,
    }  # fmt: skip


def one_session(home: Path) -> tuple[Any, str]:
    """A store with one session that names no repository."""
    from gitsession.store.sessions import SessionStore

    store = SessionStore(home)
    store.create(
        {
            "id": "growing", "status": "created", "backend": "command", "model": None, "task": "t",
            "task_hash": "sha256:0", "files": [], "created_at": "2026-02-25T10:00:00Z",
            "updated_at": "2026-02-25T10:00:00Z", "checkpoints": [], "context": {}, "cost": {}, "metadata": {},
        }
    )  # fmt: skip
    return store, "growing"


def run(repo: Path, home: Path, rounds: int) -> dict[str, Result]:
    """a whole run of an agent that makes one edit, against the agent alone; whole processes

    Also told: what the session adds, in ms.
    """
    git(repo, "restore", ".")  # what other rows have left
    agent = ["sh", "-c", "echo more >> d0/s0/f0.txt"]
    wrapper = Path(sysconfig.get_path("scripts"), "codeagent-wrapper")
    command = [str(wrapper), "--backend", "command", "--task", "bench", "--", *agent]

    def timed(argv: list[str]) -> float:
        begun = time.perf_counter()
        environment = ENV | {"PINABLE_HOME": str(home.with_name("runs"))}
        subprocess.run(argv, cwd=repo, env=environment, check=True, capture_output=True)
        return time.perf_counter() - begun

    result = report(*alternate(rounds, lambda _: timed(command), lambda _: timed(agent)))
    git(repo, "checkout", "-q", ".")
    return {"one edit": result | {"added_ms": round(result["ours_ms"] - result["rival_ms"], 1)}}
