"""The ledger: commits that git accepts, on a ref that moves only from where it is believed to be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import GitRepo

from gitsession import seam
from gitsession.errors import CaptureError, RefMoved, RepositoryError, SessionBusy
from gitsession.git import ledger as ledger_module
from gitsession.git import trees
from gitsession.git.ledger import Ledger, one_line
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
from gitsession.git.trees import FILE, Entry

SESSION = "sess_1740477296_9f3a1c2b"
REF = f"refs/pinable/{SESSION}"
META = f"refs/pinable-meta/{SESSION}"
NASTY = [
    "plain",
    "two\nlines\r\nand more\n\nPinable-Session: other\nPinable-Record: {}",
    "nul \0 esc \x1b[31m bell \a del \x7f c1 \x9b",
    "emoji \U0001f600 and \u4f60\u597d and \u202egnp.exe\u2066",
    'quote " backslash \\ tab \t u2028 \u2028 nel \x85',
    "a byte that is not UTF-8: \udcff",
    "",
    "x" * 5000,
]
OPENED: list[Objects] = []


@pytest.fixture(params=["sha1", "sha256"])
def any_repo(request: pytest.FixtureRequest, tmp_path: Path) -> GitRepo:
    """One commit; of each hash: the one libgit2 opens, and the one it refuses."""
    repo = GitRepo.init(tmp_path / "repo", object_format=request.param)
    repo.write("file", "content\n")
    repo.commit()
    return repo


@pytest.fixture(autouse=True)
def close_objects() -> Iterator[None]:
    """Whatever ``open_ledger`` opened."""
    yield
    while OPENED:
        OPENED.pop().close()


def open_ledger(repo: GitRepo, session_id: str = SESSION) -> Ledger:
    found = Repo.discover(repo.path)
    OPENED.append(Objects(found))
    return Ledger(found, OPENED[-1], session_id)


def in_child(work: Callable[[], None]) -> int:
    """Do it in a process of its own, that ends with 0 if it comes to its end; the process's id."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(99)
    return pid


def exit_status(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def head(repo: GitRepo) -> tuple[str, str]:
    """HEAD's commit and tree."""
    return repo.git("rev-parse", "HEAD"), repo.git("rev-parse", "HEAD^{tree}")


def begin(ledger: Ledger, repo: GitRepo) -> str:
    """The base."""
    commit, tree = head(repo)
    return ledger.append(tree, tip=None, parent=commit, subject="base", record={"head": commit})


def go_on(ledger: Ledger, tip: str, index: int) -> str:
    """A checkpoint that has one file."""
    blob = ledger.objects.add("blob", b"%d\n" % index)
    tree = trees.update(ledger.objects, None, {b"file": Entry(FILE, blob)})
    return ledger.append(
        tree, tip=tip, parent=tip, subject=f"checkpoint {index}: Do it", record={"index": index}, index=index
    )


def test_a_base_and_two_checkpoints(any_repo: GitRepo) -> None:
    """First parents lead down to HEAD; each is read back with its record."""
    ledger = open_ledger(any_repo)
    assert ledger.tip() is None
    assert list(ledger.commits()) == []
    commit, tree = head(any_repo)
    base = begin(ledger, any_repo)
    first = go_on(ledger, base, 0)
    second = go_on(ledger, first, 1)
    assert ledger.tip() == second == any_repo.git("rev-parse", REF)
    assert any_repo.git("rev-list", "--first-parent", REF).split() == [second, first, base, commit]
    found = list(open_ledger(any_repo).commits())
    assert [one.oid for one in found] == [second, first, base]
    assert [one.record for one in found] == [{"index": 1}, {"index": 0}, {"head": commit}]
    assert [one.parent for one in found] == [first, base, commit]
    assert found[2].tree == tree
    assert any_repo.git("show", f"{second}:file") == "1"
    any_repo.git("fsck", "--strict")


def test_a_base_before_the_first_commit(empty_repo: GitRepo) -> None:
    """It has no parent, and its tree may be empty."""
    ledger = open_ledger(empty_repo)
    tree = trees.update(ledger.objects, None, {})
    base = ledger.append(tree, tip=None, parent=None, subject="base", record={})
    assert empty_repo.git("rev-list", "--parents", REF) == base
    assert [one.oid for one in ledger.commits()] == [base]
    empty_repo.git("fsck", "--strict")


def test_the_message(repo: GitRepo) -> None:
    """As documented; git finds the trailers; author and committer are ours and the clock's zone is not asked."""
    ledger = open_ledger(repo)
    base = begin(ledger, repo)
    commit = ledger.append(
        head(repo)[1],
        tip=base,
        parent=base,
        subject="checkpoint 1: Implement the login form",
        record={"index": 1, "description": "Implement the login form"},
        index=1,
        phase="implementation",
        timestamp=1_740_477_296.9,
    )
    assert repo.git("cat-file", "commit", commit) == (
        f"tree {head(repo)[1]}\n"
        f"parent {base}\n"
        "author gitsession <gitsession@localhost> 1740477296 +0000\n"
        "committer gitsession <gitsession@localhost> 1740477296 +0000\n"
        "\n"
        "checkpoint 1: Implement the login form\n"
        "\n"
        f"Pinable-Session: {SESSION}\n"
        "Pinable-Checkpoint: 1\n"
        "Pinable-Phase: implementation\n"
        'Pinable-Record: {"index":1,"description":"Implement the login form"}'
    )
    shown = repo.git("log", "-1", "--format=%s|%(trailers:key=Pinable-Phase,valueonly,separator=)", commit)
    assert shown == "checkpoint 1: Implement the login form|implementation"
    assert "Pinable-Checkpoint: base" in repo.git("log", "-1", "--format=%B", base)
    assert abs(int(repo.git("log", "-1", "--format=%ct", base)) - time.time()) < 60


@pytest.mark.parametrize("text", NASTY)
def test_any_description_is_kept_exactly(any_repo: GitRepo, text: str) -> None:
    """The subject is one harmless line, the record gives back the text."""
    ledger = open_ledger(any_repo)
    base = begin(ledger, any_repo)
    record = {"index": 0, "description": text, text: [text, None, 1.5, {"a": True}]}
    commit = ledger.append(
        head(any_repo)[1], tip=base, parent=base, subject=f"checkpoint 0: {text}", record=record, index=0, phase=text
    )
    assert next(open_ledger(any_repo).commits()).record == record
    message = any_repo.git_bytes("cat-file", "commit", commit).partition(b"\n\n")[2].decode()
    subject, blank, *rest = message.split("\n")
    assert subject.startswith("checkpoint 0:")
    assert subject.isprintable()
    assert len(subject) <= 200
    assert blank == ""
    assert [line.partition(":")[0] for line in rest if line] == [
        "Pinable-Session", "Pinable-Checkpoint", *(["Pinable-Phase"] if text else []), "Pinable-Record"
    ]  # fmt: skip
    assert "\x1b" not in message
    any_repo.git("fsck", "--strict")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(record=st.dictionaries(st.text(), JSON, max_size=4))
def test_any_record_is_kept_exactly(repo: GitRepo, record: dict[str, Any]) -> None:
    """Whatever JSON can say."""
    ledger = open_ledger(repo)
    tip = ledger.tip()
    ledger.append(head(repo)[1], tip=tip, parent=tip, subject="checkpoint 0: x", record=record, index=0)
    assert next(ledger.commits()).record == record


@settings(max_examples=300, deadline=None, derandomize=True)
@given(text=st.text())
def test_one_line_is_always_harmless(text: str) -> None:
    """Printable, without breaks or doubled spaces, and the same when done again."""
    line = one_line(text, 50)
    assert len(line) <= 50
    assert len(line.splitlines()) <= 1
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in line)
    assert line == one_line(line, 50)
    line.encode("utf-8")


def test_a_ref_that_moved(any_repo: GitRepo) -> None:
    """Both ids are named, and nothing is overwritten."""
    ledger = open_ledger(any_repo)
    commit, tree = head(any_repo)
    base = begin(ledger, any_repo)
    other = "1" * len(base)
    for tip in (None, commit, other):
        with pytest.raises(RefMoved, match=f"{REF} is at {base}, not at {tip or 'nothing'}"):
            ledger.append(tree, tip=tip, parent=base, subject="x", record={}, index=0)
        assert ledger.tip() == base
    any_repo.git("update-ref", "-d", REF)
    with pytest.raises(RefMoved, match=f"{REF} is at nothing, not at {base}"):
        ledger.append(tree, tip=base, parent=base, subject="x", record={}, index=0)
    assert ledger.tip() is None


RACER = """
import sys
from pathlib import Path
from gitsession.errors import RefMoved
from gitsession.git import ledger as module
from gitsession.git.ledger import Ledger
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo
repo = Repo.discover(Path(sys.argv[1]))
objects = Objects(repo)
ledger = Ledger(repo, objects, sys.argv[2])
module._STALE = module._PATIENCE = 60  # a lock is held for that long by nobody that does not hold the session's, too
sys.stdin.readline()
won = 0
while won < int(sys.argv[4]):
    tip = ledger.tip()
    try:
        ledger.append(sys.argv[5], tip=tip, parent=tip, subject="x", record={"by": sys.argv[3], "n": won}, index=0)
        won += 1
    except RefMoved:
        pass
objects.close()
"""


def test_racing_processes_lose_nothing(any_repo: GitRepo) -> None:
    """Each append that succeeded is in the history exactly once."""
    count = 20
    begin(open_ledger(any_repo), any_repo)
    arguments = [any_repo.path, SESSION]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, *arguments, str(number), str(count), head(any_repo)[1]],
            stdin=subprocess.PIPE,
        )
        for number in range(3)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(b"go\n")
        racer.stdin.close()
    assert [racer.wait(60) for racer in racers] == [0, 0, 0]
    records = [one.record for one in open_ledger(any_repo).commits()][:-1]
    told = sorted((record["by"], record["n"]) for record in records if record)
    assert told == sorted((str(number), n) for number in range(3) for n in range(count))
    any_repo.git("fsck", "--strict")


def test_a_ref_that_git_packed(any_repo: GitRepo) -> None:
    """pack-refs and gc change nothing for us."""
    ledger = open_ledger(any_repo)
    base = begin(ledger, any_repo)
    any_repo.git("pack-refs", "--all", "--prune")
    assert not (any_repo.path / ".git" / REF).exists()
    assert ledger.tip() == base
    first = go_on(ledger, base, 0)
    any_repo.git("gc", "-q", "--prune=now")
    second = go_on(ledger, first, 1)
    assert [one.oid for one in ledger.commits()] == [second, first, base]


def test_the_users_state_is_untouched(any_repo: GitRepo, tmp_path: Path) -> None:
    """No hook, no reflog (not even where git keeps one for every ref), no identity, no signing."""
    hooks = any_repo.path / ".git/hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-index-change", "commit-msg", "pre-commit", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch '{tmp_path}/hook-ran'\nexit 1\n")
        (hooks / name).chmod(0o755)
    for line in ("core.logAllRefUpdates=always", "commit.gpgSign=true", "user.useConfigOnly=true"):
        any_repo.git("config", *line.split("="))
    any_repo.git("config", "--global", "--remove-section", "user")
    before = any_repo.user_state()
    ledger = open_ledger(any_repo)
    base = begin(ledger, any_repo)
    tip = go_on(ledger, base, 0)
    blob = ledger.objects.add("blob", b"raw")
    ledger.keep_raw({b"file": Entry(FILE, blob)}, 0)
    ledger.copy_to_trash()
    ledger.drop()
    ledger.bring_back()
    assert ledger.tip() == tip
    assert any_repo.user_state() == before
    assert not (tmp_path / "hook-ran").exists()
    assert not any(path.is_file() for path in (any_repo.path / ".git/logs/refs").rglob("pinable*/*"))


def test_linked_worktrees_share_the_ledger(any_repo: GitRepo, tmp_path: Path) -> None:
    """A checkpoint taken in one is seen in the other."""
    any_repo.git("worktree", "add", "-q", tmp_path / "side")
    base = begin(open_ledger(GitRepo(tmp_path / "side")), any_repo)
    assert open_ledger(any_repo).tip() == base
    assert (any_repo.path / ".git" / REF).exists()


def test_a_foreign_commit_ends_the_ledger(any_repo: GitRepo) -> None:
    """It is shown, without a record, and nothing below it."""
    ledger = open_ledger(any_repo)
    commit, _tree = head(any_repo)
    base = begin(ledger, any_repo)
    other = open_ledger(any_repo, "other")
    other.append(head(any_repo)[1], tip=None, parent=base, subject="base", record={"a": 1})
    foreign = any_repo.git("commit-tree", "-p", base, "-m", "mine", head(any_repo)[1])
    for oid in (foreign, other.tip(), commit):
        any_repo.git("update-ref", REF, oid or "")
        (only,) = ledger.commits()
        assert (only.oid, only.record) == (oid, None)


def test_a_ref_on_something_else(any_repo: GitRepo) -> None:
    """An error in words."""
    any_repo.git("update-ref", REF, any_repo.git("rev-parse", "HEAD:file"))
    with pytest.raises(RepositoryError, match=r"leads to .*, a blob and not a commit"):
        list(open_ledger(any_repo).commits())


def test_a_damaged_ref_is_not_taken_for_none(repo: GitRepo) -> None:
    """What a power failure may leave of a ref that was not synchronized."""
    ledger = open_ledger(repo)
    begin(ledger, repo)
    (repo.path / ".git" / REF).write_text("")
    with pytest.raises(RepositoryError, match="cannot be read"):
        ledger.tip()


# Locks


def test_a_lock_left_by_a_kill_is_broken(any_repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was watched for a while; the ledger says so."""
    monkeypatch.setattr(ledger_module, "_STALE", 0.2)
    ledger = open_ledger(any_repo)
    base = begin(ledger, any_repo)
    lock = any_repo.path / ".git" / f"{REF}.lock"
    lock.write_text("half a li")
    start = time.monotonic()
    first = go_on(ledger, base, 0)
    assert time.monotonic() - start > 0.2
    assert ledger.tip() == first
    assert ledger.broken_locks == [lock]
    assert not lock.exists()


def test_a_lock_that_is_let_go_is_waited_for(any_repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not broken."""
    monkeypatch.setattr(ledger_module, "_STALE", 60.0)
    monkeypatch.setattr(ledger_module, "_PATIENCE", 60.0)
    ledger = open_ledger(any_repo)
    base = begin(ledger, any_repo)
    lock = any_repo.path / ".git" / f"{REF}.lock"
    lock.touch()
    threading.Timer(0.3, lock.unlink).start()
    go_on(ledger, base, 0)
    assert ledger.broken_locks == []


def test_a_lock_that_changes_hands_is_never_broken(any_repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes; then somebody is busy."""
    ledger = open_ledger(any_repo)
    base = begin(ledger, any_repo)
    lock = any_repo.path / ".git" / f"{REF}.lock"
    passed = 0.0

    def sleep(_: float) -> None:
        nonlocal passed
        passed += 0.75 * ledger_module._STALE
        # A new file each time, as a new owner makes it; never absent.
        lock.with_suffix(".next").write_text("x" * int(passed))
        lock.with_suffix(".next").replace(lock)

    clock = SimpleNamespace(time=time.time, monotonic=lambda: passed, sleep=sleep)
    monkeypatch.setattr(ledger_module, "time", clock)
    lock.touch()
    with pytest.raises(SessionBusy, match=f"{REF} stays locked"):
        go_on(ledger, base, 0)
    assert passed > ledger_module._PATIENCE
    assert lock.exists()
    assert ledger.broken_locks == []
    assert ledger.tip() == base


# Exact bytes beside the tree


def test_raw_bytes_are_kept_and_read_back(any_repo: GitRepo) -> None:
    """Complete for each checkpoint; the same again makes no new commit."""
    ledger = open_ledger(any_repo)
    assert ledger.keep_raw({}, None) is None
    assert ledger.raw(None) == {}
    one, two = (Entry(FILE, ledger.objects.add("blob", data)) for data in (b"a\r\n", b"b\r\n"))
    first = ledger.keep_raw({b"a": one, b"dir/b": two}, None)
    assert first is not None
    assert ledger.keep_raw({b"a": one, b"dir/b": two}, 0) == first
    second = ledger.keep_raw({b"a": two}, 1)
    assert second is not None
    assert ledger.raw(first) == {b"a": one, b"dir/b": two}
    assert ledger.raw(second) == {b"a": two}
    assert any_repo.git("rev-list", META).split() == [second, first]
    assert any_repo.git_bytes("show", f"{META}:a") == b"b\r\n"
    assert ledger.keep_raw({}, 2) is None
    any_repo.git("gc", "-q", "--prune=now")
    assert open_ledger(any_repo).raw(first) == {b"a": one, b"dir/b": two}


# The trash


def refs(repo: GitRepo) -> dict[str, str]:
    lines = repo.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.removeprefix("refs/pinable").split() for line in lines if line.startswith("refs/pinable"))


def test_to_the_trash_and_back(any_repo: GitRepo) -> None:
    """Each step can be done again."""
    ledger = open_ledger(any_repo)
    tip = go_on(ledger, begin(ledger, any_repo), 0)
    meta = ledger.keep_raw({b"file": Entry(FILE, ledger.objects.add("blob", b"raw"))}, 0)
    live = {f"/{SESSION}": tip, f"-meta/{SESSION}": meta}
    trash = {f"-trash/{SESSION}": tip, f"-meta-trash/{SESSION}": meta}
    for _ in range(2):
        ledger.copy_to_trash()
        assert refs(any_repo) == live | trash
    for _ in range(2):
        ledger.drop()
        assert refs(any_repo) == trash
    for _ in range(2):
        ledger.bring_back()
        assert refs(any_repo) == live
    assert next(ledger.commits()).oid == tip


def test_nothing_to_throw_away(any_repo: GitRepo) -> None:
    """A session that never had a checkpoint."""
    ledger = open_ledger(any_repo)
    ledger.copy_to_trash()
    ledger.drop()
    ledger.bring_back()
    assert refs(any_repo) == {}


def test_a_second_session_of_the_same_name_is_kept_beside_the_first(any_repo: GitRepo) -> None:
    """The last one comes back first."""
    tips = []
    for number in range(3):
        ledger = open_ledger(any_repo, "5")
        base = ledger.append(head(any_repo)[1], tip=None, parent=None, subject="base", record={"number": number})
        tips.append(base)
        ledger.copy_to_trash()
        ledger.drop()
    other = open_ledger(any_repo, "7")
    other.append(head(any_repo)[1], tip=None, parent=None, subject="base", record={})
    other.copy_to_trash()
    other.drop()
    assert {name: oid for name, oid in refs(any_repo).items() if "7" not in name} == {
        "-trash/5": tips[0],
        "-trash/5@2": tips[1],
        "-trash/5@3": tips[2],
    }
    ledger.bring_back()
    assert ledger.tip() == tips[2]
    ledger.copy_to_trash()
    ledger.drop()
    ledger.bring_back()
    assert ledger.tip() == tips[2]


def test_what_the_trash_does_not_hold_is_not_dropped(any_repo: GitRepo) -> None:
    """A checkpoint taken in between is not lost; nor is a session overwritten that has come to be."""
    ledger = open_ledger(any_repo)
    base = begin(ledger, any_repo)
    ledger.copy_to_trash()
    first = go_on(ledger, base, 0)
    with pytest.raises(RefMoved, match=f"{REF} is at {first}"):
        ledger.drop()
    with pytest.raises(RefMoved):
        ledger.bring_back()
    assert ledger.tip() == first


# Durability


@pytest.fixture
def fail_at() -> Iterator[list[str]]:
    """Name points in the list: there writing fails."""
    named: list[str] = []

    def hook(point: str) -> None:
        if point in named:
            raise OSError(28, os.strerror(28))

    seam.hook = hook
    yield named
    seam.hook = None


def test_a_failure_moves_nothing(any_repo: GitRepo, fail_at: list[str]) -> None:
    """The ref is where it was; the next attempt goes through."""
    ledger = open_ledger(any_repo)
    base = begin(ledger, any_repo)
    for point in ("obj.write", "obj.sync", "obj.rename", "object.sync-dir"):
        fail_at[:] = [point]
        with pytest.raises(CaptureError):
            go_on(ledger, base, 0)
        assert ledger.tip() == base
    fail_at.clear()
    go_on(ledger, base, 0)
    any_repo.git("fsck", "--strict")


@pytest.mark.parametrize("point", ["obj.write", "obj.rename", "object.sync-dir", "ref.update", "ref.sync-dir"])
def test_killed_at_any_point(any_repo: GitRepo, point: str) -> None:
    """The ref names the old commit or the new one, each whole."""
    base = begin(open_ledger(any_repo), any_repo)

    def write() -> None:
        seam.hook = lambda reached: os._exit(7) if reached == point else None
        go_on(open_ledger(any_repo), base, 0)

    assert exit_status(in_child(write)) == 7
    any_repo.git("fsck", "--strict")
    ledger = open_ledger(any_repo)
    tip = ledger.tip()
    assert tip is not None
    assert (tip == base) == (point != "ref.sync-dir")
    go_on(ledger, tip, 1)


@pytest.mark.skipif(not Path("/usr/bin/strace").exists(), reason="needs strace")
def test_everything_is_on_the_disk_before_the_ref_names_it(any_repo: GitRepo, tmp_path: Path) -> None:
    """Seen from the kernel: all object files and directories, then the lock's contents, the ref, its directory."""
    base = begin(open_ledger(any_repo), any_repo)
    script = RACER.replace("sys.stdin.readline()\n", "").replace("won = 0", "won = 0; objects.add('blob', b'new')")
    trace = tmp_path / "trace"
    calls = "trace=fsync,rename,renameat,renameat2"
    command = ["strace", "-f", "-y", "-o", trace, "-e", calls, sys.executable, "-c", script, any_repo.path, SESSION]
    subprocess.run([*command, "0", "1", head(any_repo)[1]], check=True)
    lines = [line for line in trace.read_text().splitlines() if line.endswith("= 0")]
    (moved,) = (number for number, line in enumerate(lines) if "rename" in line and f'{REF}"' in line)
    objects = [number for number, line in enumerate(lines) if "/objects" in line]
    assert len([number for number in objects if "rename" in lines[number]]) == 2
    assert max(objects) < moved
    assert any("fsync" in line and f"{REF}.lock>" in line for line in lines[:moved])
    assert any("fsync" in line and "refs/pinable>" in line for line in lines[moved:])
    assert open_ledger(any_repo).tip() != base


def test_the_record_is_compact_json(repo: GitRepo) -> None:
    """Readable in ``git log``: what is harmless stands as it is."""
    ledger = open_ledger(repo)
    base = begin(ledger, repo)
    record = {"index": 0, "description": "登录 ✓\x1b"}
    ledger.append(head(repo)[1], tip=base, parent=base, subject="x", record=record, index=0)
    line = repo.git("log", "-1", "--format=%(trailers:key=Pinable-Record,valueonly)", REF).strip()
    assert line == '{"index":0,"description":"登录 ✓\\u001b"}'
    assert json.loads(line) == record
