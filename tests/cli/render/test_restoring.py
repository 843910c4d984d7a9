"""What a restore says it did is what it did."""

from __future__ import annotations

from dataclasses import replace

from gitsession.cli.render import restoring
from gitsession.verbs.restore import FileAction, RestoreReport


def test_files_left_alone_do_not_count_as_restored() -> None:
    report = RestoreReport(
        session_id="s",
        target=0,
        description="first",
        dry_run=False,
        files=tuple(FileAction(path, "replace", "checkpoint 0 has other bytes") for path in ("a", "b", "c")),
        left=(FileAction("b", "leave", "it changed meanwhile"),),
        safety=1,
        checkpoint=2,
    )
    lines = [*restoring.lines(report)]
    assert [line.split()[:2] for line in lines[:3]] == [["replace", "a"], ["replace", "c"], ["leave", "b"]]
    assert lines[3] == "Restored checkpoint 0 (first): 2 files replaced, 1 left as they are"
    assert lines[-1] == "To try again what was left: pinable-agents session restore s 0"
    limited = replace(report, target=None, paths=("b", "c"))
    assert [*restoring.lines(limited)][-1].endswith("session restore s base --path …")


def test_files_that_are_kept_are_not_those_of_the_checkpoint() -> None:
    report = RestoreReport(
        session_id="s",
        target=None,
        description="before the first change",
        dry_run=False,
        files=(FileAction("a/f", "keep", "belongs to session other"),),
    )
    assert [*restoring.lines(report)] == [
        "keep    a/f  belongs to session other",
        "Nothing to do: the files are those of the base, but for what is kept",
    ]
