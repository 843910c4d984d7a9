"""The demo is the worked example, played for real."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest
from support import GitRepo, run_cli

from gitsession import SessionStore

TOLD_FIRST = """\
[Phase: analysis] Analyzing 3 files...
[Phase: analysis] DONE - Identified 15 functions to refactor
[Checkpoint 0] Saved analysis results
[Phase: implementation] Refactoring src/user/db.go...
[Phase: implementation] DONE - Created src/user/repository.go
[Checkpoint 1] Saved user module changes
[Phase: implementation] Refactoring src/order/db.go...
CONNECTION ERROR: network timeout after 30s
Session paused: ID (checkpoint 1)
"""
TOLD_SECOND = """\
Resuming from checkpoint 1 (Saved user module changes)
[Phase: implementation] Refactoring src/order/db.go...
[Phase: implementation] DONE - Created src/order/repository.go
[Checkpoint 2] Saved order module changes
[Phase: implementation] Refactoring src/payment/db.go...
[Phase: implementation] DONE - Created src/payment/repository.go
[Checkpoint 3] Saved payment module changes
[Phase: review] Running code review...
[Phase: review] DONE - No critical issues found

Session completed: ID
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, float]:
    """Where it was played, what it told, and the seconds of work it took."""
    directory = tmp_path_factory.mktemp("demo") / "kept"
    before = spent()
    env = {"PINABLE_CHECKPOINT__SETTLE": "1h"}  # however slow it is, nothing is checkpointed by itself
    done = run_cli("pinable-agents", "demo", "--keep", directory, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    return directory, done.stdout, spent() - before


def spent() -> float:
    """Seconds of processors' time in the processes that this one started: waiting for others' is not counted."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_it_tells_the_worked_example(played: tuple[Path, str, float]) -> None:
    directory, told, _ = played
    (session_id,) = SessionStore(directory / "pinable-home").ids()
    anonymous = told.replace(session_id, "ID")
    assert TOLD_FIRST in anonymous
    assert TOLD_SECOND in anonymous
    assert "Files created: 3, Files modified: 3\n" in told
    assert re.search(r"^Total cost: \$0\.\d\d$", told, re.MULTILINE)
    assert "  - src/order/db.go    (not started)\n  - src/payment/db.go  (not started)\n" in told
    assert "  + src/user/repository.go  (new)\n  ~ src/user/db.go          (modified)\n" in told
    assert str(directory / "shop") in told


def test_it_is_quick(played: tuple[Path, str, float]) -> None:
    assert played[2] < 15


def test_the_sessions_checkpoints_are_commits(played: tuple[Path, str, float]) -> None:
    directory, _, _ = played
    repo = GitRepo(directory / "shop")
    (session_id,) = SessionStore(directory / "pinable-home").ids()
    subjects = repo.git("log", "--first-parent", "--format=%s", f"refs/pinable/{session_id}").splitlines()
    assert subjects == [
        "checkpoint 3: Saved payment module changes",
        "checkpoint 2: Saved order module changes",
        "checkpoint 1: Saved user module changes",
        "checkpoint 0: Saved analysis results",
        "base",
        "A small shop",
    ]
    changed = [
        checkpoint.files_changed for checkpoint in SessionStore(directory / "pinable-home").load(session_id).checkpoints
    ]
    assert changed == [
        [],
        *([f"src/{name}/db.go", f"src/{name}/repository.go"] for name in ("user", "order", "payment")),
    ]
    assert repo.git("diff", f"refs/pinable/{session_id}", "--", "src/*/db.go") == ""
    assert repo.git("branch", "--format=%(refname)") == "refs/heads/main"
    repo.git("fsck", "--strict")


def test_nothing_is_kept_outside_its_directory(played: tuple[Path, str, float], pinable_home: Path) -> None:
    assert sorted(path.name for path in played[0].iterdir()) == ["pinable-home", "shop"]
    assert not pinable_home.exists()


def test_it_refuses_a_directory_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    done = run_cli("pinable-agents", "demo", "--keep", tmp_path)
    assert done.returncode == 2
    assert "is not an empty directory" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_it_works_from_inside_a_git_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    done = run_cli("pinable-agents", "demo", "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "elsewhere").exists()
    assert not (tmp_path / "index").exists()
