"""Which session brought which bytes to which path: a cache of what the ledgers say, made to be asked by a git hook.

``.git/pinable/claims/`` (in the common directory) can be deleted at any time::

    tips      what the cache knows: a line with the refs' signature, then "<session> <tip> <generation>" lines
    00 … ff   "<id> <kind> <index> <generation> <session> <path>" lines, in the file of the id's first two digits

A line says that checkpoint ``index`` brought (kinds ``N``, ``K``, ``R``, ``H``) or took away (``O``) the object at the
path, against the checkpoint before; what the base holds was brought by nobody.  ``K``: an engine applied the edit
itself; ``N``: it was found changed while the session's agent worked; ``R``: it was found changed in between; ``H``: it
came with a move of HEAD (a branch switched to, a pull, somebody's commit), so that it is not the session's.  The
generation is the beginning of the base commit's id: a session deleted and made again under its name is another one.
In a path ``\\`` and newline are written ``\\\\`` and ``\\n``.

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
    Step = tuple[bytes, bytes, int, bytes, "tuple[bytes, bytes] | None"]
    """One checkpoint: session, parent commit, index, kind, where HEAD was before and is since if it moved."""

_SETTLED = 100_000_000  # ns; a time stamp younger than this may be shared by the next change
_BATCH = 50  # sessions that are taken in before that is noted
_PAIRS = 300  # of commits given to a git at once: its input has to fit a pipe
_GENERATION = 12
_NONE = b"-"  # the generation of a session whose ref leads to no base
_HEADING = b"\x01"  # begins what a git says about a commit, before what that changed
_KEYS = (b"Session", b"Checkpoint")
_HEADS = (b"head_before", b"head")
EMPTY_TREES = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}


def refresh(common_dir: str, git: Git, *, trusting: bool = True) -> Tips:
    """Bring the cache up to the refs; the sessions there are.

    ``trusting`` believes the times of files and directories; without it git is asked.  An ``OSError`` when it cannot
    be written.
    """
    directory = os.path.join(common_dir, "pinable", "claims")
    signature = _signature(common_dir)
    before, known = _read_tips(directory)
    if trusting and signature == before != _unsettled(before):
        return known
    now = _loose_tips(common_dir, directory, known) if trusting and _packed(signature) == _packed(before) else None
    now = _all_tips(git) if now is None else now
    if now is None or not (now or known):
        return known
    tips = {name: known[name] for name, tip in now.items() if name in known and known[name][0] == tip}
    behind = [name for name in now if name not in tips]
    if not behind and tips == known and signature == before:
        return tips
    os.makedirs(directory, 0o700, exist_ok=True)
    for start in range(0, len(behind), _BATCH):
        batch = {name: now[name] for name in behind[start : start + _BATCH]}
        generations = _take_in(directory, git, batch, known)
        tips |= {name: (tip, generations.get(name, _NONE)) for name, tip in batch.items()}
        if len(behind) > start + _BATCH:
            left = {name: known[name] for name in known if name in now}
            _write_tips(directory, _unsettled(signature), {**left, **tips})
    _write_tips(directory, signature, tips)
    return tips


def _all_tips(git: Git) -> dict[bytes, bytes] | None:
    """Where the refs are, as git says."""
    listing = git(["for-each-ref", "--format=%(refname) %(objectname)", "refs/pinable"], b"")
    if listing is None:
        return None
    lines = (line.partition(b" ") for line in listing.splitlines())
    return {name.removeprefix(b"refs/pinable/"): tip for name, _, tip in lines}


def _loose_tips(common_dir: str, directory: str, known: Tips) -> dict[bytes, bytes] | None:
    """The same without git, where nothing but single refs' files changed since the cache was written; else None."""
    now = {}
    try:
        since = os.stat(os.path.join(directory, "tips")).st_mtime_ns - _SETTLED
        for entry in os.scandir(os.path.join(common_dir, "refs", "pinable")):
            name = os.fsencode(entry.name)
            if name in known and entry.stat().st_mtime_ns < since:
                now[name] = known[name][0]
                continue
            with open(entry.path, "rb") as file:
                tip = file.read().rstrip(b"\n")
            if len(tip) not in (40, 64):  # a lock file, a symbolic ref, half a write
                return None
            now[name] = tip
    except OSError:
        return None
    return now if now.keys() >= known.keys() else None


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


def _take_in(directory: str, git: Git, tips: dict[bytes, bytes], known: Tips) -> dict[bytes, bytes]:
    """Take in the checkpoints of some sessions that the cache lacks; the generation of each session."""
    continued = {name: tip for name, tip in tips.items() if known.get(name, (b"", _NONE))[1] != _NONE}
    out = _news(git, continued, known) if continued else b""
    if out is None:
        continued, out = {}, b""
    generations = {name: known[name][1] for name in continued}
    steps: dict[bytes, Step] = {}
    for heading in out.split(b"\0"):
        if heading.lstrip(b"\n").startswith(_HEADING):
            _enter(steps, generations, heading.lstrip(b"\n"), continued)
    new = {name: tip for name, tip in tips.items() if name not in continued}
    walked, begun = _walk(git, new)
    _add(directory, git, steps, generations, out)
    for start in range(0, len(walked), _PAIRS):
        some = dict(walked[start : start + _PAIRS])
        pairs = b"".join(b"%b %b\n" % (commit, parent) for commit, (_, parent, *_) in some.items())
        out = git(["diff-tree", "--stdin", "-r", "-z", "--no-renames", "--always", "--no-abbrev"], pairs)
        _add(directory, git, some, begun, out or b"")
    return generations | begun


def _news(git: Git, tips: dict[bytes, bytes], known: Tips) -> bytes | None:
    """What the checkpoints since the known ones are and bring, in one git."""
    format_ = f"--format={_HEADING.decode()}%H %P%n%n%B"
    options = ["--first-parent", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-show-signature", format_]
    ends = [tip.decode() for tip in tips.values()] + [f"^{known[name][0].decode()}" for name in tips]
    return git(["log", *options, *ends, "--"], b"")


def _enter(steps: dict[bytes, Step], generations: dict[bytes, bytes], heading: bytes, tips: dict[bytes, bytes]) -> None:
    """Note one commit that ``_news`` told of; a base among them means that the session was made anew."""
    head, _, message = heading[len(_HEADING) :].partition(b"\n\n")
    commit, _, parent = head.partition(b" ")
    session, index, kind, moved = _told(message)
    if session in tips and index is not None:
        steps[commit] = (session, parent, index, kind, moved)
    elif session in tips and kind:
        generations[session] = commit[:_GENERATION]


def _walk(git: Git, tips: dict[bytes, bytes]) -> tuple[list[tuple[bytes, Step]], dict[bytes, bytes]]:
    """Every checkpoint of sessions that are new to the cache, down to the base; one git for each step down."""
    steps: list[tuple[bytes, Step]] = []
    generations: dict[bytes, bytes] = {}
    frontier = dict(tips)
    while frontier:
        commits = _commits(git, frontier.values())
        below = {}
        for name, oid in frontier.items():
            head, _, message = commits.get(oid, b"").partition(b"\n\n")
            parent = head.partition(b"\nparent ")[2].partition(b"\n")[0]
            session, index, kind, moved = _told(message)
            if session != name:
                continue
            if index is not None:
                steps.append((oid, (name, parent, index, kind, moved)))
                below[name] = parent
            elif kind:
                generations[name] = oid[:_GENERATION]
        frontier = below
    # A chain that does not end in a base is none of ours.
    return [step for step in steps if step[1][0] in generations], generations


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


def _told(message: bytes) -> tuple[bytes, int | None, bytes, tuple[bytes, bytes] | None]:
    """What a ledger's commit tells: session, index (None: no checkpoint), kind (empty: not ours), the move of HEAD."""
    trailers = b"\n" + message.partition(b"\n\n")[2]
    session, index = (trailers.partition(b"\nPinable-%b: " % key)[2].partition(b"\n")[0] for key in _KEYS)
    record = trailers.partition(b"\nPinable-Record: ")[2]
    if not index.isdigit():
        return session, None, b"O" if index == b"base" else b"", None
    # Inside a JSON string the quotes would be escaped: what matches is a key and its value.
    before, now = (record.partition(b'"%b":' % key)[2].partition(b",")[0].strip(b'"}\n') for key in _HEADS)
    moved = (before, now) if now else None
    if any(b'"trigger":"%b"' % trigger in record for trigger in (b"resume", b"restore", b"found")):
        return session, int(index), b"R", moved
    return session, int(index), b"K" if b'"capture":"paths"' in record else b"N", moved


def _add(directory: str, git: Git, steps: dict[bytes, Step], generations: dict[bytes, bytes], out: bytes) -> None:
    """Write what git says that the checkpoints brought and took away."""
    shards: dict[bytes, list[bytes]] = {}
    came: dict[bytes, set[Entry] | None] = {}
    for heading, path, old, new in raw_entries(out):
        commit = heading.removeprefix(_HEADING).split(b" ", 1)[0].split(b"\n", 1)[0]
        if commit not in steps:
            continue
        session, _, index, kind, moved = steps[commit]
        if moved is not None:
            if commit not in came:
                came[commit] = _came_with(git, *moved)
            with_head = came[commit]
            kind = b"H" if with_head is None or (path, new) in with_head else kind
        for oid, what in ((new, kind), (old, b"O")):
            if oid.strip(b"0"):
                line = b"%b %b %d %b %b %b\n" % (oid, what, index, generations[session], session, _escaped(path))
                shards.setdefault(oid[:2], []).append(line)
    for shard, lines in shards.items():
        _append(os.path.join(directory, shard.decode()), b"\n" + b"".join(lines))


def _came_with(git: Git, before: bytes, now: bytes) -> set[Entry] | None:
    """What a move of HEAD brought; None if nobody can tell any more."""
    if now == b"null":
        return set()
    old = EMPTY_TREES[len(now)] if before == b"null" else before.decode()
    out = git(["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, now.decode()], b"")
    return None if out is None else {(path, new) for _, path, _, new in raw_entries(out)}


def raw_entries(out: bytes) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """(heading, path, old id, new id) of git's ``--raw -z`` output; the heading is what stands above the entry.

    In the entries of a merge (``-c``) the old id is that of its first parent.
    """
    fields = iter(out.split(b"\0"))
    heading = b""
    for field in fields:
        field = field.lstrip(b"\n")
        if b"\n:" in field and not field.startswith(_HEADING):  # the heading of two trees ends in a newline
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
    """What changes whenever a ref of ours does: whether it is settled, and the times of what holds refs."""
    parts = []
    newest = 0
    for name in ("refs/pinable", "packed-refs", "reftable/tables.list"):
        try:
            status = os.stat(os.path.join(common_dir, name))
        except OSError:
            parts.append("-")
            continue
        parts.append(f"{status.st_mtime_ns}.{status.st_ino}.{0 if name == 'refs/pinable' else status.st_size}")
        newest = max(newest, status.st_mtime_ns)
    # While the last change is so young, another one may go unseen.
    settled = abs(time.time_ns() - newest) > _SETTLED
    return " ".join(["settled" if settled else "young", *parts]).encode()


def _unsettled(signature: bytes) -> bytes:
    """The same, not to be believed."""
    return b"young " + signature.partition(b" ")[2]


def _packed(signature: bytes) -> list[bytes]:
    """The part that tells of refs that do not stand in a file of their own."""
    return signature.split(b" ")[2:]


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
