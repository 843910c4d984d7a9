"""Try every fault point and write the table of docs/reliability.md.

    python tests/faults/table.py [--every N] [--check] [--jobs N] [OPERATION …]

``--every 10`` tries one call in ten; the table says so.  ``--check`` only prints.  ``--jobs`` tries so many operations
at once (by default one for each processor); all of them took twenty minutes on two.  Ends with status 1 if a point was
not survived, and says which.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from conftest import sealed_environment  # noqa: E402
from faults import harness, operations  # noqa: E402

PAGE = HERE.parent.parent / "docs" / "reliability.md"
BEGIN, END = "<!-- table: written by tests/faults/table.py -->\n", "<!-- end of table -->"
Counts = dict[str, dict[str, tuple[int, int]]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operations", nargs="*", metavar="OPERATION", help="all by default")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--check", action="store_true", help="do not write the page")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    options = parser.parse_args()
    names = options.operations or list(operations.OPERATIONS)
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=1) as pool:
        found = dict(zip(names, pool.map(_try_alone, names, [options.every] * len(names)), strict=True))
    counts = {name: of_one for name, (of_one, _) in found.items()}
    failures = [failure for _, ones in found.values() for failure in ones]
    text = _table(counts, options.every)
    print(text)
    if not options.check and not options.operations:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def _try_alone(name: str, every: int) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """One operation, in a process and on a ground of its own: how many points it survived, and what went wrong."""
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        home = Path(scratch, "sealed")
        home.mkdir()
        os.environ.update(sealed_environment(home))
        shim = harness.build_shim(Path(scratch))
        with harness.ground(Path(scratch, "ground"), shim) as ground:
            operations.prepare(ground)
            return _try(ground, name, every, failures), failures


def _try(ground: harness.Ground, name: str, every: int, failures: list[str]) -> dict[str, tuple[int, int]]:
    operation = operations.OPERATIONS[name]
    total = operations.total(ground, operation)
    counts = {}
    for place, mode in enumerate(harness.MODES):
        numbers = list(range(1 + place % every, total + 1, every))
        survived = 0
        for number in numbers:
            try:
                operations.disturb(ground, operation, mode, number)
                survived += 1
            except AssertionError as error:
                failures.append(str(error))
        counts[mode] = (survived, len(numbers))
        print(f"{name}: {mode}: {survived} of {len(numbers)}", file=sys.stderr, flush=True)
    return counts


def _table(counts: Counts, every: int) -> str:
    modes = list(harness.MODES)
    rows = [["operation", *modes], ["---"] * (len(modes) + 1)]
    for name, found in counts.items():
        rows.append([name, *(f"{found[mode][0]} of {found[mode][1]}" for mode in modes)])
    sums = [[sum(found[mode][part] for found in counts.values()) for part in (0, 1)] for mode in modes]
    rows.append(["**all**", *(f"**{survived} of {tried}**" for survived, tried in sums)])
    share = "every call" if every == 1 else f"one call in {every}"
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return f"Survived, of the points tried ({share} that changes a file):\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
