"""``python -m gitsession.githook NAME [ARGUMENT …]``: what our git hooks do.

The hooks in ``hooks/`` start this with ``python -I -S``, in a repository in which a session worked.  It needs the
standard library and the git program, loads as little as it can, and never fails: whatever goes wrong, the user's git
command is none the worse, and what was not noted is found when somebody asks (``gitsession.verbs.linking``).

``prepare-commit-msg`` and ``commit-msg`` put trailers into the message, ``post-commit`` and ``post-rewrite`` note facts
(``gitsession.links``), ``post-checkout`` and ``post-merge`` note where HEAD went (``heads.jsonl`` in ``pinable`` of the
worktree's git directory, from where the next checkpoint takes it into the session's journal), ``pre-push`` says so when
a push would publish sessions.  ``git config pinable.link`` is ``trailer`` (the default), ``note`` or ``off``.
"""

from __future__ import annotations

import os
import sys

from gitsession import claims, links, opencalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from gitsession.links import Entry, Fact

TIME_LIMIT = 2  # seconds
PATIENCE = "PINABLE_HOOK_SECONDS"
"""So many seconds instead, where a machine is slow."""
CHECK = "PINABLE_HOOK_CHECK"
"""Set in a dry call: the hook only answers that it runs."""
ANSWER = "pinable hook runs:"
NOTES = "refs/notes/pinable"

_AGENT = "PINABLE_SESSION_ID"  # set for whatever a session's agent starts
_REPLAYED = ("rebase-merge", "rebase-apply", "CHERRY_PICK_HEAD")  # while git is at it
_SCRUBBED = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE", "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
)  # fmt: skip
_FIXED = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",  # a hook does not go to the network
    "LC_ALL": "C",
}
_SCISSORS = b" ------------------------ >8 ------------------------"
_TAIL = 1024 * 1024  # bytes of an index that are searched
_HEADS_LIMIT = 64 * 1024  # bytes
_AT_ONCE = 200  # paths asked of git at once: what goes in has to fit a pipe
_PATCH_LIMIT = 20 * 1024 * 1024  # bytes of a patch that is still worth an id


class Place:
    """The repository a hook runs in."""

    def __init__(self) -> None:
        git_dir = os.environ.get("GIT_DIR") or ".git"
        if os.path.isfile(git_dir):
            git_dir = os.path.join(os.path.dirname(git_dir), _first_line(git_dir).removeprefix("gitdir: "))
        self.git_dir = os.path.abspath(git_dir)
        common = os.path.join(self.git_dir, "commondir")
        up = _first_line(common) if os.path.exists(common) else ""
        self.common_dir = os.path.normpath(os.path.join(self.git_dir, up))
        self.private = os.path.join(self.git_dir, "pinable")
        self.index = os.environ.get("GIT_INDEX_FILE") or os.path.join(self.git_dir, "index")
        self._no_index = os.path.join(self.private, "none")
        self._environment = {name: value for name, value in os.environ.items() if name not in _SCRUBBED} | _FIXED
        self._environment["GIT_INDEX_FILE"] = self._no_index

    def used(self) -> bool:
        """Whether a session ever worked here."""
        return os.path.isdir(self.private) or os.path.isdir(os.path.join(self.common_dir, "pinable"))

    def git(self, args: list[str], data: bytes = b"", index: str | None = None) -> bytes | None:
        """What git says; None if it fails.  Without ``index`` it sees an empty one: reading a large one takes long."""
        return self.start(args, data, index)()

    def start(self, args: list[str], data: bytes = b"", index: str | None = None) -> Callable[[], bytes | None]:
        """Start git as ``git`` does; calling the result waits for what it says."""
        return _start(self._command(args), data, self._environment | {"GIT_INDEX_FILE": index or self._no_index})

    def piped(self, first: list[str], second: list[str]) -> bytes | None:
        """What a git says to what another one says."""
        return _start_piped(self._command(first), self._command(second), self._environment)()

    def _command(self, args: list[str]) -> list[str]:
        return ["git", "--git-dir", self.git_dir, "-c", f"core.hooksPath={os.devnull}", *args]


def main(arguments: list[str]) -> None:
    """Do what hook ``arguments[0]`` is for.  It does not return: the process ends, in no case as a failure."""
    try:
        _limit_time()
        if os.environ.get(CHECK):
            from gitsession import __version__

            _say(f"{ANSWER} {arguments[0]} {__version__}")
        else:
            place = Place()
            if place.used():
                _HOOKS[arguments[0]](place, *arguments[1:])
    except BaseException:  # noqa: BLE001, S110 - see the module
        pass
    os._exit(0)


# Messages


def prepare_commit_msg(place: Place, message: str, source: str = "", *_rest: str) -> None:
    """Add the trailers to a message that has words already; else leave them to ``commit-msg``.

    In an empty message or a template they would be taken for the user's words, and leaving the editor empty-handed
    would no longer abort.
    """
    pending = _pending(place)
    _remove(pending)
    asked, brought = _ask_settings(place), staged(place)  # which git looks into meanwhile
    tips = claims.refresh(place.common_dir, place.git)
    wanted = links.trailers(_found(place, tips, brought()))
    mode, comment = _settings(asked())
    if not wanted or mode != "trailer":
        return
    words = _words(_read(message), comment)
    if words and source != "template":
        _add_trailers(place, message, wanted)
        return
    lines = [f"{session} {'' if checkpoint is None else checkpoint}\n" for session, checkpoint in wanted]
    with open(pending, "wb") as file:
        file.write("".join(lines).encode() + b"\n" + words)


def commit_msg(place: Place, message: str, *_rest: str) -> None:
    """Add the trailers that ``prepare-commit-msg`` left to us, unless nothing was written: then git gives up."""
    pending = _pending(place)
    if not os.path.exists(pending):
        return
    wanted, _, before = _read(pending).partition(b"\n\n")
    _remove(pending)
    _, comment = _settings(_ask_settings(place)())
    if _words(_read(message), comment) not in (b"", before):
        lines = [line.split(" ") for line in wanted.decode().splitlines()]
        _add_trailers(place, message, [(session, checkpoint or None) for session, checkpoint in lines])


def _pending(place: Place) -> str:
    return os.path.join(place.private, "pending")


def _words(message: bytes, comment: bytes) -> bytes:
    """What git would take for the message when it asks whether there is one."""
    lines = []
    for line in message.split(b"\n"):
        if line.startswith(comment) and line.endswith(_SCISSORS):
            break
        if line.strip() and not line.startswith((comment, b"Signed-off-by: ")):
            lines.append(line)
    return b"\n".join(lines)


def _add_trailers(place: Place, message: str, wanted: list[tuple[str, str | None]]) -> None:
    """Add what the message does not say yet; for the one session it names, say the newer checkpoint."""
    prefix = f"{links.SESSION}: ".encode()
    named = [line[len(prefix) :].strip().decode() for line in _read(message).splitlines() if line.startswith(prefix)]
    again = len(wanted) == 1 and named == [wanted[0][0]]
    trailers = []
    for session, checkpoint in wanted:
        if again or session not in named:
            trailers += ["--trailer", f"{links.SESSION}: {session}"]
            trailers += ["--trailer", f"{links.CHECKPOINT}: {checkpoint}"] if checkpoint is not None else []
    if trailers:
        how = ["--where", "end", "--if-exists", "replace" if again else "add", "--if-missing", "add"]
        place.git(["interpret-trailers", "--in-place", "--no-divider", *how, *trailers, os.path.abspath(message)])


def _ask_settings(place: Place) -> Callable[[], bytes | None]:
    return place.start(["config", "--null", "--get-regexp", r"^(pinable\.link|core\.comment(char|string))$"])


def _settings(out: bytes | None) -> tuple[str, bytes]:
    """The mode, and what begins a comment in a message."""
    mode, comment = "trailer", b"#"
    for item in (out or b"").split(b"\0"):
        name, _, value = item.partition(b"\n")
        if name == b"pinable.link":
            mode = value.decode("utf-8", "replace").strip().lower()
        elif name and value != b"auto":
            comment = value
    return mode, comment


# What a commit brings


def staged(place: Place) -> Callable[[], list[Entry]]:
    """What the commit about to be made has that none of its parents has, once the result is called."""
    others = os.path.join(place.git_dir, "MERGE_HEAD")
    parents = ["HEAD", *(_read(others).decode().split() if os.path.exists(others) else [])]
    tree = index_tree(place.index)
    sides = [_against(place, parent, tree) for parent in parents]
    return lambda: _common([side() for side in sides])


def _against(place: Place, parent: str, tree: str | None) -> Callable[[], list[Entry]]:
    """What the index (``tree``, if that is known) has and ``parent`` has not; before the first commit that is all."""
    if tree is not None:
        questions = [["diff-tree", *_RAW, old, tree] for old in (parent, claims.EMPTY_TREES[len(tree)])]
    else:
        questions = [["diff-index", "--cached", *_RAW, old] for old in (parent, *claims.EMPTY_TREES.values())]
    index = os.path.abspath(place.index) if tree is None else None
    first, *others = questions
    answer = place.start(first, index=index)

    def entries() -> list[Entry]:
        out = answer()
        for other in others:
            out = place.git(other, index=index) if out is None else out
        return [(path, new) for _, path, _, new in claims.raw_entries(out or b"") if new.strip(b"0")]

    return entries


_RAW = ("-r", "-z", "--raw", "--no-renames", "--no-abbrev")
_PATCH = ("-p", "--root", "--full-index", "--no-ext-diff", "--no-textconv", "--no-renames")


def _common(sides: list[list[Entry]]) -> list[Entry]:
    """The entries of the first that are in all: what a merge has from one parent is not new."""
    first, *rest = sides
    others = [set(side) for side in rest]
    return [entry for entry in first if all(entry in other for other in others)]


def index_tree(path: str) -> str | None:
    """The tree that an index holds, if it says so itself; None if only git can tell.

    The cache of trees stands near the end of the file.  It is believed when the extensions from there on end exactly
    where the checksum begins, and when it covers as many entries as the index has.
    """
    try:
        with open(path, "rb") as file:
            count = int.from_bytes(file.read(12)[8:], "big")
            size = os.fstat(file.fileno()).st_size
            file.seek(max(12, size - _TAIL))
            tail = file.read()
    except OSError:
        return None
    for digest in (20, 32):
        start = tail.rfind(b"TREE")
        while start >= 0:
            if _ends_at(tail, start, len(tail) - digest):
                return _root(tail[start + 8 :], count, digest)
            start = tail.rfind(b"TREE", 0, start)
    return None


def _ends_at(tail: bytes, place: int, end: int) -> bool:
    while place < end - 8:
        place += 8 + int.from_bytes(tail[place + 4 : place + 8], "big")
    return place == end


def _root(data: bytes, count: int, digest: int) -> str | None:
    head, _, rest = data.partition(b"\n")
    covered = head.removeprefix(b"\0").partition(b" ")[0]
    return rest[:digest].hex() if covered == b"%d" % count else None


def _found(place: Place, tips: claims.Tips, entries: list[Entry]) -> list[Fact]:
    """The facts about a commit that brings ``entries``."""
    facts = links.decide(entries, claims.lookup(place.common_dir, tips, entries)) if tips else []
    agent = ("" if _replays(place) else os.environ.get(_AGENT) or opencalls.around(place.common_dir) or "").encode()
    if agent not in tips or (agent.decode(), links.CERTAIN) in {(fact["session"], fact["label"]) for fact in facts}:
        return facts
    own = _not_of_base(place, tips[agent][1].decode(), entries)
    others = [fact for fact in facts if fact["session"] != agent.decode()]
    return [*others, links.made_by_agent(agent, own, len(entries))] if own else facts


def _replays(place: Place) -> bool:
    """Whether git makes this commit of another one, which somebody else may have made."""
    return any(os.path.exists(os.path.join(place.git_dir, name)) for name in _REPLAYED)


def _not_of_base(place: Place, base: str, entries: list[Entry]) -> list[bytes]:
    """The paths of the entries that the session did not find when it began."""
    own = []
    for start in range(0, len(entries), _AT_ONCE):
        some = [entry for entry in entries[start : start + _AT_ONCE] if b"\n" not in entry[0]]
        asked = b"".join(b"%b:%b\n" % (base.encode(), path) for path, _ in some)
        answers = (place.git(["cat-file", "--batch-check"], asked) or b"").splitlines()
        own += [entry[0] for entry, answer in zip(some, answers) if not answer.startswith(entry[1])]  # noqa: B905
    return own


# Facts


def post_commit(place: Place, *_rest: str) -> None:
    """Note what the new commit holds."""
    _remove(_pending(place))
    answer = place.start(_brought_by("HEAD"))
    tips = claims.refresh(place.common_dir, place.git)
    commit, tree, parent, entries = _told(answer())
    facts = _found(place, tips, entries)
    if not facts:
        return
    patches = place.piped(["diff-tree", *_PATCH, commit], ["patch-id", "--stable"]) or b""
    patch = patches.split(b" ")[0].decode() or None
    whole = {"commit": commit, "tree": tree, "parent": parent, "patch": patch}
    links.append(place.common_dir, [{**whole, **fact} for fact in facts])
    message = os.path.join(place.git_dir, "COMMIT_EDITMSG")
    is_said = os.path.exists(message) and f"{links.SESSION}: ".encode() in _read(message)
    if not is_said and _settings(_ask_settings(place)())[0] == "note":
        _note(place, commit, facts)


def brought_by(git: claims.Git, commit: str) -> tuple[str, str, str | None, list[Entry]]:
    """Id, tree and first parent of a commit, and what it has that none of its parents has."""
    return _told(git(_brought_by(commit), b""))


def _brought_by(commit: str) -> list[str]:
    return ["diff-tree", *_RAW, "--root", "-c", "--always", "--pretty=tformat:%H %T %P", commit]


def _told(out: bytes | None) -> tuple[str, str, str | None, list[Entry]]:
    out = out or b""
    oid, tree, *parents = out.partition(b"\0")[0].decode().split()
    entries = [(path, new) for _, path, _, new in claims.raw_entries(out) if new.strip(b"0")]
    return oid, tree, parents[0] if parents else None, entries


def patch_ids(git: claims.Git, commits: list[str]) -> dict[str, str]:
    """The stable patch-ids of commits; merges, empty and very large ones have none."""
    patches = git(["diff-tree", "--stdin", *_PATCH], "".join(f"{commit}\n" for commit in commits).encode())
    if not patches or len(patches) > _PATCH_LIMIT:
        return {}
    found = {}
    for line in (git(["patch-id", "--stable"], patches) or b"").decode().splitlines():
        patch, commit = line.split()
        found[commit] = patch
    return found


def _note(place: Place, commit: str, facts: list[Fact]) -> None:
    """Say it in a note."""
    wanted = links.trailers(facts)
    if not wanted:
        return
    lines = []
    for session, checkpoint in wanted:
        lines.append(f"{links.SESSION}: {session}")
        lines += [f"{links.CHECKPOINT}: {checkpoint}"] if checkpoint is not None else []
    text = "\n".join(lines)
    place.git(["notes", f"--ref={NOTES}", "add", "--force", "-m", text, commit])


def post_rewrite(place: Place, command: str, *_rest: str) -> None:
    """Follow linked commits to what replaces them; the link goes along where the change is the same."""
    pairs = [line.split()[:2] for line in _input().decode().splitlines() if line.strip()]
    facts = links.read(place.common_dir)
    last = links.current(facts)
    known = {commit for commit, _ in last} | {fact["new"] for fact in facts if "rewrite" in fact}
    moves = [(old, new) for old, new in pairs if old in known]
    if not moves:
        return
    added: list[Fact] = [{"rewrite": command, "old": old, "new": new} for old, new in moves]
    linked = {commit for commit, _ in last}
    orphans = [(old, new) for old, new in moves if new not in linked and old in linked]
    patches = patch_ids(place.git, sorted({commit for move in orphans for commit in move})) if orphans else {}
    carried: dict[str, list[Fact]] = {}
    for old, new in orphans:
        if old in patches and patches[old] == patches.get(new):
            commit, tree, parent, _ = brought_by(place.git, new)
            whole = {"commit": commit, "tree": tree, "parent": parent, "patch": patches[old], "how": "rewrite"}
            carried[new] = [{**fact, **whole} for (one, _), fact in last.items() if one == old]
    links.append(place.common_dir, [*added, *(fact for some in carried.values() for fact in some)])
    if carried and _settings(_ask_settings(place)())[0] == "note":
        for new, some in carried.items():
            _note(place, new, some)


# Where HEAD goes


def post_checkout(place: Place, before: str, after: str, branch: str, *_rest: str) -> None:
    """Note a switch of branches; files that were checked out are none, nor is a new worktree."""
    if branch == "1" and before.strip("0"):
        _moved(place, {"what": "checkout", "from": before, "to": after})


def post_merge(place: Place, squash: str, *_rest: str) -> None:
    """Note a merge, a fast-forward too."""
    found = (place.git(["rev-parse", "ORIG_HEAD", "HEAD"]) or b"").decode().split()
    if len(found) == 2:
        _moved(place, {"what": "squash" if squash == "1" else "merge", "from": found[0], "to": found[1]})


def _moved(place: Place, move: dict[str, Any]) -> None:
    import time

    if not os.path.isdir(place.private):
        return  # no session worked in this worktree
    head = _first_line(os.path.join(place.git_dir, "HEAD"))
    prefix = "ref: refs/heads/"
    branch = links.text(os.fsencode(head.removeprefix(prefix))) if head.startswith(prefix) else None
    path = os.path.join(place.private, "heads.jsonl")
    if os.path.exists(path) and os.path.getsize(path) > _HEADS_LIMIT:
        _remove(path)
    entry = {"serial": time.time_ns(), "at": links.moment(), **move, "branch": branch}
    links.append_lines(path, links.to_json(entry).encode() + b"\n")


def pre_push(_place: Place, remote: str, *_rest: str) -> None:
    """Say so when sessions are published: their commits hold files that were never committed."""
    lines = _input().decode("utf-8", "replace").splitlines()
    refs = [line.split(" ")[0] for line in lines]
    count = sum(ref.startswith("refs/pinable") for ref in refs)
    if count:
        what = "a session" if count == 1 else f"{count} refs of sessions"
        _say(f"pinable-agents: this push sends {what} to {remote}, with every file that its agent saw")


_HOOKS: dict[str, Callable[..., None]] = {
    "prepare-commit-msg": prepare_commit_msg,
    "commit-msg": commit_msg,
    "post-commit": post_commit,
    "post-rewrite": post_rewrite,
    "post-checkout": post_checkout,
    "post-merge": post_merge,
    "pre-push": pre_push,
}


# The system


_RUNNING: set[int] = set()  # processes that were started and not waited for


def _start(command: list[str], data: bytes, environment: dict[str, str]) -> Callable[[], bytes | None]:
    """Start a program; calling the result waits for its output, None if it fails.

    ``subprocess`` would take as long to load as git to run.
    """
    if not hasattr(os, "posix_spawnp"):
        return lambda: _run_slowly(command, data, environment)
    source, writer = os.pipe()
    reader, out = os.pipe()
    pid = _spawn(command, environment, source, out)
    try:
        while data:
            data = data[os.write(writer, data) :]
    except BrokenPipeError:
        pass
    os.close(writer)
    return lambda: _output(reader, [pid])


def _start_piped(first: list[str], second: list[str], environment: dict[str, str]) -> Callable[[], bytes | None]:
    """The same of two programs, of which the second reads what the first writes."""
    if not hasattr(os, "posix_spawnp"):
        return lambda: _run_slowly(second, _run_slowly(first, b"", environment) or b"", environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    middle, into = os.pipe()
    reader, out = os.pipe()
    pids = [_spawn(first, environment, nothing, into), _spawn(second, environment, middle, out)]
    return lambda: _output(reader, pids)


def _spawn(command: list[str], environment: dict[str, str], source: int, out: int) -> int:
    """Start a program on these ends of pipes, which are its own from then on."""
    actions = [
        (os.POSIX_SPAWN_DUP2, source, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        pid = os.posix_spawnp(command[0], command, environment, file_actions=actions)
    finally:
        os.close(source)
        os.close(out)
    _RUNNING.add(pid)
    return pid


def _output(reader: int, pids: list[int]) -> bytes | None:
    parts = []
    while part := os.read(reader, 1 << 20):
        parts.append(part)
    os.close(reader)
    failed = [pid for pid in pids if os.waitpid(pid, 0)[1]]
    _RUNNING.difference_update(pids)
    return None if failed else b"".join(parts)


def _run_slowly(command: list[str], data: bytes, environment: dict[str, str]) -> bytes | None:
    import subprocess

    done = subprocess.run(command, input=data, env=environment, capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _limit_time() -> None:
    """End quietly when it takes too long, and every git that was started with it."""
    import _signal  # type: ignore[import-not-found]  # signal itself loads enum

    def end(*_: object) -> None:
        for pid in _RUNNING:
            os.kill(pid, _signal.SIGKILL)
        os._exit(0)

    if hasattr(_signal, "alarm"):
        _signal.signal(_signal.SIGALRM, end)
        said = os.environ.get(PATIENCE, "")
        _signal.alarm(int(said) if said.isdecimal() else TIME_LIMIT)


def _say(text: str) -> None:
    """Tell the user."""
    os.write(1, f"{text}\n".encode())


def _input() -> bytes:
    parts = []
    while part := os.read(0, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _first_line(path: str) -> str:
    return os.fsdecode(_read(path).split(b"\n")[0])


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
