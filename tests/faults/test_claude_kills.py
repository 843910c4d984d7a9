"""A run of five edits by a model, killed at any call that changes a file: nothing is paid for twice, or done twice.

The server counts: a reply that had arrived, which is to say was in the journal, is never asked for again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from backends.model_server import ModelServer, call, say, step
from faults.harness import ID, Done, Ground, build_shim, compiler, ground, points
from support import GitRepo, Snapshot

from gitsession.conversation import History

pytestmark = pytest.mark.skipif(compiler() is None, reason="the shim needs a C compiler")

SHARES = 70  # the normal run disturbs every 70th call
SCRIPT = [
    step(call("list_files"), call("read_file", path="src/util.py")),
    step(call("finish_phase", summary="Five edits", decisions=["be quick"])),
    step(say("Creating src/one.py..."), call("write_file", path="src/one.py", content="one = 1\n")),
    step(
        call("edit_file", path="src/util.py", old_text="a + b", new_text="b + a", purpose="the sum"),
        call("write_file", path="made/two.py", content="two = 2\n", purpose="the sum"),
        call("read_file", path="src/one.py"),
    ),
    step(call("move_file", path="README.md", to="docs/README.md"), call("delete_file", path="src/one.py")),
    step(call("finish_phase", summary="Done")),
    step(call("report_findings", findings=[])),
]
EDITS = {"toolu_2_1", "toolu_3_0", "toolu_3_1", "toolu_4_0", "toolu_4_1"}
RUN = ("codeagent-wrapper", "--backend", "claude", "--session-id", ID, "--task", "Five edits")


class Stage:
    """A repository whose session a scripted model works on."""

    def __init__(self, made: Ground, server: ModelServer) -> None:
        self.ground = made
        self.server = server
        repo = GitRepo.init(made.repo.path)
        repo.write("README.md", "# sample\n")
        repo.write("src/util.py", "def add(a, b):\n    return a + b\n")
        repo.commit("Start")
        made.keep("start")
        done = self.run((0, "kill"))
        assert done.status == 0, done.err
        self.calls = done.calls
        self.files: Snapshot = made.files()
        self.doc = made.doc()
        assert server.steps == list(range(len(SCRIPT)))

    def run(self, fault: tuple[int, str] | None = None) -> Done:
        return self.ground.run(*RUN, fault=fault)

    def replies(self) -> int:
        """How many replies are in the journal."""
        return sum(entry["event"] == "reply" for entry in self.entries())

    def entries(self) -> list[dict[str, Any]]:
        from gitsession import SessionStore

        return SessionStore(self.ground.home).journal(ID).read()[0]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch, ModelServer(SCRIPT) as server:
        patch.setenv("ZYGOTE_LOADS", "anthropic httpx2")
        place = tmp_path_factory.mktemp("kills")
        with ground(place, build_shim(place)) as made:
            patch.setenv("ANTHROPIC_API_KEY", "sk-test-0123456789")
            patch.setenv("ANTHROPIC_BASE_URL", server.url)
            yield Stage(made, server)


@pytest.fixture(autouse=True)
def reachable(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins with a clean environment."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", stage.server.url)


def check_killed_at(stage: Stage, number: int) -> None:
    """Kill the run at its ``number``-th call, resume, and compare with the run that nobody disturbed."""
    stage.ground.put_back("start")
    stage.server.forget()
    killed = stage.run((number, "kill"))
    told = f"call {number} of {stage.calls}, {killed.struck}"
    if killed.status == 0:
        return
    assert killed.status == -9, f"{told}: {killed.err}"
    arrived = stage.replies()
    # Killed in its last moments it may have noted that the work is complete: then there is nothing to go on with.
    complete = "completed" in {entry.get("to") for entry in stage.entries()}
    done = stage.run()
    assert done.status == (2 if complete else 0), f"{told}: {done.out}{done.err}"
    asked = Counter(stage.server.steps)
    assert set(asked) == set(range(len(SCRIPT))), told
    twice = {number for number, count in asked.items() if count > 1}
    assert twice <= {arrived}, f"{told}: {asked}"
    assert max(asked.values()) <= 2, told
    assert stage.ground.files() == stage.files, told
    check_record(stage, told)


def check_record(stage: Stage, told: str) -> None:
    doc, expected = stage.ground.doc(), stage.doc
    history: History = doc["context"]["conversation_history"]
    assert history == expected["context"]["conversation_history"], told
    assert doc["cost"]["total_tokens"] == expected["cost"]["total_tokens"], told
    assert doc["cost"]["estimated_cost_usd"] == expected["cost"]["estimated_cost_usd"], told
    assert doc["phases_completed"] == expected["phases_completed"], told
    assert doc["checkpoints"][-1]["tree"] == expected["checkpoints"][-1]["tree"], told
    assert steps(doc) == steps(expected), told
    done = Counter(entry["call"] for entry in stage.entries() if entry["event"] == "edit_done")
    assert done == dict.fromkeys(EDITS, 1), told


def steps(doc: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """What was done step by step; one that was cut in two is one."""
    found: list[tuple[str, list[str]]] = []
    for one in doc["checkpoints"]:
        if found and found[-1][0] == one["description"]:
            found[-1] = found[-1][0], sorted({*found[-1][1], *one["files_changed"]})
        else:
            found.append((one["description"], one["files_changed"]))
    return found


def test_the_undisturbed_run(stage: Stage) -> None:
    assert sorted(stage.files) == [b"docs", b"docs/README.md", b"made", b"made/two.py", b"src", b"src/util.py"]
    assert [one["description"] for one in stage.doc["checkpoints"]] == [
        "analysis results",
        "src/one.py (new)",
        "the sum",
        "docs/README.md (was README.md)",
        "src/one.py (deleted)",
    ]


def test_killed_at_some_points(stage: Stage) -> None:
    for number in [*points(stage.calls, (7, SHARES)), *range(stage.calls - 6, stage.calls + 1)]:
        check_killed_at(stage, number)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(10))
def test_killed_at_every_point(stage: Stage, part: int) -> None:
    for number in points(stage.calls, (part, 10)):
        check_killed_at(stage, number)


@pytest.mark.parametrize("mode", ["ENOSPC", "EIO"])
def test_a_disk_that_fails_loses_nothing_either(stage: Stage, mode: str) -> None:
    """The run says what failed, and goes on when the disk is well again."""
    for number in points(stage.calls, (31, stage.calls // 3)):
        stage.ground.put_back("start")
        stage.server.forget()
        failed = stage.run((number, mode))
        told = f"{mode} at call {number}, {failed.struck}"
        if failed.status == 0:
            continue
        assert failed.status in (1, 3), f"{told}: {failed.status} {failed.err}"
        assert "internal error" not in failed.err, told
        done = stage.run()
        assert done.status == 0, f"{told}: {done.out}{done.err}"
        assert stage.ground.files() == stage.files, told
        assert max(Counter(stage.server.steps).values()) <= 2, told
