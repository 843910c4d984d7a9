"""What git is asked before the modules are there is what it is asked then, or nobody hears of it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from feeding import Claude, only_session, steps
from support import GitRepo
from verbs.test_tracking import begin, tell

from gitsession.git import ahead
from gitsession.git.repo import Repo, Running


@pytest.fixture
def claude(repo: GitRepo) -> Claude:
    return Claude(repo.path)


def kept(home: Path, claude: Claude) -> Path:
    return home / "early" / f"claude-code-{claude.session}"


def begin_early(home: Path, claude: Claude) -> list[str]:
    """The commands that are under way then."""
    ahead.begin(ahead.place(home, "claude-code", claude.session))
    return sorted(Running.of(args, process).command for (args, _), process in ahead.begun.items())


def test_the_next_event_asks_the_same_and_gets_the_early_answer(
    repo: GitRepo, claude: Claude, pinable_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(claude)
    tell(claude.stop())
    repo.write("late.txt", "x\n")
    assert begin_early(pinable_home, claude) == ["config", "diff-files", "ls-files"]
    started: list[str] = []
    start = Repo.start

    def note(self: Repo, *args: str, **more: Path | None) -> object:
        running = start(self, *args, **more)
        started.append(running.command)
        return running

    monkeypatch.setattr(Repo, "start", note)
    tell(claude.prompt("go on"))
    assert steps(only_session()) == [("found", ["late.txt"], None)]
    assert not {"diff-files", "config"} & {*started}
    assert stat.S_IMODE(kept(pinable_home, claude).stat().st_mode) == 0o600


def test_after_a_change_of_the_users_index_the_answer_is_not_used(
    repo: GitRepo, claude: Claude, pinable_home: Path
) -> None:
    begin(claude)
    tell(claude.stop())
    assert begin_early(pinable_home, claude) != []
    repo.write("staged.txt", "x\n")
    repo.git("add", "staged.txt")
    tell(claude.prompt("go on"))
    assert steps(only_session()) == [("found", ["staged.txt"], None)]
    assert ahead.begun == {}


def test_what_was_asked_in_vain_is_ended(claude: Claude, pinable_home: Path, repo: GitRepo) -> None:
    begin(claude)
    tell(claude.stop())
    begin_early(pinable_home, claude)
    running = [*ahead.begun.values()]
    tell(claude.wrote("toolu_1", "README.md"))
    assert ahead.begun == {}
    assert all(process.returncode is not None for process in running)


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b'{"worktree": 1, "git_dir": 2, "questions": [[1]]}',
        b'{"worktree": "/a", "git_dir": "/a/.git", "questions": [[["diff-files"], null]]}',
        b'{"worktree": "/a"}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_none(claude: Claude, pinable_home: Path, damage: bytes) -> None:
    begin(claude)
    tell(claude.stop())
    kept(pinable_home, claude).write_bytes(damage)
    assert begin_early(pinable_home, claude) == []
    tell(claude.prompt("go on"))
    assert json.loads(kept(pinable_home, claude).read_bytes())["questions"]


def test_it_goes_with_the_end(claude: Claude, pinable_home: Path) -> None:
    begin(claude)
    assert kept(pinable_home, claude).exists()
    tell(claude.end())
    assert list((pinable_home / "early").iterdir()) == []
