"""Patches and lists of changed files, as they are drawn."""

from __future__ import annotations

import pytest

from gitsession.cli.render import changes, patch, syntax
from gitsession.git.diff import FileChange
from gitsession.git.trees import FILE

HEAD = b"diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n"


def drawn(body: bytes, encodings: dict[bytes, str] | None = None) -> list[str]:
    return list(patch.lines(HEAD + body, encodings or {}))[4:]


def test_lines_stay_as_they_are() -> None:
    assert drawn(b" same\n-old\n+new\n\\ No newline at end of file\n") == [
        "@@ -1 +1 @@", " same", "-old", "+new", "\\ No newline at end of file"
    ]  # fmt: skip


def test_tabs_are_where_the_file_has_them() -> None:
    assert drawn(b"+\tx\n+ab\tx\n+" + "中\tx\n".encode())[1:] == ["+        x", "+ab      x", "+中      x"]


@pytest.mark.parametrize(
    ("body", "encodings", "words", "text"),
    [
        (b"+\xe9t\xe9\n", {}, "(read as cp1252, a guess)", "+été"),
        ("+表\n".encode("shift_jis"), {b"f": "shift_jis"}, "(read as shift_jis)", "+表"),
    ],
)
def test_another_encoding_is_said(body: bytes, encodings: dict[bytes, str], words: str, text: str) -> None:
    lines = drawn(body, encodings)
    assert (lines[0], lines[-1]) == (words, text)


def test_a_line_too_long_to_read_is_cut_with_a_word() -> None:
    (line,) = drawn(b"+" + b"x" * 3_000_000 + b"\n")[1:]
    assert line.endswith("… (cut: the line has 3,000,000 characters)")
    assert len(line) < 2100


def test_names_that_git_quotes() -> None:
    quoted = (
        b'diff --git "a/\\377" "b/\\377"\n--- /dev/null\n+++ "b/\\377"\n@@ -0,0 +1 @@\n+'
        + "表".encode("shift_jis")
        + b"\n"
    )
    assert list(patch.lines(quoted, {b"\xff": "shift_jis"}))[-1] == "+表"


def test_several_files_and_binary_ones() -> None:
    two = HEAD + b"+a\n" + b"diff --git a/g b/g\nindex 1..2\nGIT binary patch\nliteral 2\nJc${NkU|;|M00aO5\n\n"
    assert [line for line in patch.lines(two, {}) if line.startswith("diff")] == [
        "diff --git a/f b/f", "diff --git a/g b/g"
    ]  # fmt: skip
    assert list(patch.lines(b"", {})) == []


def test_code_is_coloured_line_by_line() -> None:
    code = ["", "def f():", '    return "x"', ""]
    coloured = syntax.highlight("f.py", code)
    assert coloured is not None
    assert len(coloured) == 4
    assert "\x1b[" in coloured[1]
    assert syntax.highlight("no-such-language.zzz", code) is None


def change(path: bytes, insertions: int | None, deletions: int | None, **facts: object) -> FileChange:
    fields = {"status": "modified", "old_path": None, "similarity": None, "old_mode": FILE, "new_mode": FILE}
    fields |= {"old_oid": "1", "new_oid": "2"} | facts
    return FileChange(path=path, insertions=insertions, deletions=deletions, **fields)  # type: ignore[arg-type]


def test_stat_is_aligned_by_cells_and_scaled() -> None:
    lines = list(
        changes.stat(
            [
                change("中文.py".encode(), 300, 100),
                change(b"b", None, None),
                change(b"c", 1, 1, note="only line ends changed, LF to CRLF"),
                change(b"new\n", 0, 0, old_path=b"old", status="renamed", similarity=100),
            ],
            80,
        )
    )
    assert lines == [
        " 中文.py      |    400 ++++++++++++++++++++++++++++++----------",
        " b            | binary",
        " c            |      2 +- (only line ends changed, LF to CRLF)",
        " old => new^J |      0",
        " 4 files changed, +301 -101",
    ]


def test_name_status_is_git_s() -> None:
    renamed = change(b"new", 0, 0, old_path=b"old", status="renamed", similarity=93)
    assert list(changes.name_status([change(b"f", 1, 0), renamed])) == ["M\tf", "R093\told\tnew"]
