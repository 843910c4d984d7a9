"""Atomic writes: all of the new bytes or all of the old ones."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gitsession import seam
from gitsession.errors import StoreError
from gitsession.store.files import explained, obstacle, private_dir, write_atomic


def test_a_write_replaces_the_file_privately_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for data in (b"one", b"", b"three" * 10**5):
        write_atomic(path, data)
        assert path.read_bytes() == data
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_the_order_is_write_fsync_rename_fsync_of_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    path = tmp_path / "x"
    fsync = os.fsync
    monkeypatch.setattr(seam, "hook", lambda point: seen.append(f"{point} {path.exists()}"))
    monkeypatch.setattr(
        os, "fsync", lambda fd: (seen.append("dir" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"), fsync(fd))
    )
    write_atomic(path, b"x")
    assert seen == ["file.write False", "file.fsync False", "file", "file.replace False", "file.sync-dir True", "dir"]


@pytest.mark.parametrize("point", ["file.write", "file.fsync", "file.replace"])
@pytest.mark.parametrize(
    ("error", "words", "advice"),
    [
        (errno.ENOSPC, "No space left on device", "free some space"),
        (errno.EDQUOT, "Disk quota exceeded", "free some space"),
        (errno.EROFS, "Read-only file system", " writable"),
        (errno.EACCES, "Permission denied", " writable"),
        (errno.EIO, "Input/output error", None),
    ],
)
def test_a_failure_keeps_the_old_bytes_and_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, error: int, words: str, advice: str | None
) -> None:
    path = tmp_path / "x.json"
    write_atomic(path, b"old")

    def fail(reached: str) -> None:
        if reached == point:
            raise OSError(error, os.strerror(error))

    monkeypatch.setattr(seam, "hook", fail)
    with pytest.raises(StoreError) as caught:
        write_atomic(path, b"new")
    assert str(caught.value) == f"cannot write {path}: {words}"
    assert (advice is None) if caught.value.hint is None else (advice or "") in caught.value.hint
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_another_home_is_advised_only_for_what_is_in_it(tmp_path: Path, pinable_home: Path) -> None:
    def hint(path: Path) -> str | None:
        with pytest.raises(StoreError) as caught, explained("write", path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return caught.value.hint

    assert hint(tmp_path / "record.json") == f"make {tmp_path} writable"
    sessions = pinable_home / "sessions"
    assert hint(sessions / "x.json") == f"make {sessions} writable, or set PINABLE_HOME to a directory that is"


def test_what_keeps_files_from_being_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert obstacle(tmp_path) is None
    assert obstacle(tmp_path / "not" / "yet") is None
    (tmp_path / "file").touch()
    assert obstacle(tmp_path / "file" / "below") == tmp_path / "file"
    (tmp_path / "link").symlink_to("gone")
    assert obstacle(tmp_path / "link") == tmp_path / "link"
    monkeypatch.setattr(os, "access", lambda place, mode: (place, mode) != (tmp_path, os.W_OK | os.X_OK))
    assert obstacle(tmp_path / "not" / "yet") == tmp_path
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_a_real_limit_in_the_middle_of_a_write_keeps_the_old_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"old")
    code = """
import resource, sys
from pathlib import Path
from gitsession.errors import StoreError
from gitsession.store.files import write_atomic
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomic(Path(sys.argv[1]), b"n" * 5000)
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout == f"cannot write {path}: File too large\n"
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_short_writes_of_the_system_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    write_atomic(tmp_path / "x", b"0123456789")
    assert (tmp_path / "x").read_bytes() == b"0123456789"


def test_directories_are_private_and_an_existing_one_stays_as_it_is(tmp_path: Path) -> None:
    open_one = tmp_path / "open"
    open_one.mkdir(mode=0o755)
    assert stat.S_IMODE(private_dir(open_one).stat().st_mode) == 0o755
    assert stat.S_IMODE(private_dir(open_one / "a" / "b").stat().st_mode) == 0o700


def test_a_directory_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"cannot make the directory .*/file/x: Not a directory"):
        private_dir(tmp_path / "file" / "x")
