"""Exact bytes through everything that git may do to a file on its way in and out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession.errors import ConflictError

CONTENTS = {
    "lf": b"one\ntwo\n$Id$\n",
    "crlf": b"one\r\ntwo\r\n$Id$\r\n",
    "mixed": b"one\r\ntwo\nthree\r\n",
    "open": b"no final newline",
    "binary": bytes(range(256)) * 3,
    "empty": b"",
}
ATTRIBUTES = {
    "none": "",
    "text": "*.t text\n",
    "eol": "*.t text eol=crlf\n",
    "ident": "*.t ident\n",
    "utf16": "*.t working-tree-encoding=UTF-16\n",
    "driver": "*.t filter=upper\n",
}
UPPER = "tr a-z A-Z"


def settled(repo: GitRepo, autocrlf: str, attributes: str) -> None:
    """The settings in force, and whatever git takes committed and checked out as git would."""
    repo.git("config", "core.autocrlf", autocrlf)
    repo.git("config", "core.safecrlf", "false")
    repo.git("config", "filter.upper.clean", UPPER)
    repo.git("config", "filter.upper.smudge", "cat")
    if ATTRIBUTES[attributes]:
        repo.write(".gitattributes", ATTRIBUTES[attributes])
    for name, content in CONTENTS.items():
        repo.write(f"{name}.t", content)
        # Git refuses text that is not in the encoding it is said to be in.
        repo.git("add", "--all", "--", f"{name}.t", ok=(0, 128))
    repo.commit("files", add=False)
    for name in repo.git("ls-files", "*.t").splitlines():
        repo.at(name).unlink()
    repo.git("checkout", "--", ".")


def turned(repo: GitRepo, by: int) -> None:
    """Every file gets another one's bytes."""
    names = list(CONTENTS)
    for place, name in enumerate(names):
        # Later than git last looked: of two files of one size and time that a filter makes the same it knows one.
        put(repo, f"{name}.t", CONTENTS[names[(place + by) % len(names)]], later=by)
    put(repo, "text.t", ("zwölf\n" * by).encode("utf-16"), later=by)


def put(repo: GitRepo, path: str, data: bytes, later: int) -> None:
    place = repo.write(path, data)
    moment = place.stat().st_mtime + 10 * later
    os.utime(place, (moment, moment))


@pytest.mark.parametrize("attributes", ATTRIBUTES)
@pytest.mark.parametrize("autocrlf", ["true", "input", "false"])
def test_every_content_under_every_setting(repo: GitRepo, autocrlf: str, attributes: str) -> None:
    settled(repo, autocrlf, attributes)
    session = TestSession(repo)
    shots = [repo.snapshot()]
    for by in (1, 2):
        turned(repo, by)
        session.checkpoint()
        shots.append(repo.snapshot())
    index = repo.index_bytes()
    for target in (0, None, 1, 0):
        session.restore(target)
        assert repo.snapshot() == shots[0 if target is None else target + 1]
    assert repo.index_bytes() == index


@pytest.mark.parametrize("attributes", ["text", "eol", "ident", "driver"])
def test_only_the_line_ends_change(repo: GitRepo, attributes: str) -> None:
    """Git makes the same blob of both, so the trees are equal; the files are not."""
    settled(repo, "false", attributes)
    session = TestSession(repo)
    shots = [repo.snapshot()]
    for old, new in ((b"\n", b"\r\n"), (b"\r\n", b"\n")):
        data = repo.at("lf.t").read_bytes()
        repo.write("lf.t", data.replace(b"\r\n", b"\n").replace(b"\n", new) if old == b"\n" else data.replace(old, new))
        session.checkpoint()
        shots.append(repo.snapshot())
    for target in (0, 1, None, 0):
        session.restore(target)
        assert repo.snapshot() == shots[0 if target is None else target + 1]


@pytest.mark.parametrize("before", ATTRIBUTES)
@pytest.mark.parametrize("after", ["none", "eol", "driver"])
def test_attributes_that_change_on_the_way(repo: GitRepo, before: str, after: str) -> None:
    settled(repo, "false", before)
    session = TestSession(repo)
    base = repo.snapshot()
    repo.write(".gitattributes", ATTRIBUTES[after])
    turned(repo, 1)
    session.checkpoint()
    changed = repo.snapshot()
    session.restore(None)
    assert repo.snapshot() == base
    session.undo()
    assert repo.snapshot() == changed


def test_a_file_that_the_settings_of_another_day_store_differently_is_no_drift(repo: GitRepo) -> None:
    repo.write(".gitattributes", "* text=auto\n")
    repo.write("a", "a\n")
    repo.commit("attributes")
    session = TestSession(repo)
    base = repo.snapshot()
    repo.at(".gitattributes").unlink()
    repo.write("a", "b\n")
    session.checkpoint()
    repo.write("k", "k\r\n")
    before = repo.snapshot()
    session.restore(None)
    assert repo.snapshot() == {**base, b"k": before[b"k"]}
    session.undo()
    assert repo.snapshot() == before


def test_line_ends_that_git_converts_no_more_are_no_drift(repo: GitRepo) -> None:
    settled(repo, "true", "none")
    session = TestSession(repo)
    base = repo.snapshot()
    put(repo, "crlf.t", b"changed\r\n", later=1)
    put(repo, "mixed.t", b"changed\r\n", later=1)
    session.checkpoint()
    repo.git("config", "core.autocrlf", "false")
    report = session.restore(None)
    assert {file.path: file.action for file in report.files} == {"crlf.t": "replace", "mixed.t": "replace"}
    assert repo.snapshot() == base


def test_a_driver_whose_settings_are_gone_is_no_drift(repo: GitRepo) -> None:
    settled(repo, "false", "driver")
    session = TestSession(repo)
    base = repo.snapshot()
    put(repo, "lf.t", b"changed\n", later=1)
    session.checkpoint()
    repo.git("config", "--remove-section", "filter.upper")
    put(repo, "crlf.t", repo.at("crlf.t").read_bytes(), later=2)
    report = session.restore(None)
    assert {file.path: file.action for file in report.files} == {"lf.t": "replace"}
    assert repo.snapshot() == base


def test_a_renormalized_file_is_the_same_file(repo: GitRepo) -> None:
    repo.write("k", "k\r\n")
    repo.commit("crlf")
    session = TestSession(repo)
    repo.write(".gitattributes", "* text=auto\n")
    repo.git("add", "--renormalize", ".")
    session.checkpoint()
    report = session.restore(None)
    assert {file.path: file.action for file in report.files} == {".gitattributes": "delete"}


def test_the_mode_of_a_file_whose_bytes_are_kept_beside_the_tree(repo: GitRepo) -> None:
    settled(repo, "true", "none")
    session = TestSession(repo)
    put(repo, "mixed.t", CONTENTS["mixed"] + b"more\r\n", later=1)
    session.checkpoint()
    repo.at("mixed.t").chmod(0o755)
    session.checkpoint()
    before = repo.snapshot()
    session.restore(0)
    assert not repo.at("mixed.t").stat().st_mode & 0o111
    session.undo()
    assert repo.snapshot() == before


BIG = b"words that a driver turns to capitals\n" * 40_000


def smudged_by_driver(repo: GitRepo) -> TestSession:
    """A session whose base has a file that a driver made, and that is too large to be stored a second time."""
    repo.git("config", "filter.upper.clean", UPPER)
    repo.git("config", "filter.upper.smudge", "tr A-Z a-z")
    repo.write(".gitattributes", ATTRIBUTES["driver"])
    repo.write("big.t", BIG)
    repo.commit("files")
    repo.at("big.t").unlink()
    repo.git("checkout", "--", "big.t")
    session = TestSession(repo)
    assert repo.git("cat-file", "blob", "refs/pinable/s1:big.t").isupper()
    return session


def test_a_driver_makes_the_bytes_again(repo: GitRepo) -> None:
    session = smudged_by_driver(repo)
    put(repo, "big.t", b"changed\n", later=1)
    session.checkpoint()
    session.restore(None)
    assert repo.at("big.t").read_bytes() == BIG


def test_a_driver_that_the_files_no_longer_name(repo: GitRepo) -> None:
    session = smudged_by_driver(repo)
    put(repo, "big.t", b"changed\n", later=1)
    repo.at(".gitattributes").unlink()
    session.checkpoint()
    session.restore(None)
    assert repo.at("big.t").read_bytes() == BIG
    session.undo()
    assert not repo.at(".gitattributes").exists()


def test_a_driver_that_is_gone_is_told_before_anything_is_touched(repo: GitRepo) -> None:
    session = smudged_by_driver(repo)
    put(repo, "big.t", b"changed\n", later=1)
    repo.write("README.md", "changed\n")
    session.checkpoint()
    changed = repo.snapshot()
    repo.git("config", "filter.upper.smudge", "tr A-Z n-za-m")
    with pytest.raises(ConflictError, match=r"big\.t"):
        session.restore(None)
    assert repo.snapshot() == changed
    session.restore(None, "README.md")
    assert repo.at("README.md").read_text() == "# sample\n"


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")
def test_large_file_storage(tmp_path: Path) -> None:
    repo = GitRepo.init(tmp_path / "r")
    repo.git("lfs", "install", "--local", "--skip-repo")
    repo.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    repo.write("one.bin", os.urandom(300_000))
    repo.commit()
    session = TestSession(repo)
    shots = [repo.snapshot()]
    for _ in range(2):
        repo.write("one.bin", os.urandom(200_000))
        repo.write("two.bin", os.urandom(1000))
        session.checkpoint()
        shots.append(repo.snapshot())
    for target in (0, None, 1):
        session.restore(target)
        assert repo.snapshot() == shots[0 if target is None else target + 1]
    assert b"git-lfs" in repo.git_bytes("cat-file", "blob", "refs/pinable/s1:one.bin")
