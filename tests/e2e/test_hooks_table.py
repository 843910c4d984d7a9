"""What links a commit to a session, and what does not: with real git, row by row.

The rows are the table of ``docs/hooks.md``: a row that is missing there fails with the line to add.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from feeding import Claude, hook
from support import GitRepo, run_cli
from working import PAGE, Worker, edited

from gitsession import links
from gitsession.git.repo import Repo
from gitsession.verbs import hooks
from gitsession.verbs.linking import Link, Linker

ROOT = Path(__file__).parent.parent.parent
CERTAIN, INFERRED, AMBIGUOUS = links.CERTAIN, links.INFERRED, links.AMBIGUOUS


@dataclass(frozen=True)
class Expected:
    """``link``: the label, None for no link.  ``noted``: a hook noted it.  ``trailer``: the message says it.  ``how``:
    for the table."""

    link: str | None
    how: str = ""
    noted: bool = True
    trailer: bool = True


YES = Expected(CERTAIN, "content")
NO = Expected(None, noted=False, trailer=False)


class Scene:
    """A repository with the hooks, in which session ``worker`` changed a page in two places and wrote a new file
    (checkpoint 0), then changed another page (checkpoint 1); nothing of it is committed."""

    def __init__(self, repo: GitRepo, home: Path) -> None:
        self.repo = repo
        self.home = home
        for name in ("a.txt", "b.txt", "c.txt"):
            repo.write(name, PAGE)
        repo.commit("Pages")
        hooks.install(repo.path)
        self.workers: list[Worker] = []

    def begin(self) -> Worker:
        worker = Worker(self.repo, f"worker{len(self.workers) or ''}")
        self.workers.append(worker)
        return worker

    def work(self) -> Worker:
        worker = self.begin()
        worker.work({"a.txt": edited(2, 29), "new.txt": "a new file by the agent\n"})
        worker.work({"b.txt": edited(15)})
        return worker

    def committed(self) -> None:
        """The work in two commits: a.txt and new.txt, then b.txt."""
        self.work()
        self.repo.git("add", "a.txt", "new.txt")
        self.repo.commit("One", add=False)
        self.repo.commit("Two")

    def rebase(self, todo: str, *onto: str) -> None:
        """``git rebase -i`` with every ``pick`` but the first replaced by ``todo``."""
        script = f"sed -i -e '2s/^pick/{todo}/'"
        self.repo.git("rebase", "-i", *(onto or ("HEAD~2",)), env={"GIT_SEQUENCE_EDITOR": script, "GIT_EDITOR": "true"})

    def other_branch(self, change: bool = True) -> None:
        """A branch ``side`` from before the work, with a commit of its own, checked out; the work is on ``main``."""
        self.repo.git("checkout", "--quiet", "-b", "side", "main~2")
        if change:
            self.repo.write("c.txt", PAGE + "something else on the side\n")
            self.repo.commit("Side")

    def ask(self, rev: str = "HEAD", repo: GitRepo | None = None) -> list[Link]:
        found = repo or self.repo
        return Linker(Repo.discover(found.path)).of(found.git("rev-parse", rev))

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


Outcome = dict[str, Expected]
Row = tuple[str, Callable[[Scene], Outcome]]
ROWS: list[Row] = []


def row(title: str) -> Callable[[Callable[[Scene], Outcome]], Callable[[Scene], Outcome]]:
    def add(act: Callable[[Scene], Outcome]) -> Callable[[Scene], Outcome]:
        ROWS.append((title, act))
        return act

    return add


# Plain commits


@row("`git commit`")
def commit(scene: Scene) -> Outcome:
    scene.work()
    scene.repo.commit()
    return {"HEAD": YES}


@row("`git commit -a`")
def commit_all(scene: Scene) -> Outcome:
    scene.work()
    scene.repo.git("commit", "--quiet", "-am", "All")
    return {"HEAD": YES}


@row("`git commit -- FILE`, the rest later")
def commit_paths(scene: Scene) -> Outcome:
    scene.work()
    scene.repo.git("commit", "--quiet", "-m", "Part", "--", "a.txt")
    scene.repo.commit("Rest")
    assert [link.checkpoint for link in scene.ask("HEAD~1")] == [0]
    assert [link.checkpoint for link in scene.ask("HEAD")] == [1]
    return {"HEAD~1": YES, "HEAD": YES}


@row("`git commit -p`, one of two hunks of a file")
def commit_patch(scene: Scene) -> Outcome:
    worker = scene.begin()
    worker.work({"a.txt": edited(2, 29)})
    scene.repo.git("commit", "--quiet", "-p", "-m", "Hunk", input="y\nn\n")
    return {"HEAD": Expected(INFERRED, "lines", noted=False, trailer=False)}


@row("a person changes the agent's file before committing it")
def changed_since(scene: Scene) -> Outcome:
    worker = scene.begin()
    worker.work({"a.txt": edited(2, 10, 29)})
    scene.repo.write("a.txt", edited(2, 10, 29) + "a last line by a person\n")
    scene.repo.commit()
    return {"HEAD": Expected(INFERRED, "lines", noted=False, trailer=False)}


@row("a person moves the agent's new file before committing it")
def moved_since(scene: Scene) -> Outcome:
    worker = scene.begin()
    worker.work({"new.txt": "a new file by the agent, long enough to be no chance that it stands elsewhere\n"})
    scene.repo.git("init", "--quiet")
    scene.repo.at("new.txt").rename(scene.repo.at("moved.txt"))
    scene.repo.commit()
    return {"HEAD": Expected(INFERRED, "moved", noted=False, trailer=False)}


@row("nothing of the agent's is in the commit")
def unrelated(scene: Scene) -> Outcome:
    scene.work()
    scene.repo.write("mine.txt", "mine\n")
    scene.repo.git("add", "mine.txt")
    scene.repo.commit("Mine", add=False)
    return {"HEAD": NO}


@row("200 unrelated files in the same commit (3 of 203 files are linked)")
def crowd(scene: Scene) -> Outcome:
    scene.work()
    for number in range(200):
        scene.repo.write(f"mine/{number}", f"mine {number}\n")
    scene.repo.commit()
    (link,) = scene.ask()
    assert (link.matched, link.changed, link.files) == (3, 203, ("a.txt", "b.txt", "new.txt"))
    return {"HEAD": YES}


@row("what a person had not committed when the session began")
def of_the_base(scene: Scene) -> Outcome:
    scene.repo.write("c.txt", PAGE + "by a person, before\n")
    scene.work()
    scene.repo.git("commit", "--quiet", "-m", "Mine", "--", "c.txt")
    return {"HEAD": NO}


@row("a deletion and nothing else")
def deletion(scene: Scene) -> Outcome:
    scene.begin().work({"c.txt": None})
    scene.repo.commit()
    return {"HEAD": NO}


@row("two sessions, one after the other, in one commit: each its own")
def two_sessions(scene: Scene) -> Outcome:
    scene.begin().work({"a.txt": edited(2)})
    scene.begin().work({"b.txt": edited(3)})
    scene.repo.commit()
    assert [(link.session, link.files) for link in scene.ask()] == [("worker", ("a.txt",)), ("worker1", ("b.txt",))]
    return {"HEAD": YES}


@row("two sessions at once in one working tree, each of which saw the change")
def at_once(scene: Scene) -> Outcome:
    first, second = scene.begin(), scene.begin()
    first.work({"a.txt": edited(2)})
    second.work({})
    scene.repo.commit()
    assert len(scene.ask()) == 2
    return {"HEAD": Expected(AMBIGUOUS, "content", trailer=False)}


@row("the same, and the engine of one of them made the edit itself")
def engine(scene: Scene) -> Outcome:
    first, second = scene.begin(), scene.begin()
    first.work({"a.txt": edited(2)}, known=True)
    second.work({})
    scene.repo.commit()
    assert [link.session for link in scene.ask()] == ["worker"]
    return {"HEAD": YES}


@row("found changed when a paused session was resumed")
def between_runs(scene: Scene) -> Outcome:
    scene.begin().work({"a.txt": edited(2)}, trigger="resume")
    scene.repo.commit()
    return {"HEAD": Expected(INFERRED, "content", trailer=False)}


@row("`git commit` by the agent itself, before any checkpoint")
def by_agent(scene: Scene) -> Outcome:
    agent = "echo by the agent > a.txt; git add a.txt; git commit --quiet -m Mine; echo then more > a.txt"
    done = run_cli("codeagent-wrapper", "--task", "x", "--", "sh", "-c", agent, cwd=scene.repo.path)
    assert done.returncode == 0, done.stderr
    return {"HEAD": Expected(CERTAIN, "agent")}


@row("the same in a shell command of an agent whose own hooks feed the session")
def by_tracked_agent(scene: Scene) -> Outcome:
    claude = Claude(scene.repo.path)
    for event in (claude.start(), claude.prompt("x"), claude.before("toolu_1")):
        hook("claude-code", event)
    scene.repo.write("a.txt", "by the agent\n")
    scene.repo.git("commit", "--quiet", "-am", "Mine")
    hook("claude-code", claude.after("toolu_1"))
    return {"HEAD": Expected(CERTAIN, "agent")}


@row("`git rebase` or `git cherry-pick` of somebody's commit by the agent")
def replayed_by_agent(scene: Scene) -> Outcome:
    scene.repo.git("checkout", "--quiet", "-b", "theirs")
    scene.repo.write("theirs.txt", PAGE)
    scene.repo.commit("Theirs")
    scene.repo.git("checkout", "--quiet", "-b", "picked", "main")
    scene.repo.write("b.txt", edited(2))
    scene.repo.commit("Mine")
    agent = "git cherry-pick theirs && git rebase --quiet HEAD^ theirs"
    done = run_cli("codeagent-wrapper", "--task", "x", "--", "sh", "-c", agent, cwd=scene.repo.path)
    assert done.returncode == 0, done.stderr
    return {"picked": NO, "theirs": NO}


@row("what came with a `git merge` or `git pull` while the session ran, taken over by `merge --squash` later")
def pulled(scene: Scene) -> Outcome:
    scene.repo.git("checkout", "--quiet", "-b", "theirs")
    scene.repo.write("theirs.txt", PAGE)
    theirs = scene.repo.commit("Theirs")
    scene.repo.git("checkout", "--quiet", "-b", "mine", "main")
    worker = scene.begin()
    worker.work({"a.txt": edited(2)})
    scene.repo.git("merge", "--quiet", "--ff-only", "theirs")
    worker.work({"a.txt": edited(2, 3)})
    scene.repo.git("checkout", "--quiet", "main")
    scene.repo.git("merge", "--quiet", "--squash", "theirs")
    scene.repo.git("commit", "--quiet", "-m", "Taken over")
    assert scene.repo.git("diff", "HEAD^", "HEAD", "--name-only") == "theirs.txt"
    return {theirs: NO, "HEAD": NO}


@row("a person's own commit while the session ran")
def meanwhile(scene: Scene) -> Outcome:
    worker = scene.begin()
    scene.repo.write("mine.txt", PAGE)
    scene.repo.git("add", "mine.txt")
    scene.repo.commit("Mine", add=False)
    worker.work({"a.txt": edited(2)})
    scene.repo.commit("Work")
    return {"HEAD~1": NO, "HEAD": YES}


# Messages


@row("an editor, `commit.verbose`")
def editor(scene: Scene) -> Outcome:
    scene.work()
    scene.repo.git("add", "--all")
    code = 'import sys; p = sys.argv[1]; t = open(p).read(); open(p, "w").write("Said" + t)'
    editor = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"
    scene.repo.git("-c", "commit.verbose=true", "commit", "--quiet", env={"GIT_EDITOR": editor})
    assert scene.repo.git("log", "-1", "--format=%s%n%(trailers:only,unfold)").splitlines() == [
        "Said", "Pinable-Session: worker", "Pinable-Checkpoint: 1",
    ]  # fmt: skip
    assert "diff --git" not in scene.repo.git("log", "-1", "--format=%B")
    return {"HEAD": YES}


@row("an editor left without a word: no commit, as without us")
def empty_message(scene: Scene) -> Outcome:
    scene.work()
    scene.repo.git("add", "--all")
    before = scene.repo.git("rev-parse", "HEAD")
    scene.repo.git("commit", "--quiet", env={"GIT_EDITOR": "true"}, ok=(1,))
    assert scene.repo.git("rev-parse", "HEAD") == before
    return {"HEAD": NO}


@row("`commit.template` left as it is: no commit, as without us")
def template(scene: Scene) -> Outcome:
    scene.work()
    scene.repo.write("../template", "Ticket: \n\nWhy: \n")
    before = scene.repo.git("rev-parse", "HEAD")
    options = ["-c", "commit.template=../template"]
    scene.repo.git(*options, "commit", "--quiet", "--all", env={"GIT_EDITOR": "true"}, ok=(1,))
    assert scene.repo.git("rev-parse", "HEAD") == before
    scene.repo.git(*options, "commit", "--quiet", "--all", env={"GIT_EDITOR": "sed -i -e s/Ticket:/Ticket-12/"})
    return {"HEAD~1": NO, "HEAD": YES}


@row("`git commit -F FILE`, a message with trailers of its own")
def message_file(scene: Scene) -> Outcome:
    scene.work()
    scene.repo.write("../message", "Said\n\nWhy so.\n\nSigned-off-by: A <a@example.com>\n")
    scene.repo.git("commit", "--quiet", "--all", "-F", "../message")
    trailers = scene.repo.git("log", "-1", "--format=%(trailers:only)").split("\n")
    assert trailers[:2] == ["Signed-off-by: A <a@example.com>", "Pinable-Session: worker"]
    return {"HEAD": YES}


@row("`git config pinable.link off`")
def off(scene: Scene) -> Outcome:
    scene.repo.git("config", "pinable.link", "off")
    scene.work()
    scene.repo.commit()
    return {"HEAD": Expected(CERTAIN, "content", trailer=False)}


@row("`git config pinable.link note`")
def note(scene: Scene) -> Outcome:
    scene.repo.git("config", "pinable.link", "note")
    scene.work()
    scene.repo.commit()
    assert scene.repo.git("notes", "--ref=pinable", "show").splitlines() == [
        "Pinable-Session: worker", "Pinable-Checkpoint: 1",
    ]  # fmt: skip
    return {"HEAD": Expected(CERTAIN, "content", trailer=False)}


# Rewriting


@row("`git commit --amend --no-edit`")
def amend(scene: Scene) -> Outcome:
    scene.committed()
    scene.repo.write("mine.txt", "mine\n")
    scene.repo.git("add", "--all")
    scene.repo.git("commit", "--quiet", "--amend", "--no-edit")
    return {"HEAD": YES}


@row("`git commit --amend -m` (git throws the old message away)")
def amend_message(scene: Scene) -> Outcome:
    scene.committed()
    scene.repo.git("commit", "--quiet", "--amend", "-m", "Other words")
    return {"HEAD": Expected(CERTAIN, "content", trailer=False)}


@row("an amend that takes the work out (the message still says so, the content does not)")
def amend_away(scene: Scene) -> Outcome:
    scene.committed()
    scene.repo.write("b.txt", PAGE)
    scene.repo.write("mine.txt", "mine\n")
    scene.repo.git("add", "--all")
    scene.repo.git("commit", "--quiet", "--amend", "--no-edit")
    return {"HEAD": Expected(None, noted=False, trailer=True)}


@row("`rebase` onto other work (pick)")
def rebase_pick(scene: Scene) -> Outcome:
    scene.committed()
    scene.other_branch()
    scene.repo.git("checkout", "--quiet", "main")
    scene.repo.git("rebase", "--quiet", "side")
    return {"HEAD~1": YES, "HEAD": YES}


@row("`rebase` onto other work in the same file, far away in it")
def rebase_same_file(scene: Scene) -> Outcome:
    scene.committed()
    scene.other_branch(change=False)
    scene.repo.write("b.txt", PAGE + "something else on the side\n")
    scene.repo.commit("Side")
    scene.repo.git("checkout", "--quiet", "main")
    scene.repo.git("rebase", "--quiet", "side")
    return {"HEAD~1": YES, "HEAD": Expected(CERTAIN, "rewrite")}


@row("`rebase -i` squash")
def rebase_squash(scene: Scene) -> Outcome:
    scene.committed()
    scene.rebase("squash")
    return {"HEAD": YES}


@row("`rebase -i` fixup")
def rebase_fixup(scene: Scene) -> Outcome:
    scene.committed()
    scene.rebase("fixup")
    return {"HEAD": YES}


@row("`rebase -i` reword")
def rebase_reword(scene: Scene) -> Outcome:
    scene.committed()
    scene.rebase("reword")
    return {"HEAD~1": YES, "HEAD": YES}


@row("`rebase -i` drop: the rest keeps its links, the dropped commit is in no list")
def rebase_drop(scene: Scene) -> Outcome:
    scene.committed()
    dropped = scene.repo.git("rev-parse", "HEAD")
    scene.rebase("drop")
    found = Linker(Repo.discover(scene.repo.path)).commits("worker")
    assert [one.link.commit for one in found] == [scene.repo.git("rev-parse", "HEAD")] != [dropped]
    return {"HEAD": YES}


@row("`git cherry-pick`")
def cherry_pick(scene: Scene) -> Outcome:
    scene.committed()
    scene.other_branch()
    scene.repo.git("cherry-pick", "main~1")
    return {"HEAD": YES}


@row("`git cherry-pick` onto other work in the same file (the message tells)")
def cherry_pick_same_file(scene: Scene) -> Outcome:
    scene.committed()
    scene.other_branch(change=False)
    scene.repo.write("b.txt", PAGE + "something else on the side\n")
    scene.repo.commit("Side")
    scene.repo.git("cherry-pick", "main")
    return {"HEAD": Expected(INFERRED, "patch", noted=False, trailer=True)}


@row("`git merge --squash` + `git commit`")
def merge_squash(scene: Scene) -> Outcome:
    scene.committed()
    scene.other_branch()
    scene.repo.git("merge", "--quiet", "--squash", "main")
    scene.repo.git("commit", "--quiet", "-m", "Squashed")
    return {"HEAD": YES}


@row("`git merge --no-ff`: the merge brings nothing of its own")
def merge(scene: Scene) -> Outcome:
    scene.committed()
    scene.other_branch()
    scene.repo.git("merge", "--quiet", "--no-ff", "-m", "Merged", "main")
    return {"HEAD": NO, "HEAD^2": YES}


@row("`git reset --soft` + `git commit`")
def reset_soft(scene: Scene) -> Outcome:
    scene.committed()
    scene.repo.git("reset", "--quiet", "--soft", "HEAD~2")
    scene.repo.git("commit", "--quiet", "-m", "Both")
    return {"HEAD": YES}


@row("`git revert`")
def revert(scene: Scene) -> Outcome:
    scene.committed()
    scene.repo.git("revert", "--no-edit", "HEAD")
    return {"HEAD": NO}


@row("`git stash`, `git stash pop`, `git commit`")
def stash(scene: Scene) -> Outcome:
    scene.work()
    scene.repo.git("stash", "--quiet", "--include-untracked")
    scene.repo.git("stash", "pop", "--quiet")
    scene.repo.commit()
    return {"HEAD": YES}


# Places


@row("in a linked worktree, the session was in the main one")
def linked_worktree(scene: Scene) -> Outcome:
    scene.work()
    patch = scene.repo.git_bytes("diff", "--binary")
    scene.repo.git("worktree", "add", "--quiet", "-b", "side", "../linked")
    linked = GitRepo(scene.repo.path.parent / "linked")
    linked.git("apply", input=patch)
    linked.git("commit", "--quiet", "-am", "There")
    return {"side": YES}


@row("in the main worktree, the session was in a linked one")
def from_linked_worktree(scene: Scene) -> Outcome:
    scene.repo.git("worktree", "add", "--quiet", "-b", "side", "../linked")
    linked = GitRepo(scene.repo.path.parent / "linked")
    worker = Worker(linked)
    scene.workers.append(worker)
    worker.work({"a.txt": edited(2)})
    scene.repo.write("a.txt", edited(2))
    scene.repo.commit()
    return {"HEAD": YES}


@row("in a submodule, with a session of its own; the superproject's commit holds only a pointer")
def submodule(scene: Scene) -> Outcome:
    inner = GitRepo.init(scene.repo.path.parent / "inner")
    inner.write("a.txt", PAGE)
    inner.commit("Inner")
    scene.repo.git("submodule", "--quiet", "add", "../inner", "inner")
    scene.repo.commit("Submodule")
    checkout = GitRepo(scene.repo.at("inner"))
    hooks.install(checkout.path)
    worker = Worker(checkout)
    scene.workers.append(worker)
    worker.work({"a.txt": edited(2)})
    checkout.commit("Inside")
    scene.repo.commit("Pointer")
    check("HEAD", YES, scene, checkout)
    return {"HEAD": NO}


@row("with an empty environment, as from a graphical program (`env -i`)")
def bare_environment(scene: Scene) -> Outcome:
    scene.work()
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    command = ["env", "-i", "git", *identity, "commit", "--quiet", "-am", "Bare"]
    done = subprocess.run(command, cwd=scene.repo.path, capture_output=True, check=True)
    assert done.stderr == b""
    return {"HEAD": YES}


@row("`core.hooksPath` relative")
def relative_path(scene: Scene) -> Outcome:
    return at_hooks_path(scene, ".git/other-hooks")


@row("`core.hooksPath` absolute")
def absolute_path(scene: Scene) -> Outcome:
    return at_hooks_path(scene, str(scene.repo.path.parent / "hooks"))


@row("`core.hooksPath` with `~`")
def home_path(scene: Scene) -> Outcome:
    return at_hooks_path(scene, "~/hooks")


def at_hooks_path(scene: Scene, path: str) -> Outcome:
    hooks.uninstall(scene.repo.path)
    scene.repo.git("config", "core.hooksPath", path)
    hooks.install(scene.repo.path)
    scene.work()
    scene.repo.commit()
    return {"HEAD": YES}


@row("`git -c core.hooksPath=/dev/null commit`: no hook runs, it is found when asked")
def no_hooks(scene: Scene) -> Outcome:
    scene.work()
    scene.repo.git("add", "--all")
    scene.repo.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "Silent")
    return {"HEAD": Expected(CERTAIN, "content", noted=False, trailer=False)}


# Other hooks


def user_hook(scene: Scene, name: str, text: str) -> Path:
    return scene.repo.write(f".git/hooks/{name}", f"#!/bin/sh\n{text}\n", mode=0o755)


@row("a `prepare-commit-msg` of the user's fails before ours: no commit, as without us")
def failing_before(scene: Scene) -> Outcome:
    hooks.uninstall(scene.repo.path)
    user_hook(scene, "prepare-commit-msg", 'echo "$@" > asked; exit 7')
    hooks.install(scene.repo.path)
    scene.work()
    scene.repo.git("commit", "--quiet", "-am", "Refused", ok=(1,))
    assert scene.repo.at("asked").read_text() == ".git/COMMIT_EDITMSG message\n"
    return {"HEAD": NO}


@row("a `post-commit` of the user's fails before ours")
def failing_post_before(scene: Scene) -> Outcome:
    hooks.uninstall(scene.repo.path)
    user_hook(scene, "post-commit", "exit 7")
    hooks.install(scene.repo.path)
    scene.work()
    scene.repo.commit()
    return {"HEAD": YES}


@row("a hook of the user's calls ours, then fails")
def failing_after(scene: Scene) -> Outcome:
    directory = scene.repo.at(".git/hooks")
    (directory / "post-commit").rename(directory / "post-commit.first")
    user_hook(scene, "post-commit", '.git/hooks/post-commit.first "$@"\nexit 7')
    scene.work()
    scene.repo.commit()
    return {"HEAD": YES}


# The test


@pytest.fixture
def scene(repo: GitRepo, seal: Path) -> Iterator[Scene]:
    built = Scene(repo, seal)
    yield built
    built.close()


def noted(repo: GitRepo, commit: str) -> set[str]:
    return {fact["label"] for fact in links.read(repo.common_dir) if fact.get("commit") == commit}


def check(rev: str, expected: Expected, scene: Scene, repo: GitRepo) -> None:
    commit = repo.git("rev-parse", rev)
    trailers = repo.git("log", "-1", "--format=%(trailers:key=Pinable-Session,valueonly)", commit).split()
    assert bool(trailers) == expected.trailer, trailers
    assert noted(repo, commit) == ({expected.link} if expected.noted else set())
    found = scene.ask(commit, repo)
    assert {link.label for link in found} == ({expected.link} if expected.link else set())
    assert {link.how for link in found} == ({expected.how} if expected.link else set())
    assert noted(repo, commit) == ({expected.link} if expected.link else set())  # what was found is known from now on


@pytest.mark.parametrize(("title", "act"), ROWS, ids=[act.__name__ for _, act in ROWS])
def test_row(scene: Scene, title: str, act: Callable[[Scene], Outcome]) -> None:
    told = act(scene)
    for commit, expected in {scene.repo.git("rev-parse", rev): expected for rev, expected in told.items()}.items():
        check(commit, expected, scene, scene.repo)
    page = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8").splitlines()
    for line in lines(title, told):
        assert line in page


def test_the_page_has_no_other_rows() -> None:
    page = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8").split("## What is linked\n")[1].split("\n## ")[0]
    told = [line[2:].split(" | ")[0] for line in page.splitlines() if line.startswith("| ") and line[2] != "|"]
    assert [title for title in dict.fromkeys(told) if title] == [title for title, _ in ROWS]


def lines(title: str, outcome: Outcome) -> list[str]:
    """The row as it stands in the page: a line for each different kind of commit."""
    told = []
    for expected in dict.fromkeys(outcome.values()):
        cells = [title, expected.link or "none", expected.how or "-", yes(expected.noted), yes(expected.trailer)]
        told.append(f"| {' | '.join(cells)} |")
    return told


def yes(value: bool) -> str:
    return "yes" if value else "no"
