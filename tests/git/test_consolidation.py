"""Our packs become one, and nothing is lost on the way."""

from __future__ import annotations

import os
import threading

import pytest
from support import GitRepo

from gitsession import seam
from gitsession.git.consolidation import MANY, Consolidation
from gitsession.git.objects import FEW, Objects
from gitsession.git.repo import Repo


def make_packs(repo: Repo, count: int, *, first: int = 0) -> list[str]:
    """``count`` packs of a few blobs each; the blobs' ids."""
    ids = []
    with Objects(repo) as objects:
        for number in range(first, first + count):
            ids += [objects.add("blob", b"%d of %d\n" % (blob, number) * 30) for blob in range(FEW + 1)]
            objects.flush()
    return ids


def packs(repo: GitRepo) -> set[str]:
    return {path.stem for path in (repo.git_dir / "objects" / "pack").glob("*.pack")}


def consolidate(repo: Repo) -> None:
    work = Consolidation(repo)
    work.tend()
    work.close()


def all_there(repo: GitRepo, ids: list[str]) -> bool:
    answers = repo.git("cat-file", "--batch-check", input="".join(f"{oid}\n" for oid in ids)).splitlines()
    return [answer.split()[:2] for answer in answers] == [[oid, "blob"] for oid in ids]


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_many_packs_become_one(tmp_path: os.PathLike[str], object_format: str) -> None:
    user = GitRepo.init(tmp_path / "r", object_format=object_format)  # type: ignore[operator]
    repo = Repo.discover(user.path)
    ids = make_packs(repo, MANY)
    assert len(packs(user)) == MANY
    consolidate(repo)
    assert len(packs(user)) == 1
    assert all_there(user, ids)
    assert user.git("fsck", "--strict", "--no-dangling") == ""


def test_a_few_packs_stay(repo: GitRepo) -> None:
    found = Repo.discover(repo.path)
    make_packs(found, MANY - 1)
    consolidate(found)
    assert len(packs(repo)) == MANY - 1


def test_the_user_s_packs_stay(repo: GitRepo) -> None:
    repo.git("repack", "-adq")
    users = packs(repo)
    found = Repo.discover(repo.path)
    make_packs(found, MANY)
    consolidate(found)
    assert users < packs(repo)
    assert len(packs(repo)) == 2


def test_an_open_reader_goes_on(repo: GitRepo) -> None:
    found = Repo.discover(repo.path)
    ids = make_packs(found, MANY)
    with Objects(found) as objects:
        assert objects.read(ids[0])[0] == "blob"
        consolidate(found)
        assert all(objects.read(oid)[0] == "blob" for oid in ids)


def test_it_goes_on_with_its_own_packs(repo: GitRepo) -> None:
    """The pack that was made counts as one of the next many."""
    found = Repo.discover(repo.path)
    ids = make_packs(found, MANY)
    consolidate(found)
    ids += make_packs(found, MANY - 1, first=MANY)
    consolidate(found)
    assert len(packs(repo)) == 1
    assert all_there(repo, ids)


def test_after_a_gc_of_the_user_s_the_list_starts_anew(repo: GitRepo) -> None:
    found = Repo.discover(repo.path)
    make_packs(found, MANY)
    repo.git("repack", "-adq")
    repo.git("prune-packed")
    consolidate(found)
    assert (found.common_dir / "pinable" / "packs").read_text() == ""


def test_stopped_between_any_two_removals_nothing_is_lost(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Repo.discover(repo.path)
    ids = make_packs(found, MANY)
    points = iter(range(MANY))

    def stop_half_way(point: str) -> None:
        if point == "pack.drop" and next(points) == MANY // 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(seam, "hook", stop_half_way)
    with pytest.raises(KeyboardInterrupt):
        consolidate(found)
    monkeypatch.setattr(seam, "hook", None)
    assert all_there(repo, ids)
    make_packs(found, MANY, first=MANY)
    consolidate(found)
    assert all_there(repo, ids)
    assert len(packs(repo)) == 1


def test_two_at_once_lose_nothing(repo: GitRepo) -> None:
    found = Repo.discover(repo.path)
    ids = make_packs(found, MANY)
    threads = [threading.Thread(target=consolidate, args=(Repo.discover(repo.path),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all_there(repo, ids)
