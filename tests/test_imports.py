"""What a command does not need it does not load: counted in a new process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAVY = {"anthropic", "click", "pydantic", "pydantic_core", "pygit2", "rich", "watchfiles"}

RUN_PROGRAM = """
import sys
from gitsession.cli import boundary
sys.argv = {argv!r}
try:
    status = boundary.{entry}()
except SystemExit as error:
    status = error.code
assert not status, status
"""
IMPORT_ALL = """
import importlib, pkgutil, gitsession
for module in pkgutil.walk_packages(gitsession.__path__, "gitsession."):
    importlib.import_module(module.name)
"""
REPORT = "\nimport json, sys; print(); print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))\n"


def loaded(code: str) -> set[str]:
    """The top-level packages that are loaded after ``code`` has run in a new interpreter."""
    done = subprocess.run([sys.executable, "-P", "-c", code + REPORT], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def session_document(worktree: Path) -> dict[str, Any]:
    """The least that a session file says."""
    return {
        "schema_version": 1,
        "id": "sess_1740480000_a3f7b2c1",
        "status": "created",
        "backend": "command",
        "model": None,
        "task": "Refactor the user module",
        "task_hash": "sha256:e3b0c44298fc1c149afbf4c8996fb924",
        "files": ["src/user/db.go"],
        "created_at": "2026-02-25T10:00:00Z",
        "updated_at": "2026-02-25T10:00:00Z",
        "workflow": "do",
        "current_phase": None,
        "phases_completed": [],
        "checkpoints": [],
        "context": {"conversation_history": [], "accumulated_changes": [], "working_branch": "main"},
        "cost": {"total_tokens": 0, "estimated_cost_usd": None},
        "metadata": {
            "git_branch": "main",
            "git_commit": None,
            "working_dir": str(worktree),
            "os": "linux",
            "wrapper_version": "0.1.0",
        },
    }


@pytest.fixture
def one_session(tmp_path: Path) -> None:
    from gitsession import SessionStore

    SessionStore().create(session_document(tmp_path))


def test_the_store_alone_is_light() -> None:
    assert loaded("from gitsession import SessionStore; SessionStore().ids()") & HEAVY == set()


@pytest.mark.parametrize("arguments", [[], ["--json"], ["--status", "paused"]])
def test_listing_needs_neither_pydantic_nor_libgit2(one_session: None, arguments: list[str]) -> None:
    argv = ["pinable-agents", "session", "list", *arguments]
    modules = loaded(RUN_PROGRAM.format(argv=argv, entry="pinable_agents"))
    assert modules & {"anthropic", "pydantic", "pydantic_core", "pygit2", "watchfiles"} == set()


@pytest.mark.parametrize("entry", ["codeagent_wrapper", "pinable_agents"])
def test_help_loads_no_engine(entry: str) -> None:
    modules = loaded(RUN_PROGRAM.format(argv=[entry.replace("_", "-"), "--help"], entry=entry))
    assert modules & {"anthropic", "pydantic", "pygit2", "watchfiles"} == set()


def test_no_module_loads_anthropic_or_libgit2_when_it_is_imported() -> None:
    assert loaded(IMPORT_ALL) & {"anthropic", "pygit2"} == set()
