"""What is disturbed: each operation, the state it begins in, and what must hold after it was cut short anywhere."""

from __future__ import annotations

import errno
import os
import subprocess
from dataclasses import dataclass

from faults.harness import ID, MODES, Done, Ground
from support import GitRepo, Snapshot

from gitsession import SessionStore

# Works in two steps and can be run again from anywhere; without ``../go`` it fails after the first.
AGENT = """\
set -e
echo ::phase::implementation::Working
rm -f src/util.py
mkdir -p made; echo one > made/one.txt
echo ::checkpoint::step one
[ -e ../hang ] && sleep 600
[ -e ../go ] || exit 1
echo two > made/two.txt
ln -sf one.txt made/link
chmod 755 README.md
echo ::checkpoint::step two
"""
AGENT_COMMAND = ("--task", "Do it", "--files", "made/one.txt", "--", "sh", "../agent.sh")
TASK = ("codeagent-wrapper", "--session-id", ID, *AGENT_COMMAND)
REPAIR = f"""
import os, pathlib
from gitsession import SessionStore, config
from gitsession.verbs.repair import repair
store = SessionStore()
print(repair(store, "{ID}", config.load(store.home), pathlib.Path.cwd()))
"""
TAKE_KNOWN = f"""
from contextlib import closing
from gitsession import SessionStore, config
from gitsession.verbs.checkpoint import Recorder, repository_of
store = SessionStore()
with closing(Recorder(store, "{ID}", repository_of(store.read("{ID}")), config.load(store.home))) as recorder:
    record = recorder.take("agent", "by known paths", known=[b"README.md", b"known.txt"])
print("[Checkpoint %d] Saved by known paths" % record["index"], flush=True)
"""


LEFT = 4  # a restore that could not write some file, and names it


@dataclass(frozen=True)
class Operation:
    """``run`` is a command line or Python code; ``state`` names what it begins in.

    Files change only where it ``runs_agent`` or ``moves_files`` (a restore).
    """

    name: str
    state: str
    run: tuple[str, ...] | str
    runs_agent: bool = False
    moves_files: bool = False
    deletes: bool = False

    def start(self, ground: Ground, fault: tuple[int, str] | None = None) -> Done:
        if isinstance(self.run, str):
            return ground.run(code=self.run, fault=fault)
        return ground.run(*self.run, fault=fault)


def _session(*words: str) -> tuple[str, ...]:
    return "pinable-agents", "session", *words


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("a whole run", "new", TASK, runs_agent=True),
        Operation("resume", "paused", ("codeagent-wrapper", "--session-id", ID), runs_agent=True),
        Operation("checkpoint by scan", "changed", _session("checkpoint", ID, "--description", "by hand")),
        Operation("checkpoint of known files", "changed", TAKE_KNOWN),
        Operation("pause of a killed run", "killed", _session("pause", ID)),
        Operation("restore", "changed", _session("restore", ID, "0", "--force"), moves_files=True),
        Operation("undo of a restore", "restored", _session("undo", ID), moves_files=True),
        Operation("recover --scan", "killed", _session("recover", "--scan")),
        Operation("recover, session file damaged", "damaged", REPAIR),
        Operation("recover, only the ref left", "lost", REPAIR),
        Operation("recover and run on", "killed", _session("recover", ID), runs_agent=True),
        Operation("delete", "paused", _session("delete", ID), deletes=True),
        Operation("archive", "paused", _session("archive", ID, "--output", "../archive"), deletes=True),
    )
}


def prepare(ground: Ground) -> None:
    """Make and keep every state."""
    repo = GitRepo.init(ground.repo.path)
    repo.write("README.md", "# sample\n")
    repo.write("src/app.py", "print(1)\n")
    repo.write("src/util.py", "def add(a, b):\n    return a + b\n")
    repo.write("mine.bin", bytes(range(256)))
    repo.commit("Start")
    repo.write("src/app.py", "print(2)\n")
    repo.git("add", "src/app.py")
    repo.write("mine.txt", "not committed\n")
    (ground.live / "agent.sh").write_text(AGENT)
    (ground.live / "go").touch()
    ground.keep("new")

    (ground.live / "go").unlink()
    assert ground.run(*TASK).status == 3
    (ground.live / "go").touch()
    ground.keep("paused")

    repo.write("README.md", "# changed\n", 0o755)
    repo.write("known.txt", "known\n")
    ground.keep("changed")

    assert ground.run(*_session("restore", ID, "0", "--force")).status == 0
    ground.keep("restored")

    ground.put_back("paused")
    session_file = ground.home / "sessions" / f"{ID}.json"
    session_file.write_bytes(session_file.read_bytes()[:300])
    ground.keep("damaged")

    for file in session_file.parent.glob(f"{ID}.*"):
        file.unlink()
    ground.keep("lost")

    ground.put_back("new")
    (ground.live / "hang").touch()
    _kill_a_run(ground)
    (ground.live / "hang").unlink()
    ground.keep("killed")


def _kill_a_run(ground: Ground) -> None:
    """Kill the program while its agent works, and the agent."""
    ground.run(
        code=f"""
import os, signal, subprocess, sys
run = subprocess.Popen({list(TASK)!r}, stdout=subprocess.PIPE, text=True)
for line in run.stdout:
    if line.startswith("[Checkpoint 0]"):
        break
run.kill()
run.wait()
from gitsession.backends.processes import end_survivors
end_survivors("{ID}")
"""
    )


def expected() -> dict[bytes, tuple[str, int, bytes]]:
    """The files after an undisturbed run."""
    return {
        b"README.md": ("file", 0o755, b"# sample\n"),
        b"made": ("dir", 0o755, b""),
        b"made/link": ("link", 0o777, b"one.txt"),
        b"made/one.txt": ("file", 0o644, b"one\n"),
        b"made/two.txt": ("file", 0o644, b"two\n"),
        b"mine.bin": ("file", 0o644, bytes(range(256))),
        b"mine.txt": ("file", 0o644, b"not committed\n"),
        b"src": ("dir", 0o755, b""),
        b"src/app.py": ("file", 0o644, b"print(2)\n"),
    }


def check(
    ground: Ground, operation: Operation, mode: str, done: Done, before: Snapshot, state: dict[str, bytes]
) -> None:
    """Everything that must hold after ``operation`` was disturbed; ``AssertionError`` says what does not."""
    _check_end(mode, done)
    _check_git(ground, state)
    if not operation.runs_agent and not operation.moves_files:
        assert ground.files() == before, "the user's files changed"
    _check_mine(ground)
    store = SessionStore(ground.home)
    if operation.deletes and not _is_there(store):
        _check_deleted(ground)
        return
    if not _is_there(store) and operation.state == "new":
        assert _reported(done) == []
        again = operation.start(ground)
        assert again.status == 0, again.err
        assert ground.files() == expected()
        return
    _recover(ground)
    _check_record(ground, done)
    if operation.deletes:
        assert operation.start(ground).status == 0
        _check_deleted(ground)
        return
    if operation.moves_files:
        _check_moved(ground, operation, before, done)
    _check_goes_on(ground, restored=operation.moves_files or operation.state == "changed")


def _check_end(mode: str, done: Done) -> None:
    assert done.status is not None, "it hung"
    assert "Traceback" not in done.err, done.err
    assert "internal error" not in done.err, done.err
    if mode in MODES and mode != "kill":
        assert done.status in (0, 1, 3, LEFT), (done.status, done.err)
        told = (done.out + done.err).replace("Out of diskspace", os.strerror(errno.ENOSPC))  # git's words for it
        said = os.strerror(MODES[mode][1]) in told or "the system refused it" in told  # libgit2 does not always say
        assert done.status == 0 or said, f"it does not say why it failed: {told}"


def _check_git(ground: Ground, state: dict[str, bytes]) -> None:
    found = subprocess.run(
        ["git", "fsck", "--strict", "--no-dangling", "--no-progress"],
        cwd=ground.repo.path, capture_output=True, text=True,
    )  # fmt: skip
    assert (found.returncode, found.stdout) == (0, ""), found.stdout + found.stderr
    assert ground.repo.user_state() == state, "the user's part of .git changed"


def _check_mine(ground: Ground) -> None:
    """Files that no agent touches."""
    assert ground.repo.at("mine.bin").read_bytes() == bytes(range(256))
    assert ground.repo.at("mine.txt").read_bytes() == b"not committed\n"


def _is_there(store: SessionStore) -> bool:
    return store.exists(ID) or (store.sessions_dir / f"{ID}.journal").exists()


def _reported(done: Done) -> list[int]:
    lines = [line for line in done.out.splitlines() if line.startswith("[Checkpoint ")]
    return [int(line.split("]")[0].split()[1]) for line in lines]


def _recover(ground: Ground) -> None:
    """Scan and repair; doing it again changes nothing."""
    for _ in range(2):
        assert ground.run(*_session("recover", "--scan")).status == 0
        repaired = ground.run(code=REPAIR)
        assert repaired.status == 0, repaired.err
    assert "left=()" in repaired.out, repaired.out
    assert "steps=()" in repaired.out, repaired.out
    before = ground.home_files(), ground.files()
    ground.run(*_session("recover", "--scan"))
    ground.run(code=REPAIR)
    assert (ground.home_files(), ground.files()) == before, "the second recovery changed something"


def _check_record(ground: Ground, done: Done) -> None:
    """The record and the ref tell the same, and hold all that was reported."""
    doc = ground.doc()
    records = doc["checkpoints"]
    assert [record["index"] for record in records] == list(range(len(records)))
    assert set(_reported(done)) <= set(range(len(records))), "a reported checkpoint is lost"
    commits = [record["commit"] for record in ([doc["base"]] if doc.get("base") else []) + records]
    if commits:
        chain = ground.repo.git("rev-list", "--first-parent", "--reverse", f"refs/pinable/{ID}").splitlines()
        assert chain[-len(commits) :] == commits, "record and ref differ"


def _check_moved(ground: Ground, operation: Operation, before: Snapshot, done: Done) -> None:
    """A restore is done in full or not at all: each file is what it was, or all are what they should become.

    A file that could not be written is as it was, and named with the reason.  And but for the new file: once a
    checkpoint cut short has recorded it, a repeated restore may take it away.
    """
    if ground.files() == before:
        again = operation.start(ground)
        assert again.status == 0, again.err
    found, wanted = ground.files(), dict(ground.undisturbed[operation.name])
    for files in (found, wanted):
        files.pop(b"known.txt", None)
    if done.status == LEFT:
        for path in [path for path, facts in found.items() if facts != wanted.get(path) and facts == before.get(path)]:
            assert path.decode() in done.out, f"{path!r} is not named"
            wanted[path] = found[path]
    assert found == wanted, "it was half done"


def _check_goes_on(ground: Ground, *, restored: bool) -> None:
    # A record that git alone gave back names a program that only its user may let run.
    offered = ground.doc().get("command_offered")
    named = ("codeagent-wrapper", "--session-id", ID, "--", *offered) if offered else None
    resumed = ground.run(*(named or _session("recover", ID)))
    assert resumed.status == 0, resumed.out + resumed.err
    assert ground.doc()["status"] == "completed"
    files = ground.files()
    if restored:  # the user's own change may be there or not; the agent's are
        files = {path: facts for path, facts in files.items() if path != b"known.txt"}
        files[b"README.md"] = expected()[b"README.md"]
    assert files == expected()


def _check_deleted(ground: Ground) -> None:
    assert (ground.home / "trash" / ID / f"{ID}.json").exists()
    assert ground.repo.git("rev-parse", f"refs/pinable-trash/{ID}")


def total(ground: Ground, operation: Operation) -> int:
    """How many calls the operation makes when nothing disturbs it."""
    ground.put_back(operation.state)
    done = operation.start(ground, (0, "kill"))
    assert done.status == 0, done.out + done.err
    ground.undisturbed[operation.name] = ground.files()
    return done.calls


def disturb(ground: Ground, operation: Operation, mode: str, number: int) -> Done:
    """Let the ``number``-th call of the operation fail and check; ``AssertionError`` names the point."""
    ground.put_back(operation.state)
    before, state = ground.files(), ground.repo.user_state()
    done = operation.start(ground, (number, mode))
    try:
        check(ground, operation, mode, done, before, state)
    except AssertionError as error:
        raise AssertionError(f"{operation.name}, {mode} at call {number} ({done.struck}): {error}") from error
    return done
