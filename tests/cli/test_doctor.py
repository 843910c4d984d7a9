"""``doctor`` as it is typed and as it answers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo, cli_environment, program, run_cli


def test_sound_damaged_fixed(repo: GitRepo) -> None:
    session = TestSession(repo)
    done = run_cli("pinable-agents", "doctor", cwd=repo.path)
    assert (done.stdout, done.returncode) == ("Nothing is wrong (1 session looked at)\n", 0)
    path = session.store.sessions_dir / "s1.json"
    path.write_bytes(b"{")
    done = run_cli("pinable-agents", "doctor", "--dry-run", cwd=repo.path)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "s1: s1.json is not valid JSON at byte 1 of 1",
        "  would write it anew from the journal",
        "Found 1 thing to look at; --fix does what is said above",
    ]
    shown = json.loads(run_cli("pinable-agents", "doctor", "--json", cwd=repo.path).stdout)
    assert (shown["well"], shown["sessions"][0]["steps"][0]["kind"]) == (False, "files")
    assert path.read_bytes() == b"{"
    done = run_cli("pinable-agents", "doctor", "--fix", cwd=repo.path)
    assert (done.stdout.splitlines()[-1], done.returncode) == ("All is well now", 0)
    assert run_cli("pinable-agents", "doctor", "--dry-run", "--fix").returncode == 2


def test_relocate(repo: GitRepo, tmp_path: Path) -> None:
    TestSession(repo)
    moved = tmp_path / "moved"
    shutil.move(repo.path, moved)
    done = run_cli("pinable-agents", "doctor", "--relocate", moved)
    assert (done.stdout, done.returncode) == (f"s1 is in {moved} now\n", 0)
    done = run_cli("pinable-agents", "doctor", "--relocate", moved)
    assert (done.stdout, done.returncode) == (f"No session that has lost its repository belongs to {moved}\n", 1)


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="root reads everything")
def test_a_home_that_may_not_be_read(pinable_home: Path) -> None:
    pinable_home.mkdir(mode=0)
    rights = "-dac_override,-dac_read_search"  # what makes root read everything
    done = subprocess.run(
        ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", program("pinable-agents"), "doctor"],
        env=cli_environment(),
        capture_output=True,
        text=True,
    )
    pinable_home.chmod(0o700)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"pinable-agents: cannot read {pinable_home}/config.toml: Permission denied",
        "hint: check its permissions and its owner",
    ]
