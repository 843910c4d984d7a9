"""A power cut: the file system forgets what was not brought to the disk.  What was reported is there all the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from faults.spaces import NO_MOUNTS, in_a_space_of_its_own

pytestmark = [
    pytest.mark.skipif(NO_MOUNTS is not None, reason=str(NO_MOUNTS)),
    pytest.mark.skipif(shutil.which("mkfs.ext4") is None, reason="no mkfs.ext4"),
    pytest.mark.skipif(not Path("/dev/loop-control").exists(), reason="no loop devices"),
]


def test_the_power_goes_off(tmp_path: Path) -> None:
    in_a_space_of_its_own(tmp_path, "power", 1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_power_goes_off_at_every_call(tmp_path: Path) -> None:
    in_a_space_of_its_own(tmp_path, "power", 0)
