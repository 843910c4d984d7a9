"""A kill, a full disk, an I/O error, a disk gone read-only, at the system calls of every operation.

The normal run tries a few calls of each; ``-m slow`` tries all, as ``python tests/faults/table.py`` does, which writes
the table of docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("gitsession")
from faults import harness, operations
from faults.harness import MODES, Ground
from faults.operations import OPERATIONS

pytestmark = [
    pytest.mark.skipif(harness.compiler() is None, reason="no C compiler to build the shim with"),
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the shim needs Linux"),
]
FEW = {"kill": 3, "ENOSPC": 1, "EIO": 1, "EROFS": 1}


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """All states, made once."""
    place = tmp_path_factory.mktemp("faults")
    with harness.ground(place, harness.build_shim(place)) as ground:
        operations.prepare(ground)
        yield ground


def some(total: int, count: int, mode: str) -> list[int]:
    """``count`` calls spread over all, other ones in each mode."""
    shift = 1 + list(MODES).index(mode)
    return sorted({1 + (total * (2 * place + 1) // (2 * count) + shift * 7) % total for place in range(count)})


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", OPERATIONS)
def test_whatever_fails_nothing_is_lost(ground: Ground, name: str) -> None:
    operation = OPERATIONS[name]
    total = operations.total(ground, operation)
    for mode, count in FEW.items():
        for number in some(total, count, mode):
            operations.disturb(ground, operation, mode, number)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_whatever_fails_anywhere_nothing_is_lost(ground: Ground, name: str, mode: str) -> None:
    operation = OPERATIONS[name]
    failures = []
    for number in range(1, operations.total(ground, operation) + 1):
        try:
            operations.disturb(ground, operation, mode, number)
        except AssertionError as error:
            failures.append(str(error))
    assert failures == []
