"""What a reviewer is shown, and which of its findings are kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from backends.workspaces import MemoryWorkspace
from support import GitRepo

from gitsession.backends.agent import verdict
from gitsession.backends.base import Finding, FindingsChecked
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.verbs import review


@pytest.fixture
def objects(repo: GitRepo) -> Iterator[Objects]:
    with Objects(Repo.discover(repo.path)) as made:
        yield made


def shown(repo: GitRepo, objects: Objects) -> str:
    base = repo.git("rev-parse", "HEAD^{tree}")
    repo.commit("now")
    return review.manifest(objects.repo, objects, base, repo.git("rev-parse", "HEAD^{tree}"))


def test_nothing_changed(repo: GitRepo, objects: Objects) -> None:
    assert shown(repo, objects) == ""


def test_small_changes_are_shown(repo: GitRepo, objects: Objects) -> None:
    repo.write("src/util.py", "def add(a, b):\n    return a - b\n")
    repo.write("src/new.py", "x = 1\n")
    text = shown(repo, objects)
    assert text.startswith("2 changed files, 2 of them shown below:\nA src/new.py  +1 -0\nM src/util.py  +1 -1\n")
    assert "-    return a + b\n+    return a - b\n" in text
    assert "+x = 1" in text


def test_what_is_not_shown_says_why(repo: GitRepo, objects: Objects) -> None:
    repo.write("big.txt", "line\n" * (review.FILE_LINES + 1))
    repo.write("image.png", b"\0\1\2")
    repo.at("README.md").unlink()
    text = shown(repo, objects)
    assert text.splitlines()[0] == "3 changed files, 0 of them shown below:"
    assert "D README.md  +0 -1  [deleted, folded]" in text
    assert f"[folded: more than {review.FILE_LINES} changed lines, read the file]" in text
    assert "A image.png  [binary, not shown]" in text
    assert "diff --git" not in text


def test_it_is_bounded_however_much_changed(repo: GitRepo, objects: Objects) -> None:
    for number in range(400):
        repo.write(f"d/{number:03}.txt", f"{number}\n" * 100)
    text = shown(repo, objects)
    assert text.startswith("400 changed files, 15 of them shown below:")
    assert "[left out: the changes are too many to show all]" in text
    assert "[100 more files are not named here]" in text
    assert len(text) < 150_000
    repo.write("wide.txt", "x" * 300_000)
    assert len(shown(repo, objects)) < 100_000


FILE = b"package user\n\nfunc Get() {\n\tdb.Query(sql + name)\n}\n\nfunc Put() {\n}\n"


@pytest.mark.parametrize(
    ("file", "line", "quote", "kept_at"),
    [
        ("a.go", 4, "db.Query(sql + name)", 4),
        ("a.go", 4, "\tdb.Query(sql + name)", 4),
        ("a.go", 9, "db.Query(sql + name)", 4),
        ("a.go", 7, "}", 8),
        ("a.go", 6, "}", 5),
        ("a.go", 3, "func Get() {\n    db.Query(sql + name)", 3),
        ("a.go", 4, "db.Query(sql, name)", None),
        ("a.go", 4, "   ", None),
        ("b.go", 1, "package", None),
        ("../a.go", 1, "package", None),
        ("/a.go", 1, "package", None),
    ],
)
def test_a_finding_is_kept_if_its_quote_is_there(file: str, line: int, quote: str, kept_at: int | None) -> None:
    workspace = MemoryWorkspace()
    workspace.held = {b"a.go": FILE}
    checked = review.check(workspace, [Finding(file, line, "warning", "message", quote)])
    assert [finding.line for finding in checked.kept] == ([] if kept_at is None else [kept_at])
    assert len(checked.dropped) == (kept_at is None)


@pytest.mark.parametrize(
    ("severities", "dropped", "words"),
    [
        ((), 0, "No critical issues found"),
        (("warning", "note", "warning"), 0, "No critical issues found (2 warnings, 1 note)"),
        (("critical",), 0, "1 critical issue found"),
        (
            ("critical", "critical", "note"),
            1,
            "2 critical issues found (1 note, 1 finding dropped: the quote is not there)",
        ),
    ],
)
def test_the_verdict_in_one_line(severities: tuple[str, ...], dropped: int, words: str) -> None:
    kept = tuple(Finding("a", 1, severity, "m", "q") for severity in severities)
    assert verdict(FindingsChecked(kept, ("x",) * dropped)) == words
