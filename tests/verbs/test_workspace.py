"""What a model may see of a working tree."""

from __future__ import annotations

import os

import pytest
from support import GitRepo

from gitsession.backends.base import FileProblem
from gitsession.git.repo import Repo
from gitsession.verbs.workspace import Workspace


@pytest.fixture
def workspace(repo: GitRepo) -> Workspace:
    return Workspace(Repo.discover(repo.path))


def test_files_are_those_git_would_see(repo: GitRepo, workspace: Workspace) -> None:
    repo.write(".gitignore", "*.log\n")
    repo.write("x.log", "")
    repo.write("caf\u00e9", "")
    repo.at("src/util.py").unlink()
    assert workspace.files() == [b".gitignore", b"README.md", "caf\u00e9".encode(), b"src/app.py"]


def test_reading(repo: GitRepo, workspace: Workspace) -> None:
    seen = workspace.read(b"src/util.py", 1000)
    assert seen is not None
    assert seen.data == b"def add(a, b):\n    return a + b\n"
    assert seen.oid == repo.git("rev-parse", "HEAD:src/util.py")
    assert not seen.executable
    assert workspace.read(b"src/lost.py", 1000) is None
    assert workspace.read(b"lost/deep", 1000) is None
    with pytest.raises(FileProblem, match="too large"):
        workspace.read(b"src/util.py", 5)
    with pytest.raises(FileProblem, match="is a directory"):
        workspace.read(b"src", 1000)
    with pytest.raises(FileProblem, match="is no directory"):
        workspace.read(b"README.md/x", 1000)


def test_links_and_odd_files_are_not_followed(repo: GitRepo, workspace: Workspace) -> None:
    secret = repo.path.parent / "secret"
    secret.write_text("secret")
    repo.at("link").symlink_to(secret)
    repo.at("up").symlink_to("..")
    os.mkfifo(repo.at("fifo"))
    for path, words in ((b"link", "symbolic link"), (b"up/secret", "a link to one"), (b"fifo", "no regular file")):
        with pytest.raises(FileProblem, match=words):
            workspace.read(path, 1000)
    assert b"secret" not in workspace.search("secret", b"", False, 1000)


def test_searching(repo: GitRepo, workspace: Workspace) -> None:
    repo.write("new.py", "def ADD(): pass\n")
    repo.write(".gitignore", "*.log\n")
    repo.write("x.log", "def add\n")
    assert workspace.search("def add", b"", False, 1000) == b"src/util.py:1:def add(a, b):\n"
    found = workspace.search("def add", b"", True, 1000).splitlines()
    assert sorted(found) == [b"new.py:1:def ADD(): pass", b"src/util.py:1:def add(a, b):"]
    assert workspace.search("def add", b"src", True, 1000) == b"src/util.py:1:def add(a, b):\n"
    assert workspace.search("nowhere", b"", False, 1000) == b""
    assert len(workspace.search(".", b"", False, 10)) == 10
    with pytest.raises(FileProblem, match="the search failed"):
        workspace.search("(", b"", False, 1000)


def test_a_search_starts_no_program_of_the_repository_s(repo: GitRepo, workspace: Workspace) -> None:
    repo.git("config", "diff.evil.textconv", "touch owned; cat")
    repo.write(".gitattributes", "*.py diff=evil\n")
    workspace.search("def", b"", False, 1000)
    assert not repo.at("owned").exists()
