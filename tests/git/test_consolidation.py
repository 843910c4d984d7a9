"""Our packs become one, and nothing is lost on the way."""

from __future__ import annotations

import os
import threading
from pathlib import Path

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


def pack_directory(repo: GitRepo) -> Path:
    return repo.git_dir / "objects" / "pack"


def test_a_multi_pack_index_that_lists_ours_goes_first(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds one that lists packs which are gone looks nowhere else."""
    found = Repo.discover(repo.path)
    ids = make_packs(found, MANY)
    repo.git("multi-pack-index", "write")
    repo.write(".git/objects/pack/multi-pack-index-1234.bitmap", "")
    seen = []

    def look(point: str) -> None:
        if point == "pack.drop":
            seen.append({path.name for path in pack_directory(repo).glob("multi-pack-index*")})

    monkeypatch.setattr(seam, "hook", look)
    consolidate(found)
    assert seen == [{"multi-pack-index.lock"}] * MANY
    assert list(pack_directory(repo).glob("multi-pack-index*")) == []
    assert all_there(repo, ids)
    assert len(packs(repo)) == 1


def test_one_in_layers_goes_too(repo: GitRepo) -> None:
    found = Repo.discover(repo.path)
    make_packs(found, MANY)
    chain = pack_directory(repo) / "multi-pack-index.d"
    chain.mkdir()
    names = b"\0".join(path.name.encode() for path in pack_directory(repo).glob("*.idx"))
    for name in ("multi-pack-index-12.midx", "multi-pack-index-12.rev", "multi-pack-index-chain"):
        (chain / name).write_bytes(names)
    consolidate(found)
    assert list(chain.iterdir()) == []


def test_one_that_lists_only_the_user_s_packs_stays(repo: GitRepo) -> None:
    repo.git("repack", "-adq")
    repo.git("multi-pack-index", "write")
    found = Repo.discover(repo.path)
    ids = make_packs(found, MANY)
    consolidate(found)
    assert (pack_directory(repo) / "multi-pack-index").exists()
    assert all_there(repo, ids)
    assert len(packs(repo)) == 2


def test_while_git_writes_a_multi_pack_index_all_packs_stay(repo: GitRepo) -> None:
    found = Repo.discover(repo.path)
    ids = make_packs(found, MANY)
    work = Consolidation(found)
    work.tend()
    lock = pack_directory(repo) / "multi-pack-index.lock"
    lock.touch()
    work.close()
    assert len(packs(repo)) == MANY + 1
    consolidate(found)  # does not even begin
    assert len(packs(repo)) == MANY + 1
    assert lock.exists()
    lock.unlink()
    consolidate(found)
    assert len(packs(repo)) == 1
    assert all_there(repo, ids)


def test_a_pack_that_somebody_keeps_stays(repo: GitRepo) -> None:
    found = Repo.discover(repo.path)
    make_packs(found, MANY)
    work = Consolidation(found)
    work.tend()
    kept = min(packs(repo))
    repo.write(f".git/objects/pack/{kept}.keep", "mine\n")
    work.close()
    assert len(packs(repo)) == 2
    assert kept in packs(repo)
    make_packs(found, MANY - 2, first=MANY)
    consolidate(found)
    assert len(packs(repo)) == MANY  # one of which does not count
    assert repo.at(f".git/objects/pack/{kept}.keep").read_text() == "mine\n"


def test_the_new_pack_is_held_until_the_small_ones_are_gone(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Repo.discover(repo.path)
    make_packs(found, MANY)
    before = packs(repo)
    held = []

    def look(point: str) -> None:
        if point == "pack.drop":
            held.append({path.stem for path in pack_directory(repo).glob("*.keep")})

    monkeypatch.setattr(seam, "hook", look)
    consolidate(found)
    assert held == [packs(repo)] * MANY
    assert packs(repo).isdisjoint(before)
    assert list(pack_directory(repo).glob("*.keep")) == []


def test_what_killed_processes_hold_is_let_go(repo: GitRepo) -> None:
    """What is the user's, or was made this hour, stays."""
    files = {"pack-1.keep": "gitsession 1", "pack-2.keep": "gitsession 1", "pack-3.keep": "receive-pack 1"}
    for name, text in (files | {"multi-pack-index.lock": "gitsession 1"}).items():
        repo.write(f".git/objects/pack/{name}", text)
        if name != "pack-2.keep":
            os.utime(pack_directory(repo) / name, (1, 1))
    Consolidation(Repo.discover(repo.path)).close()
    assert {path.name for path in pack_directory(repo).iterdir()} >= {"pack-2.keep", "pack-3.keep"}
    assert not (pack_directory(repo) / "pack-1.keep").exists()
    assert not (pack_directory(repo) / "multi-pack-index.lock").exists()


def test_two_at_once_lose_nothing(repo: GitRepo) -> None:
    found = Repo.discover(repo.path)
    ids = make_packs(found, MANY)
    threads = [threading.Thread(target=consolidate, args=(Repo.discover(repo.path),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all_there(repo, ids)
