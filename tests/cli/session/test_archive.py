"""``session archive`` and ``unarchive`` as typed, through to the resumed run."""

from __future__ import annotations

import json
from pathlib import Path

from support import GitRepo, run_cli

AGENT = """\
#!/bin/sh
echo "$PINABLE_RESUME" >> done.txt
echo '::checkpoint::a step'
[ -n "$PINABLE_RESUME" ]
"""


def test_archived_here_resumed_in_another_clone(repo: GitRepo, tmp_path: Path) -> None:
    agent = tmp_path / "agent.sh"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    run = run_cli("codeagent-wrapper", "--task", "x", "--session-id", "work", "--", agent, cwd=repo.path)
    assert run.returncode == 3
    out = tmp_path / "session-archive"
    done = run_cli("pinable-agents", "session", "archive", "work", "--output", out, cwd=repo.path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Session archived: work  ")
    assert lines[1] == f"1 session archived in {out}"
    assert run_cli("pinable-agents", "session", "list", "--json").stdout == "[]\n"

    other = tmp_path / "clone"
    repo.git("clone", "--quiet", repo.path, other)
    done = run_cli("pinable-agents", "session", "unarchive", out / "work.tar.gz", cwd=other)
    assert (done.returncode, done.stdout) == (0, "Session unarchived: work\n")
    assert done.stderr == (
        f"it belongs to {other} now\n"
        "the program that the archive names is only run when you name it: codeagent-wrapper tells it on a resume\n"
        "to have its files here, too: pinable-agents session restore work 0\n"
    )
    restored = run_cli("pinable-agents", "session", "restore", "work", "0", cwd=other)
    assert restored.returncode == 0, restored.stderr
    recovered = run_cli("pinable-agents", "session", "recover", "--all", cwd=other)
    assert recovered.returncode == 4
    assert "work  not run: the program of session work comes from elsewhere" in recovered.stdout
    assert f"hint: if you trust it: codeagent-wrapper --session-id work -- {agent}\n" in recovered.stderr
    refused = run_cli("codeagent-wrapper", "--session-id", "work", cwd=other)
    assert refused.returncode == 4
    resumed = run_cli("codeagent-wrapper", "--session-id", "work", "--", agent, cwd=other)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert "Session completed: work" in resumed.stdout
    assert len((other / "done.txt").read_text().splitlines()) == 2


def test_only_completed_ones_that_are_old_enough(repo: GitRepo, tmp_path: Path) -> None:
    for name, agent in (("done", "true"), ("paused", "false")):
        run_cli("codeagent-wrapper", "--task", "x", "--session-id", name, "--", agent, cwd=repo.path)
    archive = ("pinable-agents", "session", "archive", "--output", tmp_path / "out")
    assert run_cli(*archive, "--older-than", "14d").stdout == "0 sessions archived\n"
    planned = run_cli(*archive, "--older-than", "0d", "--dry-run").stdout.splitlines()
    assert planned[0].startswith("Would archive: done  completed  ")
    found = json.loads(run_cli(*archive, "--older-than", "0d", "--json").stdout)
    assert found == {
        "dry_run": False,
        "archived": [{"id": "done", "path": str(tmp_path / "out" / "done.tar.gz")}],
        "kept": [],
        "failed": [],
    }


def test_what_cannot_be_archived_does_not_keep_the_others(repo: GitRepo, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run_cli("codeagent-wrapper", "--task", "x", "--session-id", name, "--", "true", cwd=repo.path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "one.tar.gz").write_bytes(b"something else")
    done = run_cli("pinable-agents", "session", "archive", "one", "two", "-o", tmp_path / "out")
    assert done.returncode == 1
    assert "not archived: one: " in done.stderr
    assert done.stdout.splitlines()[-1] == f"1 session archived in {tmp_path / 'out'}"
    assert (tmp_path / "out" / "one.tar.gz").read_bytes() == b"something else"


def test_an_archive_that_does_not_come_back_does_not_keep_the_others(repo: GitRepo, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run_cli("codeagent-wrapper", "--task", "x", "--session-id", name, "--", "true", cwd=repo.path)
    out = tmp_path / "out"
    assert run_cli("pinable-agents", "session", "archive", "one", "two", "-o", out).returncode == 0
    again = run_cli("pinable-agents", "session", "archive", "one", "-o", out)
    assert "hint: pinable-agents session undelete one brings it back" in again.stderr
    run_cli("pinable-agents", "session", "undelete", "one")
    done = run_cli("pinable-agents", "session", "unarchive", out / "one.tar.gz", out / "two.tar.gz", cwd=repo.path)
    assert done.returncode == 2
    assert f"not unarchived: {out / 'one.tar.gz'}: session one exists\nhint: delete it first" in done.stderr
    assert done.stdout == "Session unarchived: two\n"


def test_bad_requests(tmp_path: Path) -> None:
    both = run_cli("pinable-agents", "session", "archive", "x", "--older-than", "3d")
    assert (both.returncode, both.stdout) == (2, "")
    (tmp_path / "no.tar.gz").write_bytes(b"not an archive")
    no_archive = run_cli("pinable-agents", "session", "unarchive", tmp_path / "no.tar.gz")
    assert no_archive.returncode == 1
    assert "is not an archive of a session" in no_archive.stderr
    missing = run_cli("pinable-agents", "session", "unarchive", tmp_path / "missing.tar.gz")
    assert missing.returncode == 1
    assert "No such file" in missing.stderr
