"""The repository is found, and git is run on it and on nothing else."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from support import GitRepo

from gitsession.errors import BareRepository, GitFailed, NotARepository, RepositoryError, UnsupportedRepository
from gitsession.git.program import SCRUBBED
from gitsession.git.repo import Head, Repo, lock_taken, real_place


def test_discover_from_a_directory_below(repo: GitRepo) -> None:
    """All three places are absolute, from anywhere in the worktree."""
    found = Repo.discover(repo.path / "src")
    assert found == Repo(repo.path, repo.path / ".git", repo.path / ".git", "sha1", "files")


@pytest.mark.parametrize("name", ["sp ace", "new\nline", "\udcff\udcfe", "--bare"])
def test_discover_at_odd_names(tmp_path: Path, name: str) -> None:
    """A worktree's name may hold any byte."""
    repo = GitRepo.init(tmp_path / name)
    assert Repo.discover(repo.path).worktree == repo.path
    assert Repo.discover(repo.path).head() == Head(None, "main")


def test_discover_through_a_link(repo: GitRepo, tmp_path: Path) -> None:
    """The worktree is where it really is."""
    (tmp_path / "link").symlink_to(repo.path)
    assert Repo.discover(tmp_path / "link" / "src").worktree == repo.path


def test_a_place_is_a_path_by_its_name(repo: GitRepo, tmp_path: Path) -> None:
    """Links that lead into the worktree are followed; those in it may have been directories once."""
    (tmp_path / "out").mkdir()
    (tmp_path / "way").symlink_to(repo.at("src"))
    repo.at("link").symlink_to("../out")
    repo.at("loop").symlink_to("loop")
    found = Repo.discover(repo.path)
    asked = {
        repo.path: b"",
        repo.path / "link": b"link",
        repo.path / "link/f": b"link/f",
        repo.path / "loop/f": b"loop/f",
        repo.path / "gone/deep": b"gone/deep",
        repo.path / "src/../README.md": b"README.md",
        tmp_path / "way/app.py": b"src/app.py",
        tmp_path / "way/../repo/link/f": b"link/f",
        repo.path / "link/../../out/f": None,
        repo.path.parent: None,
        tmp_path / "out/f": None,
    }
    assert {place: found.path_of(place) for place in asked} == asked


def test_a_real_place_has_no_link_above_it(repo: GitRepo) -> None:
    repo.at("link").symlink_to("src")
    repo.at("src/inner").symlink_to("app.py")
    assert real_place(repo.at("link/inner")) == repo.at("src/inner")


def test_discover_a_linked_worktree(repo: GitRepo, tmp_path: Path) -> None:
    """Its own git directory, the common one of all."""
    repo.git("worktree", "add", "-q", "-b", "side", tmp_path / "side")
    found = Repo.discover(tmp_path / "side")
    assert found.worktree == tmp_path / "side"
    assert found.git_dir == repo.path / ".git/worktrees/side"
    assert found.common_dir == repo.path / ".git"
    assert found.head().branch == "side"
    assert found.libgit() is not None
    assert found.private_dir == found.git_dir / "pinable"


def test_discover_a_worktree_of_a_bare_repository(repo: GitRepo, tmp_path: Path) -> None:
    """A bare repository may well have worktrees."""
    repo.git("clone", "-q", "--bare", repo.path, tmp_path / "bare.git")
    GitRepo(tmp_path / "bare.git").git("worktree", "add", "-q", tmp_path / "work", "main")
    assert Repo.discover(tmp_path / "work").common_dir == tmp_path / "bare.git"


def test_discover_a_submodule(repo: GitRepo, tmp_path: Path) -> None:
    """A submodule is a repository of its own."""
    other = GitRepo.init(tmp_path / "other")
    other.commit("first")
    repo.git("submodule", "--quiet", "add", other.path, "sub")
    found = Repo.discover(repo.path / "sub")
    assert found.worktree == repo.path / "sub"
    assert found.git_dir == repo.path / ".git/modules/sub"


def test_a_bare_repository_is_refused(tmp_path: Path) -> None:
    """There are no files in it."""
    GitRepo.init(tmp_path / "bare.git", "--bare")
    with pytest.raises(BareRepository) as caught:
        Repo.discover(tmp_path / "bare.git")
    assert caught.value.hint


def test_no_repository(tmp_path: Path, repo: GitRepo) -> None:
    """Each way of not being in a worktree says what is wrong."""
    with pytest.raises(NotARepository, match="is not in a git repository") as caught:
        Repo.discover(tmp_path)
    assert "git init" in (caught.value.hint or "")
    with pytest.raises(NotARepository, match="inside a git directory"):
        Repo.discover(repo.path / ".git")
    with pytest.raises(NotARepository, match="is not a directory"):
        Repo.discover(tmp_path / "missing")
    with pytest.raises(NotARepository, match="is not a directory"):
        Repo.discover(repo.path / "README.md")


@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="needs to give files away")
def test_another_owner_is_explained(repo: GitRepo) -> None:
    """The hint is the command that git itself proposes."""
    for path in (repo.path, repo.path / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(UnsupportedRepository, match="belongs to another user") as caught:
        Repo.discover(repo.path)
    assert f"git config --global --add safe.directory {repo.path}" in (caught.value.hint or "")
    repo.git("config", "--global", "--add", "safe.directory", repo.path)
    assert Repo.discover(repo.path).worktree == repo.path


@pytest.mark.parametrize(
    ("config", "words"),
    [(["core.repositoryformatversion=9"], "Expected git repo version"), (["extensions.fancy=1"], "extension.* fancy")],
)
def test_an_unknown_format_is_refused(repo: GitRepo, config: list[str], words: str) -> None:
    """In git's words."""
    for line in ["core.repositoryformatversion=1", *config]:
        repo.git("config", *line.split("="))
    with pytest.raises(UnsupportedRepository, match=words):
        Repo.discover(repo.path)


def test_git_works_where_libgit2_refuses(tmp_path: Path) -> None:
    """SHA-256."""
    repo = GitRepo.init(tmp_path / "repo", object_format="sha256")
    head = repo.commit("first")
    found = Repo.discover(repo.path)
    assert found.object_format == "sha256"
    assert found.libgit() is None
    assert found.head() == Head(head, "main")


def test_head_states(repo: GitRepo) -> None:
    """On a branch, detached, before the first commit."""
    found = Repo.discover(repo.path)
    oid = repo.git("rev-parse", "HEAD")
    assert found.head() == Head(oid, "main")
    repo.git("checkout", "-q", "-b", "topic/ünïcode")
    assert found.head() == Head(oid, "topic/ünïcode")
    repo.git("checkout", "-q", "--detach")
    assert found.head() == Head(oid, None)
    repo.git("checkout", "-q", "--orphan", "fresh")
    assert found.head() == Head(None, "fresh")


def test_the_scrubbed_names_are_all_that_git_lists(repo: GitRepo) -> None:
    """The constant keeps up with the installed git."""
    assert set(repo.git("rev-parse", "--local-env-vars").split()) <= SCRUBBED


def test_a_hooks_environment_leads_nowhere_else(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What git gives a hook of another repository does not change which one is worked on, nor with which index."""
    other = GitRepo.init(tmp_path / "other")
    other.write("mine", "1")
    other.commit("other")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    monkeypatch.setenv("GIT_PREFIX", "src/")
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.path / ".git/objects"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    found = Repo.discover(repo.path)
    assert found.worktree == repo.path
    assert found.git("ls-files", "-z").split(b"\0")[:-1] == [b"README.md", b"src/app.py", b"src/util.py"]


def test_git_in_a_real_hook_of_a_linked_worktree(repo: GitRepo, tmp_path: Path) -> None:
    """There GIT_DIR is set, and a partial commit has an index of its own."""
    side = GitRepo(tmp_path / "side")
    repo.git("worktree", "add", "-q", "-b", "side", side.path)
    script = tmp_path / "look.py"
    script.write_text(
        "from pathlib import Path\n"
        "from gitsession.git.repo import Repo\n"
        f"side, main = Repo.discover(Path.cwd()), Repo.discover(Path({str(repo.path)!r}))\n"
        f"Path({str(tmp_path / 'seen')!r}).write_text(repr((str(side.worktree), side.head().branch,"
        " str(main.worktree), main.head().branch, main.git('diff', '--cached', '--name-only'))))\n"
    )
    hook = repo.path / ".git/hooks/pre-commit"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{script}'\n")
    hook.chmod(0o755)
    side.write("README.md", "changed\n")
    side.git("commit", "-q", "-m", "partial", "--", "README.md")
    assert (tmp_path / "seen").read_text() == repr((str(side.path), "side", str(repo.path), "main", b""))


def test_git_runs_no_hooks_and_writes_no_reflog(repo: GitRepo, tmp_path: Path) -> None:
    """A reference-transaction hook that forbids everything is not asked."""
    hook = repo.path / ".git/hooks/reference-transaction"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\nexit 1\n")
    hook.chmod(0o755)
    repo.git("config", "core.logAllRefUpdates", "always")
    found = Repo.discover(repo.path)
    found.git("update-ref", "refs/pinable/x", "HEAD")
    assert not (tmp_path / "ran").exists()
    assert not (repo.path / ".git/logs/refs/pinable").exists()


def test_pathspecs_are_literal(repo: GitRepo) -> None:
    """A file may have any name."""
    repo.write("*.py", "")
    assert Repo.discover(repo.path).git("ls-files", "-o", "-z", "--", "*.py") == b"*.py\0"


def test_a_private_index_stands_in_for_the_users(repo: GitRepo, tmp_path: Path) -> None:
    """The user's index stays as it is."""
    before = repo.index_bytes()
    found = Repo.discover(repo.path)
    found.git("read-tree", "--empty", index=tmp_path / "index")
    assert found.git("ls-files", index=tmp_path / "index") == b""
    assert repo.index_bytes() == before


def test_input_status_and_failure(repo: GitRepo) -> None:
    """Bytes in, bytes out; an unexpected status carries git's words."""
    found = Repo.discover(repo.path)
    assert found.git("hash-object", "--stdin", input=b"hello\n") == b"ce013625030ba8dba906f756967f9e9ca394464a\n"
    assert found.git("rev-parse", "--verify", "--quiet", "nothing", ok=(1,)) == b""
    with pytest.raises(GitFailed, match=r"git rev-parse failed \(128\): fatal: Needed a single revision"):
        found.git("rev-parse", "--verify", "nothing")


def test_two_gits_at_once(repo: GitRepo) -> None:
    """Started, then finished in turn, each with its own input."""
    found = Repo.discover(repo.path)
    with found.start("hash-object", "--stdin") as one, found.start("hash-object", "--stdin") as two:
        second = two.finish(b"two")
        first = one.finish(b"one")
    assert first != second
    assert first == found.git("hash-object", "--stdin", input=b"one")


def test_a_git_that_is_not_finished_is_ended(repo: GitRepo) -> None:
    """No process outlives its block."""
    with Repo.discover(repo.path).start("cat-file", "--batch") as running:
        process = running.process
    assert process.returncode is not None


def test_a_lock_is_waited_for(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs when the holder lets go, which it does while we wait."""
    lock = repo.path / ".git/index.lock"
    lock.touch()
    monkeypatch.setattr(time, "sleep", lambda _: lock.unlink())
    Repo.discover(repo.path).git("update-index", "--force-remove", "README.md")
    assert "README.md" not in repo.git("ls-files")


def test_a_lock_that_stays_is_an_error(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be told from other failures, and is left alone."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    lock = repo.path / ".git/index.lock"
    lock.touch()
    with pytest.raises(GitFailed) as caught:
        Repo.discover(repo.path).git("update-index", "--force-remove", "README.md")
    assert lock_taken(caught.value)
    assert lock.exists()
    assert 1 < sum(waited) < 2


def test_no_git_program(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said as it is, with what to do; and so is a worktree that went away."""
    found = Repo.discover(repo.path)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(RepositoryError, match="the git program is not found") as caught:
            found.git("status")
        assert "install git" in (caught.value.hint or "")
    repo.path.rename(tmp_path / "away")
    with pytest.raises(RepositoryError, match="is not there any more"):
        found.git("status")


def test_the_private_directory_is_private(repo: GitRepo) -> None:
    """Nobody else can look into it."""
    private = Repo.discover(repo.path).private_dir
    assert private == repo.path / ".git/pinable"
    assert private.stat().st_mode & 0o777 == 0o700


def test_a_private_directory_that_cannot_be_made(repo: GitRepo) -> None:
    repo.at(".git/pinable").write_text("a file")
    with pytest.raises(RepositoryError, match=r"cannot make .*/\.git/pinable: File exists") as caught:
        _ = Repo.discover(repo.path).private_dir
    assert caught.value.hint == "make the git directory writable"
