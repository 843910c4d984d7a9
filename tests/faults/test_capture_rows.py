"""What breaks trackers when they look at a repository, kind by kind: the rest is captured, the bad is listed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from capturing import Session, paths_of, skipped
from support import GitRepo

from gitsession import paths
from gitsession.errors import BareRepository, NotARepository, UnsupportedRepository
from gitsession.git import trees
from gitsession.git.capture import capture
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo

NOBODY = 65534
OPEN: list[Session] = []


def start(repo: GitRepo, name: str = "s") -> Session:
    """A session that is closed after the test."""
    OPEN.append(Session(repo, name))
    return OPEN[-1]


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def session(repo: GitRepo) -> Session:
    return start(repo)


def everything(repo: GitRepo) -> dict[bytes, tuple[int, bytes]]:
    """What a tree of the whole working tree has to hold."""
    modes = {"file": trees.FILE, "link": trees.LINK}
    return {
        path: (trees.EXECUTABLE if kind == "file" and mode & 0o100 else modes[kind], data)
        for path, (kind, mode, data) in repo.snapshot().items()
        if kind in modes
    }


def assert_works_like_a_plain_one(repo: GitRepo, session: Session) -> None:
    """Base, change, checkpoint: exact, sound, and nothing of the user's moved."""
    state = repo.user_state()
    base = session.checkpoint()
    assert session.files(base) == everything(repo)
    repo.write("src/app.py", "changed\n")
    repo.write("new/file", "new\n")
    repo.at("README.md").unlink(missing_ok=True)
    by_paths = session.known(b"src/app.py", b"new/file", b"README.md", keep=False)
    captured = session.checkpoint()
    assert captured.tree == by_paths.tree
    assert session.files(captured) == everything(repo)
    assert captured.skipped == []
    assert not session.scan().differs
    assert repo.user_state() == state
    repo.git("fsck", "--strict")
    assert repo.tree(session.ledger.ref).keys() == everything(repo).keys()


# Nested repositories and submodules


def nested_with_commits(repo: GitRepo, tmp_path: Path) -> None:
    inner = GitRepo.init(repo.at("inner"))
    inner.write("file", "x")
    inner.commit()


def nested_without_commits(repo: GitRepo, tmp_path: Path) -> None:
    GitRepo.init(repo.at("inner")).write("file", "x")


def nested_by_git_file(repo: GitRepo, tmp_path: Path) -> None:
    GitRepo.init(repo.at("inner"), f"--separate-git-dir={tmp_path / 'elsewhere'}").write("file", "x")


def nested_by_clone(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("clone", "--quiet", str(repo.path), "inner")


KINDS = [nested_with_commits, nested_without_commits, nested_by_git_file, nested_by_clone]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("when", ["before", "mid-session"])
def test_nested_repository(
    repo: GitRepo, session: Session, tmp_path: Path, make: Callable[[GitRepo, Path], None], when: str
) -> None:
    if when == "mid-session":
        session.checkpoint()
    make(repo, tmp_path)
    repo.write("other", "x")
    repo.write("deep/beside", "x")
    repo.at("inner").rename(repo.at("deep/inner"))
    captured = session.checkpoint()
    assert skipped(captured) == {b"deep/inner": "nested repository"}
    assert set(session.entries(captured)) == {b"README.md", b"src/app.py", b"src/util.py", b"other", b"deep/beside"}
    if when == "mid-session":
        assert skipped(session.known(b"deep/inner/file", keep=False)) == {b"deep/inner": "nested repository"}
    assert not session.scan().differs


def test_what_only_looks_like_a_repository_is_captured(repo: GitRepo, session: Session) -> None:
    repo.write("broken/file", "x")
    repo.at("broken/.git").mkdir()
    repo.write("dangling/.git", "gitdir: /nowhere\n")
    repo.write("dangling/file", "x")
    captured = session.checkpoint()
    assert captured.skipped == []
    assert {b"broken/file", b"dangling/file"} <= set(session.entries(captured))
    assert session.known(b"broken/file", b"dangling/file").tree == captured.tree


def test_a_directory_that_becomes_a_repository_stays_captured(repo: GitRepo, session: Session) -> None:
    repo.write("untracked/a", "1")
    session.checkpoint()
    for name in ("untracked", "src"):
        GitRepo.init(repo.at(name))
    repo.write("untracked/a", "2")
    repo.write("untracked/b", "2")
    repo.write("src/app.py", "2")
    by_paths = session.known(b"untracked/a", b"untracked/b", b"src/app.py", keep=False)
    captured = session.checkpoint()
    assert captured.tree == by_paths.tree
    assert paths_of(captured) == [b"src/app.py", b"untracked/a", b"untracked/b"]
    assert captured.skipped == []


@pytest.fixture
def with_submodule(repo: GitRepo, tmp_path: Path) -> GitRepo:
    library = GitRepo.init(tmp_path / "library")
    library.write("lib.py", "1\n")
    library.commit()
    repo.git("submodule", "--quiet", "add", str(library.path), "lib")
    repo.commit("With a submodule")
    return repo


def test_submodule(with_submodule: GitRepo) -> None:
    repo = with_submodule
    session = start(repo)
    base = session.checkpoint()
    module = GitRepo(repo.at("lib"))
    first = module.git("rev-parse", "HEAD")
    assert session.entries(base)[b"lib"] == trees.Entry(trees.GITLINK, first)
    assert base.skipped == []
    module.write("lib.py", "2\n")
    dirty = session.checkpoint()
    assert skipped(dirty) == {b"lib": "submodule has uncommitted changes"}
    assert not dirty.differs
    assert skipped(session.known(b"lib/lib.py", keep=False)) == skipped(dirty)
    second = module.commit()
    repo.write("other", "x")
    by_paths = session.known(b"lib", b"other", keep=False)
    moved = session.checkpoint()
    assert moved.tree == by_paths.tree
    assert session.entries(moved)[b"lib"].oid == second
    assert paths_of(moved) == [b"lib", b"other"]
    assert moved.skipped == []
    module.write("new", "x")
    assert skipped(session.checkpoint()) == {b"lib": "submodule has uncommitted changes"}


def test_submodule_that_is_not_there(with_submodule: GitRepo) -> None:
    repo = with_submodule
    session = start(repo)
    base = session.checkpoint()
    repo.git("submodule", "--quiet", "deinit", "--force", "lib")
    assert session.checkpoint().tree == base.tree


@pytest.mark.parametrize("way", ["scan", "known paths"])
def test_a_directory_in_the_place_of_a_submodule_is_one_like_any_other(with_submodule: GitRepo, way: str) -> None:
    repo = with_submodule
    session = start(repo)
    session.checkpoint()
    repo.git("rm", "-r", "--quiet", "--force", "lib")
    repo.write("lib/own.py", "plain\n")
    captured = session.scan() if way == "scan" else session.known(b"lib", b"lib/own.py", b".gitmodules")
    assert paths_of(captured) == [b".gitmodules", b"lib", b"lib/own.py"]
    assert session.files(captured)[b"lib/own.py"] == (trees.FILE, b"plain\n")
    assert captured.skipped == []
    assert not session.checkpoint().differs


@pytest.mark.parametrize("kind", ["points nowhere", "is empty"])
def test_broken_submodule(with_submodule: GitRepo, kind: str) -> None:
    repo = with_submodule
    session = start(repo)
    base = session.checkpoint()
    if kind == "points nowhere":
        repo.write("lib/.git", "gitdir: nowhere\n")
    else:
        repo.at("lib/.git").unlink()
        repo.at("lib/.git").mkdir()
    repo.write("README.md", "2\n")
    captured = session.checkpoint()
    assert paths_of(captured) == [b"README.md"]
    assert session.entries(captured)[b"lib"] == session.entries(base)[b"lib"]
    by_path = session.known(b"lib", keep=False)
    assert list(skipped(by_path)) == [b"lib"]
    assert not by_path.differs


def test_a_submodule_that_the_index_forgot_stays_followed(with_submodule: GitRepo) -> None:
    repo = with_submodule
    session = start(repo)
    session.checkpoint()
    repo.git("rm", "--quiet", "--cached", "lib")
    captured = session.checkpoint()
    assert not captured.differs
    assert captured.skipped == []


def test_submodule_in_the_place_of_files(repo: GitRepo, session: Session, tmp_path: Path) -> None:
    repo.write("lib/lib.py", "1\n")
    session.checkpoint()
    shutil.rmtree(repo.at("lib"))
    GitRepo.init(tmp_path / "library").commit()
    repo.git("submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    captured = session.checkpoint()
    assert paths_of(captured) == [b".gitmodules", b"lib", b"lib/lib.py"]
    assert session.entries(captured)[b"lib"].mode == trees.GITLINK


# Files that are none, and files that cannot be read


def test_special_files_and_odd_links(repo: GitRepo, session: Session) -> None:
    repo.write(".gitignore", "*.ignored\n")
    for path in ("fifo", "src/fifo", "new/deep/fifo", "x.ignored", "new/x.ignored"):
        repo.at(path).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(repo.at(path))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(repo.at("src/socket")))
        repo.at("dangling").symlink_to("nowhere")
        repo.at("loop").symlink_to("loop")
        repo.at("new/up").symlink_to("..")
        repo.write("new/file", "x")
        captured = session.checkpoint()
    expected = {b"fifo": "fifo", b"src/fifo": "fifo", b"new/deep/fifo": "fifo", b"src/socket": "socket"}
    assert skipped(captured) == expected
    assert session.files(captured) == everything(repo)
    assert skipped(session.checkpoint()) == expected, "they are listed at every checkpoint"
    repo.at("fifo").unlink()
    assert b"fifo" not in skipped(session.checkpoint())


def test_a_fifo_in_the_place_of_a_file(repo: GitRepo, session: Session) -> None:
    base = session.checkpoint()
    repo.at("README.md").unlink()
    os.mkfifo(repo.at("README.md"))
    captured = session.checkpoint()
    assert skipped(captured) == {b"README.md": "fifo"}
    assert captured.tree == base.tree


AS_NOBODY = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import pygit2
from capturing import Session, skipped
from gitsession import paths
from support import GitRepo
# What is imported may be where only root can read.
if os.getuid() == 0:
    os.setgid({uid}); os.setuid({uid})
session = Session(GitRepo(Path.cwd()))
base = session.checkpoint()
Path("src/app.py").write_text("changed\\n")
for command in sys.argv[1:]:
    os.chmod(command, 0)
captured = session.checkpoint()
print(json.dumps({{
    "skipped": {{paths.encode(path): reason for path, reason in skipped(captured).items()}},
    "changed": [paths.encode(change.path) for change in captured.changes],
    "paths": [paths.encode(path) for path in session.entries(captured)],
}}))
"""


def test_unreadable_files_and_directories(repo: GitRepo) -> None:
    """Tracked and untracked, as a normal user: root reads everything."""
    repo.write("untracked", "x")
    repo.write("kept/file", "x")
    repo.commit()
    repo.write("new/secret", "x")
    repo.write("new/dir/file", "x")
    for directory in (repo.path, *repo.path.parents):
        if directory.stat().st_uid == os.getuid() and len(directory.parts) > 2:
            directory.chmod(0o755)
    if os.getuid() == 0:
        for directory, names, files in os.walk(repo.path):
            for name in [".", *names, *files]:
                os.chown(os.path.join(directory, name), NOBODY, NOBODY)
    code = AS_NOBODY.format(uid=NOBODY, tests=str(Path(__file__).parents[1]))
    hidden = ["README.md", "kept", "new/secret", "new/dir"]
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *hidden],
            cwd=repo.path,
            capture_output=True,
            encoding="utf-8",
            env=os.environ | {"HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": os.devnull},
        )
    finally:
        for name in hidden:
            repo.at(name).chmod(0o755)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["skipped"] == {
        "README.md": "unreadable: Permission denied",
        "kept": "directory unreadable",
        "new/dir": "directory unreadable",
        "new/dir/file": "unreadable: Permission denied",
        "new/secret": "unreadable: Permission denied",
    }
    assert found["changed"] == ["src/app.py"]
    assert {"README.md", "kept/file", "new/secret", "new/dir/file"} <= set(found["paths"]), "as they were at the base"


# Many, large, and oddly named


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of each file that is read into an object."""
    sizes = []
    add_file = Objects.add_file

    def count(self: Objects, fd: int, size: int, held: str | None = None) -> str:
        sizes.append(size)
        return add_file(self, fd, size, held)

    monkeypatch.setattr(Objects, "add_file", count)
    return sizes


def test_a_large_untracked_file_is_read_once(repo: GitRepo, session: Session, reads: list[int]) -> None:
    repo.write("large", os.urandom(9_000_000))
    session.checkpoint()
    for number in range(10):
        repo.write("src/app.py", f"{number}\n")
        session.checkpoint()
    assert reads.count(9_000_000) == 1
    repo.write("large", b"small")
    assert paths_of(session.checkpoint()) == [b"large"]


def test_a_file_over_the_limit_is_never_read(repo: GitRepo, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with repo.at("huge").open("wb") as file:
        file.truncate(61 * 1024 * 1024)
    monkeypatch.setattr(Objects, "add_file", None)
    captured = session.checkpoint()
    assert skipped(captured) == {b"huge": "too large (61 MB, capture.max_file_size is 50 MB)"}


def many_files(repo: GitRepo, session: Session, count: int) -> None:
    session.checkpoint()
    for number in range(count):
        repo.write(f"many/{number % 100}/{number}", f"{number}\n")
    captured = session.checkpoint()
    assert len(captured.changes) == count
    assert captured.skipped == []
    repo.write("many/1/1", "changed\n")
    assert paths_of(session.checkpoint()) == [b"many/1/1"]
    repo.at("many/2/2").unlink()
    assert paths_of(session.checkpoint()) == [b"many/2/2"]
    repo.git("fsck", "--strict")


def test_many_small_untracked_files(repo: GitRepo, session: Session, reads: list[int]) -> None:
    many_files(repo, session, 1000)
    assert len(reads) >= 1000
    reads.clear()
    session.scan()
    assert len(reads) < 10, "what did not change is not read again"


@pytest.mark.slow
def test_fifty_thousand_small_untracked_files(repo: GitRepo, session: Session) -> None:
    started = time.monotonic()
    many_files(repo, session, 50_000)
    assert time.monotonic() - started < 100


ODD = [
    b"new\nline", b"tab\t", b'quo"te', b'"quoted"', b"back\\slash", b"-dash", b"--", b"dot.", b"space ", b":(glob)*",
    b":!x", b"*", b"[a]", b"#", b"~", b"\xff\xfe", b"a\x80/\xff", "\u00e4".encode(), "a\u0308".encode(),
    "日本語/文件.txt".encode(),
    "🎉".encode(), b"\x1b[31m", b"\x7f", b"...", b".gitfoo", b"a" * 255, b"CON", b"%s", b"$(x)", b"a:b",
]  # fmt: skip


def test_odd_names(repo: GitRepo, session: Session) -> None:
    base = session.checkpoint()
    for name in ODD:
        repo.write(name, b"1 " + name)
        repo.write(b"src/" + name, b"1 " + name)
    by_paths = session.known(*ODD, *(b"src/" + name for name in ODD), keep=False)
    captured = session.checkpoint()
    assert captured.tree == by_paths.tree
    assert session.files(captured) == everything(repo)
    assert captured.skipped == []
    written = [paths.encode(change.path) for change in captured.changes]
    assert [paths.decode(text) for text in json.loads(json.dumps(written))] == sorted(paths_of(captured))
    repo.git("fsck", "--strict")
    for name in ODD:
        repo.at(name).unlink()
        repo.at(b"src/" + name).unlink()
    assert session.checkpoint().tree == base.tree


# Kinds of repositories


def test_sparse_checkout_in_cone_mode(repo: GitRepo) -> None:
    sparse(repo, "--cone")


def test_sparse_checkout_with_a_sparse_index(repo: GitRepo) -> None:
    sparse(repo, "--cone", "--sparse-index")


def test_sparse_checkout_by_patterns(repo: GitRepo) -> None:
    sparse(repo, "--no-cone")


def sparse(repo: GitRepo, *options: str) -> None:
    """What is not checked out is in the tree all the same, at the version of the user's index."""
    for number in range(3):
        repo.write(f"away/{number}/file", f"{number}\n")
    repo.commit()
    repo.git("branch", "older")
    repo.write("away/1/file", "newer\n")
    repo.commit()
    repo.git("sparse-checkout", "set", *options, "src" if "--cone" in options else "/src/")
    away = {path: entry for path, entry in repo.tree("HEAD").items() if path.startswith(b"away/")}
    assert not repo.at("away").exists()
    session = start(repo)
    state = repo.user_state()
    base = session.checkpoint()
    assert repo.tree(base.tree) == repo.tree("HEAD")
    repo.write("src/app.py", "2\n")
    captured = session.checkpoint()
    assert paths_of(captured) == [b"src/app.py"]
    repo.write("away/2/file", "here again\n")
    repo.write("away/new", "untracked\n")
    captured = session.checkpoint()
    assert paths_of(captured) == [b"away/2/file", b"away/new"]
    assert repo.user_state() == state
    shutil.rmtree(repo.at("away"))
    captured = session.checkpoint()
    assert paths_of(captured) == [b"away/2/file", b"away/new"]
    assert repo.tree(captured.tree).items() >= away.items()
    repo.git("checkout", "--quiet", "--force", "older")
    captured = session.checkpoint()
    assert paths_of(captured) == [b"away/1/file", b"src/app.py"]
    assert repo.tree(captured.tree) == repo.tree("older")


def test_split_index(repo: GitRepo, session: Session) -> None:
    repo.git("config", "core.splitIndex", "true")
    repo.git("update-index", "--split-index")
    repo.write("src/staged", "x")
    repo.git("add", "src/staged")
    assert list(repo.git_dir.glob("sharedindex.*"))
    assert_works_like_a_plain_one(repo, session)


@pytest.mark.parametrize("option", ["index.version=4", "core.untrackedCache=true", "index.skipHash=true"])
def test_kinds_of_index(repo: GitRepo, session: Session, option: str) -> None:
    name, value = option.split("=")
    repo.git("config", name, value)
    repo.git("add", "--all", "--renormalize", ".")
    repo.git("update-index", "--refresh", *(["--index-version", "4"] if value == "4" else []))
    repo.git("status")
    assert_works_like_a_plain_one(repo, session)


def test_shallow_clone(repo: GitRepo, tmp_path: Path) -> None:
    repo.commit("second")
    repo.git("clone", "--quiet", "--depth=1", f"file://{repo.path}", str(tmp_path / "clone"))
    clone = GitRepo(tmp_path / "clone")
    assert_works_like_a_plain_one(clone, start(clone))


def test_partial_clone(repo: GitRepo, tmp_path: Path) -> None:
    """Objects that were never fetched are neither needed nor fetched."""
    repo.write("src/old", "only in the past\n")
    repo.commit("second")
    repo.at("src/old").unlink()
    repo.commit("third")
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("clone", "--quiet", "--filter=blob:none", f"file://{repo.path}", str(tmp_path / "clone"))
    clone = GitRepo(tmp_path / "clone")
    repo.path.rename(tmp_path / "away")
    missing = clone.git("rev-list", "--objects", "--all", "--missing=print").count("?")
    assert missing == 1
    assert_works_like_a_plain_one(clone, start(clone))
    assert clone.git("rev-list", "--objects", "--all", "--missing=print").count("?") == missing


def test_alternates(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("clone", "--quiet", "--shared", str(repo.path), str(tmp_path / "clone"))
    clone = GitRepo(tmp_path / "clone")
    assert_works_like_a_plain_one(clone, start(clone))


def test_linked_worktree(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    linked = GitRepo(tmp_path / "linked")
    state = repo.snapshot()
    assert_works_like_a_plain_one(linked, start(linked))
    assert repo.snapshot() == state
    assert list((linked.git_dir / "pinable").glob("index.*"))
    assert not list((repo.git_dir / "pinable").glob("index.*")), "a worktree's index is its own"


def test_worktree_config(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    linked = GitRepo(tmp_path / "linked")
    linked.git("config", "--worktree", "core.fileMode", "false")
    linked.at("README.md").chmod(0o755)
    session = start(linked)
    assert session.entries(session.scan())[b"README.md"].mode == trees.FILE
    repo.at("README.md").chmod(0o755)
    assert session.entries(start(repo).scan())[b"README.md"].mode == trees.EXECUTABLE


def test_sha256(tmp_path: Path) -> None:
    repo = GitRepo.init(tmp_path / "repo", object_format="sha256")
    repo.write("README.md", "1\n")
    repo.write("src/app.py", "1\n")
    repo.commit()
    session = start(repo)
    assert_works_like_a_plain_one(repo, session)
    assert len(session.commits[-1]) == 64


def test_reftable(tmp_path: Path) -> None:
    done = subprocess.run(["git", "init", "--quiet", "--ref-format=reftable", str(tmp_path / "repo")], stderr=-3)
    if done.returncode:
        pytest.skip("this git knows no reftable")
    repo = GitRepo(tmp_path / "repo")
    repo.write("README.md", "1\n")
    repo.commit()
    assert_works_like_a_plain_one(repo, start(repo))


# States of a repository


def test_unborn_branch(empty_repo: GitRepo) -> None:
    empty_repo.write("README.md", "1\n")
    session = start(empty_repo)
    assert_works_like_a_plain_one(empty_repo, session)
    assert empty_repo.git("rev-list", "--count", session.commits[-1]) == "2"
    assert not (empty_repo.git_dir / "index").exists()


def test_nothing_at_all(empty_repo: GitRepo) -> None:
    session = start(empty_repo)
    assert session.entries(session.checkpoint()) == {}
    assert not session.scan().differs
    empty_repo.write("file", "x")
    assert paths_of(session.checkpoint()) == [b"file"]


def test_detached_head(repo: GitRepo, session: Session) -> None:
    repo.git("checkout", "--quiet", "--detach")
    assert_works_like_a_plain_one(repo, session)


def test_unborn_branch_in_a_worktree(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    linked = GitRepo(tmp_path / "linked")
    linked.git("checkout", "--quiet", "--orphan", "fresh")
    linked.git("rm", "-r", "-q", "--cached", ".")
    assert_works_like_a_plain_one(linked, start(linked))


@pytest.mark.parametrize("command", ["merge", "rebase", "cherry-pick"])
def test_conflict_under_way(repo: GitRepo, session: Session, command: str) -> None:
    session.checkpoint()
    repo.write("deleted-by-us", "x")
    repo.commit()
    repo.git("checkout", "--quiet", "-b", "other")
    repo.write("README.md", "theirs\n")
    repo.write("deleted-by-us", "changed\n")
    repo.write("x/both", "theirs\n")
    repo.write(".gitignore", "both\n")
    repo.git("add", "--force", "x/both")
    repo.commit()
    repo.git("checkout", "--quiet", "main")
    repo.write("README.md", "ours\n")
    repo.at("deleted-by-us").unlink()
    repo.write("x/both", "ours\n")
    repo.commit()
    repo.git(command, "other", ok=(1,))
    assert repo.git("ls-files", "--unmerged")
    state = repo.user_state()
    captured = session.checkpoint()
    assert session.files(captured) == everything(repo)
    assert b"<<<<<<<" in session.files(captured)[b"README.md"][1]
    assert b"<<<<<<<" in session.files(captured)[b"x/both"][1], "an ignore rule does not hide a conflict"
    repo.write("README.md", "resolved\n")
    assert paths_of(session.checkpoint()) == [b"README.md"]
    assert repo.user_state() == state


def test_merge_where_one_side_has_a_directory(repo: GitRepo, session: Session) -> None:
    repo.git("checkout", "--quiet", "-b", "other")
    repo.write("x/file", "1\n")
    repo.commit()
    repo.git("checkout", "--quiet", "main")
    repo.write("x", "1\n")
    repo.commit()
    repo.git("merge", "other", ok=(1,))
    assert session.files(session.checkpoint()) == everything(repo)


# Settings that would get in the way


def test_nothing_is_asked_run_or_blocked(repo: GitRepo, session: Session, tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "reference-transaction", "post-index-change", "commit-msg", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {shlex.quote(str(tmp_path / 'ran'))}\nexit 1\n")
        (hooks / name).chmod(0o755)
    for name, value in {
        "commit.gpgSign": "true",
        "gpg.program": "false",
        "commit.template": "/nonexistent",
        "core.hooksPath": str(hooks),
        "core.editor": "false",
        "user.useConfigOnly": "true",
        "core.fsmonitor": "false-monitor",
        "core.logAllRefUpdates": "always",
    }.items():
        repo.git("config", name, value)
    session.checkpoint()
    repo.write("src/app.py", "changed\n")
    session.checkpoint()
    assert not (tmp_path / "ran").exists()
    assert not (repo.git_dir / "logs" / "refs" / "pinable").exists()
    assert repo.git("show", "--no-patch", "--format=%G?", session.commits[-1]) == "N"


def test_no_identity(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("EMAIL", "")
    repo.git("config", "user.useConfigOnly", "true")
    session = start(repo)
    session.checkpoint()
    author = repo.git("show", "--no-patch", "--format=%an <%ae>", session.commits[0])
    assert author == "gitsession <gitsession@localhost>"


HOOK = """#!/bin/sh
exec {python} -c '
import sys
sys.path.insert(0, "{tests}")
from pathlib import Path
from capturing import Session
from support import GitRepo
session = Session(GitRepo(Path("{repo}")), "in-hook")
session.checkpoint()
session.close()
'
"""


@pytest.mark.parametrize("command", ["commit", "commit -a", "commit -- README.md", "-C", "worktree"])
def test_inside_a_git_hook(repo: GitRepo, tmp_path: Path, command: str) -> None:
    """Git hands its index and its directory to hooks: nothing of ours may follow them."""
    target, acting = repo, repo
    if command in ("-C", "worktree"):
        repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
        acting = GitRepo(tmp_path / "linked")
        target = GitRepo.init(tmp_path / "target") if command == "-C" else acting
        target.write("README.md", "target\n")
    hook = repo.common_dir / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(HOOK.format(python=sys.executable, tests=Path(__file__).parents[1], repo=target.path))
    hook.chmod(0o755)
    acting.write("README.md", "changed\n")
    acting.write("src/app.py", "staged\n")
    acting.git("add", "src/app.py")
    acting.write("untracked", "x")
    words = command.split() if command.startswith("commit") else ["commit", "-a"]
    acting.git(words[0], "-q", "-m", "by the user", *words[1:])
    committed = acting.tree("HEAD")
    assert b"untracked" not in committed
    assert acting.git("status", "--porcelain", "-z").split("\0")[-2] == "?? untracked"
    expected = everything(target)
    if target is not acting:
        assert b"src/app.py" not in expected
    tree = target.tree("refs/pinable/in-hook")
    assert tree.keys() == expected.keys()
    assert target.git("cat-file", "blob", tree[b"README.md"][1]) == expected[b"README.md"][1].decode().rstrip()


def test_index_lock_held(repo: GitRepo, session: Session) -> None:
    lock = repo.git_dir / "index.lock"
    lock.write_bytes(b"somebody's")
    repo.write("src/app.py", "changed\n")
    session.checkpoint()
    repo.write("src/app.py", "again\n")
    assert paths_of(session.checkpoint()) == [b"src/app.py"]
    assert lock.read_bytes() == b"somebody's"


def test_what_a_kill_leaves_in_the_private_directory_is_not_in_the_way(repo: GitRepo, session: Session) -> None:
    session.checkpoint()
    place = session.repo.private_dir
    for index in list(place.glob("index.*")):
        index.with_name(index.name + ".lock").write_bytes(b"")
    (place / "new-0123").write_bytes(b"half an index")
    (place / "new-0123.lock").write_bytes(b"")
    (place / "smudged-0").mkdir()
    (place / "directories").write_bytes(b'{"tree"')
    for leftover in place.iterdir():
        os.utime(leftover, (1, 1))
    repo.write("src/app.py", "changed\n")
    assert paths_of(session.checkpoint()) == [b"src/app.py"]
    assert not list(place.glob("new-*"))
    assert not list(place.glob("smudged-*"))


def test_stale_lock_of_our_ref(repo: GitRepo, session: Session) -> None:
    session.checkpoint()
    lock = repo.common_dir / "refs" / "pinable" / "s.lock"
    lock.write_bytes(b"")
    os.utime(lock, (1, 1))
    repo.write("src/app.py", "changed\n")
    session.checkpoint()
    assert repo.git("rev-parse", session.ledger.ref) == session.commits[-1]
    assert session.ledger.broken_locks == [lock]
    assert not lock.exists()


def test_where_no_checkpoint_can_be(tmp_path: Path) -> None:
    with pytest.raises(NotARepository):
        Repo.discover(tmp_path)
    GitRepo.init(tmp_path / "bare", "--bare")
    with pytest.raises(BareRepository):
        Repo.discover(tmp_path / "bare")


def test_repository_of_another_owner(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UnsupportedRepository, match="another user") as caught:
        Repo.discover(repo.path)
    assert "safe.directory" in (caught.value.hint or "")


def test_gc_at_any_time(repo: GitRepo, session: Session) -> None:
    """Every checkpoint survives it, and so does the next scan when its index's trees are gone."""
    states = []
    for number in range(4):
        repo.write("src/app.py", f"{number}\n")
        repo.write(f"untracked-{number}", f"{number}\n")
        repo.write("staged/file", f"{number}\n")
        repo.git("add", "staged/file")
        session.checkpoint()
        states.append(everything(repo))
        repo.git("-c", "gc.reflogExpire=now", "gc", "--quiet", "--prune=now")
    for commit, expected in zip(session.commits, states, strict=True):
        found = {path: repo.git_bytes("cat-file", "blob", oid) for path, (_, oid) in repo.tree(commit).items()}
        assert found == {path: data for path, (_, data) in expected.items()}
    repo.git("fsck", "--strict")


# Marks in the index that hide a file


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_edits_of_files_marked_as_unchanged(repo: GitRepo, session: Session, mark: str) -> None:
    repo.git("update-index", mark, "src/app.py")
    repo.write("src/app.py", "before the base\n")
    state = repo.user_state()
    assert session.files(session.checkpoint()) == everything(repo)
    repo.write("src/app.py", "after the base\n")
    assert paths_of(session.checkpoint()) == [b"src/app.py"]
    repo.at("src/app.py").unlink()
    assert paths_of(session.checkpoint()) == [b"src/app.py"]
    repo.write("src/app.py", "back\n")
    assert paths_of(session.checkpoint()) == [b"src/app.py"]
    assert repo.user_state() == state


def test_intent_to_add(repo: GitRepo, session: Session) -> None:
    repo.write("planned", "x\n")
    repo.git("add", "--intent-to-add", "planned")
    assert session.files(session.checkpoint()) == everything(repo)
    repo.write("planned", "y\n")
    assert paths_of(session.checkpoint()) == [b"planned"]


def test_tracked_but_ignored(repo: GitRepo, session: Session) -> None:
    repo.write("build/tracked", "1\n")
    repo.commit()
    repo.write(".gitignore", "build/\n*.key\n")
    repo.write("build/ignored", "1\n")
    repo.write("later.key", "1\n")
    base = session.checkpoint()
    assert b"build/tracked" in session.entries(base)
    assert b"build/ignored" not in session.entries(base)
    repo.write("build/tracked", "2\n")
    assert paths_of(session.checkpoint()) == [b"build/tracked"]
    repo.git("add", "--force", "later.key")
    assert paths_of(session.checkpoint()) == [b"later.key"]
    repo.write("later.key", "2\n")
    assert paths_of(session.checkpoint()) == [b"later.key"]


def test_two_sessions_in_one_worktree(repo: GitRepo, session: Session) -> None:
    """They share private indexes, and each sees what changed since its own checkpoint."""
    other = start(repo, "other")
    session.checkpoint()
    for number in range(250):
        repo.write(f"many/{number}", f"{number}\n")
    assert len(other.checkpoint().changes) == 0
    repo.write("src/app.py", "1\n")
    assert paths_of(other.checkpoint()) == [b"src/app.py"]
    assert len(session.checkpoint().changes) == 251
    repo.at("many/0").unlink()
    assert paths_of(session.checkpoint()) == paths_of(other.checkpoint()) == [b"many/0"]
    repo.write("many/0", "0\n")
    assert paths_of(other.checkpoint()) == paths_of(session.checkpoint()) == [b"many/0"]


def test_a_capture_in_a_subdirectory_takes_the_whole_worktree(repo: GitRepo) -> None:
    session = start(GitRepo(repo.at("src")))
    assert session.entries(session.scan()).keys() == {b"README.md", b"src/app.py", b"src/util.py"}


def test_a_scan_needs_no_pygit2(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Repo, "libgit", lambda _self: None)
    found = Repo.discover(repo.path)
    with Objects(found) as objects:
        first = capture(found, objects, None)
        repo.write("src/app.py", "changed\n")
        assert paths_of(capture(found, objects, first.tree)) == [b"src/app.py"]
