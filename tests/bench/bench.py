"""Time what this project does against what it would replace, in the same run.

    python tests/bench/bench.py [--files 1000,20000,100000] [--rounds 9] [--json FILE] [ROW …]

Each row prints the median of both sides and their ratio; the two sides take turns, so that a machine that slows down
slows both.  The rival of the checkpoint rows is the usual temporary-index recipe, warm (its index is kept between
rounds): ``git add -A``, ``git write-tree``, ``git commit-tree``, ``git update-ref``.  Ours is everything a checkpoint
is: objects and ref on disk (fsynced), the journal line and the session file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from checkpoints import known, memory, restore, scan
from hooking import hooks
from measuring import ENV, make_repository
from stores import growth, listing, recover, run
from tracking import tracking

ROWS = {
    "known": known,
    "scan": scan,
    "restore": restore,
    "memory": memory,
    "run": run,
    "growth": growth,
    "listing": listing,
    "recover": recover,
    "hooks": hooks,
    "tracking": tracking,
}
# These do not look at the repository: once is enough.
ONCE = {"growth", "listing", "recover"}


def shown(result: dict[str, Any]) -> str:
    """A result as a line's end."""
    more = "".join(
        f"   {name} {value:,}" for name, value in result.items() if name not in ("ours_ms", "rival_ms", "ratio")
    )
    return f"ours {result['ours_ms']:8.1f} ms   rival {result['rival_ms']:8.1f} ms   ratio {result['ratio']:.3f}{more}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS) + " (all by default)")
    parser.add_argument("--files", default="1000,20000,100000", help="repository sizes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    unknown = set(options.rows) - set(ROWS)
    if unknown:
        parser.error("no such row: " + ", ".join(sorted(unknown)))
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        os.environ["HOME"] = ENV["HOME"] = place
        sizes = [int(size) for size in options.files.split(",")]
        for size in sizes:
            repo = make_repository(Path(place), size)
            for row in options.rows or ROWS:
                if row in ONCE and size != sizes[0]:
                    continue
                for label, result in ROWS[row](repo, Path(place) / "home", options.rounds).items():
                    figures[f"{row}, {size:,} files in the repository, {label}"] = result
                    print(f"{row:8} {size:>8,} files  {label:20} {shown(result)}", flush=True)
            shutil.rmtree(repo)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
