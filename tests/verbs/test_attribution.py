"""Which sessions are asked for what they brought; ``test_tracking`` has what becomes of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support import GitRepo
from working import Worker

from gitsession.clock import timestamp
from gitsession.git.trees import TreeChange, lookup
from gitsession.verbs import attribution
from gitsession.verbs.attribution import by_others

BEGAN = timestamp(0)


@pytest.fixture
def mine(repo: GitRepo) -> Iterator[Worker]:
    built = Worker(repo, "mine")
    yield built
    built.close()


@pytest.fixture
def other(repo: GitRepo) -> Iterator[Worker]:
    built = Worker(repo, "other")
    yield built
    built.close()


def seen(mine: Worker, other: Worker, path: str) -> list[TreeChange]:
    """What ``mine`` sees of a file that ``other`` brought."""
    (commit, *_) = other.recorder.ledger.commits()
    entry = lookup(mine.recorder.objects, commit.tree, path.encode())
    return [TreeChange(path.encode(), None, entry)]


@pytest.mark.parametrize("ref_format", ["files", "reftable"])
def test_only_sessions_with_a_new_checkpoint_are_asked(
    repo: GitRepo, mine: Worker, other: Worker, ref_format: str
) -> None:
    mine.recorder.repo = replace(mine.recorder.repo, ref_format=ref_format)
    assert sorted(attribution._moved(mine.recorder, BEGAN)) == ["mine", "other"]
    assert sorted(attribution._moved(mine.recorder, timestamp(4_000_000_000))) == []
    os.utime(repo.common_dir / "refs" / "pinable" / "other", (1, 1))
    if ref_format == "files":
        assert sorted(attribution._moved(mine.recorder, timestamp(1_000_000_000))) == ["mine"]


def test_an_edit_of_a_named_file_is_its_sessions(mine: Worker, other: Worker) -> None:
    other.work({"a.txt": "a\n"}, known=True)
    assert by_others(mine.recorder, seen(mine, other, "a.txt"), BEGAN) == {b"a.txt"}


@pytest.mark.parametrize("trigger", ["found", "resume", "restore"])
def test_what_it_found_is_not(mine: Worker, other: Worker, trigger: str) -> None:
    other.work({"a.txt": "a\n"}, trigger=trigger, known=True)
    assert by_others(mine.recorder, seen(mine, other, "a.txt"), BEGAN) == set()


def test_a_session_whose_record_is_damaged_has_brought_nothing(mine: Worker, other: Worker, pinable_home: Path) -> None:
    other.work({"a.txt": "a\n"}, known=True)
    (pinable_home / "sessions" / "other.json").write_text("{")
    assert by_others(mine.recorder, seen(mine, other, "a.txt"), BEGAN) == set()
