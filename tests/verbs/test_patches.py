"""What a patch leaves is what Codex leaves, or it is not foreseen."""

from __future__ import annotations

import pytest

from gitsession.verbs.patches import outcome

FILE = "def one():\n    return 1\n\ndef two():\n    return 1\n"


def left(*lines: str, file: str | None = FILE) -> dict[str, str | None]:
    text = "\n".join(["apply_patch <<'EOF'", "*** Begin Patch", *lines, "*** End Patch", "EOF"])
    return outcome(text, {"app.py": file}.get)


def test_files_that_come_and_go() -> None:
    assert left("*** Add File: a b.txt", "+one", "+", "*** Delete File: app.py") == {
        "a b.txt": "one\n\n",
        "app.py": None,
    }


def test_the_first_place_that_fits_is_changed() -> None:
    after = left("*** Update File: app.py", "@@", "-    return 1", "+    return 2")
    assert after == {"app.py": "def one():\n    return 2\n\ndef two():\n    return 1\n"}


@pytest.mark.parametrize(
    "hunk",
    [
        ["@@ def two():", "-    return 1", "+    return 2"],
        ["@@", " def two():", "-    return 1", "+    return 2"],
        ["@@", "", " def two():", "-    return 1", "+    return 2"],
        ["-    return 1", "+    return 2", "*** End of File"],
    ],
)
def test_what_stands_around_a_change_tells_where(hunk: list[str]) -> None:
    after = {"app.py": "def one():\n    return 1\n\ndef two():\n    return 2\n"}
    assert left("*** Update File: app.py", *hunk) == after


def test_several_hunks_follow_each_other() -> None:
    hunk = ["@@", "-    return 1", "+    return 2"]
    after = {"app.py": "def one():\n    return 2\n\ndef two():\n    return 2\n"}
    assert left("*** Update File: app.py", *hunk, *hunk) == after


def test_a_file_that_moves() -> None:
    after = left("*** Update File: app.py", "*** Move to: main.py", "@@", "-one", "+two", file="one\n")
    assert after == {"app.py": None, "main.py": "two\n"}


@pytest.mark.parametrize("file", ["", "zero\n", "zero"])
def test_lines_without_a_place_go_to_the_end_and_that_ends_a_line(file: str) -> None:
    before = file and "zero\n"
    assert left("*** Update File: app.py", "@@", "+one", file=file) == {"app.py": f"{before}one\n"}


@pytest.mark.parametrize(
    ("hunk", "file"),
    [
        (["@@", "-return 1", "+return 2"], FILE),
        (["@@ def three():", "-    return 1", "+    return 2"], FILE),
        (["@@", "-    return 1", "+    return 2"], None),
    ],
)
def test_what_does_not_fit_is_not_foreseen(hunk: list[str], file: str | None) -> None:
    assert left("*** Add File: b.txt", "+b", "*** Update File: app.py", *hunk, file=file) == {}
