"""From a commit, a line, a file or a range to the session, and from a session to its commits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import GitRepo, run_cli
from working import PAGE, Worker, edited

from gitsession.errors import BadValue, UsageError
from gitsession.git.repo import Repo
from gitsession.store.sessions import SessionStore
from gitsession.verbs.inspect import inspect
from gitsession.verbs.linking import Linker
from gitsession.verbs.why import CommitAnswer, LinesAnswer, why


@pytest.fixture
def worker(repo: GitRepo) -> Iterator[Worker]:
    """A session that rewrote line 2 of a page (checkpoint 0), then line 5 (checkpoint 1), and committed it at once."""
    repo.write("a.txt", PAGE)
    repo.commit("Page")
    repo.write("a.txt", edited(20))  # a person's, not committed yet
    built = Worker(repo, task="Make it\nbetter")
    built.work({"a.txt": edited(2, 20)})
    built.work({"a.txt": edited(2, 5, 20)})
    repo.commit("Work")
    yield built
    built.close()


def asked(repo: GitRepo, what: str, below: str = "") -> list[Any]:
    return list(why(SessionStore(), repo.path / below, what))


def line(repo: GitRepo, what: str) -> tuple[str | None, int | None]:
    """The session and the checkpoint that a line is from."""
    (answer,) = asked(repo, what)
    assert isinstance(answer, LinesAnswer)
    return (answer.origin.link.session, answer.origin.link.checkpoint) if answer.origin else (None, None)


def test_a_commit(worker: Worker) -> None:
    (answer,) = asked(worker.repo, "HEAD")
    assert isinstance(answer, CommitAnswer)
    (origin,) = answer.origins
    assert (answer.subject, answer.author, answer.date) == ("Work", "Test Person", "2026-02-25T10:00:00+00:00")
    assert (origin.link.session, origin.link.checkpoint, origin.link.label) == ("worker", 1, "certain")
    assert (origin.backend, origin.model, origin.task) == ("command", None, "Make it\nbetter")
    assert (origin.description, origin.cost_usd, origin.tokens) == ("Work on a.txt", None, (0, 0))
    assert asked(worker.repo, "HEAD^")[0].origins == ()


def test_each_line_has_its_checkpoint_and_a_person_s_line_none(worker: Worker) -> None:
    assert line(worker.repo, "a.txt:2") == ("worker", 0)
    assert line(worker.repo, "a.txt:5") == ("worker", 1)
    assert line(worker.repo, "a.txt:20") == (None, None)  # it is in the same commit, and was there before
    assert line(worker.repo, "a.txt:1") == (None, None)


def test_a_file_as_runs_of_lines(worker: Worker) -> None:
    found = [
        (answer.first, answer.last, answer.origin and answer.origin.link.checkpoint)
        for answer in asked(worker.repo, "a.txt")
    ]
    assert found == [
        (1, 1, None), (2, 2, 0), (3, 4, None), (5, 5, 1), (6, 19, None), (20, 20, None), (21, 30, None),
    ]  # fmt: skip
    assert [(one.first, one.last) for one in asked(worker.repo, "a.txt:2-4")] == [(2, 2), (3, 4)]


def test_through_a_rename_and_from_a_subdirectory(worker: Worker) -> None:
    worker.repo.at("docs").mkdir()
    worker.repo.git("mv", "a.txt", "docs/b.txt")
    worker.repo.commit("Move")
    assert line(worker.repo, "docs/b.txt:2") == ("worker", 0)
    (answer,) = asked(worker.repo, "b.txt:2", below="docs")
    assert answer.origin.link.checkpoint == 0


def test_a_line_that_is_not_committed_yet(worker: Worker) -> None:
    worker.work({"a.txt": edited(2, 5, 9, 20)})
    (answer,) = asked(worker.repo, "a.txt:9")
    assert (answer.commit, answer.origin.link.checkpoint) == (None, 2)
    worker.repo.write("a.txt", edited(2, 5, 9, 20) + "a person's\n")
    (answer,) = asked(worker.repo, "a.txt:31")
    assert (answer.commit, answer.origin) == (None, None)


def test_lines_of_a_commit_that_is_only_alike(worker: Worker) -> None:
    worker.work({"a.txt": edited(2, 5, 9, 20)})
    worker.repo.write("a.txt", edited(2, 5, 9, 20) + "a person's line, too\n")
    worker.repo.commit("Both")
    assert line(worker.repo, "a.txt:9") == ("worker", 2)
    assert line(worker.repo, "a.txt:31") == (None, None)


def test_a_range_and_a_session(worker: Worker) -> None:
    worker.repo.write("mine.txt", "mine\n")
    worker.repo.commit("Mine")
    worker.work({"b.txt": "new\n"})
    worker.repo.commit("More")
    assert [answer.subject for answer in asked(worker.repo, "HEAD~3..HEAD")] == ["More", "Work"]
    assert [answer.subject for answer in asked(worker.repo, "HEAD~1..")] == ["More"]
    found = [(one.subject, one.link.checkpoint) for one in inspect(SessionStore(), "worker").commits]
    assert found == [("More", 2), ("Work", 1)]


def test_what_it_cannot_mean(worker: Worker) -> None:
    for what in ("no-such", "a.txt:", "--all", "../outside", "nope..HEAD", ""):
        with pytest.raises(UsageError):
            asked(worker.repo, what)
    with pytest.raises(BadValue):
        asked(worker.repo, "a.txt:999")


def test_findings_are_those_of_its_files(worker: Worker) -> None:
    finding = {"file": "a.txt", "line": 2, "severity": "warning", "message": "odd", "quote": "x"}
    with SessionStore().edit("worker") as draft:
        draft.log("findings", findings=[finding, {**finding, "file": "b.txt"}], dropped=0)
    (answer,) = asked(worker.repo, "HEAD")
    assert answer.origins[0].findings == (finding,)
    shown = run_cli("pinable-agents", "why", cwd=worker.repo.path).stdout
    assert "Finding:     warning, a.txt:2: odd" in shown


def test_without_the_session_s_file_git_tells(worker: Worker, pinable_home: Path) -> None:
    for file in (pinable_home / "sessions").glob("worker.*"):
        file.unlink()
    (answer,) = asked(worker.repo, "HEAD")
    origin = answer.origins[0]
    assert (origin.backend, origin.task, origin.description) == ("command", "Make it\nbetter", "Work on a.txt")


def test_in_a_clone_only_the_message_tells(worker: Worker, tmp_path: Path) -> None:
    worker.work({"b.txt": "new\n"})
    worker.repo.git("add", "--all")
    worker.repo.git("commit", "--quiet", "-m", "More\n\nPinable-Session: elsewhere\nPinable-Checkpoint: 7\n")
    worker.repo.git("clone", "--quiet", ".", "../clone")
    clone = GitRepo(worker.repo.path.parent / "clone")
    (link,) = Linker(Repo.discover(clone.path)).of(clone.git("rev-parse", "HEAD"))
    assert (link.session, link.checkpoint, link.label, link.how) == ("elsewhere", 7, "inferred", "trailer")
    assert not clone.at(".git/pinable").exists()
    shown = run_cli("pinable-agents", "why", cwd=clone.path).stdout
    assert "its record is not on this machine" in shown


def test_a_deleted_session_is_still_named(worker: Worker) -> None:
    commit = worker.repo.git("rev-parse", "HEAD")
    assert [link.session for link in Linker(Repo.discover(worker.repo.path)).of(commit)] == ["worker"]
    worker.close()
    assert run_cli("pinable-agents", "session", "delete", "worker").returncode == 0
    (link,) = Linker(Repo.discover(worker.repo.path)).of(commit)
    assert (link.session, link.label) == ("worker", "certain")


def test_the_programs(worker: Worker) -> None:
    def run(*arguments: str) -> str:
        done = run_cli("pinable-agents", *arguments, cwd=worker.repo.path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = run("why", "a.txt:5")
    assert shown.splitlines()[0] == "a.txt:5  what the agent wrote instead of line 5"
    assert "Session:     worker (certain: 1 of 1 changed files are as the session left them)" in shown
    assert 'Checkpoint:  [1] "Work on a.txt"' in shown
    assert "Prompt:      Make it better" in shown
    (told,) = json.loads(run("why", "HEAD", "--json"))
    assert told["sessions"][0]["task"] == "Make it\nbetter"
    (told,) = json.loads(run("why", "a.txt:5", "--json"))
    assert (told["session"]["checkpoint"], told["commit"]["subject"]) == (1, "Work")
    commit = worker.repo.git("rev-parse", "HEAD")
    (told,) = json.loads(run("session", "commits", "worker", "--json"))
    assert (told["commit"], told["session"], told["files"]) == (commit, "worker", ["a.txt"])
    assert json.loads(run("session", "commits", "HEAD", "--json")) == [told]
    assert f"{commit[:10]}  [1] certain" in run("session", "inspect", "worker")
    assert json.loads(run("session", "inspect", "worker", "--json"))["commits"] == [told]
    none = run_cli("pinable-agents", "session", "commits", "HEAD^", cwd=worker.repo.path)
    assert (none.returncode, none.stdout) == (0, "")
    assert run_cli("pinable-agents", "session", "commits", "nope", cwd=worker.repo.path).returncode == 2


@pytest.mark.parametrize("what", ["a.txt:0", "a.txt:9999", "a.txt:9998-9999"])
def test_lines_that_are_not_there(worker: Worker, what: str) -> None:
    with pytest.raises(BadValue) as caught:
        asked(worker.repo, what)
    assert str(caught.value) == f"a.txt has {len(PAGE.splitlines())} lines"
