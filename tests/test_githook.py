"""What the hooks load, see and note; ``tests/e2e`` has the table of what is linked, ``tests/faults`` unlucky places."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import GitRepo, run_cli
from working import PAGE, Worker, edited

import gitsession
from gitsession import claims, githook, links
from gitsession.git.repo import Repo
from gitsession.store.sessions import SessionStore
from gitsession.verbs import hooks
from gitsession.verbs.heads import moves_since
from gitsession.verbs.linking import Linker

SLOW = {"re", "json", "typing", "enum", "subprocess", "pathlib", "dataclasses", "collections", "contextlib"}


@pytest.fixture
def worker(repo: GitRepo) -> Iterator[Worker]:
    repo.write("a.txt", PAGE)
    repo.commit("Page")
    hooks.install(repo.path)
    built = Worker(repo)
    yield built
    built.close()


def claimed(repo: GitRepo, *, trusting: bool = True) -> dict[bytes, set[str]]:
    """Path to the sessions that brought what HEAD has there."""
    linker = Linker(Repo.discover(repo.path))
    tips = claims.refresh(os.fspath(repo.common_dir), linker.ask, trusting=trusting)
    entries = [(path, oid.encode()) for path, (_, oid) in repo.tree("HEAD").items()]
    found = claims.lookup(os.fspath(repo.common_dir), tips, entries)
    return {path: {name.decode() for name in owners} for (path, _), owners in found.items()}


# Loading


def test_the_hook_loads_nothing_slow() -> None:
    package = Path(gitsession.__file__).parent.parent
    code = "import sys; sys.path.append(sys.argv[1]); import gitsession.githook; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, package], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & SLOW == set()
    assert {name for name in done.stdout.split() if name.startswith("gitsession.")} == {
        "gitsession.githook", "gitsession.claims", "gitsession.links", "gitsession.opencalls",
    }  # fmt: skip


def test_it_can_be_started_as_a_module(worker: Worker) -> None:
    worker.work({"a.txt": edited(2)})
    worker.repo.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-am", "Work")
    command = [sys.executable, "-m", "gitsession.githook", "post-commit"]
    done = subprocess.run(command, cwd=worker.repo.path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [fact["session"] for fact in links.read(worker.repo.common_dir)] == ["worker"]


@pytest.mark.parametrize("arguments", [[], ["no-such-hook"], ["post-rewrite"], ["prepare-commit-msg", "/no/file"]])
def test_it_never_fails(repo: GitRepo, tmp_path: Path, arguments: list[str]) -> None:
    for place in (repo.path, tmp_path):
        command = [sys.executable, "-m", "gitsession.githook", *arguments]
        done = subprocess.run(command, cwd=place, capture_output=True, stdin=subprocess.DEVNULL)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_hooks_are_one_text() -> None:
    texts = {hooks.hook_text(name).split(b"\n", 4)[4] for name in hooks.NAMES}
    assert len(texts) == 1
    for name in hooks.NAMES:
        assert f"\nname={name}\n".encode() in hooks.hook_text(name)


def test_without_a_session_nothing_is_started_and_nothing_left(repo: GitRepo) -> None:
    hooks.install(repo.path)
    for name in hooks.NAMES:
        place = repo.at(f".git/hooks/{name}")
        place.write_text(place.read_text().replace("ours() {", "ours() { echo started"))
    state = {path for path, _ in repo.user_state().items() if "hooks" in path}
    repo.write("a.txt", PAGE)
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "-m", "Mine")
    repo.git("commit", "--quiet", "--amend", "-m", "Mine again")
    assert not repo.at(".git/pinable").exists()
    assert {path for path, _ in repo.user_state().items() if "hooks" in path} == state


# The index


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_the_tree_of_an_index(tmp_path: Path, version: str, object_format: str) -> None:
    repo = GitRepo.init(tmp_path / "r", object_format=object_format)
    repo.git("config", "index.version", version)
    repo.git("config", "core.untrackedCache", "true")
    for number in range(50):
        repo.write(f"TREE/{number}", f"TREE {number}")
    repo.git("add", "--all")
    index = os.fspath(repo.git_dir / "index")
    assert githook.index_tree(index) is None  # only git can tell
    tree = repo.git("write-tree")
    assert githook.index_tree(index) == tree
    repo.write("TREE/7", "changed")
    repo.git("add", "TREE/7")
    assert githook.index_tree(index) is None
    assert githook.index_tree(os.fspath(repo.git_dir / "none")) is None
    data = (repo.git_dir / "index").read_bytes()
    (repo.git_dir / "index").write_bytes(data[: len(data) // 2])
    assert githook.index_tree(index) is None


def test_a_sha256_repository(tmp_path: Path) -> None:
    repo = GitRepo.init(tmp_path / "r", object_format="sha256")
    hooks.install(repo.path)
    repo.write("a.txt", PAGE)
    worker = Worker(repo)
    worker.work({"a.txt": edited(2)})
    worker.close()
    repo.commit("The first commit")
    assert [link.label for link in Linker(Repo.discover(repo.path)).of(repo.git("rev-parse", "HEAD"))] == ["certain"]
    assert "Pinable-Session: worker" in repo.git("log", "-1", "--format=%B")


# Claims


def test_what_the_base_had_is_nobodys_even_when_it_comes_back(worker: Worker) -> None:
    worker.work({"a.txt": edited(2)})
    worker.work({"a.txt": PAGE})
    assert claimed(worker.repo) == {}
    worker.work({"a.txt": edited(2)})
    worker.repo.commit("Work")
    assert claimed(worker.repo) == {b"a.txt": {"worker"}}
    assert [link.checkpoint for link in Linker(Repo.discover(worker.repo.path)).of("HEAD")] == [0]


def test_odd_names(worker: Worker) -> None:
    names = ["with space", "new\nline", "back\\slash", "back\\nslash", "ünïcode", '"quoted"', ":(top)x"]
    worker.work({name: f"content of {name!r}\n" for name in names})
    worker.repo.write(b"not-utf8-\xff", "bytes\n")
    worker.work({})
    worker.repo.commit("Odd")
    assert claimed(worker.repo).keys() == {b"not-utf8-\xff", *(name.encode() for name in names)}
    fact = links.read(worker.repo.common_dir)[-1]
    assert fact["matched"] == len(names) + 1
    assert r'"not-utf8-\377"' in fact["files"]


def test_a_session_made_anew_under_its_name_is_another_one(worker: Worker) -> None:
    worker.work({"a.txt": edited(2)})
    worker.repo.commit("Work")
    assert claimed(worker.repo) == {b"a.txt": {"worker"}}
    worker.close()
    assert run_cli("pinable-agents", "session", "delete", "worker", cwd=worker.repo.path).returncode == 0
    assert claimed(worker.repo) == {}
    again = Worker(worker.repo)
    again.work({"b.txt": "new\n"})
    again.close()
    assert claimed(worker.repo) == {}
    worker.repo.commit("Again")
    assert claimed(worker.repo) == {b"b.txt": {"worker"}}


def test_the_cache_follows_packed_refs_and_can_go(worker: Worker) -> None:
    worker.work({"a.txt": edited(2)})
    worker.repo.commit("Work")
    expected = claimed(worker.repo)
    worker.repo.git("pack-refs", "--all")
    assert claimed(worker.repo) == expected
    worker.work({"b.txt": "new\n"})
    worker.repo.commit("More")
    assert claimed(worker.repo) == {**expected, b"b.txt": {"worker"}} == claimed(worker.repo, trusting=False)
    for file in worker.repo.at(".git/pinable/claims").iterdir():
        file.unlink()
    assert claimed(worker.repo) == {**expected, b"b.txt": {"worker"}}


def test_many_new_sessions_are_taken_in(worker: Worker) -> None:
    session = worker.repo.git("rev-parse", "refs/pinable/worker")
    worker.work({"a.txt": edited(2)})
    tip = worker.repo.git("rev-parse", "refs/pinable/worker")
    for number in range(120):  # refs that lead to another session's commits are none of ours
        worker.repo.git("update-ref", f"refs/pinable/other{number}", tip if number % 2 else session)
    worker.repo.commit("Work")
    assert claimed(worker.repo) == {b"a.txt": {"worker"}}


# Facts


def test_plain_json_is_json() -> None:
    texts = ("plain", 'a "quote"', "new\nline", "ü", "\x7f", "\\")
    for value in (*texts, None, True, 7, [], ["a", None], {"a": [{"b": "c\\"}]}):
        assert json.loads(links.to_json(value)) == value


def test_a_torn_line_ends_where_the_next_begins(tmp_path: Path) -> None:
    (tmp_path / "pinable").mkdir()
    fact = {"commit": "1", "session": "s", "label": "certain", "how": "content"}
    links.append(tmp_path, [fact])
    with open(links.place(tmp_path), "ab") as file:
        file.write(b'{"v":1,"comm')
    links.append(tmp_path, [{**fact, "commit": "2"}])
    assert [known["commit"] for known in links.read(tmp_path)] == ["1", "2"]


def test_facts_say_what_the_format_says(worker: Worker) -> None:
    worker.work({"a.txt": edited(2)})
    commit = worker.repo.commit("Work")
    (fact,) = links.read(worker.repo.common_dir)
    assert fact == {
        "v": 1,
        "at": fact["at"],
        "commit": commit,
        "tree": worker.repo.git("rev-parse", "HEAD^{tree}"),
        "parent": worker.repo.git("rev-parse", "HEAD^"),
        "patch": worker.repo.git("patch-id", "--stable", input=worker.repo.git_bytes("show", commit)).split()[0],
        "session": "worker",
        "checkpoint": 0,
        "label": "certain",
        "how": "content",
        "files": ["a.txt"],
        "matched": 1,
        "changed": 1,
    }


def test_two_sessions_have_a_pair_of_trailers_each(worker: Worker) -> None:
    worker.work({"a.txt": edited(2)})
    other = Worker(worker.repo, "other")
    other.work({"b.txt": "new\n"})
    other.close()
    worker.repo.commit("Both")
    pairs = [("Session", "other"), ("Checkpoint", "0"), ("Session", "worker"), ("Checkpoint", "0")]
    trailers = worker.repo.git("log", "-1", "--format=%(trailers:only)").split("\n")
    assert trailers[:4] == [f"Pinable-{key}: {value}" for key, value in pairs]


def test_an_amend_brings_the_checkpoint_up_to_date(worker: Worker) -> None:
    worker.work({"a.txt": edited(2)})
    worker.repo.commit("Work")
    worker.work({"b.txt": "new\n"})
    worker.repo.git("add", "--all")
    worker.repo.git("commit", "--quiet", "--amend", "--no-edit")
    trailers = worker.repo.git("log", "-1", "--format=%(trailers:only)").split("\n")
    assert trailers[:2] == ["Pinable-Session: worker", "Pinable-Checkpoint: 1"]


def test_another_comment_character(worker: Worker) -> None:
    worker.repo.git("config", "core.commentChar", ";")
    worker.work({"a.txt": edited(2)})
    worker.repo.git("commit", "--quiet", "--all", env={"GIT_EDITOR": "true"}, ok=(1,))
    worker.repo.git("commit", "--quiet", "--all", env={"GIT_EDITOR": "sed -i -e '1s/^/#12 is done/'"})
    assert worker.repo.git("log", "-1", "--format=%s") == "#12 is done"
    assert "Pinable-Session: worker" in worker.repo.git("log", "-1", "--format=%B")


# Where HEAD goes, and what is pushed


def test_a_branch_switch_is_in_the_journal_and_told_at_a_restore(worker: Worker) -> None:
    worker.work({"a.txt": edited(2)})
    heads = worker.repo.at(".git/pinable/heads.jsonl")
    worker.repo.git("stash", "--quiet")
    worker.repo.git("checkout", "--quiet", "-b", "topic")
    worker.repo.git("stash", "pop", "--quiet")
    (move,) = [json.loads(line) for line in heads.read_text().splitlines()]
    assert (move["what"], move["branch"], move["from"]) == ("checkout", "topic", worker.repo.git("rev-parse", "main"))
    later = {**move, "at": "2999-01-01T00:00:00Z"}  # the session and the switch are of the same second
    heads.write_text(json.dumps(later) + "\n")
    worker.work({"a.txt": edited(3)})
    worker.work({"a.txt": edited(4)})
    worker.close()
    entries, _ = SessionStore().journal("worker").read()
    assert [entry["move"] for entry in entries if entry["event"] == "head"] == [later]
    done = run_cli("pinable-agents", "session", "restore", "worker", "0", "--dry-run", cwd=worker.repo.path)
    assert "topic was checked out after that checkpoint" in done.stdout + done.stderr


def test_a_branch_whose_name_is_not_utf8(worker: Worker) -> None:
    worker.work({"a.txt": edited(2)})
    subprocess.run([b"git", b"checkout", b"-q", b"-b", b"caf\xe9"], cwd=worker.repo.path, check=True)
    heads = worker.repo.at(".git/pinable/heads.jsonl")
    move = json.loads(heads.read_text())
    assert move["branch"] == '"caf\\351"'
    heads.write_text(json.dumps({**move, "at": "2999-01-01T00:00:00Z"}))
    worker.work({"a.txt": edited(3)})
    assert [move["branch"] for move in SessionStore().read("worker")["head_moves"]] == ['"caf\\351"']


MOVE = {"serial": 5, "at": "2999-01-01T00:00:00Z", "what": "merge", "from": "abc", "to": "def", "branch": None}
BAD_MOVES = [
    "[" * 100000,
    "rubbish",
    "[]",
    *(json.dumps({name: value for name, value in MOVE.items() if name != left_out}) for left_out in MOVE),
    *(json.dumps({**MOVE, "serial": serial}) for serial in (10**20, 1 << 63, -1, True, 1.5, "1")),
    *(json.dumps({**MOVE, "branch": branch}) for branch in ("caf\udce9", 5, ["x"], "x" * 100000)),
    *(json.dumps({**MOVE, "what": what}) for what in ("other", ["merge"], {})),
]


def test_a_line_that_notes_no_move_stops_no_checkpoint(worker: Worker) -> None:
    worker.work({"a.txt": edited(2)})
    worker.repo.at(".git/pinable/heads.jsonl").write_text(
        "\n".join([*BAD_MOVES, json.dumps({**MOVE, "more": 1})]) + "\n"
    )
    worker.work({"a.txt": edited(3)})
    doc = SessionStore().read("worker")
    assert (doc["head_moves"], doc["head_seen"]) == ([MOVE], 5)


def test_moves_that_an_earlier_version_took_in_can_be_told() -> None:
    assert moves_since({"head_moves": [{"serial": 1, "what": "merge", "to": "0123456789"}, {}]}, None) == [
        "there was a merge into 0123456 after that checkpoint ()",
        "HEAD moved to  after that checkpoint ()",
    ]


def test_a_fact_nested_too_deeply_is_left_out(worker: Worker) -> None:
    worker.repo.at(".git/pinable").mkdir(exist_ok=True)
    worker.repo.at(".git/pinable/links.jsonl").write_text("[" * 100000 + "\n")
    assert links.read(worker.repo.common_dir) == []


def test_a_push_of_sessions_is_told(worker: Worker, tmp_path: Path) -> None:
    worker.work({"a.txt": edited(2)})
    GitRepo.init(tmp_path / "there", "--bare")
    quiet = subprocess.run(
        ["git", "push", "--quiet", "../there", "main"], cwd=worker.repo.path, capture_output=True, text=True, check=True
    )
    assert quiet.stdout + quiet.stderr == ""
    everything = ["git", "push", "--quiet", "--mirror", "../there"]
    told = subprocess.run(everything, cwd=worker.repo.path, capture_output=True, text=True, check=True)
    assert "this push sends a session to ../there" in told.stderr
