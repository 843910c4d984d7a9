"""Hooks are installed beside what is there, checked, brought up to date, and leave nothing behind."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from support import GitRepo, run_cli

from gitsession.errors import BadValue
from gitsession.verbs import hooks


def pinable(*arguments: str, cwd: Path) -> tuple[int, str]:
    done = run_cli("pinable-agents", "hooks", *arguments, cwd=cwd)
    return done.returncode, done.stdout


def user_hook(repo: GitRepo, name: str, text: str = "", mode: int = 0o755) -> Path:
    return repo.write(f".git/hooks/{name}", f"#!/bin/sh\n{text}\n", mode=mode)


def states(repo: GitRepo) -> set[str]:
    return {one.state for one in hooks.status(repo.path)}


def test_install_status_uninstall(repo: GitRepo) -> None:
    before = repo.user_state()
    assert pinable("status", cwd=repo.path)[0] == 1
    status, out = pinable("install", cwd=repo.path)
    assert (status, "Installed 7 hooks" in out) == (0, True)
    status, out = pinable("status", "--json", cwd=repo.path)
    assert (status, {one["state"] for one in json.loads(out)}) == (0, {"runs"})
    assert pinable("status", cwd=repo.path)[1].count(" runs ") == 7
    assert pinable("uninstall", cwd=repo.path) == (0, "Removed 7 hooks\n")
    assert repo.user_state() == before
    assert not (repo.git_dir / "hooks").exists()
    assert pinable("uninstall", cwd=repo.path) == (0, "")


def test_doing_it_again_changes_nothing(repo: GitRepo) -> None:
    user_hook(repo, "post-commit")
    hooks.install(repo.path)
    before = repo.user_state()
    times = {file: file.stat().st_mtime_ns for file in (repo.git_dir / "hooks").iterdir()}
    hooks.install(repo.path)
    assert repo.user_state() == before
    assert {file: file.stat().st_mtime_ns for file in (repo.git_dir / "hooks").iterdir()} == times


def test_existing_hooks_are_kept_called_and_given_back(repo: GitRepo) -> None:
    user_hook(repo, "post-commit", 'echo "post-commit $# $0" >> ../said')
    user_hook(repo, "post-rewrite", 'echo "post-rewrite $1: $(cat)" >> ../said')
    user_hook(repo, "pre-push", "exit 1", mode=0o644)  # which git does not run
    user_hook(repo, "commit-msg.sample", "exit 1")
    script = repo.write("../script", "#!/bin/sh\necho prepared >> ../said\n", mode=0o755)
    repo.at(".git/hooks/prepare-commit-msg").symlink_to(script)
    before = repo.user_state()
    times = {file.name: file.lstat().st_mtime_ns for file in (repo.git_dir / "hooks").iterdir()}
    done = hooks.install(repo.path)
    assert set(done.kept) == {"post-commit", "post-rewrite", "pre-push", "prepare-commit-msg"}
    assert states(repo) == {"runs"}
    repo.git("commit", "--quiet", "--allow-empty", "-m", "One")
    old = repo.git("rev-parse", "HEAD")
    repo.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "Two")
    post = "post-commit 0 .git/hooks/post-commit.pinable-kept"
    rewritten = f"post-rewrite amend: {old} {repo.git('rev-parse', 'HEAD')}"
    assert repo.at("../said").read_text().splitlines() == ["prepared", post, "prepared", post, rewritten]
    hooks.uninstall(repo.path)
    after = {path: data for path, data in repo.user_state().items() if "hooks" in path}
    assert after == {path: data for path, data in before.items() if "hooks" in path}
    assert {file.name: file.lstat().st_mtime_ns for file in (repo.git_dir / "hooks").iterdir()} == times


@pytest.mark.parametrize("used", [False, True])
def test_a_chained_hook_has_its_input_and_its_status(repo: GitRepo, tmp_path: Path, used: bool) -> None:
    user_hook(repo, "pre-push", 'cat > ../input; echo "$@" > ../arguments; exit 3')
    hooks.install(repo.path)
    if used:
        repo.at(".git/pinable").mkdir()
    GitRepo.init(tmp_path / "there", "--bare")
    repo.git("push", "--quiet", "../there", "main", ok=(1,))
    head = repo.git("rev-parse", "HEAD")
    assert repo.at("../input").read_text() == f"refs/heads/main {head} refs/heads/main {'0' * 40}\n"
    assert repo.at("../arguments").read_text() == "../there ../there\n"


def test_an_older_one_is_brought_up_to_date(repo: GitRepo) -> None:
    user_hook(repo, "post-commit")
    hooks.install(repo.path)
    place = repo.at(".git/hooks/post-commit")
    current = place.read_bytes()
    old = hooks.hook_text("post-commit", "post-commit.pinable-kept").replace(b"format 1", b"format 0")
    found = old.split(b"sum ")[1][:12]
    old = old.replace(found, b"0" * 12)
    place.write_bytes(old.replace(b"0" * 12, hooks._sum(old), 1))
    hooks.install(repo.path)
    assert place.read_bytes() == current


def test_what_somebody_changed_is_left(repo: GitRepo) -> None:
    hooks.install(repo.path)
    place = repo.at(".git/hooks/post-commit")
    place.write_text(place.read_text() + "echo mine\n")
    changed = place.read_bytes()
    status, out = pinable("install", cwd=repo.path)
    assert (status, "somebody changed it" in out) == (4, True)
    status, out = pinable("uninstall", cwd=repo.path)
    assert (status, f"Left {place}" in out) == (4, True)
    assert place.read_bytes() == changed


def test_another_hook_in_its_place(repo: GitRepo) -> None:
    """A tool that moves ours aside and calls nothing: installing puts ours first again, and loses nothing."""
    user_hook(repo, "post-commit", "echo first >> ../said")
    hooks.install(repo.path)
    repo.at(".git/hooks/post-commit").rename(repo.at(".git/hooks/post-commit.old"))
    user_hook(repo, "post-commit", "echo second >> ../said")
    assert {one.name: one.state for one in hooks.status(repo.path)}["post-commit"] == "unused"
    hooks.install(repo.path)
    assert states(repo) == {"runs"}
    repo.git("commit", "--quiet", "--allow-empty", "-m", "One")
    assert repo.at("../said").read_text() == "second\n"
    hooks.uninstall(repo.path)
    kept = {file.name: file.read_text().split()[2] for file in (repo.git_dir / "hooks").iterdir()}
    assert kept == {"post-commit": "second", "post-commit.old": "first"}


def test_a_kill_between_keeping_and_writing_loses_nothing(repo: GitRepo) -> None:
    place = user_hook(repo, "post-commit", "echo mine >> ../said")
    os.link(place, f"{place}{hooks.KEPT}")
    hooks.install(repo.path)
    assert states(repo) == {"runs"}
    hooks.uninstall(repo.path)
    assert [file.name for file in (repo.git_dir / "hooks").iterdir()] == ["post-commit"]


def test_two_hooks_for_one_place_are_a_person_s_to_sort_out(repo: GitRepo) -> None:
    user_hook(repo, "post-commit", "one")
    user_hook(repo, f"post-commit{hooks.KEPT}", "two")
    before = repo.user_state()
    done = hooks.install(repo.path)
    assert list(done.skipped) == ["post-commit"]
    hooks.uninstall(repo.path)
    assert repo.user_state() == before


def test_a_hook_that_does_not_answer_is_found(repo: GitRepo) -> None:
    hooks.install(repo.path)
    place = repo.at(".git/hooks/post-commit")
    place.write_text(place.read_text().replace(sys.executable, "/no/python"))
    broken = {one.name: one for one in hooks.status(repo.path)}["post-commit"]
    assert broken.state == "broken"
    assert "/no/python" in str(broken.detail)
    place.chmod(0o644)
    assert {one.name: one.state for one in hooks.status(repo.path)}["post-commit"] == "broken"


def test_worktrees_share_them(repo: GitRepo) -> None:
    repo.git("worktree", "add", "--quiet", "../linked")
    hooks.install(repo.path.parent / "linked")
    assert states(repo) == {"runs"}
    assert states(GitRepo(repo.path.parent / "linked")) == {"runs"}
    hooks.uninstall(repo.path)
    assert states(GitRepo(repo.path.parent / "linked")) == {"off"}


def test_a_hooks_path_set_later(repo: GitRepo) -> None:
    hooks.install(repo.path)
    repo.git("config", "core.hooksPath", "../hooks")
    assert states(repo) == {"unused"}
    hooks.install(repo.path)
    assert states(repo) == {"runs"}
    hooks.uninstall(repo.path)
    repo.git("config", "--unset", "core.hooksPath")
    assert states(repo) == {"off"}
    assert not repo.at("../hooks").exists()


def test_a_hooks_path_that_is_none(repo: GitRepo) -> None:
    repo.git("config", "core.hooksPath", "/dev/null")
    with pytest.raises(BadValue, match="git runs no hook here"):
        hooks.install(repo.path)


def test_a_directory_of_the_working_tree_is_not_changed(repo: GitRepo) -> None:
    repo.write("hooks/post-commit", "#!/bin/sh\necho shared >> ../said\n", mode=0o755)
    repo.commit("Hooks for everybody")
    repo.git("config", "core.hooksPath", "hooks")
    before = repo.snapshot()
    status, out = pinable("install", cwd=repo.path)
    assert (status, repo.snapshot()) == (4, before)
    assert states(repo) == {"unused"}
    done = hooks.install(repo.path)
    assert [addition.file for addition in done.additions] == [f"hooks/{name}" for name in hooks.NAMES]
    assert all(line in out for addition in done.additions for line in addition.lines)
    for addition in done.additions:
        file = repo.at(addition.file)
        start = file.read_text() if file.exists() else "#!/bin/sh\n"
        repo.write(addition.file, start + "\n".join(addition.lines) + "\n", mode=0o755)
    assert states(repo) == {"called"}
    assert pinable("install", cwd=repo.path)[0] == 0
    repo.commit("Lines")
    hooks.uninstall(repo.path)
    repo.commit("Nobody there")
    assert repo.at("../said").read_text() == "shared\nshared\n"


def test_a_directory_of_the_working_tree_that_git_ignores_is_the_person_s_own(repo: GitRepo) -> None:
    repo.write("hooks/post-commit", "#!/bin/sh\nexit 0\n", mode=0o755)
    repo.write(".gitignore", "/hooks/\n")
    repo.git("config", "core.hooksPath", "hooks")
    hooks.install(repo.path)
    assert states(repo) == {"runs"}
    hooks.uninstall(repo.path)
    assert repo.at("hooks/post-commit").read_text() == "#!/bin/sh\nexit 0\n"


def test_everywhere_by_template(repo: GitRepo, pinable_home: Path, tmp_path: Path) -> None:
    config = Path(os.environ["GIT_CONFIG_GLOBAL"])
    before = config.read_bytes()
    assert pinable("install", "--global", cwd=tmp_path)[0] == 0
    repo.git("init", "--quiet", "../new")
    new = GitRepo(repo.path.parent / "new")
    assert states(new) == {"runs"}
    assert (new.git_dir / "info" / "exclude").exists()  # of git's own template
    assert pinable("uninstall", "--global", cwd=tmp_path)[0] == 0
    assert config.read_text().split() == before.decode().split()
    assert not (pinable_home / "git-template").exists()
    hooks.uninstall(new.path)
    assert states(new) == {"off"}


def test_everywhere_beside_a_template_of_the_user_s(repo: GitRepo, tmp_path: Path) -> None:
    template = GitRepo(tmp_path / "template")
    template.write("hooks/post-commit", "#!/bin/sh\n", mode=0o755)
    repo.git("config", "--global", "init.templateDir", str(template.path))
    before = template.snapshot()
    hooks.install_everywhere(tmp_path / "home")
    assert (template.path / "hooks" / f"post-commit{hooks.KEPT}").exists()
    hooks.uninstall_everywhere(tmp_path / "home")
    assert template.snapshot() == before
    assert repo.git("config", "--global", "init.templateDir") == str(template.path)


def test_everywhere_by_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a git that is not here: what is written is what its manual says."""
    monkeypatch.setattr(hooks, "version", lambda: (2, 54, 0))
    config = Path(os.environ["GIT_CONFIG_GLOBAL"])
    before = config.read_text().split()
    home = tmp_path / "home with space"
    hooks.install_everywhere(home)
    text = config.read_text()
    for name in hooks.NAMES:
        assert f"event = {name}\n" in text
        assert f"command = '{home}/hooks/{name}'\n" in text
    hooks.uninstall_everywhere(home)
    assert config.read_text().split() == before
    assert not (home / "hooks").exists()
