"""Archive files: whole, checked, and harmless whoever made them."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gitsession.errors import StoreError
from gitsession.store import archives

FILES = {archives.SNAPSHOT: b"{}", archives.JOURNAL: b"line\n", archives.BUNDLE: b"\0" * 5000}
Change = Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    sources = {}
    for name, data in FILES.items():
        sources[name] = tmp_path / f"source-{name}"
        sources[name].write_bytes(data)
    path = tmp_path / "s.tar.gz"
    archives.pack(path, "s", sources)
    return path


@pytest.fixture
def into(tmp_path: Path) -> Path:
    place = tmp_path / "deep" / "into"
    place.mkdir(parents=True)
    return place


def remake(path: Path, change: Change) -> None:
    """The same archive with other members."""
    with tarfile.open(path) as archive:
        members = [(member, archive.extractfile(member).read()) for member in archive]  # type: ignore[union-attr]
    change(members)
    with tarfile.open(path, "w:gz") as archive:
        for member, data in members:
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def other(
    name: str, data: bytes = b"evil", kind: bytes = tarfile.REGTYPE, target: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, data


def test_there_and_back(archive: Path, into: Path) -> None:
    assert archives.unpack(archive, into).session_id == "s"
    assert {path.name: path.read_bytes() for path in into.iterdir()} == FILES
    assert [path.name for path in archive.parent.glob("*.tmp")] == []
    assert archive.stat().st_mode & 0o777 == 0o600


def test_an_archive_is_never_replaced(archive: Path) -> None:
    before = archive.read_bytes()
    with pytest.raises(StoreError, match="File exists"):
        archives.pack(archive, "s", {})
    assert archive.read_bytes() == before


@pytest.mark.parametrize(
    "member",
    [
        other("../../evil"),
        other("/tmp/evil"),
        other("s/../../evil"),
        other("s/evil"),
        other("t/session.json"),
        other("s/session.json"),
        other("s/refs.bundle", b"", tarfile.SYMTYPE, "/etc/passwd"),
        other("s/refs.bundle", b"", tarfile.LNKTYPE, "../../evil"),
        other("s/refs.bundle", b"", tarfile.FIFOTYPE),
        other("s", b"", tarfile.DIRTYPE),
    ],
    ids=lambda member: f"{member[0].name} {member[0].type.decode()}",
)
def test_what_does_not_belong_is_refused_and_nothing_is_written_elsewhere(
    archive: Path, into: Path, member: tuple[tarfile.TarInfo, bytes]
) -> None:
    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        if member[0].name == "s/refs.bundle":
            members.pop()
        members.append(member)

    remake(archive, change)
    around = set(into.parent.rglob("*"))
    with pytest.raises(StoreError, match="is not an archive of a session, or is damaged"):
        archives.unpack(archive, into)
    assert {path for path in into.parent.rglob("*") if path.parent != into} == around


def manifest(**fields: object) -> Change:
    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        first, data = members[0]
        members[0] = (first, json.dumps(json.loads(data) | fields).encode())

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (manifest(format=2), "format 2"),
        (manifest(id="../x"), "does not know its session"),
        (manifest(id=None), "does not know its session"),
        (manifest(files={}), "not what they were"),
        (lambda members: members.pop(), "not what they were"),
        (lambda members: members.pop(0), "does not begin with archive.json"),
        (lambda members: members.clear(), "does not begin with archive.json"),
        (lambda members: members.__setitem__(1, (members[1][0], b"{ }")), "not what they were"),
    ],
)
def test_a_wrong_archive_is_refused(archive: Path, into: Path, change: Change, words: str) -> None:
    remake(archive, change)
    with pytest.raises(StoreError, match=words):
        archives.unpack(archive, into)


@pytest.mark.parametrize("keep", [0, 10, 200, 0.9])
def test_a_cut_archive_is_refused(archive: Path, into: Path, keep: float) -> None:
    data = archive.read_bytes()
    archive.write_bytes(data[: int(keep * len(data)) if keep < 1 else int(keep)])
    with pytest.raises(StoreError):
        archives.unpack(archive, into)


def test_a_sparse_file_is_refused_before_it_fills_the_disk(tmp_path: Path, into: Path) -> None:
    path, size = tmp_path / "bomb.tar.gz", 1 << 30
    for sparse in (archives.SNAPSHOT, "archive.json"):
        described = {"format": 1, "id": "s", "files": {archives.SNAPSHOT: {"size": size, "sha256": ""}}}
        with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
            for name, data in (("archive.json", json.dumps(described).encode()), (archives.SNAPSHOT, b"")):
                member = tarfile.TarInfo(f"s/{name}")
                member.size = len(data)
                if name == sparse:
                    member.pax_headers = {
                        "GNU.sparse.map": "0,0", "GNU.sparse.size": str(size), "GNU.sparse.numblocks": "1",
                    }  # fmt: skip
                archive.addfile(member, io.BytesIO(data))
        with pytest.raises(StoreError, match="is damaged"):
            archives.unpack(path, into)
        assert list(into.iterdir()) == []


def test_a_file_longer_than_the_manifest_says_is_not_written(archive: Path, into: Path) -> None:
    remake(archive, lambda members: members.__setitem__(1, (members[1][0], b"x" * 9000)))
    with pytest.raises(StoreError, match="has another size"):
        archives.unpack(archive, into)
    assert list(into.iterdir()) == []


@pytest.mark.parametrize("data", [b"[" * 200_000, b"[]", b'{"format": 1, "id": "s", "files": []}'])
def test_a_manifest_of_another_shape_is_damage(archive: Path, into: Path, data: bytes) -> None:
    remake(archive, lambda members: members.__setitem__(0, (members[0][0], data)))
    with pytest.raises(StoreError, match="is not an archive of a session, or is damaged"):
        archives.unpack(archive, into)
