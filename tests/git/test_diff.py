"""What differs between two trees: records, patches that apply, and how bytes become text."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support import GitRepo

from gitsession.git.diff import FileChange, PatchOptions, attributes, changes, patch, patch_files
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.git.text import decode
from gitsession.git.trees import EXECUTABLE, FILE

TEXT = "".join(f"line {number}\n" for number in range(40))


def compared(user: GitRepo, edit: Callable[[GitRepo], None], *paths: bytes) -> dict[bytes, FileChange]:
    """The records between HEAD and what ``edit`` makes of the working tree."""
    before = user.git("rev-parse", "HEAD^{tree}")
    edit(user)
    user.git("add", "--all")
    repo = Repo.discover(user.path)
    with Objects(repo) as objects:
        return {change.path: change for change in changes(repo, objects, before, user.git("write-tree"), paths)}


def test_statuses_and_counts(repo: GitRepo) -> None:
    def edit(user: GitRepo) -> None:
        user.write("new.txt", "1\n2\n")
        user.at("README.md").unlink()
        user.write("src/app.py", "from util import add\n\nprint(add(1, 3))\n")
        user.at("src/util.py").chmod(0o755)

    found = compared(repo, edit)
    assert [(path, one.status, one.insertions, one.deletions) for path, one in found.items()] == [
        (b"README.md", "deleted", 0, 1),
        (b"new.txt", "added", 2, 0),
        (b"src/app.py", "modified", 1, 1),
        (b"src/util.py", "mode", 0, 0),
    ]
    assert found[b"src/util.py"].note == "now executable"
    assert (found[b"src/util.py"].old_mode, found[b"src/util.py"].new_mode) == (FILE, EXECUTABLE)
    assert found[b"new.txt"].old_oid is None
    assert found[b"new.txt"].new_oid == repo.git("hash-object", "new.txt")


def test_a_rename_is_one_record(repo: GitRepo) -> None:
    repo.write("old name.txt", TEXT)
    repo.commit()

    def edit(user: GitRepo) -> None:
        user.at("old name.txt").rename(user.at("new\nname.txt"))
        user.write("new\nname.txt", TEXT + "one more\n")

    (one,) = compared(repo, edit).values()
    assert (one.status, one.path, one.old_path) == ("renamed", b"new\nname.txt", b"old name.txt")
    assert (one.insertions, one.deletions) == (1, 0)
    assert one.similarity is not None
    assert one.similarity > 90


def test_binary_files_have_no_line_counts(repo: GitRepo) -> None:
    (one,) = compared(repo, lambda user: user.write("b", bytes(range(256))) and None).values()
    assert one.binary
    assert one.status == "added"


def test_a_changed_type_is_said_in_words(repo: GitRepo) -> None:
    def edit(user: GitRepo) -> None:
        user.at("README.md").unlink()
        user.at("README.md").symlink_to("src/app.py")

    assert compared(repo, edit)[b"README.md"].note == "a file became a symbolic link"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("a\nb\n", "a\r\nb\r\n", "only line ends changed, LF to CRLF"),
        ("a\r\nb\r\n", "a\nb\n", "only line ends changed, CRLF to LF"),
        ("a\nb\n", "a\r\nb\n", "only line ends changed, LF to mixed"),
        ("a\nb\n", "c\r\nd\r\n", None),
    ],
)
def test_line_ends_are_said_in_words(repo: GitRepo, old: str, new: str, words: str | None) -> None:
    repo.write("f", old)
    repo.commit()
    (one,) = compared(repo, lambda user: user.write("f", new) and None).values()
    assert one.note == words


def test_a_submodule_is_told_by_its_commits(repo: GitRepo) -> None:
    first, second = "1" * 40, "2" * 40
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{first},sub")
    before = repo.git("write-tree")
    repo.git("update-index", "--cacheinfo", f"160000,{second},sub")
    found = Repo.discover(repo.path)
    (one,) = changes(found, Objects(found), before, repo.git("write-tree"))
    assert (one.status, one.note) == ("submodule", "commit 1111111 became 2222222")


def test_only_the_paths_asked_for(repo: GitRepo) -> None:
    def edit(user: GitRepo) -> None:
        for name in ("src/app.py", "src/sub/x", "other", "*"):
            user.write(name, "changed\n")

    before = repo.git("rev-parse", "HEAD^{tree}")
    assert list(compared(repo, edit, b"src")) == [b"src/app.py", b"src/sub/x"]
    found = Repo.discover(repo.path)
    after = repo.git("write-tree")
    assert [one.path for one in changes(found, Objects(found), before, after, [b"*"])] == [b"*"]


def everything(user: GitRepo) -> None:
    user.write("blob", os.urandom(5000))
    user.write("bi\nnary", b"\0" + os.urandom(3000))
    user.write("no-newline", "x")
    user.write("crlf", "a\r\nb\r\n")
    user.write(b"\xff\xfe name", b"\xe9t\xe9\n")
    user.write("run", "#!/bin/sh\n", 0o755)
    user.at("README.md").chmod(0o755)
    user.at("src/util.py").rename(user.at("src/tools.py"))
    user.at("src/app.py").unlink()
    user.at("link").symlink_to("src/tools.py")


SETTINGS = ["diff.noprefix=true", "diff.mnemonicPrefix=true", "color.ui=always", "diff.external=false"]


@pytest.mark.parametrize("setting", [*SETTINGS, "diff.renames=copies", "core.quotePath=false"])
def test_git_apply_takes_the_patch(repo: GitRepo, tmp_path: Path, setting: str) -> None:
    repo.write("blob", os.urandom(5000))
    start = repo.commit()
    shutil.copytree(repo.path, tmp_path / "copy", symlinks=True)
    name, value = setting.split("=")
    repo.git("config", name, value)
    everything(repo)
    repo.git("add", "--all")
    after = repo.git("write-tree")
    found = Repo.discover(repo.path)
    text = patch(found, start, after)
    copy = GitRepo(tmp_path / "copy")
    copy.git("update-index", "--refresh")
    copy.git("apply", "--index", input=text)
    assert copy.git("write-tree") == after
    copy.git("apply", "--index", "--reverse", input=text)
    assert copy.git("write-tree") == repo.git("rev-parse", f"{start}^{{tree}}")


def test_options_reach_git(repo: GitRepo) -> None:
    start = repo.git("rev-parse", "HEAD")
    repo.write("src/util.py", "def add(a, b):\n        return a + c\n")
    repo.git("add", "--all")
    after, found = repo.git("write-tree"), Repo.discover(repo.path)
    assert b"\n def add" in patch(found, start, after)
    assert b"\n def add" not in patch(found, start, after, options=PatchOptions(context=0))
    assert b"[-b-]{+c+}" in patch(found, start, after, options=PatchOptions(words=True))
    repo.write("src/util.py", "def add(a,  b):\n\treturn a + b\n")
    repo.git("add", "--all")
    assert patch(found, start, repo.git("write-tree"), options=PatchOptions(ignore_space=True)) == b""


def test_what_differs_only_in_white_space_is_not_listed_where_that_is_ignored(repo: GitRepo) -> None:
    for name in ("space", "mode", "line"):
        repo.write(name, "a b\n")
    start = repo.commit()
    repo.write("space", "a   b\n")
    repo.write("mode", "a   b\n", 0o755)
    repo.write("line", "a   b\nnew\n")
    repo.git("add", "--all")
    after, found = repo.git("write-tree"), Repo.discover(repo.path)
    with Objects(found) as objects:
        listed = [one.path for one in changes(found, objects, start, after, ignore_space=True)]
        everything = [one.path for one in changes(found, objects, start, after)]
    assert (listed, everything) == ([b"line", b"mode"], [b"line", b"mode", b"space"])
    shown = patch_files(patch(found, start, after, options=PatchOptions(ignore_space=True)))
    assert [one.head[0] for one in shown] == [b"diff --git a/%b b/%b" % (path, path) for path in listed]


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_every_object_format(tmp_path: Path, object_format: str) -> None:
    user = GitRepo.init(tmp_path / "r", object_format=object_format)
    user.write("f", "1\n")
    user.commit()
    (one,) = compared(user, lambda user: user.write("f", "2\n") and None).values()
    assert one.new_oid is not None
    assert len(one.new_oid) == {"sha1": 40, "sha256": 64}[object_format]


def test_declared_encodings(repo: GitRepo) -> None:
    repo.write(".gitattributes", "*.sjis encoding=shift_jis\n*.u16 working-tree-encoding=UTF-16 encoding=latin-1\n")
    found = attributes(Repo.discover(repo.path), [b"a.sjis", b"b.u16", b"c.txt", b"new\nline.sjis"])
    assert found == {b"a.sjis": "shift_jis", b"b.u16": "utf-8", b"new\nline.sjis": "shift_jis"}
    assert attributes(Repo.discover(repo.path), []) == {}


@pytest.mark.parametrize(
    ("data", "declared", "text", "how"),
    [
        ("é中".encode(), None, "é中", None),
        ("表".encode("shift_jis"), "shift_jis", "表", "shift_jis"),
        ("été".encode("cp1252"), None, "été", "cp1252, a guess"),
        ("会话管理与恢复".encode("gb18030"), None, "会话管理与恢复", "gb18030, a guess"),
        (b"\x81\x8d\x8f", None, "\udc81\udc8d\udc8f", "not text in any encoding we know"),
        (b"\xe9", "no-such", "\udce9", "encoding no-such is unknown"),
        ("é".encode(), "ascii", "é", None),
    ],
)
def test_reading_bytes_as_text(data: bytes, declared: str | None, text: str, how: str | None) -> None:
    assert decode(data, declared) == (text, how)


def test_a_large_change_is_quick(repo: GitRepo) -> None:
    """200,000 lines: the record and the patch, without holding every line as an object."""
    repo.write("big", "".join(f"{number}\n" for number in range(200_000)))
    start = repo.commit()
    repo.write("big", "".join(f"{number} changed\n" for number in range(200_000)))
    repo.git("add", "--all")
    found = Repo.discover(repo.path)
    (one,) = changes(found, Objects(found), start, repo.git("write-tree"))
    assert (one.insertions, one.deletions) == (200_000, 200_000)
