"""What the ignore rules in a recorded tree say.

Only its ``.gitignore`` files count: the rules of the user and of ``info/exclude`` are in no checkpoint, and may have
been others then.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from gitsession.git import trees
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.git.trees import EXECUTABLE, FILE

_RULES: Final = b".gitignore"


def ignored_in(repo: Repo, objects: Objects, tree: str, paths: Collection[bytes]) -> set[bytes]:
    """Those of ``paths`` that the ignore files of ``tree`` name, whatever is tracked."""
    directories = {b"", *(above + b"/" for path in paths for above in trees.parents(path))}
    found = {path: trees.lookup(objects, tree, path) for path in (above + _RULES for above in directories)}
    rules = {path: entry.oid for path, entry in found.items() if entry is not None and entry.mode in (FILE, EXECUTABLE)}
    if not rules or not paths:
        return set()
    with TemporaryDirectory(dir=repo.private_dir, prefix="ignoring-") as directory:
        for path, oid in rules.items():
            file = Path(directory, os.fsdecode(path))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(objects.read(oid)[1])
        # It takes no literal pathspecs; the dot keeps a name that begins with a colon from being another kind.
        words = replace(repo, worktree=Path(directory)).git(
            "--no-literal-pathspecs", "check-ignore", "--no-index", "--verbose", "-z", "--stdin",
            input=b"".join(b"./" + path + b"\0" for path in paths), ok=(0, 1),
        ).split(b"\0")  # fmt: skip
    answers = zip(words[0::4], words[2::4], words[3::4], strict=False)
    return {path[2:] for source, pattern, path in answers if source in rules and not pattern.startswith(b"!")}
