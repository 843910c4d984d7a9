"""Objects: written durably, as git itself would read them."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import GitRepo

from gitsession import seam
from gitsession.errors import CaptureError, RepositoryError
from gitsession.git import trees
from gitsession.git.ledger import Ledger
from gitsession.git.objects import FEW, LARGE, Objects, SizeChanged
from gitsession.git.packs import Packed, PackIndex, Packs, deflate, index_bytes
from gitsession.git.repo import Repo
from gitsession.git.trees import FILE, Entry

OLD = 1_000_000_000


@pytest.fixture(params=["sha1", "sha256"])
def any_repo(request: pytest.FixtureRequest, tmp_path: Path) -> GitRepo:
    """A repository without a commit, of each hash."""
    return GitRepo.init(tmp_path / "repo", object_format=request.param)


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The points that were reached, in order."""
    reached: list[str] = []
    monkeypatch.setattr(seam, "hook", reached.append)
    return reached


OPENED: list[Objects] = []


def open_objects(repo: GitRepo) -> Objects:
    OPENED.append(Objects(Repo.discover(repo.path)))
    return OPENED[-1]


@pytest.fixture(autouse=True)
def close_objects() -> Iterator[None]:
    """Whatever ``open_objects`` opened."""
    yield
    while OPENED:
        OPENED.pop().close()


def assert_sound(repo: GitRepo) -> None:
    """git finds no fault with any object, and no rubbish beside them."""
    repo.git("fsck", "--strict", "--full")
    counts = dict(line.split(": ") for line in repo.git("count-objects", "-v").splitlines())
    assert counts["garbage"] == "0"


def in_child(work: Callable[[], None]) -> int:
    """Do it in a process of its own, that ends with 0 if it comes to its end; the process's id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(99)
    return pid


def exit_status(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def packs(repo: GitRepo) -> list[Path]:
    return sorted((repo.path / ".git/objects/pack").glob("*.pack"))


def loose(repo: GitRepo, oid: str) -> Path:
    return repo.path / ".git/objects" / oid[:2] / oid[2:]


def leftovers(repo: GitRepo) -> list[Path]:
    return list((repo.path / ".git/objects").rglob("tmp_*"))


def test_a_few_are_loose(any_repo: GitRepo) -> None:
    """Read-only files that git reads back."""
    objects = open_objects(any_repo)
    contents = [b"blob %d\n" % number for number in range(FEW)]
    oids = [objects.add("blob", data) for data in contents]
    objects.flush()
    assert packs(any_repo) == []
    for oid, data in zip(oids, contents, strict=True):
        assert any_repo.git("hash-object", "--stdin", input=data) == oid
        assert any_repo.git_bytes("cat-file", "blob", oid) == data
        assert loose(any_repo, oid).stat().st_mode & 0o777 == 0o444
    assert_sound(any_repo)


def test_more_are_one_pack(any_repo: GitRepo) -> None:
    """Of all kinds and sizes; git accepts pack and index, and makes the same index itself."""
    objects = open_objects(any_repo)
    rng = random.Random(1)
    blobs = {objects.add("blob", data): data for data in (rng.randbytes(size) for size in (0, 1, 15, 16, 2047, 2048))}
    blobs |= {objects.add("blob", b"x" * size): b"x" * size for size in (4095, 65_535, 65_536, 300_000)}
    empty = objects.add("tree", b"")
    person = "A <a@b> 1 +0000"
    commit = objects.add("commit", f"tree {empty}\nauthor {person}\ncommitter {person}\n\nhi\n".encode())
    tag = objects.add("tag", f"object {commit}\ntype commit\ntag v1\ntagger {person}\n\nhi\n".encode())
    objects.flush()
    (pack,) = packs(any_repo)
    index = pack.with_suffix(".idx")
    assert (pack.stat().st_mode | index.stat().st_mode) & 0o777 == 0o444
    any_repo.git("verify-pack", index)
    any_repo.git("index-pack", "--strict", "-o", any_repo.path / "git.idx", pack)
    assert (any_repo.path / "git.idx").read_bytes() == index.read_bytes()
    assert {oid: any_repo.git_bytes("cat-file", "blob", oid) for oid in blobs} == blobs
    assert [any_repo.git("cat-file", "-t", oid) for oid in (empty, commit, tag)] == ["tree", "commit", "tag"]
    assert_sound(any_repo)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(contents=st.sets(st.binary(max_size=5000), min_size=FEW + 1, max_size=40))
def test_any_pack_is_as_git_would_have_it(tmp_path_factory: pytest.TempPathFactory, contents: set[bytes]) -> None:
    """Random contents."""
    repo = GitRepo.init(tmp_path_factory.mktemp("pack"))
    objects = open_objects(repo)
    oids = {objects.add("blob", data): data for data in contents}
    objects.flush()
    repo.git("index-pack", "--strict", "-o", repo.path / "git.idx", packs(repo)[0])
    assert packs(repo)[0].with_suffix(".idx").read_bytes() == (repo.path / "git.idx").read_bytes()
    for oid, data in oids.items():
        assert objects.read(oid) == ("blob", data)


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_an_index_with_large_offsets(tmp_path: Path, object_format: str) -> None:
    """Offsets of 2 GiB and more are in a table of their own; git reads them back."""
    size = {"sha1": 20, "sha256": 32}[object_format]
    rng = random.Random(2)
    offsets = [12, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 32, 1 << 40]
    entries = [Packed(rng.randbytes(size), rng.getrandbits(32), offset) for offset in offsets]
    data = index_bytes(entries, b"\0" * size, object_format)
    repo = GitRepo.init(tmp_path / "repo", object_format=object_format)
    shown = {tuple(line.split()) for line in repo.git("show-index", input=data).splitlines()}
    assert shown == {(str(one.offset), one.oid.hex(), f"({one.crc:08x})") for one in entries}
    (tmp_path / "pack-x.idx").write_bytes(data)
    index = PackIndex(tmp_path / "pack-x.idx", size)
    assert all(one.oid in index for one in entries)
    assert rng.randbytes(size) not in index


def test_which_packs_hold_an_object(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones and large ones, as they come and go; none whose objects git throws away one by one."""
    monkeypatch.setattr("gitsession.git.packs._MANY", 3)
    found = Packs(repo.git_dir / "objects" / "pack", 20)
    found.look()  # there is no such directory, or nothing in it
    made = {}
    for count in (2, 5, 3):
        ids = [repo.git("hash-object", "-w", "--stdin", input=f"{count} {number}") for number in range(count)]
        name = repo.git("pack-objects", "-q", ".git/objects/pack/pack", input="".join(oid + "\n" for oid in ids))
        made[count] = (repo.git_dir / "objects" / "pack" / f"pack-{name}.pack", ids)

    def holding() -> dict[str, list[Path]]:
        found.look()
        return {oid: list(found.holding(bytes.fromhex(oid))) for _, ids in made.values() for oid in ids}

    expected = {oid: [path] for path, ids in made.values() for oid in ids}
    assert holding() == expected
    for count, (path, ids) in made.items():
        for ending in (".idx", ".pack"):
            path.with_suffix(ending).rename(path.with_suffix(ending + ".away"))
        assert holding() == expected | {oid: [] for oid in ids}, count
        for ending in (".idx", ".pack"):
            path.with_suffix(ending + ".away").rename(path.with_suffix(ending))
        path.with_suffix(".mtimes").touch()
        assert holding() == expected | {oid: [] for oid in ids}, count
        path.with_suffix(".mtimes").unlink()
        assert holding() == expected
    (repo.git_dir / "objects" / "pack" / "pack-broken.idx").write_bytes(b"no index")
    assert holding() == expected


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.binary(max_size=200) | st.integers(0, 300_000).map(lambda size: b"abc" * (size // 3)))
def test_deflate_is_plain_zlib(data: bytes) -> None:
    """Whatever the window."""
    packed = deflate(data)
    assert zlib.decompress(packed) == data
    # git's and libgit2's test for a loose object.
    assert packed[0] & 0x8F == 8
    assert int.from_bytes(packed[:2]) % 31 == 0


def test_reading_what_is_pending_flushed_and_by_others(any_repo: GitRepo) -> None:
    """Each is seen at once, in few and in many."""
    objects = open_objects(any_repo)
    for count in (1, FEW + 5):
        data = {
            objects.add("blob", b"%d of %d" % (number, count)): b"%d of %d" % (number, count) for number in range(count)
        }
        for state in ("pending", "flushed"):
            assert {oid: objects.read(oid) for oid in data} == {oid: ("blob", text) for oid, text in data.items()}, (
                state
            )
            assert all(objects.has(oid) for oid in data), state
            objects.flush()
    oid = any_repo.git("hash-object", "-w", "--stdin", input="theirs")
    assert objects.has(oid)
    assert objects.read(oid) == ("blob", b"theirs")
    any_repo.commit()
    any_repo.git("gc", "-q", "--prune=now")
    assert objects.read(any_repo.git("rev-parse", "HEAD"))[0] == "commit"


def test_what_is_missing_or_damaged(any_repo: GitRepo) -> None:
    """An error that names the object; the next question is answered."""
    objects = open_objects(any_repo)
    missing = "1" * len(any_repo.git("hash-object", "--stdin", input=""))
    damaged = any_repo.git("hash-object", "-w", "--stdin", input="damaged")
    good = any_repo.git("hash-object", "-w", "--stdin", input="good")
    loose(any_repo, damaged).chmod(0o644)
    loose(any_repo, damaged).write_bytes(b"x\x9crubbish")
    for oid in (missing, damaged):
        with pytest.raises(RepositoryError, match=oid):
            objects.read(oid)
        assert objects.read(good) == ("blob", b"good")
    whole = loose(any_repo, good).read_bytes()
    loose(any_repo, good).chmod(0o644)
    for length in range(len(whole)):
        loose(any_repo, good).write_bytes(whole[:length])
        with pytest.raises(RepositoryError, match=good):
            objects.read(good)
    loose(any_repo, good).write_bytes(whole)
    assert objects.read(good) == ("blob", b"good")
    assert not objects.has(missing)


def test_objects_of_an_alternate_are_read_but_not_relied_on(repo: GitRepo, tmp_path: Path) -> None:
    """Whoever owns the alternate may throw them away."""
    repo.git("clone", "-q", "--shared", repo.path, tmp_path / "shared")
    shared = GitRepo(tmp_path / "shared")
    data = repo.path.joinpath("README.md").read_bytes()
    objects = open_objects(shared)
    oid = repo.git("rev-parse", "HEAD:README.md")
    assert objects.has(oid)
    assert objects.read(oid) == ("blob", data)
    assert objects.add("blob", data) == oid
    objects.flush()
    assert loose(shared, oid).exists()


def test_objects_of_a_partial_clone_are_fetched(repo: GitRepo, tmp_path: Path) -> None:
    """libgit2 does not do that; git does."""
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    repo.git("clone", "-q", "--bare", "--filter=blob:none", f"file://{repo.path}", tmp_path / "partial/.git")
    partial = GitRepo(tmp_path / "partial")
    partial.git("config", "core.bare", "false")
    objects = open_objects(partial)
    assert objects.read(repo.git("rev-parse", "HEAD:README.md")) == ("blob", b"# sample\n")


def test_a_blob_that_is_there_is_kept_young(repo: GitRepo) -> None:
    """Not written again; its file gets a new time, loose or packed, so that gc leaves it alone."""
    data = repo.path.joinpath("README.md").read_bytes()
    oid = repo.git("rev-parse", "HEAD:README.md")
    objects = open_objects(repo)
    place = loose(repo, oid)
    inode = place.stat().st_ino
    os.utime(place, (OLD, OLD))
    assert objects.add("blob", data) == oid
    objects.flush()
    assert place.stat().st_mtime > OLD
    assert place.stat().st_ino == inode
    repo.git("repack", "-q", "-a", "-d")
    (pack,) = packs(repo)
    os.utime(pack, (OLD, OLD))
    assert objects.add("blob", data) == oid
    objects.flush()
    assert pack.stat().st_mtime > OLD
    assert not place.exists()
    assert packs(repo) == [pack]


def test_a_blob_in_a_cruft_pack_is_written_again(repo: GitRepo) -> None:
    """There git forgets objects one by one; a new copy is safe."""
    data = repo.path.joinpath("README.md").read_bytes()
    repo.git("repack", "-q", "-a", "-d")
    packs(repo)[0].with_suffix(".mtimes").touch()
    objects = open_objects(repo)
    oid = objects.add("blob", data)
    objects.flush()
    assert loose(repo, oid).exists()


def test_an_empty_loose_file_is_replaced(repo: GitRepo) -> None:
    """What a power failure leaves of an object that git did not synchronize."""
    oid = repo.git("rev-parse", "HEAD:README.md")
    loose(repo, oid).chmod(0o644)
    loose(repo, oid).write_bytes(b"")
    objects = open_objects(repo)
    objects.add("blob", b"# sample\n")
    objects.flush()
    assert repo.git_bytes("cat-file", "blob", oid) == b"# sample\n"


def test_a_pack_repacked_meanwhile_is_no_failure(repo: GitRepo) -> None:
    """The object has another place by then."""
    repo.git("repack", "-q", "-a", "-d")
    objects = open_objects(repo)
    objects.add("blob", b"# sample\n")
    repo.write("new", "new")
    repo.commit()
    repo.git("repack", "-q", "-a", "-d")
    objects.flush()
    assert_sound(repo)


def test_a_directory_that_gc_removed_is_made_again(repo: GitRepo) -> None:
    """gc removes empty directories of loose objects at any time."""
    objects = open_objects(repo)
    oid = objects.add("blob", b"1")
    loose(repo, oid).parent.mkdir()
    objects.flush()
    loose(repo, oid).unlink()
    loose(repo, oid).parent.rmdir()
    objects.add("blob", b"1")
    objects.flush()
    assert loose(repo, oid).exists()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_directory_that_gc_removes_at_once_is_made_once_more(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    objects = open_objects(repo)
    oid = objects.add("blob", b"new")
    place = loose(repo, oid).parent
    times = []
    chmod = Path.chmod

    def remove(self: Path, mode: int) -> None:
        if self == place and len(times) < 3:
            times.append(when)
            if when == "before":
                place.rmdir()
            chmod(self, mode)
            place.rmdir()
        else:
            chmod(self, mode)

    monkeypatch.setattr(Path, "chmod", remove)
    objects.flush()
    assert len(times) == 3
    repo.git("cat-file", "-e", oid)


@pytest.mark.parametrize("packed", [True, False])
def test_a_directory_that_gc_removes_before_it_is_synchronized(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """Its objects are in a pack by then, or gone and written again."""
    objects = open_objects(repo)
    oids = [objects.add("blob", b"%d" % number) for number in range(2)]

    def collect(point: str) -> None:
        if point == "object.sync-dir":
            if packed:
                repo.git("pack-objects", "-q", ".git/objects/pack/pack", input="".join(f"{oid}\n" for oid in oids))
            for oid in oids:
                loose(repo, oid).unlink()
                loose(repo, oid).parent.rmdir()

    monkeypatch.setattr(seam, "hook", collect)
    objects.flush()
    assert [loose(repo, oid).exists() for oid in oids] == [not packed] * 2
    for oid in oids:
        repo.git("cat-file", "-e", oid)


def test_a_large_file_s_blob_that_gc_takes_is_no_success(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = open_objects(repo)
    (tmp_path / "large").write_bytes(b"x" * (LARGE + 1))
    with (tmp_path / "large").open("rb") as file:
        oid = objects.add_file(file.fileno(), LARGE + 1)

    def collect(point: str) -> None:
        if point == "object.sync-dir":
            loose(repo, oid).unlink()
            loose(repo, oid).parent.rmdir()

    monkeypatch.setattr(seam, "hook", collect)
    with pytest.raises(CaptureError, match=f"took object {oid} away"):
        objects.flush()


def test_a_repack_drops_no_pack_that_no_ref_leads_to_yet(repo: GitRepo) -> None:
    objects = open_objects(repo)
    oids = [objects.add("blob", b"%d" % number) for number in range(FEW + 1)]
    objects.flush()
    [keep] = (repo.path / ".git/objects/pack").glob("*.keep")
    assert keep.read_text() == f"gitsession {os.getpid()}\n"
    repo.git("repack", "-adq")
    for oid in oids:
        repo.git("cat-file", "-e", oid)
    objects.release()
    assert not keep.exists()
    objects.add("blob", b"more")
    objects.flush()
    repo.git("repack", "-adq")
    assert not objects.repo.git("cat-file", "--batch-check", input=oids[0].encode()).endswith(b"blob 1\n")


def test_a_pack_is_held_before_git_sees_it_until_the_end(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is that of the process that wrote it, at the latest."""
    directory = repo.path / ".git/objects/pack"
    held = []
    hook = lambda point: held.append(len(list(directory.glob("*.keep")))) if point == "pack.rename" else None  # noqa: E731
    monkeypatch.setattr(seam, "hook", hook)
    with Objects(Repo.discover(repo.path)) as objects:
        for number in range(FEW + 1):
            objects.add("blob", b"%d" % number)
        objects.flush()
    assert held == [1]
    assert list(directory.glob("*.keep")) == []


def test_a_pack_is_held_until_the_checkpoint_s_ref_names_it(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ref of exact bytes, which moves before it, does not do."""
    directory = repo.path / ".git/objects/pack"
    objects = open_objects(repo)
    ledger = Ledger(objects.repo, objects, "s")
    oids = [objects.add("blob", b"%d" % number) for number in range(FEW + 1)]
    held = []
    monkeypatch.setattr(
        seam, "hook", lambda point: held.append(len(list(directory.glob("*.keep")))) if point == "ref.update" else None
    )
    ledger.keep_raw({b"raw": Entry(FILE, oids[0])}, None)
    tree = trees.update(objects, None, {b"%d" % number: Entry(FILE, oid) for number, oid in enumerate(oids)})
    ledger.append(tree, tip=None, parent=None, subject="base", record={})
    assert held == [1, 1]
    assert list(directory.glob("*.keep")) == []


def test_what_libgit2_cannot_open_git_reads(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack that it knows may go under its hands; it says so in more than one way."""

    class Broken:
        def read(self, oid: str) -> None:
            raise OSError("no such pack")

        __contains__ = read

    repo.git("gc", "-q")
    head = repo.git("rev-parse", "HEAD")
    objects = open_objects(repo)
    assert objects.has(head)
    monkeypatch.setattr(objects._reader, "_odb", Broken())
    assert objects.has(head)
    assert not objects.has("1" * 40)
    assert objects.read(head)[0] == "commit"


def test_permissions_follow_the_objects_directory(repo: GitRepo) -> None:
    """A repository shared by a group stays one, whatever the umask."""
    (repo.path / ".git/objects").chmod(0o2770)
    os.umask(0o077)
    objects = open_objects(repo)
    oid = objects.add("blob", b"group")
    objects.flush()
    assert loose(repo, oid).stat().st_mode & 0o7777 == 0o440
    assert loose(repo, oid).parent.stat().st_mode & 0o7777 == 0o2770


def test_files(any_repo: GitRepo, tmp_path: Path) -> None:
    """From an open file, small and large; the caller keeps the file."""
    objects = open_objects(any_repo)
    for size in (0, 10, LARGE, LARGE + 1):
        data = random.Random(size).randbytes(1000) * (size // 1000 + 1)
        (tmp_path / "file").write_bytes(data[:size])
        with (tmp_path / "file").open("rb") as file:
            oid = objects.add_file(file.fileno(), size)
            assert os.fstat(file.fileno()).st_size == size
        assert any_repo.git("hash-object", tmp_path / "file") == oid
        assert loose(any_repo, oid).exists() == (size > LARGE)
    objects.flush()
    assert any_repo.git("cat-file", "-s", oid) == str(LARGE + 1)
    assert leftovers(any_repo) == []
    with (tmp_path / "file").open("rb") as file:
        assert objects.add_file(file.fileno(), LARGE + 1) == oid  # there already
    assert leftovers(any_repo) == []
    assert_sound(any_repo)


@pytest.mark.parametrize("size", [10, LARGE + 10])
@pytest.mark.parametrize("difference", [-1, 1])
def test_a_file_of_another_size(repo: GitRepo, tmp_path: Path, size: int, difference: int) -> None:
    """Nothing of it is kept."""
    (tmp_path / "file").write_bytes(b"x" * size)
    objects = open_objects(repo)
    with (tmp_path / "file").open("rb") as file, pytest.raises(SizeChanged):
        objects.add_file(file.fileno(), size + difference)
    assert leftovers(repo) == []


def test_a_large_file_takes_little_memory(repo: GitRepo, tmp_path: Path) -> None:
    """200 MB with less than 60 MB more than at rest."""
    script = (
        "import os, re, sys\n"
        "from pathlib import Path\n"
        "from gitsession.git.objects import Objects\n"
        "from gitsession.git.repo import Repo\n"
        "objects = Objects(Repo.discover(Path(sys.argv[1])))\n"
        "objects.add('blob', b'warm')\n"
        # What the system counts as this process's highest also counts the one that started it.
        "highest = lambda: int(re.search('VmHWM: *\\t *([0-9]+)', Path('/proc/self/status').read_text())[1])\n"
        "before = highest()\n"
        "size = os.path.getsize(sys.argv[2])\n"
        "objects.add_file(os.open(sys.argv[2], os.O_RDONLY), size)\n"
        "print(highest() - before)\n"
    )
    with (tmp_path / "file").open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    done = subprocess.run([sys.executable, "-c", script, repo.path, tmp_path / "file"], capture_output=True, check=True)
    assert int(done.stdout) < 60 * 1024


def test_pending_objects_do_not_fill_the_memory(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit they are written at once."""
    monkeypatch.setattr("gitsession.git.objects._SPILL", 1000)
    objects = open_objects(repo)
    oids = [objects.add("blob", b"%d" % number * 600) for number in range(4)]
    assert [loose(repo, oid).exists() for oid in oids] == [True] * 4


def test_every_durable_step_has_its_point(repo: GitRepo, points: list[str]) -> None:
    """In this order: contents, names, directories."""
    objects = open_objects(repo)
    objects.add("blob", b"1")
    objects.flush()
    assert points == ["obj.write", "obj.sync", "obj.rename", "object.sync-dir"]
    points.clear()
    for number in range(FEW + 1):
        objects.add("blob", b"many %d" % number)
    objects.flush()
    assert points == [
        "pack.write", "pack.sync", "idx.write", "idx.sync", "pack.rename", "idx.rename", "object.sync-dir"
    ]  # fmt: skip


def syscalls(repo: GitRepo, script: str, tmp_path: Path) -> list[str]:
    """What the script did to files, in order, by strace."""
    prelude = (
        "import sys\nfrom pathlib import Path\nfrom gitsession.git.objects import Objects\n"
        "from gitsession.git.repo import Repo\nobjects = Objects(Repo.discover(Path(sys.argv[1])))\n"
    )
    trace = tmp_path / "trace"
    command = [
        "strace",
        "-y",
        "-o",
        trace,
        "-e",
        "trace=fsync,rename,renameat,renameat2,fdatasync",
        sys.executable,
        "-c",
    ]
    subprocess.run([*command, prelude + script, repo.path], check=True)
    return [line for line in trace.read_text().splitlines() if line.endswith("= 0")]


@pytest.mark.skipif(not Path("/usr/bin/strace").exists(), reason="needs strace")
@pytest.mark.parametrize("count", [3, FEW + 3])
def test_synchronized_before_named_and_directories_after(repo: GitRepo, tmp_path: Path, count: int) -> None:
    """Seen from the kernel: a file is fsynced before its rename, each directory after the last rename in it."""
    script = f"for n in range({count}): objects.add('blob', b'%d' % n)\nobjects.flush()\n"
    lines = syscalls(repo, script, tmp_path)
    synced = [line.split("<")[1].split(">")[0] for line in lines if line.startswith("fsync")]
    renames = [tuple(line.split('"')[1::2]) for line in lines if line.startswith("rename")]
    assert len(renames) == (count if count <= FEW else 2)
    for number, line in enumerate(lines):
        if line.startswith("rename"):
            before, after = line.split('"')[1::2]
            assert any(before in earlier and earlier.startswith("fsync") for earlier in lines[:number])
            assert any(f"<{Path(after).parent}>" in later for later in lines[number:])
    assert len(synced) >= len(renames) + 1


@pytest.fixture
def fail_at() -> Iterator[list[str]]:
    """Name points in the list: there the disk is full."""
    named: list[str] = []

    def hook(point: str) -> None:
        if point in named:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    seam.hook = hook
    yield named
    seam.hook = None


LOOSE_POINTS = ["obj.write", "obj.sync", "obj.rename", "object.sync-dir"]
PACK_POINTS = ["pack.write", "pack.sync", "idx.write", "idx.sync", "pack.rename", "idx.rename", "object.sync-dir"]


@pytest.mark.parametrize(("count", "point"), [(2, p) for p in LOOSE_POINTS] + [(FEW + 1, p) for p in PACK_POINTS])
def test_a_full_disk(repo: GitRepo, fail_at: list[str], count: int, point: str) -> None:
    """An error in words, no rubbish, and the same batch goes through afterwards."""
    objects = open_objects(repo)
    oids = [objects.add("blob", b"%d" % number) for number in range(count)]
    fail_at.append(point)
    with pytest.raises(CaptureError, match="cannot write git objects: No space left on device"):
        objects.flush()
    repo.git("fsck", "--strict")
    assert leftovers(repo) == []
    fail_at.clear()
    objects.flush()
    assert [objects.read(oid)[1] for oid in oids] == [b"%d" % number for number in range(count)]
    for oid in oids:
        repo.git("cat-file", "-e", oid)


@pytest.mark.parametrize(("count", "point"), [(2, p) for p in LOOSE_POINTS] + [(FEW + 1, p) for p in PACK_POINTS])
def test_killed_at_any_point(repo: GitRepo, count: int, point: str) -> None:
    """The repository stays sound, git clears up what is left, and the same batch goes through afterwards."""

    def write() -> None:
        seam.hook = lambda reached: os._exit(7) if reached == point else None
        objects = open_objects(repo)
        for number in range(count):
            objects.add("blob", b"%d" % number)
        objects.flush()

    assert exit_status(in_child(write)) == 7
    repo.git("fsck", "--strict")
    objects = open_objects(repo)
    oids = [objects.add("blob", b"%d" % number) for number in range(count)]
    objects.flush()
    for oid in oids:
        repo.git("cat-file", "-e", oid)
    repo.git("prune", "--expire=now")
    assert leftovers(repo) == []
    repo.git("fsck", "--strict")


def test_two_writers_of_the_same_objects(repo: GitRepo) -> None:
    """Both succeed."""

    def write() -> None:
        objects = open_objects(repo)
        for batch in range(5):
            for number in range(FEW - 5 + batch * 3):
                objects.add("blob", b"%d %d" % (batch, number))
            objects.flush()

    children = [in_child(write) for _ in range(4)]
    assert [exit_status(child) for child in children] == [0] * 4
    assert_sound(repo)


def test_a_gc_beside_us_takes_nothing(repo: GitRepo) -> None:
    """Objects that are old, in no ref and already there survive a gc between batch and ref."""
    oid = repo.git("hash-object", "-w", "--stdin", input="old")
    os.utime(loose(repo, oid), (OLD, OLD))
    objects = open_objects(repo)
    assert objects.add("blob", b"old") == oid
    objects.flush()
    repo.git("gc", "-q", "--prune=1.hour.ago")
    assert objects.read(oid) == ("blob", b"old")
