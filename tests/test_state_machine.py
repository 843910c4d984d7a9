"""Random steps of an agent, of its user and of git, against byte copies that nobody but the test made.

After every restore the files must be what the copies say; what is no checkpoint's business (ignored files, nested
repositories, files somebody made since) must be as it was; and the user's index, HEAD, branches and stash must not
move.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sessions import TestSession
from support import GitRepo

from gitsession.errors import DriftError, UsageError
from gitsession.verbs.restore import RestoreReport

Item = tuple[str, bool, bytes]
"""Kind (file or link), whether it may be executed, bytes or target."""
Files = dict[bytes, Item]

PATHS = [
    b"a", b"b.txt", b"d", b"d/a", b"d/b.txt", b"d/e", b"d/e/f", b"d/x.log", b"x.log", b"l", b"l/in", b"new\nline",
    b"\xff.txt", "中.txt".encode(),
]  # fmt: skip
CONTENTS = [b"", b"one\n", b"two\n", b"a\nb\nc\n", b"a\r\nb\r\n", b"mixed\r\nends\n", b"no end", b"\0\1\2\xff" * 50]
TARGETS = [b"a", b"d", b"nowhere", b"../outside", b"/etc", b"."]
IGNORES = [b"", b"*.log\n", b"d/\n", b"*\n!.gitignore\n"]
ATTRIBUTES = [b"", b"*.txt text eol=crlf\n", b"* text=auto\n", b"*.txt ident\n"]


@dataclass(frozen=True)
class Copy:
    """What a checkpoint has to give back, and which files were there beside that.

    ``hollow`` are all directories with nothing in them: of ignored ones it may give back some, where one stood in the
    place of a tracked file.
    """

    files: Files
    empty: frozenset[bytes]
    beside: frozenset[bytes]
    hollow: frozenset[bytes]


class Machine(RuleBasedStateMachine):
    """A repository, a session in it, and a copy of every checkpoint."""

    place: Path
    count = restored = refused = overwrote = 0

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(dir=self.place))
        self.outside = self.top / "outside"
        self.outside.mkdir()
        (self.outside / "theirs").write_bytes(b"theirs")
        self.user = GitRepo.init(self.top / "repo")
        self.rules = GitRepo.init(self.top / "rules")
        self.nested = 0

    @initialize(ignored=st.sampled_from(IGNORES), content=st.sampled_from(CONTENTS))
    def begin(self, ignored: bytes, content: bytes) -> None:
        self.user.write(".gitignore", ignored)
        self.user.write("a", content)
        self.user.write("d/a", b"tracked\n")
        self.user.git("add", "--force", "--all")
        self.user.commit("start", add=False)
        self.session = TestSession(self.user, self.top.name.replace("_", "-").lower() + "x")
        self.base = self.copy({})
        self.copies: list[Copy] = []

    @invariant()
    def another_step(self) -> None:
        type(self).count += 1

    def teardown(self) -> None:
        assert os.listdir(self.outside) == ["theirs"]
        assert (self.outside / "theirs").read_bytes() == b"theirs"
        shutil.rmtree(self.top)

    # -- the agent and the user -------------------------------------------------------------------------

    @rule(path=st.sampled_from(PATHS), content=st.sampled_from(CONTENTS), run=st.booleans())
    def write(self, path: bytes, content: bytes, run: bool) -> None:
        self.make_way(path)
        self.user.write(path, content, 0o755 if run else 0o644)

    @rule(path=st.sampled_from(PATHS), more=st.sampled_from(CONTENTS))
    def append(self, path: bytes, more: bytes) -> None:
        if self.kind(path) == "file":
            with self.user.at(path).open("ab") as file:
                file.write(more)

    @rule(path=st.sampled_from(PATHS))
    def delete(self, path: bytes) -> None:
        self.clear(path)

    @rule(path=st.sampled_from(PATHS), to=st.sampled_from(PATHS))
    def rename(self, path: bytes, to: bytes) -> None:
        if self.kind(path) in {"file", "link"} and not to.startswith(path + b"/") and path != to:
            data = self.user.at(path)
            aside = self.top / "aside"
            data.rename(aside)
            self.make_way(to)
            self.user.at(to).parent.mkdir(parents=True, exist_ok=True)
            aside.rename(self.user.at(to))

    @rule(path=st.sampled_from(PATHS))
    def chmod(self, path: bytes) -> None:
        if self.kind(path) == "file":
            self.user.at(path).chmod(self.user.at(path).stat().st_mode ^ 0o111)

    @rule(path=st.sampled_from(PATHS), where=st.sampled_from(TARGETS))
    def link(self, path: bytes, where: bytes) -> None:
        self.make_way(path)
        self.user.at(path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(where, os.fsencode(self.user.at(path)))

    @rule(path=st.sampled_from(PATHS))
    def directory(self, path: bytes) -> None:
        self.make_way(path)
        self.user.at(path).mkdir(parents=True)

    @rule(rules=st.sampled_from(IGNORES))
    def ignore(self, rules: bytes) -> None:
        self.user.write(".gitignore", rules)

    @rule(rules=st.sampled_from(ATTRIBUTES))
    def attributes(self, rules: bytes) -> None:
        self.user.write(".gitattributes", rules)

    # -- git ----------------------------------------------------------------------------------------------

    @rule(force=st.booleans(), path=st.sampled_from(PATHS))
    def add(self, force: bool, path: bytes) -> None:
        if self.kind(path) != "nothing":
            self.git("add", *(["--force"] if force else []), "--", path)

    @rule()
    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "more")

    @rule(name=st.sampled_from(["one", "two"]))
    def switch(self, name: str) -> None:
        known = self.user.git("branch", "--list", name)
        self.git("switch", "--quiet", *([] if known else ["--create"]), name)

    @rule()
    def nested_repository(self) -> None:
        self.nested += 1
        inner = GitRepo.init(self.user.path / f"nested{self.nested}")
        inner.write("inside", b"inner\n")
        inner.commit()

    @rule()
    def collect_garbage(self) -> None:
        self.user.git("gc", "--quiet", "--prune=now")

    # -- ours -----------------------------------------------------------------------------------------------

    @rule()
    def checkpoint(self) -> None:
        users = self.user.user_state()
        self.copies.append(self.copy(self.latest.files))
        assert self.session.checkpoint() == len(self.copies) - 1
        assert self.user.user_state() == users

    @rule(data=st.data(), first=st.booleans(), force=st.booleans())
    def restore(self, data: st.DataObject, first: bool, force: bool) -> None:
        if first:
            self.checkpoint()
        self.restore_any(data, force)

    @rule(data=st.data(), path=st.sampled_from(PATHS), content=st.sampled_from(CONTENTS), force=st.booleans())
    def restore_over_an_edit(self, data: st.DataObject, path: bytes, content: bytes, force: bool) -> None:
        """A file that a checkpoint has is changed, and none has that; then a restore."""
        self.write(path, b"known\n", run=False)
        self.checkpoint()
        self.write(path, content, run=False)
        self.restore_any(data, force)

    def restore_any(self, data: st.DataObject, force: bool) -> None:
        index = data.draw(st.integers(-1, len(self.copies) - 1), "checkpoint")
        target = self.base if index < 0 else self.copies[index]
        self.go(target, lambda: self.session.restore(None if index < 0 else index, force=force), force)

    @rule(force=st.booleans())
    def undo(self, force: bool) -> None:
        last = next((one for one in reversed(self.session.records) if "safety" in one), None)
        if last is None:
            with pytest.raises(UsageError):
                self.session.undo()
            return
        target = self.base if last["safety"] is None else self.copies[last["safety"]]
        at_once = last is self.session.records[-1] and self.copy(self.latest.files) == self.latest
        self.go(target, lambda: self.session.undo(force=force), force, exact=at_once)

    # -- the oracle ---------------------------------------------------------------------------------------

    def go(self, target: Copy, restore: object, force: bool, *, exact: bool = False) -> None:
        users, before, hollow = self.user.user_state(), self.disk(), self.hollow()
        known, now = self.latest, self.copy(self.latest.files)
        drift = {
            path
            for path, item in now.files.items()
            if item != known.files.get(path) and item != target.files.get(path)
            and (path in target.files or path in known.files)
        }  # fmt: skip
        new = {path for path in now.files if path not in known.files and path not in target.files}
        others = {path for path in before if path not in now.files}
        unsure = set() if exact else self.ignored_by(target, now.files.keys() - target.files.keys())
        try:
            report: RestoreReport = restore()  # type: ignore[operator]
        except DriftError:
            assert self.disk() == before
            in_the_way = collide(new | others, replace(target, empty=target.hollow))
            assert (drift and not force) or in_the_way, "refused without a reason"
            type(self).refused += bool(drift)
            return
        finally:
            assert self.user.user_state() == users
        assert force or not drift - unsure, f"overwrote {drift}"
        assert not report.left
        type(self).restored += report.checkpoint is not None
        type(self).overwrote += bool(drift)
        after = self.disk()
        displaced = {path for path in new | others if collide({path}, target)} if force else set()
        for path in (new | others) - displaced:
            assert after.get(path) == before[path], f"lost {path!r}"
        for path in unsure & target.beside:
            assert after.get(path) == before[path], f"{path!r} was there, ignored"
        kept = (new | others) - displaced | unsure & after.keys()
        expected = {path: before[path] for path in kept} | target.files
        assert after == expected
        if not new:
            stray = self.empty_directories() - target.empty
            assert not {path for path in stray if path in now.empty and path in known.empty}
        assert target.empty <= self.directories()
        if report.checkpoint is not None:
            # What was restored is followed from then on, as what was captured is; not what is no longer ignored now.
            followed = now.files | target.files
            there = self.copy(followed)
            restored = replace(
                there,
                files={path: item for path, item in there.files.items() if path in followed},
                empty=there.empty - (hollow - now.empty - target.empty),
            )
            # The safety checkpoint has the ignored files, too, in whose place the target has one.
            found = {path: before[path] for path in others & target.files.keys()}
            saved = Copy(now.files | found, now.empty, now.beside - found.keys(), now.hollow)
            self.copies += [saved] * (report.checkpoint - len(self.copies)) + [restored]
            assert len(self.copies) == report.checkpoint + 1

    @property
    def latest(self) -> Copy:
        return self.copies[-1] if self.copies else self.base

    def copy(self, followed: Files) -> Copy:
        """What a checkpoint of now has to hold: what git tracks or would, and what was captured before."""
        listed = self.user.git_bytes("ls-files", "-z", "-c") + self.user.git_bytes(
            "ls-files", "-z", "-o", "--exclude-standard"
        )
        wanted = {*listed.split(b"\0"), *followed}
        disk = self.disk()
        files = {path: item for path, item in disk.items() if path in wanted and not path.startswith(b"nested")}
        beside = frozenset(disk.keys() - files.keys())
        return Copy(files, frozenset(self.empty_directories()), beside, frozenset(self.hollow()))

    def ignored_by(self, target: Copy, paths: Set[bytes]) -> set[bytes]:
        """Those of ``paths`` that the rules of a checkpoint name: they may have been there."""
        self.rules.write(".gitignore", target.files[b".gitignore"][2])
        asked = b"".join(path + b"\0" for path in paths)
        named = self.rules.git_bytes("check-ignore", "--no-index", "-z", "--stdin", input=asked, ok=(0, 1))
        return {path for path in named.split(b"\0") if path}

    def disk(self) -> Files:
        found: Files = {}
        for path, (kind, mode, data) in self.user.snapshot().items():
            if kind != "dir":
                found[path] = (kind, kind == "file" and bool(mode & stat.S_IXUSR), data)
        return found

    def directories(self) -> set[bytes]:
        return {path for path, (kind, _, _) in self.user.snapshot().items() if kind == "dir"}

    def hollow(self) -> set[bytes]:
        """Directories with nothing in them."""
        shot = self.user.snapshot()
        full = {path.rpartition(b"/")[0] for path in shot}
        return {
            path for path, (kind, _, _) in shot.items()
            if kind == "dir" and path not in full and not path.startswith(b"nested")
        }  # fmt: skip

    def empty_directories(self) -> set[bytes]:
        """Those that are no ignored thing: ignored directories are nobody's business."""
        empty = self.hollow()
        asked = b"".join(path + b"/\0" for path in empty)
        ignored = self.user.git_bytes("check-ignore", "--no-index", "-z", "--stdin", input=asked, ok=(0, 1))
        return empty - {path.rstrip(b"/") for path in ignored.split(b"\0")}

    # -- small things -------------------------------------------------------------------------------------

    def kind(self, path: bytes) -> str:
        place = self.user.at(path)
        for parent in place.relative_to(self.user.path).parents:
            if (self.user.path / parent).is_symlink():
                return "nothing"
        if place.is_symlink():
            return "link"
        return "file" if place.is_file() else "directory" if place.is_dir() else "nothing"

    def clear(self, path: bytes) -> None:
        kind = self.kind(path)
        if kind == "directory":
            shutil.rmtree(self.user.at(path))
        elif kind != "nothing":
            self.user.at(path).unlink()

    def make_way(self, path: bytes) -> None:
        """So that something can be made at ``path``: what is there goes, and what is no directory above it."""
        parts = path.split(b"/")
        for count in range(1, len(parts)):
            above = b"/".join(parts[:count])
            if self.kind(above) in {"file", "link"}:
                self.clear(above)
        self.clear(path)

    def git(self, *args: str | bytes) -> None:
        """A git of the user's that may well fail: a switch with changes in the way, say."""
        self.user.git(*args, ok=range(256))


def collide(kept: set[bytes], target: Copy) -> bool:
    """Whether something that is to stay stands where the target has a file, a directory of one, or below one."""
    needed = set(target.files) | target.empty
    above = {path[: at] for path in needed for at in range(len(path)) if path[at : at + 1] == b"/"}  # fmt: skip
    return any(
        path in needed or path in above
        or any(path[:at] in target.files for at in range(len(path)) if path[at : at + 1] == b"/")
        for path in kept
    )  # fmt: skip


def run(place: Path, examples: int, steps: int) -> None:
    Machine.place = place
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=True,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(900)
def test_more_than_two_thousand_random_steps(tmp_path: Path) -> None:
    run(tmp_path, examples=60, steps=50)
    assert Machine.count > 2000
    # What it is for has to have happened, not only steps on the way there.
    assert min(Machine.restored, Machine.refused, Machine.overwrote) >= 3
