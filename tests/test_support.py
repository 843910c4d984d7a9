"""The seal and the helpers that every other test stands on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import GitRepo


def test_home_and_store_are_private(seal: Path, pinable_home: Path) -> None:
    assert Path.home() == seal
    assert Path(os.environ["PINABLE_HOME"]) == pinable_home
    assert not pinable_home.exists()


def test_looking_into_the_real_store_fails() -> None:
    import pwd

    with pytest.raises(AssertionError, match="real store"):
        os.listdir(Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pinable-agents")


@pytest.mark.parametrize(
    "name", ["GIT_DIR", "GIT_INDEX_FILE", "ANTHROPIC_API_KEY", "https_proxy", "PINABLE_SESSION_ID"]
)
def test_nothing_of_the_machine_is_in_the_environment(name: str) -> None:
    assert name not in os.environ


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_same_content_gives_the_same_commit(tmp_path: Path, object_format: str) -> None:
    first, second = (GitRepo.init(tmp_path / name, object_format=object_format) for name in "ab")
    ids = set()
    for repo in (first, second):
        repo.write("a/b", "text")
        ids.add(repo.commit("one"))
    assert len(ids) == 1


def test_snapshot_sees_kinds_modes_and_odd_names(repo: GitRepo) -> None:
    repo.write(b"caf\xe9", b"\x00\xff", mode=0o755)
    os.symlink("nowhere", repo.at("link"))
    repo.at("empty").mkdir()
    os.mkfifo(repo.at("pipe"), 0o600)
    seen = repo.snapshot()
    assert seen[b"caf\xe9"] == ("file", 0o755, b"\x00\xff")
    assert seen[b"link"][0::2] == ("link", b"nowhere")
    assert seen[b"empty"] == ("dir", 0o755, b"")
    assert seen[b"pipe"] == ("fifo", 0o600, b"")
    assert not any(path.startswith(b".git") for path in seen)


def test_user_state_sees_what_is_the_users_and_nothing_of_ours(repo: GitRepo) -> None:
    before = repo.user_state()
    head = repo.git("rev-parse", "HEAD")
    repo.git("update-ref", "refs/pinable/x", head)
    repo.git("update-ref", "--create-reflog", "refs/pinable-meta/x", head)
    (repo.git_dir / "pinable").mkdir()
    (repo.git_dir / "pinable" / "index").write_bytes(b"")
    repo.git("pack-refs", "--all")
    assert repo.user_state() == before
    for act in (
        lambda: repo.git("branch", "other"),
        lambda: repo.git("config", "a.b", "c"),
        lambda: (repo.git_dir / "index.lock").write_bytes(b""),
        lambda: (repo.git_dir / "ORIG_HEAD").write_text(head),
    ):
        act()
        after = repo.user_state()
        assert after != before
        before = after


def test_user_state_of_a_linked_worktree(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    linked = GitRepo(tmp_path / "linked")
    before = linked.user_state()
    (linked.git_dir / "pinable").mkdir()
    (linked.git_dir / "pinable" / "x").write_bytes(b"")
    assert linked.user_state() == before
    linked.write("new", "x")
    linked.git("add", "new")
    assert linked.user_state() != before
