"""Which session brought which bytes to which path: a cache of what the ledgers say, made to be asked by a git hook.

``.git/pinable/claims/`` (in the common directory) can be deleted at any time::

    tips      what the cache knows: a line with the refs' signature, then "<session> <tip> <generation>" lines
    00 … ff   "<id> <kind> <index> <generation> <session> <path>" lines, in the file of the id's first two digits

A line says that checkpoint ``index`` brought (kinds ``N``, ``K``, ``R``) or took away (``O``) the object at the path,
against the checkpoint before; what the base holds was brought by nobody.  ``K``: an engine applied the edit itself;
``N``: it was found changed while the session's agent worked; ``R``: it was found changed in between.  The generation
is the beginning of the base commit's id: a session deleted and made again under its name is another one.  In a path
``\\`` and newline are written ``\\\\`` and ``\\n``.

Whether the cache is up to date costs no process: a ref that moves changes the time of the directory it is in.  This
module is loaded by git hooks: it imports nothing that takes time.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gitsession.links import Entry

    Git = Callable[[list[str], bytes], "bytes | None"]
    """Runs git with arguments and an input; None if it fails."""
    Tips = dict[bytes, tuple[bytes, bytes]]
    """Session to (newest commit, generation)."""
    Step = tuple[bytes, bytes, int, bytes]
    """One checkpoint: commit, its parent, index, kind."""

_SETTLED = 100_000_000  # ns; a time stamp younger than this may be shared by the next change
_BATCH = 50  # sessions that are taken in before that is noted
_PAIRS = 300  # of commits given to a git at once: its input has to fit a pipe
_GENERATION = 12
_EMPTY = b"-"


def refresh(common_dir: str, git: Git, *, trusting: bool = True) -> Tips:
    """Bring the cache up to the refs; the sessions there are.

    ``trusting`` believes the directories' times; without it git is asked.  An ``OSError`` when it cannot be written.
    """
    directory = os.path.join(common_dir, "pinable", "claims")
    signature = _signature(common_dir)
    known_signature, known = _read_tips(directory)
    if trusting and signature == known_signature != _EMPTY:
        return known
    listing = git(["for-each-ref", "--format=%(refname) %(objectname)", "refs/pinable"], b"")
    if listing is None:
        return known
    now = {}
    for line in listing.splitlines():
        name, _, tip = line.partition(b" ")
        now[name.removeprefix(b"refs/pinable/")] = tip
    if not now and not known:
        return {}
    tips = {name: known[name] for name, tip in now.items() if name in known and known[name][0] == tip}
    behind = [name for name in now if name not in tips]
    if not behind and tips == known and signature == known_signature:
        return tips
    os.makedirs(directory, 0o700, exist_ok=True)
    for start in range(0, len(behind), _BATCH):
        batch = behind[start : start + _BATCH]
        steps, generations = _walk(git, {name: now[name] for name in batch}, known)
        _add(directory, git, steps, generations)
        tips |= {name: (now[name], generations.get(name, _EMPTY)) for name in batch}
        _write_tips(directory, _EMPTY, {**{name: known[name] for name in known if name in now}, **tips})
    _write_tips(directory, signature, tips)
    return tips


def lookup(common_dir: str, tips: Tips, entries: Iterable[Entry]) -> dict[Entry, dict[bytes, tuple[int, bytes]]]:
    """For each entry that sessions brought: which, by the checkpoint of what index, and the kind of that."""
    found: dict[Entry, dict[bytes, tuple[int, bytes]]] = {}
    lines = _Lines(common_dir)
    for path, oid in entries:
        brought: dict[bytes, tuple[int, bytes]] = {}
        taken: dict[bytes, int] = {}
        for kind, index, generation, session, where in lines.of(oid):
            if where != path or tips.get(session, (b"", b""))[1] != generation:
                continue
            if kind == b"O":
                taken[session] = min(index, taken.get(session, index))
            elif session not in brought or index < brought[session][0]:
                brought[session] = (index, kind)
        # Who took it away before anybody brought it found it there: it was the base's.
        owners = {name: claim for name, claim in brought.items() if name not in taken or claim[0] < taken[name]}
        if owners:
            found[path, oid] = owners
    return found


def elsewhere(common_dir: str, tips: Tips, oid: bytes) -> list[tuple[bytes, bytes, int]]:
    """(session, path, index) wherever an object was brought and was not found at any path before."""
    lines = [line for line in _Lines(common_dir).of(oid) if tips.get(line[3], (b"", b""))[1] == line[2]]
    first: dict[bytes, int] = {}
    for kind, index, _, session, _ in lines:
        if kind == b"O":
            first[session] = min(index, first.get(session, index))
    return [
        (session, path, index)
        for kind, index, _, session, path in lines
        if kind in (b"N", b"K") and index < first.get(session, index + 1)
    ]


class _Lines:
    """The cache's lines, each file read once."""

    def __init__(self, common_dir: str) -> None:
        self._directory = os.path.join(common_dir, "pinable", "claims")
        self._files: dict[bytes, bytes] = {}

    def of(self, oid: bytes) -> Iterator[tuple[bytes, int, bytes, bytes, bytes]]:
        """(kind, index, generation, session, path) of every line about an object."""
        data = self._file(oid[:2])
        wanted = b"\n" + oid + b" "
        start = data.find(wanted)
        while start >= 0:
            end = data.find(b"\n", start + 1)
            fields = data[start + len(wanted) : end].split(b" ", 4)
            if len(fields) == 5 and fields[1].isdigit():
                kind, index, generation, session, path = fields
                yield kind, int(index), generation, session, _plain(path)
            start = data.find(wanted, end)

    def _file(self, name: bytes) -> bytes:
        if name not in self._files:
            try:
                with open(os.path.join(self._directory, name.decode()), "rb") as file:
                    self._files[name] = b"\n" + file.read() + b"\n"
            except OSError:
                self._files[name] = b""
        return self._files[name]


def _walk(git: Git, tips: dict[bytes, bytes], known: Tips) -> tuple[list[tuple[bytes, Step]], dict[bytes, bytes]]:
    """Every checkpoint that the cache lacks, and the generation of each session; one git for each step down."""
    steps: list[tuple[bytes, Step]] = []
    generations: dict[bytes, bytes] = {}
    frontier = dict(tips)
    while frontier:
        commits = _commits(git, frontier.values())
        below = {}
        for name, oid in frontier.items():
            parent, index, kind = _parsed(commits.get(oid, b""), name)
            if index is None:
                if kind:
                    generations[name] = oid[:_GENERATION]
                continue
            steps.append((name, (oid, parent, index, kind)))
            if name in known and known[name][0] == parent and known[name][1] != _EMPTY:
                generations[name] = known[name][1]
            elif parent:
                below[name] = parent
        frontier = below
    # A chain that does not end in a base is none of ours.
    return [step for step in steps if step[0] in generations], generations


def _commits(git: Git, oids: Iterable[bytes]) -> dict[bytes, bytes]:
    """The commits' bytes by id, those that are there."""
    out = git(["cat-file", "--batch"], b"".join(oid + b"\n" for oid in oids)) or b""
    found = {}
    place = 0
    while place < len(out):
        end = out.index(b"\n", place)
        head = out[place:end].split(b" ")
        place = end + 1
        if len(head) == 3 and head[2].isdigit():
            size = int(head[2])
            if head[1] == b"commit":
                found[head[0]] = out[place : place + size]
            place += size + 1
    return found


def _parsed(commit: bytes, session: bytes) -> tuple[bytes, int | None, bytes]:
    """Parent, index (None: no checkpoint) and kind (empty: not this session's) of a ledger's commit."""
    head, _, message = commit.partition(b"\n\n")
    parent = head.partition(b"\nparent ")[2].partition(b"\n")[0]
    trailers = b"\n" + message.partition(b"\n\n")[2]
    if b"\nPinable-Session: " + session + b"\n" not in trailers:
        return parent, None, b""
    index = trailers.partition(b"\nPinable-Checkpoint: ")[2].partition(b"\n")[0]
    record = trailers.partition(b"\nPinable-Record: ")[2]
    if not index.isdigit():
        return parent, None, b"O" if index == b"base" else b""
    # Inside a JSON string the quotes would be escaped: what matches is a key and its value.
    if any(b'"trigger":"%b"' % trigger in record for trigger in (b"resume", b"restore", b"found")):
        return parent, int(index), b"R"
    return parent, int(index), b"K" if b'"capture":"paths"' in record else b"N"


def _add(directory: str, git: Git, steps: list[tuple[bytes, Step]], generations: dict[bytes, bytes]) -> None:
    """Write what the checkpoints brought and took away."""
    by_commit = {oid: (name, index, kind) for name, (oid, _, index, kind) in steps}
    shards: dict[bytes, list[bytes]] = {}
    for start in range(0, len(steps), _PAIRS):
        pairs = [b"%b %b\n" % (oid, parent) for _, (oid, parent, _, _) in steps[start : start + _PAIRS]]
        out = git(["diff-tree", "--stdin", "-r", "-z", "--no-renames", "--always", "--no-abbrev"], b"".join(pairs))
        for commit, path, old, new in raw_entries(out or b""):
            name, index, kind = by_commit[commit]
            for oid, what in ((new, kind), (old, b"O")):
                if oid.strip(b"0"):
                    line = b"%b %b %d %b %b %b\n" % (oid, what, index, generations[name], name, _escaped(path))
                    shards.setdefault(oid[:2], []).append(line)
    for shard, lines in shards.items():
        _append(os.path.join(directory, shard.decode()), b"\n" + b"".join(lines))


def raw_entries(out: bytes) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """(heading, path, old id, new id) of git's ``--raw -z`` output; the heading is what stands above the entry.

    In the entries of a merge (``-c``) the old id is that of its first parent.
    """
    fields = iter(out.split(b"\0"))
    heading = b""
    for field in fields:
        field = field.lstrip(b"\n")
        if b"\n:" in field:  # the heading of two trees ends in a newline
            heading, _, field = field.partition(b"\n")
        if field.startswith(b":"):
            parents = len(field) - len(field.lstrip(b":"))
            facts = field.split(b" ")
            yield heading, next(fields, b""), facts[parents + 1], facts[2 * parents + 1]
        elif field:
            heading = field


def _escaped(path: bytes) -> bytes:
    return path.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")


def _plain(path: bytes) -> bytes:
    if b"\\" not in path:
        return path
    return b"\\".join(part.replace(b"\\n", b"\n") for part in path.split(b"\\\\"))


def _append(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError("short write")
    finally:
        os.close(descriptor)


def _signature(common_dir: str) -> bytes:
    """What changes whenever a ref of ours does; ``-`` while the last change is so young that one may go unseen."""
    parts = []
    newest = 0
    for name in ("refs/pinable", "packed-refs", "reftable/tables.list"):
        try:
            status = os.stat(os.path.join(common_dir, name))
        except OSError:
            parts.append("none")
            continue
        parts.append(f"{status.st_mtime_ns}.{status.st_ino}.{0 if name == 'refs/pinable' else status.st_size}")
        newest = max(newest, status.st_mtime_ns)
    return " ".join(parts).encode() if abs(time.time_ns() - newest) > _SETTLED else _EMPTY


def _read_tips(directory: str) -> tuple[bytes, Tips]:
    try:
        with open(os.path.join(directory, "tips"), "rb") as file:
            signature, *lines = file.read().split(b"\n")
    except OSError:
        return b"", {}
    tips = {}
    for line in lines:
        fields = line.split(b" ")
        if len(fields) == 3:
            tips[fields[0]] = (fields[1], fields[2])
    return signature, tips


def _write_tips(directory: str, signature: bytes, tips: Tips) -> None:
    """Replace the file in one step; hooks that run at the same time each have their own temporary one."""
    path = os.path.join(directory, "tips")
    temporary = f"{path}.{os.getpid()}"
    lines = [signature, *(b" ".join((name, *facts)) for name, facts in tips.items()), b""]
    try:
        with open(temporary, "wb") as file:
            file.write(b"\n".join(lines))
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
