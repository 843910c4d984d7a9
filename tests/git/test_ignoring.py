"""The ignore rules of a tree, whatever those of the working tree are."""

from __future__ import annotations

from support import GitRepo

from gitsession.git.ignoring import ignored_in
from gitsession.git.objects import Objects
from gitsession.git.repo import Repo

PATHS = [b"x.log", b"keep.log", b"d/x", b"d/e/y.tmp", b"d/e/z", b"other", b":(top)x.log", b"new\nline.log", b"l/x"]


def test_only_the_tree_s_own_rules_count(repo: GitRepo) -> None:
    repo.write(".gitignore", "*.log\n!keep.log\nl/\n")
    repo.write("d/e/.gitignore", "*.tmp\n")
    repo.commit()
    tree = repo.git("rev-parse", "HEAD^{tree}")
    repo.write(".gitignore", "*\n")
    repo.write("d/e/.gitignore", "")
    repo.write(".git/info/exclude", "other\n")
    opened = Repo.discover(repo.path)
    objects = Objects(opened)
    expected = {b"x.log", b"d/e/y.tmp", b":(top)x.log", b"new\nline.log", b"l/x"}
    assert ignored_in(opened, objects, tree, PATHS) == expected
    assert ignored_in(opened, objects, tree, []) == set()
    assert ignored_in(opened, objects, repo.git("rev-parse", "HEAD~1^{tree}"), PATHS) == set()
    assert [path.name for path in opened.private_dir.iterdir() if path.name.startswith("ignoring-")] == []
    objects.close()


def test_rules_that_are_a_link_are_none(repo: GitRepo) -> None:
    """Git follows no link to its rules, and nothing of the outside is to be read."""
    repo.write("rules", "*\n")
    repo.at(".gitignore").symlink_to("rules")
    repo.commit()
    opened = Repo.discover(repo.path)
    objects = Objects(opened)
    assert ignored_in(opened, objects, repo.git("rev-parse", "HEAD^{tree}"), [b"x"]) == set()
    objects.close()
