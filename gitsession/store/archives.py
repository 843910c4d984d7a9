"""Archives: one session in one file that can be kept anywhere, ``<id>.tar.gz``.

::

    <id>/archive.json      {"format": 1, "id", "created_at", "version", "files": {name: {"size", "sha256"}}}
    <id>/session.json      the session file
    <id>/session.journal   its journal
    <id>/refs.bundle       its refs, a git bundle (``gitsession.git.bundle``); not there when it has none

Nothing is taken from an archive by the name it gives: what is wanted is looked up, anything else is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

from gitsession import __version__
from gitsession.clock import timestamp
from gitsession.errors import BadSessionId, StoreError
from gitsession.ids import check_session_id
from gitsession.store.files import TEMPORARY, explained, open_private, sync_directory

SNAPSHOT, JOURNAL, BUNDLE = "session.json", "session.journal", "refs.bundle"
ENDING: Final = ".tar.gz"
_FORMAT: Final = 1
_MANIFEST: Final = "archive.json"
_LARGEST_MANIFEST: Final = 1 << 20  # bytes
_CHUNK: Final = 1 << 20
_BROKEN: Final = (
    tarfile.TarError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError,
)  # fmt: skip


@dataclass(frozen=True)
class Contents:
    """What an archive holds: its session's id, and the SHA-256 of each file."""

    session_id: str
    hashes: dict[str, str]


def pack(path: Path, session_id: str, files: dict[str, Path]) -> None:
    """Write the archive ``path``, which must not exist, of ``files`` by the names above; durable when it returns."""
    described = {name: {"size": file.stat().st_size, "sha256": _hash(file)} for name, file in files.items()}
    manifest = {
        "format": _FORMAT,
        "id": session_id,
        "created_at": timestamp(),
        "version": __version__,
        "files": described,
    }
    temporary = path.with_name(path.name + TEMPORARY)
    with explained("write", path):
        try:
            with os.fdopen(open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
                    data = json.dumps(manifest, indent=2).encode()
                    archive.addfile(_member(f"{session_id}/{_MANIFEST}", len(data)), BytesIO(data))
                    for name, source in files.items():
                        with source.open("rb") as opened:
                            archive.addfile(_member(f"{session_id}/{name}", source.stat().st_size), opened)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)  # unlike a rename it never replaces anything
        finally:
            with suppress(OSError):
                temporary.unlink()
        sync_directory(path.parent)


def unpack(path: Path, into: Path) -> Contents:
    """Write an archive's files into the directory ``into``; ``StoreError`` unless they are all there and unharmed."""
    with explained("read", path), _opened(path) as archive:
        manifest = _manifest(archive)
        session_id: str = check_session_id(manifest["id"])
        described: dict[str, Any] = manifest["files"]
        hashes = {}
        for member in archive:
            directory, _, name = member.name.partition("/")
            if name == _MANIFEST and directory == session_id:
                continue
            if (
                directory != session_id
                or name not in (SNAPSHOT, JOURNAL, BUNDLE)
                or name in hashes
                or not _is_plain(member)
            ):
                raise ValueError(f"it holds {member.name!r}, which does not belong there")
            size = described[name]["size"] if name in described else None
            if type(size) is not int or member.size != size:
                raise ValueError(f"its files are not what they were when it was made: {name} has another size")
            source = archive.extractfile(member)
            assert source is not None  # noqa: S101 - it is a regular file
            _copy(source, into / name, size)
            hashes[name] = _hash(into / name)
        if hashes != {name: facts["sha256"] for name, facts in described.items()}:
            raise ValueError("its files are not what they were when it was made")
        if not {SNAPSHOT, JOURNAL} <= hashes.keys():
            raise ValueError("the session's files are not in it")
        return Contents(session_id, hashes)


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:gz") as archive:
            yield archive
    except (*_BROKEN, BadSessionId) as error:
        raise StoreError(f"{path} is not an archive of a session, or is damaged: {error}") from error


def _manifest(archive: tarfile.TarFile) -> dict[str, Any]:
    first = archive.next()
    if first is None or not first.name.endswith(f"/{_MANIFEST}"):
        raise ValueError(f"it does not begin with {_MANIFEST}")
    if not _is_plain(first) or first.size > _LARGEST_MANIFEST:
        raise ValueError(f"it does not begin with {_MANIFEST}")
    source = archive.extractfile(first)
    manifest: dict[str, Any] = json.loads(source.read() if source else b"")
    if manifest["format"] != _FORMAT:
        raise ValueError(f"it has format {manifest['format']!r}, and this version reads {_FORMAT}")
    if first.name != f"{manifest['id']}/{_MANIFEST}":
        raise ValueError("it does not know its session")
    return manifest


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member


def _is_plain(member: tarfile.TarInfo) -> bool:
    """A regular file with all its bytes there: a sparse one of a few bytes may unpack to any number."""
    return member.isreg() and not member.issparse()


def _copy(source: IO[bytes], path: Path, size: int) -> None:
    """Write the ``size`` bytes of ``source`` to ``path``; ``ValueError`` if there are more or fewer."""
    left = size
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as target:
        while chunk := source.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                break
            target.write(chunk)
    if left:
        raise ValueError(f"{path.name} does not have the {size} bytes that it should have")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
