"""What public trackers lose at a restore, one test each."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession.errors import DriftError


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    return TestSession(repo)


def test_output_that_another_program_writes_stays(session: TestSession) -> None:
    repo = session.user
    repo.write(".gitignore", "*.log\nout/\n")
    session.checkpoint()
    repo.write("src/app.py", "changed\n")
    session.checkpoint()
    repo.write("server.log", os.urandom(2000))
    repo.write("out/deep/result.bin", os.urandom(2000))
    repo.write("report.txt", "untracked\n")
    theirs = {name: repo.at(name).read_bytes() for name in ("server.log", "out/deep/result.bin", "report.txt")}
    session.restore(0)
    assert {name: repo.at(name).read_bytes() for name in theirs} == theirs


def test_a_file_ignored_by_an_edit_that_the_restore_takes_back(session: TestSession) -> None:
    repo = session.user
    session.checkpoint()
    repo.write(".gitignore", "secret.env\n")
    repo.write("secret.env", "key\n")
    session.checkpoint()
    session.restore(0)
    assert not repo.at(".gitignore").exists()
    assert repo.at("secret.env").read_text() == "key\n"


def test_a_commit_after_the_checkpoint_stays(session: TestSession, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = session.user
    session.checkpoint()
    repo.write("README.md", "committed\n")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2099-01-01T00:00:00+00:00")
    made = repo.commit("the user's")
    session.checkpoint()
    report = session.restore(0)
    assert (repo.git("rev-parse", "HEAD"), repo.git("symbolic-ref", "HEAD")) == (made, "refs/heads/main")
    assert repo.at("README.md").read_text() == "# sample\n"
    assert any(made[:7] in warning for warning in report.warnings)


def test_staged_changes_stay_byte_for_byte(session: TestSession) -> None:
    repo = session.user
    session.checkpoint()
    repo.write("src/util.py", "staged\n")
    repo.git("add", "src/util.py")
    repo.write("src/util.py", "staged\nand not\n")
    session.checkpoint()
    index, cached = repo.index_bytes(), repo.git("diff", "--cached")
    session.restore(0)
    assert repo.git("diff", "--cached") == cached
    assert repo.index_bytes() == index
    session.undo()
    assert repo.index_bytes() == index


def test_one_file_among_many(session: TestSession) -> None:
    repo = session.user
    for number in range(2000):
        repo.write(f"d{number // 100}/f{number}", f"{number}\n")
    session.checkpoint()
    repo.write("d7/f700", "changed\n")
    session.checkpoint()
    before = {path: path.stat().st_mtime_ns for path in repo.path.glob("d*/f*")}
    session.restore(0)
    assert [path.name for path, time in before.items() if path.stat().st_mtime_ns != time] == ["f700"]


def test_a_link_to_the_outside_in_place_of_a_directory(session: TestSession, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "app.py").write_text("theirs\n")
    repo = session.user
    session.checkpoint()
    before = repo.snapshot()
    shutil.rmtree(repo.at("src"))
    repo.at("src").symlink_to(outside)
    session.checkpoint()
    session.restore(0)
    assert repo.snapshot() == before
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"app.py": "theirs\n"}


def test_a_link_in_place_of_a_file(session: TestSession, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("theirs\n")
    repo = session.user
    session.checkpoint()
    repo.at("README.md").unlink()
    repo.at("README.md").symlink_to(target)
    session.checkpoint()
    session.restore(0)
    assert repo.at("README.md").read_text() == "# sample\n"
    assert not repo.at("README.md").is_symlink()
    assert target.read_text() == "theirs\n"


def test_an_ignored_link_to_the_outside_in_the_way(session: TestSession, tmp_path: Path) -> None:
    """No checkpoint has the link, so it may not be taken away; and nothing may be written through it."""
    (tmp_path / "outside").mkdir()
    repo = session.user
    repo.write("gen/a", "1\n")
    session.checkpoint()
    shutil.rmtree(repo.at("gen"))
    session.checkpoint()
    repo.write(".git/info/exclude", "gen\n")
    repo.at("gen").symlink_to(tmp_path / "outside")
    for force in (False, True):
        with pytest.raises(DriftError, match="is in the way"):
            session.restore(0, force=force)
    assert os.listdir(tmp_path / "outside") == []
    assert repo.at("gen").is_symlink()


def as_file(repo: GitRepo) -> None:
    repo.write("thing", "file\n")


def as_directory(repo: GitRepo) -> None:
    repo.write("thing/one", "1\n")
    repo.write("thing/deep/two", "2\n")


def as_link(repo: GitRepo) -> None:
    repo.at("thing").symlink_to("src")


def as_empty_directory(repo: GitRepo) -> None:
    repo.at("thing").mkdir()


def as_nothing(repo: GitRepo) -> None:
    pass


KINDS = [as_file, as_directory, as_link, as_empty_directory, as_nothing]


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_swaps_of_kind(
    session: TestSession, first: Callable[[GitRepo], None], second: Callable[[GitRepo], None]
) -> None:
    repo = session.user
    shots = []
    for make in (first, second):
        thing = repo.at("thing")
        if thing.is_dir() and not thing.is_symlink():
            shutil.rmtree(thing)
        else:
            thing.unlink(missing_ok=True)
        make(repo)
        session.checkpoint()
        shots.append(repo.snapshot())
    session.restore(0)
    assert repo.snapshot() == shots[0]
    if shots[0] != shots[1]:
        session.undo()
    assert repo.snapshot() == shots[1]


def test_a_deleted_tracked_file(session: TestSession) -> None:
    repo = session.user
    session.checkpoint()
    repo.at("README.md").unlink()
    session.checkpoint()
    session.restore(0)
    assert repo.at("README.md").exists()
    session.restore(1)
    assert not repo.at("README.md").exists()


def test_a_moved_file(session: TestSession) -> None:
    repo = session.user
    session.checkpoint()
    repo.at("lib").mkdir()
    repo.at("src/util.py").rename(repo.at("lib/util.py"))
    session.checkpoint()
    session.restore(0)
    assert repo.at("src/util.py").exists()
    assert not repo.at("lib").exists()


# What neighbouring tools lost, by running them.


def test_a_tracked_file_in_an_ignored_directory_is_not_deleted(session: TestSession) -> None:
    repo = session.user
    repo.write(".gitignore", "build/\n")
    repo.write("build/kept.txt", "tracked\n")
    repo.git("add", "--force", "build/kept.txt")
    session.checkpoint()
    repo.write("build/kept.txt", "changed\n")
    repo.write("README.md", "changed\n")
    session.checkpoint()
    session.restore(0)
    assert repo.at("build/kept.txt").read_text() == "tracked\n"
    session.restore(1)
    assert repo.at("build/kept.txt").read_text() == "changed\n"


def test_a_repository_that_the_agent_made_keeps_its_history(session: TestSession) -> None:
    session.checkpoint()
    inner = GitRepo.init(session.user.path / "made")
    inner.write("work.txt", "work\n")
    made = inner.commit("by the agent")
    session.user.write("README.md", "changed\n")
    session.checkpoint()
    session.restore(0)
    assert inner.git("rev-parse", "HEAD") == made
    assert inner.git("status", "--porcelain") == ""
    assert session.records[1]["skipped"] == [{"path": "made", "reason": "nested repository"}]


def test_thousands_of_long_names_fit(session: TestSession) -> None:
    """More bytes of paths than a command line takes."""
    repo = session.user
    session.checkpoint()
    for number in range(1500):
        repo.write(f"{'long' * 40}/{number}-{'name' * 30}", f"{number}\n")
    session.checkpoint()
    shot = repo.snapshot()
    session.restore(0)
    assert not repo.at("long" * 40).exists()
    session.undo()
    assert repo.snapshot() == shot


def test_states_that_begin_alike_are_two(session: TestSession) -> None:
    repo = session.user
    head = "same line\n" * 5000
    repo.write("f", head + "one\n")
    session.checkpoint()
    repo.write("f", head + "two\n")
    session.checkpoint()
    session.restore(0)
    assert repo.at("f").read_text() == head + "one\n"
    session.restore(1)
    assert repo.at("f").read_text() == head + "two\n"


def test_undo_across_a_commit_of_the_agent_s(session: TestSession) -> None:
    repo = session.user
    session.checkpoint()
    repo.write("f", "agent\n")
    made = repo.commit("by the agent")
    session.checkpoint()
    session.restore(0)
    session.undo()
    assert repo.git("rev-parse", "main") == made
    assert repo.git("cat-file", "-t", made) == "commit"
    assert repo.git("reflog", "--format=%H").split("\n")[0] == made
    assert repo.at("f").read_text() == "agent\n"


def test_directories_like_dist_and_tmp_are_not_special(session: TestSession) -> None:
    repo = session.user
    repo.write(".gitignore", "dist/\ntmp/\n*.log\n")
    session.checkpoint()
    for name in ("dist/app.js", "tmp/cache", "debug.log"):
        repo.write(name, "theirs\n")
    repo.write("README.md", "changed\n")
    session.checkpoint()
    session.restore(0)
    for name in ("dist/app.js", "tmp/cache", "debug.log"):
        assert repo.at(name).read_text() == "theirs\n"


def test_the_right_one_of_equal_lines_is_restored(session: TestSession) -> None:
    repo = session.user
    repo.write("f", "x = 1\ny = 2\nx = 1\n")
    session.checkpoint()
    repo.write("f", "x = 1\ny = 2\nx = 3\n")
    session.checkpoint()
    session.restore(0)
    assert repo.at("f").read_text() == "x = 1\ny = 2\nx = 1\n"


def test_hidden_refs_are_not_in_a_clone(session: TestSession, tmp_path: Path) -> None:
    session.user.write("f", "1\n")
    session.checkpoint()
    session.user.git("clone", "--quiet", str(session.user.path), str(tmp_path / "clone"))
    assert "pinable" not in GitRepo(tmp_path / "clone").git("for-each-ref")
    assert "pinable" not in session.user.git("branch", "--all")


# State A, checkpoint, state B, checkpoint, restore A: what is exact, in 34 scenes.

Scene = Callable[[GitRepo], None]


def _untracked(repo: GitRepo) -> None:
    repo.write("new.txt", f"{repo.at('new.txt').exists()}\n")


def _tracked_edit(repo: GitRepo) -> None:
    repo.write("README.md", repo.at("README.md").read_text() + "more\n")


def _delete_and_add(repo: GitRepo) -> None:
    repo.at("src/util.py").unlink(missing_ok=True)
    repo.write(f"src/new{len(os.listdir(repo.at('src')))}.py", "x\n")


def _empty_directory(repo: GitRepo) -> None:
    if repo.at("hollow").exists():
        repo.at("hollow/deep").rmdir()
        repo.at("hollow").rmdir()
    else:
        repo.at("hollow/deep").mkdir(parents=True)


def _links(repo: GitRepo) -> None:
    link = repo.at("link")
    target = "README.md" if not link.is_symlink() else "src"
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _dangling_link(repo: GitRepo) -> None:
    repo.at(f"dangling{len(os.listdir(repo.path))}").symlink_to("no/such/place")


def _executable(repo: GitRepo) -> None:
    place = repo.at("README.md")
    place.chmod(place.stat().st_mode ^ 0o111)


def _binary(repo: GitRepo) -> None:
    repo.write("blob.bin", os.urandom(4096))


def _crlf(repo: GitRepo) -> None:
    repo.git("config", "core.autocrlf", "true")
    place = repo.at("README.md")
    data = place.read_bytes()
    place.write_bytes(data.replace(b"\n", b"\r\n") if b"\r" not in data else b"plain\n")


def _filter(repo: GitRepo) -> None:
    """A driver that cannot be turned round: what is cleaned is lost."""
    repo.git("config", "filter.lossy.clean", "tr a-z A-Z")
    repo.git("config", "filter.lossy.smudge", "cat")
    repo.write(".gitattributes", "*.lossy filter=lossy\n")
    repo.write("x.lossy", f"Mixed Case {len(os.listdir(repo.path))}\n")
    repo.write("y.lossy", os.urandom(20).hex() + "aA\n")


def _encoding(repo: GitRepo) -> None:
    repo.write(".gitattributes", "*.u16 working-tree-encoding=UTF-16\n")
    repo.write("t.u16", os.urandom(8).hex().encode("utf-16"))


def _ident(repo: GitRepo) -> None:
    repo.write(".gitattributes", "*.c ident\n")
    repo.write("x.c", f"$Id$ {os.urandom(4).hex()}\n$Id: old $\n")


def _not_utf8_name(repo: GitRepo) -> None:
    repo.write(b"caf\xe9-%d" % len(os.listdir(repo.path)), b"x")
    repo.write(b"caf\xe9", os.urandom(9))


def _names(repo: GitRepo) -> None:
    for name in ("new\nline", "tab\t", 'quo"te', "back\\slash", "-dash", "dot.", ":(glob)x", "中文", "🙂"):
        repo.write(name, os.urandom(5))


def _twins(repo: GitRepo) -> None:
    repo.write("e\u0301", os.urandom(5))
    repo.write("\u00e9", os.urandom(5))


def _file_and_directory(repo: GitRepo) -> None:
    thing = repo.at("thing")
    if thing.is_file():
        thing.unlink()
        repo.write("thing/inside", "in\n")
    else:
        shutil.rmtree(thing, ignore_errors=True)
        repo.write("thing", "file\n")


def _directory_and_link(repo: GitRepo) -> None:
    thing = repo.at("thing")
    if thing.is_symlink():
        thing.unlink()
        repo.write("thing/inside", "in\n")
    else:
        shutil.rmtree(thing, ignore_errors=True)
        thing.symlink_to("src")


def _staged(repo: GitRepo) -> None:
    repo.write("README.md", os.urandom(6).hex())
    repo.git("add", "README.md")
    repo.write("README.md", os.urandom(6).hex())


def _intent_to_add(repo: GitRepo) -> None:
    repo.write("later.txt", os.urandom(6).hex())
    repo.git("add", "--intent-to-add", "later.txt")


def _removed_from_index(repo: GitRepo) -> None:
    repo.git("rm", "--cached", "--quiet", "--ignore-unmatch", "README.md")
    repo.write("README.md", os.urandom(6).hex())


def _assume_unchanged(repo: GitRepo) -> None:
    repo.git("update-index", "--assume-unchanged", "README.md")
    repo.write("README.md", os.urandom(6).hex())


def _skip_worktree(repo: GitRepo) -> None:
    repo.git("update-index", "--skip-worktree", "README.md")
    repo.write("README.md", os.urandom(6).hex())


def _tracked_but_ignored(repo: GitRepo) -> None:
    repo.write(".gitignore", "build/\n")
    repo.write("build/x", os.urandom(6).hex())
    repo.git("add", "--force", "build/x")


def _commit(repo: GitRepo) -> None:
    repo.write("README.md", os.urandom(6).hex())
    repo.commit("user's")


def _other_branch(repo: GitRepo) -> None:
    repo.git("switch", "--quiet", "--create", f"b{os.urandom(3).hex()}")
    repo.write("README.md", os.urandom(6).hex())


def _detached(repo: GitRepo) -> None:
    repo.git("switch", "--quiet", "--detach")
    repo.write("README.md", os.urandom(6).hex())


def _merge_under_way(repo: GitRepo) -> None:
    if not (repo.git_dir / "MERGE_HEAD").exists():
        repo.git("switch", "--quiet", "--create", "other")
        repo.write("README.md", "theirs\n")
        repo.commit("theirs")
        repo.git("switch", "--quiet", "main")
        repo.write("README.md", "ours\n")
        repo.commit("ours")
        repo.git("merge", "other", ok=(1,))
    repo.write("src/app.py", os.urandom(6).hex())


def _many(repo: GitRepo) -> None:
    for number in range(300):
        repo.write(f"many/{number}", os.urandom(3).hex())


def _large(repo: GitRepo) -> None:
    repo.write("large", os.urandom(9 * 1024 * 1024))


def _deep(repo: GitRepo) -> None:
    repo.write("/".join(["deep"] * 60) + "/f", os.urandom(6).hex())


def _emptied(repo: GitRepo) -> None:
    for path in list(repo.path.iterdir()):
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if not repo.git("stash", "list") and len(os.listdir(repo.path)) == 1:
        repo.write("only", os.urandom(6).hex())


def _hard_links(repo: GitRepo) -> None:
    repo.write("one", os.urandom(6).hex())
    repo.at("two").unlink(missing_ok=True)
    os.link(repo.at("one"), repo.at("two"))


def _private_mode(repo: GitRepo) -> None:
    repo.write("secret", os.urandom(6).hex(), 0o600)


SCENES = [
    _untracked, _tracked_edit, _delete_and_add, _empty_directory, _links, _dangling_link, _executable, _binary, _crlf,
    _filter, _encoding, _ident, _not_utf8_name, _names, _twins, _file_and_directory, _directory_and_link, _staged,
    _intent_to_add, _removed_from_index, _assume_unchanged, _skip_worktree, _tracked_but_ignored, _commit,
    _other_branch, _detached, _merge_under_way, _many, _large, _deep, _emptied, _hard_links, _private_mode,
]  # fmt: skip


@pytest.mark.parametrize("scene", SCENES)
def test_state_a_state_b_and_back(repo: GitRepo, scene: Scene) -> None:
    """Bytes, kinds, execution bits, links, empty directories; the index, refs and all that is the user's stay."""
    session = TestSession(repo)
    start = repo.snapshot()
    scene(repo)
    session.checkpoint()
    a = repo.snapshot()
    scene(repo)
    session.checkpoint()
    b = repo.snapshot()
    users = repo.user_state()
    session.restore(0)
    assert repo.snapshot() == a
    session.undo()
    assert repo.snapshot() == b
    session.restore(None)
    assert repo.snapshot() == start
    assert repo.user_state() == users
    repo.git("fsck", "--strict")


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize("unborn", [False, True])
def test_the_same_from_a_subdirectory_without_commits_and_in_any_format(
    tmp_path: Path, object_format: str, unborn: bool
) -> None:
    repo = GitRepo.init(tmp_path / "r", object_format=object_format)
    repo.write("sub/f", "0\n")
    if not unborn:
        repo.commit()
    session = TestSession(repo, start=repo.at("sub"))
    repo.write("sub/f", "1\n")
    session.checkpoint()
    repo.write("sub/f", "2\n")
    repo.write("top", "2\n")
    session.checkpoint()
    session.restore(0)
    assert repo.at("sub/f").read_text() == "1\n"
    assert not repo.at("top").exists()


def test_a_nested_repository_in_every_state(repo: GitRepo) -> None:
    """Dirty, without a commit, made after the checkpoint: left out, told so, never touched; all else is exact."""
    dirty = GitRepo.init(repo.path / "dirty")
    dirty.write("f", "1\n")
    dirty.commit()
    dirty.write("f", "dirty\n")
    GitRepo.init(repo.path / "unborn").write("f", "1\n")
    session = TestSession(repo)
    repo.write("README.md", "1\n")
    session.checkpoint()
    GitRepo.init(repo.path / "later").write("f", "1\n")
    dirty.write("f", "dirtier\n")
    repo.write("README.md", "2\n")
    session.checkpoint()
    inner = {name: GitRepo(repo.path / name).snapshot() for name in ("dirty", "unborn", "later")}
    session.restore(0)
    assert repo.at("README.md").read_text() == "1\n"
    assert {name: GitRepo(repo.path / name).snapshot() for name in inner} == inner
    skipped = {item["path"]: item["reason"] for item in session.records[1]["skipped"]}
    assert skipped == dict.fromkeys(("dirty", "unborn", "later"), "nested repository")


def test_a_dirty_submodule(repo: GitRepo, tmp_path: Path) -> None:
    source = GitRepo.init(tmp_path / "source")
    source.write("f", "1\n")
    source.commit()
    repo.git("submodule", "--quiet", "add", str(source.path), "sub")
    repo.commit("with a submodule")
    session = TestSession(repo)
    repo.write("sub/f", "dirty\n")
    repo.write("README.md", "1\n")
    session.checkpoint()
    repo.write("sub/f", "dirtier\n")
    GitRepo(repo.path / "sub").commit("moved")
    repo.write("README.md", "2\n")
    session.checkpoint()
    report = session.restore(0)
    assert repo.at("README.md").read_text() == "1\n"
    assert repo.at("sub/f").read_text() == "dirtier\n"
    assert [(file.path, file.action) for file in report.files] == [("README.md", "replace"), ("sub", "keep")]


def test_ignored_files_are_as_in_b(session: TestSession) -> None:
    repo = session.user
    repo.write(".gitignore", "cache\n")
    repo.write("cache", "a\n")
    session.checkpoint()
    repo.write("cache", "b\n")
    repo.write("README.md", "b\n")
    session.checkpoint()
    session.restore(0)
    assert repo.at("cache").read_text() == "b\n"


def test_garbage_collection_takes_nothing_away(session: TestSession) -> None:
    repo = session.user
    shots = []
    for number in range(4):
        repo.write("f", f"{number}\n")
        repo.write(f"only{number}", os.urandom(30))
        session.checkpoint()
        shots.append(repo.snapshot())
        if number:
            repo.at(f"only{number - 1}").unlink()
            session.checkpoint()
            shots.append(repo.snapshot())
        repo.git("gc", "--quiet", "--prune=now")
    for index in (0, 3, 1, 5, 2):
        session.restore(index)
        repo.git("gc", "--quiet", "--prune=now")
        assert repo.snapshot() == shots[index]


def test_permission_bits_beyond_execution_are_the_file_s_own(session: TestSession) -> None:
    repo = session.user
    repo.write("secret", "1\n", 0o600)
    session.checkpoint()
    repo.write("secret", "2\n")
    session.checkpoint()
    session.restore(0)
    assert stat.S_IMODE(repo.at("secret").stat().st_mode) == 0o600
