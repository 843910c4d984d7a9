"""Bundles: what git calls one, complete, and refused when they are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession.errors import GitFailed, RepositoryError
from gitsession.git import bundle
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo


@pytest.fixture(params=["sha1", "sha256"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[GitRepo, Path]:
    """A repository with a session of two checkpoints, and its bundle."""
    user = GitRepo.init(tmp_path / "repo", object_format=request.param)
    user.write("a", "1\n" * 500)
    user.commit()
    session = TestSession(user)
    for text in ("2", "3"):
        user.write("a", f"{text}\n" * 500)
        session.checkpoint()
    with ledger(user) as found:
        bundle.write(found, tmp_path / "b")
    return user, tmp_path / "b"


@contextmanager
def ledger(user: GitRepo) -> Iterator[Ledger]:
    """The session's ledger in a repository."""
    repo = Repo.discover(user.path)
    with closing(Objects(repo)) as objects:
        yield Ledger(repo, objects, "s1")


def test_git_takes_it_for_a_bundle_that_builds_on_head(made: tuple[GitRepo, Path]) -> None:
    user, path = made
    user.git("bundle", "verify", path)
    found = bundle.read(path)
    assert found.refs == {"refs/pinable/s1": user.git("rev-parse", "refs/pinable/s1")}
    assert found.prerequisites == (user.git("rev-parse", "HEAD"),)
    assert user.git("bundle", "list-heads", path).split()[1] == "refs/pinable/s1"


def test_it_holds_everything_but_the_history(made: tuple[GitRepo, Path]) -> None:
    user, path = made
    with ledger(user) as found:
        wanted = bundle.objects_of(found)
        listed = user.git("rev-list", "--objects", "--no-object-names", "refs/pinable/s1").split()
        assert wanted == set(listed) - {user.git("rev-parse", "HEAD")}
        bundle.check(found.repo, path, wanted)
        with pytest.raises(RepositoryError, match="lacks 1 of "):
            bundle.check(found.repo, path, wanted | {user.git("rev-parse", "HEAD")})


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_one_is_found_out(made: tuple[GitRepo, Path], damage: str) -> None:
    user, path = made
    data = path.read_bytes()
    path.write_bytes(data[:-30] if damage == "cut" else data[:-30] + bytes([data[-30] ^ 1]) + data[-29:])
    with ledger(user) as found:
        with pytest.raises(GitFailed):
            bundle.check(found.repo, path, set())
        with pytest.raises(GitFailed):
            bundle.unpack(found.repo, path)


@pytest.mark.parametrize("data", [b"", b"# v2 git bundle\n", b"# v9 git bundle\n\n", b"\0" * 100000, b"PACK\n\n"])
def test_what_is_no_bundle_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "b").write_bytes(data)
    with pytest.raises(RepositoryError, match="is not a git bundle"):
        bundle.read(tmp_path / "b")


def test_grafted_checkpoints_are_the_same_but_for_their_ids(made: tuple[GitRepo, Path], tmp_path: Path) -> None:
    user, path = made
    other = GitRepo.init(tmp_path / "other", object_format=bundle.read(path).object_format)
    repo = Repo.discover(other.path)
    tip = bundle.unpack(repo, path).refs["refs/pinable/s1"]
    with closing(Objects(repo)) as objects:
        grafted = Ledger(repo, objects, "s1")
        renamed = grafted.graft(tip)
        grafted.take_in(renamed[tip], None)
    other.git("fsck", "--strict", "--no-dangling")
    form = ("log", "--first-parent", "--format=%T %B %an %ae %at %cn %ce %ct")
    assert other.git(*form, "refs/pinable/s1") == user.git(*form, "HEAD..refs/pinable/s1")
    assert len(renamed) == 3
