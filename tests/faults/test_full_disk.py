"""Disks and directories of inodes that are really full, each as small as it has to be."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.spaces import NO_MOUNTS, in_a_space_of_its_own

pytestmark = pytest.mark.skipif(NO_MOUNTS is not None, reason=str(NO_MOUNTS))


@pytest.mark.parametrize("mode", ["full", "inodes"])
def test_a_full_disk_takes_nothing_that_was_saved(tmp_path: Path, mode: str) -> None:
    in_a_space_of_its_own(tmp_path, mode, 1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["full", "inodes"])
def test_however_much_is_left_nothing_is_lost(tmp_path: Path, mode: str) -> None:
    in_a_space_of_its_own(tmp_path, mode, 0)
