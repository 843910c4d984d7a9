"""Operations on file systems of their own: small ones that fill up, and one whose power is cut.

    unshare --mount python tests/faults/mounts.py DIRECTORY full|inodes|power SHARE

The mounts are in a namespace of their own and end with this process.  ``SHARE`` is how many points of each operation
are tried (0: all).  Prints ``<survived> of <tried>``, and what was not survived.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from conftest import sealed_environment  # noqa: E402
from faults import harness, operations  # noqa: E402
from faults.harness import ID, POWER, Ground  # noqa: E402
from faults.operations import OPERATIONS  # noqa: E402

SPACE = ("a whole run", "resume", "checkpoint by scan", "checkpoint of known files", "restore", "delete")
CUT = ("a whole run", "checkpoint by scan", "checkpoint of known files", "restore", "delete", "recover and run on")
FULL = "ENOSPC"


def sh(*words: str | Path) -> None:
    subprocess.run(words, check=True, capture_output=True)


# Full disks


def fill(place: Path, kilobytes: int) -> Path:
    """Leave only so much room."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(bytes(4096))
        file.truncate(max(0, filler.stat().st_size - kilobytes * 1024))
    return filler


def use_up(place: Path, left: int) -> Path:
    """Leave only so many inodes."""
    filler = place / "filler"
    filler.mkdir()
    number = 0
    with suppress(OSError):
        while True:
            (filler / str(number)).touch()
            number += 1
    for spare in range(number - left, number):
        (filler / str(spare)).unlink()
    return filler


def exhaust(ground: Ground, name: str, left: int, exhaust: Callable[[Path, int], Path]) -> None:
    """Run the operation with so little left, give back what was taken, and check."""
    operation = OPERATIONS[name]
    ground.put_back(operation.state)
    before, state = ground.files(), ground.repo.user_state()
    filler = exhaust(ground.live, left)
    done = operation.start(ground)
    sh("rm", "-rf", filler)
    try:
        operations.check(ground, operation, FULL, done, before, state)
    except AssertionError as error:
        raise AssertionError(f"{name}, {left} left: {error}") from error


def on_small_disk(ground: Ground, mode: str, share: int) -> Iterator[Callable[[], None]]:
    """The points to try: amounts of room, or of inodes, from none to enough."""
    amounts = [0, 4, 8, 12, 20, 32, 48, 80, 120, 200] if mode == "full" else list(range(0, 60, 3))
    step = 1 if not share else max(1, len(amounts) // share)
    act = fill if mode == "full" else use_up
    for place, name in enumerate(SPACE):
        operations.total(ground, OPERATIONS[name])
        for left in amounts[place % step :: step]:
            yield lambda name=name, left=left: exhaust(ground, name, left, act)


# Power cuts


class Disk:
    """An ext4 image, mounted where the ground's live files are."""

    def __init__(self, ground: Ground) -> None:
        self.place = ground.live
        self.image = ground.place / "disk.img"
        self.device: str | None = None
        with self.image.open("wb") as file:
            file.truncate(64 << 20)

    def make(self) -> None:
        self.release()
        sh("mkfs.ext4", "-q", "-F", self.image)
        self.mount()

    def mount(self) -> None:
        attached = subprocess.run(
            ["losetup", "--find", "--show", self.image], check=True, capture_output=True, text=True
        )
        self.device = attached.stdout.strip()
        # Without the help that ext4 gives to programs that rename and do not fsync.
        sh("mount", "-o", "noauto_da_alloc", self.device, self.place)
        sh("losetup", "--detach", self.device)  # as soon as it is not mounted any more, whatever ends that

    def release(self) -> None:
        """Unmount, waiting for those who still stand in it."""
        if self.device is None:
            return
        until = time.monotonic() + 60
        while subprocess.run(["umount", self.place], capture_output=True).returncode:
            assert time.monotonic() < until, "somebody still stands in it"
            time.sleep(0.05)
        self.device = None


def cut(ground: Ground, disk: Disk, name: str, number: int) -> None:
    """Cut the power at the operation's ``number``-th call, power on, and check."""
    operation = OPERATIONS[name]
    disk.make()
    ground.put_back(operation.state)
    before, state = ground.files(), ground.repo.user_state()
    os.sync()
    done = operation.start(ground, (number, POWER))
    ground.run(code=f"from gitsession.backends.processes import end_survivors\nend_survivors('{ID}')", cwd=ground.place)
    disk.release()
    disk.mount()
    try:
        operations.check(ground, operation, POWER, done, before, state)
    except AssertionError as error:
        raise AssertionError(f"{name}, power cut at call {number} ({done.struck}): {error}") from error


def with_cuts(ground: Ground, disk: Disk, share: int) -> Iterator[Callable[[], None]]:
    for name in CUT:
        disk.make()
        total = operations.total(ground, OPERATIONS[name])
        step = 1 if not share else max(1, total // share)
        for number in range(1 + step // 2, total + 1, step):
            yield lambda name=name, number=number: cut(ground, disk, name, number)


@contextmanager
def disk_under(ground: Ground) -> Iterator[Disk]:
    disk = Disk(ground)
    try:
        yield disk
    finally:
        disk.release()


def tried(points: Iterator[Callable[[], None]]) -> int:
    count = survived = 0
    for point in points:
        count += 1
        try:
            point()
            survived += 1
        except AssertionError as error:
            print(error, file=sys.stderr, flush=True)
    print(f"{survived} of {count}")
    return 0 if survived == count else 1


def main(directory: str, mode: str, share: str) -> int:
    place = Path(directory)
    home = place / "sealed"
    home.mkdir()
    os.environ.update(sealed_environment(home))
    # What is mounted here is nobody else's.
    sh("mount", "--make-rprivate", "/")
    with harness.ground(place / "ground", harness.build_shim(place)) as ground:
        operations.prepare(ground)
        for leftover in list(ground.live.iterdir()):
            sh("rm", "-rf", leftover)
        if mode == "power":
            with disk_under(ground) as disk:
                return tried(with_cuts(ground, disk, int(share)))
        limit = "size=3m" if mode == "full" else "size=8m,nr_inodes=700"
        sh("mount", "-t", "tmpfs", "-o", limit, "tmpfs", ground.live)
        return tried(on_small_disk(ground, mode, int(share)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
