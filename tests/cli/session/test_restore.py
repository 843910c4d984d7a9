"""``session restore``, ``session undo`` and ``session diff`` as a person and as a program meet them."""

from __future__ import annotations

import errno
import json
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo, cli_environment, program, run_cli

from gitsession import seam
from gitsession.errors import RepositoryError


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    session = TestSession(repo)
    repo.write("src/util.py", "def add(a, b):\n    return a + b  # 一\n")
    session.checkpoint("first")
    repo.write("src/util.py", "def add(a, b):\n    return b + a  # 二\n")
    repo.write("new.txt", "new\n")
    session.checkpoint("second")
    return session


def run(session: TestSession, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_cli("pinable-agents", "session", *arguments, cwd=cwd or session.user.path)


def on_terminal(session: TestSession, *arguments: str, answer: bytes = b"", env: dict[str, str] | None = None) -> str:
    """What a person at a terminal sees."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [program("pinable-agents"), "session", *arguments],
        stdin=follower, stdout=follower, stderr=follower, cwd=session.user.path,
        env=cli_environment({"TERM": "xterm", "GIT_PAGER": "cat", **(env or {})}),
    )  # fmt: skip
    os.close(follower)
    os.write(leader, answer)
    seen = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the other end is closed: how a terminal says that this was all
            break
        if not piece:
            break
        seen += piece
    os.close(leader)
    child.wait()
    return seen.decode().replace("\r\n", "\n")


def test_a_restore_tells_each_file_and_how_to_go_back(session: TestSession) -> None:
    done = run(session, "restore", "s1", "0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "delete  new.txt      checkpoint 0 does not have it\n"
        "replace src/util.py  checkpoint 0 has other bytes\n"
        "Restored checkpoint 0 (first): 1 file replaced, 1 file deleted\n"
        "This is checkpoint 2 now; what was there before is checkpoint 1\n"
        "To take it back: pinable-agents session undo s1\n"
    )
    assert not session.user.at("new.txt").exists()
    done = run(session, "undo", "s1")
    assert done.returncode == 0
    assert session.user.at("new.txt").exists()


def test_json_for_programs(session: TestSession) -> None:
    done = run(session, "restore", "s1", "0", "--json", "--dry-run")
    report = json.loads(done.stdout)
    assert (report["target"], report["dry_run"], report["checkpoint"]) == (0, True, None)
    assert report["files"][0] == {"path": "new.txt", "action": "delete", "reason": "checkpoint 0 does not have it"}
    assert session.user.at("new.txt").exists()


def test_drift_is_refused_with_all_the_files(session: TestSession) -> None:
    for number in range(8):
        session.user.write(f"f{number}", "1\n")
    session.checkpoint()
    for number in range(8):
        session.user.write(f"f{number}", "mine\n")
    done = run(session, "restore", "s1", "0")
    assert done.returncode == 4
    assert done.stdout == ""
    assert all(f"  f{number}\n" in done.stderr for number in range(8))
    assert "8 files would be overwritten that no checkpoint holds" in done.stderr
    assert "--force saves them in a checkpoint first" in done.stderr
    assert run(session, "restore", "s1", "0", "--force").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("restore", "s1", "9"), "has no checkpoint 9"),
        (("restore", "s1", "x"), "'x' is no checkpoint"),
        (("restore", "s1", "9" * 5000), "9' is no checkpoint"),
        (("diff", "s1", "9" * 5000), "9' names no checkpoints"),
        (("diff", "s1", f"0..{'9' * 5000}"), "9' names no checkpoints"),
        (("restore", "s1", "0", "--path", "/etc/passwd"), "is not in the working tree"),
        (("restore", "s1", "0", "--path", "nothing"), "nothing is neither in checkpoint 0"),
        (("restore", "s1", "0", "--path", ""), "an empty path names nothing"),
        (("diff", "s1", "1", "--", ""), "an empty path names nothing"),
        (("undo", "s1"), "nothing to undo"),
        (("diff", "s1", "0..9"), "has no checkpoint 9"),
        (("diff", "s1", "later"), "'later' names no checkpoints"),
        (("diff", "s1", "0", "more"), "paths come after --"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(session: TestSession, arguments: tuple[str, ...], words: str) -> None:
    done = run(session, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "hint: " in done.stderr
    assert done.stdout == ""


def test_a_person_is_asked(session: TestSession) -> None:
    seen = on_terminal(session, "restore", "s1", "0", answer=b"n\n")
    assert "Would restore checkpoint 0 (first)" in seen
    assert "Go on?" in seen
    assert session.user.at("new.txt").exists()
    assert "Restored checkpoint 0" in on_terminal(session, "restore", "s1", "0", answer=b"y\n")
    assert not session.user.at("new.txt").exists()
    assert "Go on?" not in on_terminal(session, "undo", "s1", "--yes")


def interrupted(session: TestSession) -> None:
    """A restore of checkpoint 0 that the disk had no room for."""

    def fail(point: str) -> None:
        if point == "restore.write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    seam.hook = fail
    try:
        with pytest.raises(RepositoryError, match="stopped half-way"):
            session.restore(0)
    finally:
        seam.hook = None


def test_a_dry_run_says_that_a_restore_was_interrupted(session: TestSession) -> None:
    interrupted(session)
    before = session.user.snapshot()
    done = run(session, "restore", "s1", "1", "--dry-run")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == (
        "Would first finish restoring checkpoint 0 (first): 1 file replaced, 1 file deleted"
    )
    assert done.stderr.startswith("warning: a restore of checkpoint 0 was interrupted")
    assert session.user.snapshot() == before


def test_a_person_is_asked_to_finish_it_first(session: TestSession) -> None:
    interrupted(session)
    before = session.user.snapshot()
    seen = on_terminal(session, "restore", "s1", "1", answer=b"n\n")
    assert "Finish it?" in seen
    assert "Go on?" not in seen
    assert session.user.snapshot() == before
    seen = on_terminal(session, "restore", "s1", "1", answer=b"y\nn\n")
    assert "has been finished" in seen
    assert "Would restore checkpoint 1 (second)" in seen
    assert not session.user.at("new.txt").exists()


def test_a_refusal_tells_what_was_finished_before(session: TestSession) -> None:
    interrupted(session)
    done = run(session, "restore", "s1", "9", "--yes")
    assert done.returncode == 2
    assert done.stderr.startswith("warning: a restore of checkpoint 0 that was interrupted has been finished\n")
    assert "has no checkpoint 9" in done.stderr


def test_paths_are_relative_to_where_one_stands(session: TestSession) -> None:
    session.user.write("src/deep/f", "1\n")
    session.checkpoint()
    done = run(session, "restore", "s1", "0", "--path", "util.py", cwd=session.user.at("src"))
    assert done.returncode == 0, done.stderr
    assert session.user.at("src/deep/f").exists()
    assert "一" in session.user.at("src/util.py").read_text()


def test_a_path_may_lie_where_a_link_is_now(session: TestSession, tmp_path: Path) -> None:
    user = session.user
    user.write("l/f", "1\n")
    session.checkpoint()
    shutil.rmtree(user.at("l"))
    (tmp_path / "out").mkdir()
    user.at("l").symlink_to("../out")
    session.checkpoint()
    assert "-1\n" in run(session, "diff", "s1", "3", "--", "l/f").stdout
    refused = run(session, "restore", "s1", "2", "--path", "l/f")
    assert (refused.returncode, "l (is in the way of l/f)" in refused.stderr) == (4, True)
    assert run(session, "restore", "s1", "2", "--path", "l/f", "--path", "l").returncode == 0
    assert user.at("l/f").read_text() == "1\n"
    assert os.listdir(tmp_path / "out") == []


def test_diff_forms(session: TestSession) -> None:
    def names(*arguments: str) -> list[str]:
        return run(session, "diff", "--name-status", *arguments).stdout.splitlines()

    assert names() == ["A\tnew.txt", "M\tsrc/util.py"]
    assert names("s1", "0") == ["M\tsrc/util.py"]
    assert names("1") == names("latest", "0..1") == names("s1", "0..") == ["A\tnew.txt", "M\tsrc/util.py"]
    assert names("s1", "base..0") == names("s1", "..0") == ["M\tsrc/util.py"]
    assert names("s1", "1..base") == ["D\tnew.txt", "M\tsrc/util.py"]
    assert names("s1", "--", "src") == ["M\tsrc/util.py"]
    assert names("--", "new.txt") == ["A\tnew.txt"]


def test_a_piped_diff_is_git_s_and_applies(session: TestSession) -> None:
    session.user.write("blob", os.urandom(3000))
    session.checkpoint()
    done = subprocess.run(
        [program("pinable-agents"), "session", "diff", "s1", "base..2"], cwd=session.user.path, capture_output=True
    )
    session.restore(None)
    session.user.git("apply", input=done.stdout)
    assert session.user.git("rev-parse", "refs/pinable/s1~1^{tree}") == session.records[2]["tree"]
    assert session.checkpoint() == 4
    assert session.records[4]["tree"] == session.records[2]["tree"]


@pytest.mark.parametrize("damage", ["object", "record", "repository"])
def test_what_cannot_be_compared_is_no_difference(session: TestSession, tmp_path: Path, damage: str) -> None:
    if damage == "object":
        oid = session.user.git("rev-parse", "refs/pinable/s1:new.txt")
        (session.user.git_dir / "objects" / oid[:2] / oid[2:]).unlink()
    elif damage == "record":
        (session.store.sessions_dir / "s1.json").write_bytes(b"{")
    else:
        session.user.path.rename(tmp_path / "elsewhere")
    done = run(session, "diff", "s1", "1", "--exit-code", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "hint: " in done.stderr


def test_stat_and_exit_code(session: TestSession) -> None:
    done = run(session, "diff", "s1", "--stat", "--exit-code")
    assert done.returncode == 1
    assert done.stdout == " new.txt     | 1 +\n src/util.py | 2 +-\n 2 files changed, +2 -1\n"
    assert run(session, "diff", "s1", "1..1", "--exit-code").returncode == 0


@pytest.mark.parametrize("style", [(), ("--stat",), ("--name-status",), ("--json",)])
def test_ignored_white_space_is_no_difference_in_any_form(session: TestSession, style: tuple[str, ...]) -> None:
    session.user.write("new.txt", " new \n")
    session.checkpoint()
    assert run(session, "diff", "s1", "2", *style, "--exit-code").returncode == 1
    assert run(session, "diff", "s1", "2", *style, "--exit-code", "-w").returncode == 0


def test_what_no_patch_can_say_is_a_difference(repo: GitRepo) -> None:
    """Line ends, where git stores one kind of them; and other bytes of which a filter makes the same."""
    repo.git("config", "core.autocrlf", "true")
    repo.write(".gitattributes", "id ident\n")
    repo.write("src/ends", "a\r\nb\r\n")
    repo.write("id", "$Id$\n")
    session = TestSession(repo)
    repo.write("src/ends", "a\nb\n")
    repo.write("id", "$Id: 1 $\n")
    session.checkpoint()
    said = {
        "id": "other bytes, of which git's filters make the same",
        "src/ends": "only line ends changed, CRLF to LF",
    }
    done = run(session, "diff", "s1", "0", "--exit-code")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "".join(f"{path}: {words}, which a patch cannot say\n" for path, words in said.items())
    listed = json.loads(run(session, "diff", "s1", "0", "--json").stdout)["files"]
    assert {one["path"]: one["note"] for one in listed} == said
    limited = run(session, "diff", "s1", "0", "--name-status", "--exit-code", "--", "src")
    assert (limited.returncode, limited.stdout) == (1, "M\tsrc/ends\n")
    assert run(session, "diff", "s1", "0", "--name-status", "-w").stdout == "M\tid\n"
    assert run(session, "diff", "s1", "0..0", "--exit-code").returncode == 0


def test_diff_for_programs(session: TestSession) -> None:
    shown = json.loads(run(session, "diff", "s1", "1", "--json").stdout)
    assert (shown["session"], shown["from"]["index"], shown["to"]["index"]) == ("s1", 0, 1)
    assert [(one["path"], one["status"], one["insertions"]) for one in shown["files"]] == [
        ("new.txt", "added", 1),
        ("src/util.py", "modified", 1),
    ]


def test_a_terminal_gets_colours_and_no_control_characters(session: TestSession) -> None:
    session.user.write("evil", b"\x1b]0;title\x07\xe2\x80\xaereversed\r\n")
    session.checkpoint()
    seen = on_terminal(session, "diff", "s1", "2")
    assert "\x1b]0" not in seen
    assert "\u202e" not in seen
    assert "+^[]0;title^G<U+202E>reversed^M" in seen
    assert "\x1b[36m@@" in seen
    assert "\x1b" not in on_terminal(session, "diff", "s1", "2", env={"NO_COLOR": "1"})


def test_a_terminal_gets_the_user_s_pager(session: TestSession) -> None:
    pager = {"GIT_PAGER": "sed s/^/paged:/"}
    assert "paged:" in on_terminal(session, "diff", "s1", env=pager)
    assert "paged:" not in on_terminal(session, "diff", "s1", "--no-pager", env=pager)
    assert len(on_terminal(session, "diff", "s1", env={"GIT_PAGER": "head -1"}).splitlines()) == 1
    assert "paged:" not in run_cli("pinable-agents", "session", "diff", "s1", cwd=session.user.path, env=pager).stdout
