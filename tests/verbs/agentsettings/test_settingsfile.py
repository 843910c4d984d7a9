"""A settings file on the disk: what was there comes back, byte for byte, and nothing is written where it should not."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonc import PROPERTY, texts
from support import GitRepo

from gitsession.errors import ConflictError, RepositoryError, StoreError
from gitsession.git.repo import Repo
from gitsession.verbs.agentsettings import files
from gitsession.verbs.agentsettings.agents import AGENTS, Agent, named
from gitsession.verbs.agentsettings.commands import Command
from gitsession.verbs.agentsettings.settingsfile import SettingsFile

CLAUDE, CODEX, GEMINI, OPENCODE = AGENTS
PATH = ".claude/settings.local.json"
HERE = Command("claude-code", "/opt/here/python")


def file_of(repo: GitRepo, agent: Agent = CLAUDE, relative: str | None = None) -> SettingsFile:
    return SettingsFile(Repo.discover(repo.path), agent, relative or agent.local)


def put(repo: GitRepo, agent: Agent = CLAUDE, relative: str | None = None) -> bool:
    return file_of(repo, agent, relative).put(Command(agent.name, "/opt/here/python"))


def take(repo: GitRepo, agent: Agent = CLAUDE, relative: str | None = None) -> bool:
    return file_of(repo, agent, relative).take()


def everything(repo: GitRepo) -> tuple[Any, Any]:
    return repo.snapshot(), repo.user_state()


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_nothing_is_left_of_what_was_not_there(repo: GitRepo, agent: Agent) -> None:
    before = everything(repo)
    assert put(repo, agent)
    after = everything(repo)
    assert after != before
    assert not put(repo, agent)
    assert everything(repo) == after
    assert file_of(repo, agent).commands()[0] == Command(agent.name, "/opt/here/python")
    assert take(repo, agent)
    assert everything(repo) == before
    assert not take(repo, agent)


@pytest.mark.parametrize("agent", [CLAUDE, CODEX, GEMINI], ids=lambda agent: agent.name)
@settings(PROPERTY, max_examples=50)
@given(data=st.data(), crlf=st.booleans(), mark=st.booleans())
def test_any_file_comes_back_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, agent: Agent, data: st.DataObject, crlf: bool, mark: bool
) -> None:
    text = data.draw(texts(agent.comments))
    if crlf:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    before = (b"\xef\xbb\xbf" if mark and agent.mark else b"") + text.encode()
    root = tmp_path_factory.mktemp("tree")
    repo = Repo(root, root / ".git", root / ".git", "sha1", "files")
    place = root / agent.local
    place.parent.mkdir()
    place.write_bytes(before)
    assert SettingsFile(repo, agent, agent.local).put(Command(agent.name, "/python"))
    after = place.read_bytes()
    assert not SettingsFile(repo, agent, agent.local).put(Command(agent.name, "/python"))
    assert place.read_bytes() == after
    assert crlf is False or after.replace(b"\r\n", b"").count(b"\n") == (0 if b"\n" in before else after.count(b"\n"))
    assert SettingsFile(repo, agent, agent.local).put(Command(agent.name, "/another/python"))
    assert SettingsFile(repo, agent, agent.local).take()
    assert place.read_bytes() == before
    assert not (root / ".git").exists() or not any((root / ".git").iterdir())
    shutil.rmtree(root)


@pytest.mark.parametrize("before", [b"", b"\n", b" \r\n\t"])
def test_an_empty_file_comes_back(repo: GitRepo, before: bytes) -> None:
    repo.write(PATH, before)
    put(repo)
    assert json.loads(repo.at(PATH).read_bytes()).keys() == {"hooks"}
    take(repo)
    assert repo.at(PATH).read_bytes() == before


def test_what_a_person_wrote_in_between_stays(repo: GitRepo) -> None:
    repo.write(PATH, '{\n  "model": "opus"\n}\n')
    put(repo)
    text = repo.at(PATH).read_text()
    document = json.loads(text)
    document["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "mine"}]})
    repo.write(PATH, json.dumps(document, indent=4))
    assert take(repo)
    mine = {"model": "opus", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}
    assert json.loads(repo.at(PATH).read_bytes()) == mine


def test_a_new_file_goes_when_nothing_but_ours_was_in_it(repo: GitRepo) -> None:
    put(repo)
    repo.write(PATH, json.dumps(json.loads(repo.at(PATH).read_bytes())))  # written anew by the agent
    take(repo)
    assert not repo.at(".claude").exists()


def test_a_new_file_stays_when_somebody_put_more_into_it(repo: GitRepo) -> None:
    put(repo)
    repo.write(PATH, json.dumps(json.loads(repo.at(PATH).read_bytes()) | {"model": "opus"}))
    repo.write(".claude/mine", "")
    take(repo)
    assert json.loads(repo.at(PATH).read_bytes()) == {"model": "opus"}
    assert put(repo)
    repo.at(PATH).unlink()
    assert not take(repo)
    assert repo.at(".claude/mine").exists()
    assert not (repo.git_dir / "pinable-hooks").exists()


def test_a_hooks_key_that_was_there_stays_even_in_an_edited_file(repo: GitRepo) -> None:
    repo.write(PATH, '{"hooks": {"Stop": []}}')
    put(repo)
    repo.write(PATH, repo.at(PATH).read_bytes() + b"\n")
    take(repo)
    assert json.loads(repo.at(PATH).read_bytes()) == {"hooks": {"Stop": []}}


def test_what_came_with_a_clone_goes_without_a_record(repo: GitRepo) -> None:
    put(repo, CLAUDE, CLAUDE.shared)
    shutil.rmtree(repo.git_dir / "pinable-hooks")
    assert take(repo, CLAUDE, CLAUDE.shared)
    assert repo.at(CLAUDE.shared).read_bytes() == b"{}\n"


def test_an_older_one_is_brought_up_to_date(repo: GitRepo) -> None:
    before = '{ "model": "opus",\n\t"hooks": {"Stop": [ ]} }'
    repo.write(PATH, before)
    put(repo)
    old = repo.at(PATH).read_text()
    repo.write(PATH, old.replace('"timeout": 10', '"timeout": 1'))
    assert not file_of(repo).is_current(HERE)
    assert put(repo)
    assert file_of(repo).is_current(HERE)
    assert len(file_of(repo).commands()) == old.count(HERE.line)
    take(repo)
    assert json.loads(repo.at(PATH).read_text()) == json.loads(before)


def test_mode_is_kept_and_nothing_is_left_beside(repo: GitRepo) -> None:
    for mode in (0o600, 0o640, 0o664):
        repo.write(PATH, "{}", mode=mode)
        put(repo)
        assert repo.at(PATH).stat().st_mode & 0o777 == mode
        take(repo)
        assert repo.at(PATH).stat().st_mode & 0o777 == mode
    assert [path.name for path in repo.at(".claude").iterdir()] == ["settings.local.json"]
    repo.at(PATH).unlink()
    put(repo)
    assert repo.at(PATH).stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_is_kept(repo: GitRepo) -> None:
    os.chown(repo.write(PATH, "{}"), 65534, 65534)
    put(repo)
    assert (repo.at(PATH).stat().st_uid, repo.at(PATH).stat().st_gid) == (65534, 65534)


def test_a_link_within_the_working_tree_is_followed(repo: GitRepo) -> None:
    real = repo.write("agents/claude.json", '{"model": "opus"}')
    repo.at(".claude").mkdir()
    repo.at(PATH).symlink_to("../agents/claude.json")
    put(repo)
    assert repo.at(PATH).is_symlink()
    assert HERE.python in real.read_text()
    take(repo)
    assert repo.at(PATH).is_symlink()
    assert real.read_text() == '{"model": "opus"}'


@pytest.mark.parametrize("link", ["file", "directory", "nowhere"])
def test_a_link_that_leads_elsewhere_is_refused(repo: GitRepo, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside" / "settings.local.json"
    outside.parent.mkdir()
    outside.write_text("{}")
    if link == "directory":
        repo.at(".claude").symlink_to(outside.parent)
    else:
        repo.at(".claude").mkdir()
        repo.at(PATH).symlink_to(outside if link == "file" else "gone")
    before = everything(repo)
    with pytest.raises(ConflictError, match="not changed"):
        put(repo)
    with pytest.raises(ConflictError):
        take(repo)
    assert everything(repo) == before
    assert outside.read_text() == "{}"


@pytest.mark.parametrize(
    ("agent", "data", "words"),
    [
        (
            CLAUDE,
            b'{\n  "a": 1,\n}',
            r"settings.local.json, line 2, column 9: a comma has nothing after it",
        ),
        (CLAUDE, b"// mine\n{}", "line 1, column 1: there is a comment, and it reads no file with one"),
        (CODEX, b"\xef\xbb\xbf{}", "byte order mark, and Codex reads no file with one"),
        (GEMINI, b"\xef\xbb\xbf{}", "byte order mark"),
        (CLAUDE, b'{\n"a": "\xff"}', "line 2: it is no text in UTF-8"),
        (CLAUDE, "{}".encode("utf-16"), "UTF-8"),
        (CLAUDE, b"{" + b" " * 5_000_000 + b"}", "larger than settings are"),
        (OPENCODE, b"export const mine = 1", "it is not our plugin"),
    ],
)
def test_what_cannot_be_read_is_refused_and_stays(repo: GitRepo, agent: Agent, data: bytes, words: str) -> None:
    repo.write(agent.local, data)
    before = everything(repo)
    with pytest.raises(ConflictError, match=words):
        put(repo, agent)
    assert everything(repo) == before


def test_a_directory_or_a_pipe_in_its_place_is_refused(repo: GitRepo) -> None:
    repo.at(PATH).mkdir(parents=True)
    with pytest.raises(ConflictError, match="no file"):
        put(repo)
    repo.at(PATH).rmdir()
    os.mkfifo(repo.at(PATH))
    with pytest.raises(ConflictError, match="no file"):
        put(repo)


def test_disable_does_not_mind_a_broken_file_without_ours(repo: GitRepo) -> None:
    repo.write(PATH, "{ broken")
    assert not take(repo)
    repo.write(PATH, "{ broken gitsession.agenthook")
    with pytest.raises(ConflictError, match="line 1"):
        take(repo)


def test_a_plugin_that_somebody_changed_is_left(repo: GitRepo) -> None:
    put(repo, OPENCODE)
    place = repo.at(OPENCODE.local)
    place.write_text(place.read_text() + "// mine\n")
    changed = place.read_bytes()
    for act in (put, take):
        with pytest.raises(ConflictError, match="somebody changed it"):
            act(repo, OPENCODE)
    assert place.read_bytes() == changed


def test_a_failed_write_leaves_everything_as_it_was(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = everything(repo)
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_all", fail)
        with pytest.raises(RepositoryError, match="No space left"):
            put(repo)
    assert everything(repo) == before
    repo.write(PATH, "{}")
    put(repo)
    before = everything(repo)
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_all", fail)
        with pytest.raises(RepositoryError, match="No space left"):
            file_of(repo).put(Command("claude-code", "/other"))
        with pytest.raises(RepositoryError, match="No space left"):
            take(repo)
    assert everything(repo) == before
    take(repo)
    assert repo.at(PATH).read_text() == "{}"


def test_what_an_agent_writes_at_the_same_moment_is_not_lost(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = b'{"permissions": {"allow": ["Bash"]}}'

    def meanwhile(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data)
        repo.write(PATH, theirs)

    for before in (None, b"{}"):
        repo.at(PATH).unlink(missing_ok=True)
        if before is not None:
            repo.write(PATH, before)
        with monkeypatch.context() as patch:
            patch.setattr(files, "write_all", meanwhile)
            with pytest.raises(ConflictError, match="at the same moment"):
                put(repo)
        assert [path.name for path in repo.at(".claude").iterdir()] == ["settings.local.json"]
        assert repo.at(PATH).read_bytes() == theirs
    assert put(repo)
    assert take(repo)
    assert repo.at(PATH).read_bytes() == theirs


@pytest.mark.parametrize("written", [False, True])
def test_a_kill_between_record_and_file(repo: GitRepo, monkeypatch: pytest.MonkeyPatch, written: bool) -> None:
    real = files.write

    def killed(*arguments: Any) -> None:
        if written:
            real(*arguments)
        raise KeyboardInterrupt

    repo.write(PATH, "{ }")
    before = everything(repo)
    with monkeypatch.context() as patch:
        patch.setattr(files, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            put(repo)
    assert put(repo) is not written
    assert take(repo)
    assert everything(repo) == before


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="root writes everywhere")
def test_a_file_that_may_not_be_written_is_not_replaced(repo: GitRepo) -> None:
    repo.write(PATH, "{}", mode=0o444)
    code = (
        "import sys\nfrom pathlib import Path\nfrom gitsession.verbs import agenthooks\n"
        "print(agenthooks.enable(Path(sys.argv[1]), ['claude-code'])[0].detail)"
    )
    rights = "-dac_override,-dac_read_search"  # what makes root write everything
    command = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", sys.executable, "-c", code]
    done = subprocess.run([*command, repo.path], capture_output=True, text=True)
    assert f"cannot write {repo.at(PATH)}: Permission denied" in done.stdout, done.stderr
    assert repo.at(PATH).read_text() == "{}"


def test_a_git_directory_that_may_not_be_written(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    before = everything(repo)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)
        with pytest.raises(StoreError, match="pinable-hooks: Permission denied") as caught:
            put(repo)
    assert caught.value.hint == f"make {repo.git_dir} writable"
    assert everything(repo) == before


def test_each_worktree_has_its_own(repo: GitRepo) -> None:
    repo.git("worktree", "add", "--quiet", "../linked")
    linked = GitRepo(repo.path.parent / "linked")
    put(repo)
    put(linked)
    take(repo)
    assert not repo.at(".claude").exists()
    assert file_of(linked).commands()
    take(linked)
    assert not linked.at(".claude").exists()
    assert named("codex") is CODEX
