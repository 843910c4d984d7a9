"""``session export``: the published examples, every format, masking, and where it goes."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hostile import HOSTILE, hostile_session
from sessions import TestSession
from support import GitRepo, run_cli

from gitsession import SessionStore
from gitsession.model import Session
from gitsession.verbs import export as verb

KEY = "AKIA" + "IOSFODNN7EXAMPLE"


def export(*arguments: str | Path, status: int = 0, cwd: Path | None = None) -> tuple[str, str]:
    done = run_cli("pinable-agents", "session", "export", *arguments, cwd=cwd)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def session(repo: GitRepo) -> TestSession:
    """Two checkpoints: one that adds, one that renames, changes and has nothing to show for a binary file."""
    session = TestSession(repo, "sess_1740480000_a3f7b2c1")
    repo.write("src/new.py", "one\ntwo\nthree\n")
    session.checkpoint("完成代码分析")
    repo.at("src/new.py").rename(repo.at("src/renamed.py"))
    repo.write("src/app.py", "caf\xe9\n".encode("latin-1"))
    repo.write("data.bin", bytes(range(256)))
    session.checkpoint("second")
    return session


def test_the_published_markdown_example(session: TestSession) -> None:
    text, words = export(session.id, "--format", "markdown")
    assert words == ""
    assert text == export(session.id)[0] == export("latest", "--format", "md")[0]
    assert text.startswith(f"# Session {session.id.replace('_', chr(92) + '_')}\n\n## Task\n\n```text\ntask\n```\n")
    assert "- Status: created\n" in text
    assert "- Total cost: unknown\n" in text
    assert "### Checkpoint 0: 完成代码分析\n" in text
    assert "`src/new.py`:\n\n```diff\n@@ -0,0 +1,3 @@\n+one\n+two\n+three\n```\n" in text
    assert "- `src/new.py` → `src/renamed.py`: renamed, +0 -0\n" in text
    assert "- `data.bin`: added, binary\n" in text
    assert "+café\n" in text


def test_the_published_json_example(session: TestSession) -> None:
    """``… --format json | jq '.checkpoints'``: the record as it is stored."""
    text, words = export(session.id, "--format", "json")
    assert words == ""
    found = json.loads(text)
    assert [one["description"] for one in found["checkpoints"]] == ["完成代码分析", "second"]
    assert found == SessionStore().read(session.id)
    Session.model_validate(found)


def test_html_tells_the_same(session: TestSession) -> None:
    text, words = export(session.id, "--format", "html")
    assert words == ""
    assert text.startswith("<!DOCTYPE html>\n")
    assert re.search(r"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-[^']+';", text)
    assert "<script" not in text
    assert '<span class="add">+one</span>\n<span class="add">+two</span>' in text
    assert text.count("<details>") == 2


@pytest.mark.parametrize("form", ["mbox", "patch"])
def test_patches_are_for_git_am(session: TestSession, repo: GitRepo, tmp_path: Path, form: str) -> None:
    export(session.id, "--format", form, "-o", tmp_path / "series")
    repo.git("clone", "--quiet", ".", tmp_path / "other")
    other = GitRepo(tmp_path / "other")
    other.git("am", "--quiet", tmp_path / "series")
    assert other.git("rev-parse", "HEAD^{tree}") == session.records[-1]["tree"]


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("r.md", "# Session"),
        ("r.html", "<!DOCTYPE"),
        ("r.HTM", "<!DOCTYPE"),
        ("r.json", "{\n"),
        ("r.patch", "From "),
        ("report", "# "),
    ],
)
def test_the_files_ending_tells_the_format(session: TestSession, tmp_path: Path, name: str, begins: str) -> None:
    assert export(session.id, "-o", tmp_path / name) == ("", "")
    assert (tmp_path / name).read_bytes().startswith(begins.encode())


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["-o", "report.pdf"], 2, "report.pdf tells no format"),
        (["--format", "docx"], 2, "'docx' is not one of"),
        (["-o", "no/such/place.md"], 1, "cannot write no/such/place.md: No such file or directory"),
    ],
)
def test_what_cannot_be_written(
    session: TestSession, tmp_path: Path, arguments: list[str], status: int, words: str
) -> None:
    out, error = export(session.id, *arguments, status=status, cwd=tmp_path)
    assert out == ""
    assert words in error


def secret_session(repo: GitRepo) -> str:
    session = TestSession(repo)
    repo.write("settings", f"id = {KEY}\npassword = 'correcthorse'\n")
    session.checkpoint(f"uses {KEY}")
    return session.id


@pytest.mark.parametrize(("form", "number"), [("md", 4), ("html", 4), ("json", 1)])
def test_secrets_are_masked_and_counted(repo: GitRepo, form: str, number: int) -> None:
    session_id = secret_session(repo)
    text, words = export(session_id, "--format", form)
    assert KEY not in text
    assert "correcthorse" not in text
    assert "[redacted]" in text
    assert words == f"masked: {number} word{'s' * (number > 1)} that may be a secret (--no-redact leaves them)\n"
    text, words = export(session_id, "--format", form, "--no-redact")
    assert KEY in text
    assert words == ""


def test_patches_with_secrets_are_refused(repo: GitRepo, tmp_path: Path) -> None:
    """A mask would make them something else; what to do is said."""
    session_id = secret_session(repo)
    out, words = export(session_id, "--format", "mbox", "-o", tmp_path / "m", status=2)
    assert "the patches hold 3 words that may be a secret" in words
    assert "--no-redact" in words
    assert (out, (tmp_path / "m").exists()) == ("", False)
    assert KEY in export(session_id, "--format", "mbox", "--no-redact")[0]


def test_a_hostile_session_stays_text_in_html(repo: GitRepo) -> None:
    tags: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert not any(name.startswith("on") or "javascript:" in (value or "") for name, value in attrs)

    text, _ = export(hostile_session(repo), "--format", "html")
    Tags().feed(text)
    assert not {"script", "img", "iframe"} & set(tags)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text)
    assert "{{ 7 * 7 }}" in text


def test_a_hostile_session_stays_text_in_markdown(repo: GitRepo) -> None:
    text, _ = export(hostile_session(repo), "--format", "md")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text)
    outside, fence = [], ""
    for line in text.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif mark := re.match(r"(`{3,})(text|diff)$", line):
            fence = mark.group(1)
        else:
            outside.append(re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", re.sub(r"\\.", "", line)))
    assert fence == ""
    assert not re.search(r"[<\[`|@]|://", "\n".join(outside)), outside
    assert {line for line in outside if line.startswith("#")} >= {"## Task", "## Findings", "## Timeline"}
    assert HOSTILE in text


def test_a_session_whose_repository_is_gone_has_no_diffs_and_says_so(session: TestSession, repo: GitRepo) -> None:
    repo.path.rename(repo.path.with_name("elsewhere"))
    text, _ = export(session.id)
    assert "There are no diffs: " in text
    assert "- `src/new.py`: added\n" in text
    assert "not there" in export(session.id, "--format", "mbox", status=1)[1]


def test_a_session_that_never_ran_is_a_short_report(make_session: object, repo: GitRepo) -> None:
    make_session("s", status="created", checkpoints=[])  # type: ignore[operator]
    assert "## Checkpoints\n\nThere are no diffs: the session names no repository.\n\nNone.\n" in export("s")[0]
    assert "no base yet" in export("s", "--format", "mbox", status=2)[1]


def test_nothing_changed_is_said(repo: GitRepo) -> None:
    session = TestSession(repo)
    session.checkpoint()
    assert export(session.id, "--format", "mbox") == ("", "nothing changed: there are no patches\n")


def test_a_report_is_bounded(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    session = TestSession(repo)
    for number in range(6):
        repo.write(f"file{number}", "x" * 400 + "\n")
    repo.write("long", "line\n" * 40)
    session.checkpoint("d" * 5000)
    for name, value in {"NAMED": 5, "LISTED": 4, "DIFF_LIMIT": 900, "FILE_LIMIT": 300}.items():
        monkeypatch.setattr(verb, name, value)
    (step,) = (report := verb.gather(SessionStore(), session.id)).steps
    assert (len(step.files), step.more_files) == (5, 2)
    assert (len(report.changed), report.more_changed) == (4, 3)
    assert step.description.endswith("[cut: 4,000 more characters]")
    assert step.files[0].diff is not None
    assert step.files[0].diff.endswith("[cut: 115 more characters]")
    monkeypatch.setattr(verb, "FILE_LINES", 30)
    monkeypatch.setattr(verb, "NAMED", 50)
    (step,) = verb.gather(SessionStore(), session.id).steps
    assert step.files[-1].not_shown == "40 changed lines, too many for a report"
    monkeypatch.setattr(verb, "DETAILED", 0)
    (step,) = verb.gather(SessionStore(), session.id).steps
    assert (step.files, step.more_files) == ((), 7)


def test_what_the_agent_said_and_the_review_found_is_told(repo: GitRepo) -> None:
    session = TestSession(repo)
    with SessionStore().edit(session.id) as draft:
        draft.log("prompt", text="go", phase="analysis", task="task")
        call = {
            "type": "tool_use",
            "id": "1",
            "name": "finish_phase",
            "input": {"summary": "Two things", "decisions": ["a"]},
        }
        message = {"id": "m", "model": "x", "stop_reason": "tool_use", "content": [call]}
        draft.log("reply", message=message, usage={"input": 1200, "output": 34, "cost_usd": 0.5})
        finding = {"severity": "warning", "file": "a.py", "line": 3, "message": "is wrong", "quote": "x = 1"}
        draft.log("findings", findings=[finding], dropped=[])
    text, _ = export(session.id)
    assert "## Results\n\n### analysis\n\n```text\nTwo things\n\nDecisions:\n- a\n```\n" in text
    assert "- **warning** `a.py:3`: is wrong\n  `x = 1`\n" in text
    assert "- Tokens: 1,200 tokens in, 34 out\n- Total cost: \\$0.50\n" in text


def test_what_falls_into_one_second_keeps_its_order(session: TestSession) -> None:
    """Two runs within a second, a checkpoint in each."""
    second = "2026-02-25T10:00:00"
    doc = session.store.read(session.id)
    doc["created_at"] = f"{second}Z"
    doc["runs"] = [
        {"started_at": f"{second}.100Z", "ended_at": f"{second}.200Z", "end": "network"},
        {"started_at": f"{second}.300Z", "ended_at": f"{second}.400Z", "end": "completed"},
    ]
    for record in doc["checkpoints"]:
        record["timestamp"] = f"{second}Z"
    moments = verb._timeline(Session.model_validate(doc), {0: 0, 1: 1})
    words = [moment.text.split(":")[0] for moment in moments]
    assert words == ["Created", "Began", "Checkpoint 0", "Paused", "Resumed", "Checkpoint 1", "Completed"]


def test_the_journal_tells_which_run_a_checkpoint_is_of(session: TestSession) -> None:
    with session.store.edit(session.id) as draft:
        draft.log("status", to="running")
        draft.log("status", to="paused", reason="network")
        draft.log("status", to="running")
    session.checkpoint("third")
    found = session.store.load(session.id)
    assert verb._runs_of_checkpoints(session.store, found) == {0: 0, 1: 0, 2: 1}
