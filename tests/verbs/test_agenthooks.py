"""Hooks are enabled, proved and disabled for each agent, and a person is told what is left to do."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from support import GitRepo

from gitsession import agenthook
from gitsession.errors import GitSessionError, NotARepository, RepositoryError, UsageError
from gitsession.store import hooklog
from gitsession.verbs import agenthooks
from gitsession.verbs.agenthooks import AgentStatus
from gitsession.verbs.agentsettings import commands, trust
from gitsession.verbs.agentsettings.agents import NAMES
from gitsession.verbs.agentsettings.commands import Command
from gitsession.verbs.agentsettings.plugin import text_of

# A ``codex`` that knows the hooks of its file, and trusts as many as another file says.
CODEX = """\
#!{python}
import json, pathlib, sys
worktree = pathlib.Path({worktree!r})
trusted = json.loads(pathlib.Path({trusted!r}).read_text())
file = worktree / ".codex" / "hooks.json"
hooks = [
    hook | {{"sourcePath": str(file), "enabled": trusted["enabled"]}}
    for groups in json.loads(file.read_text())["hooks"].values() for group in groups for hook in group["hooks"]
] + [{{"command": "somebody else's", "sourcePath": "/etc/codex/hooks.json", "trustStatus": "untrusted"}}]
for number, hook in enumerate(hooks):
    hook.setdefault("trustStatus", "trusted" if number < trusted["count"] else "modified")
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        print(json.dumps({{"method": "configWarning"}}), flush=True)
    elif request["method"] == "hooks/list":
        print(json.dumps({{"id": request["id"], "result": {{"data": [{{"hooks": hooks}}]}}}}), flush=True)
    else:
        print(json.dumps({{"id": request["id"], "result": {{}}}}), flush=True)
"""


@pytest.fixture(autouse=True)
def bin_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that is on PATH: git and a shell's few programs, no agent."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("git", "sh", "env"):
        (directory / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "true")
    monkeypatch.setattr(trust, "_PATIENCE", 60.0)
    return directory


def program(directory: Path, name: str, text: str = "#!/bin/sh\n") -> Path:
    path = directory / name
    path.write_text(text)
    path.chmod(0o755)
    return path


def hook_program(directory: Path) -> None:
    program(directory, "pinable-hook", f'#!/bin/sh\nexec {sys.executable} -I -m gitsession.agenthook "$@"\n')


def status_of(repo: GitRepo, agent: str) -> AgentStatus:
    home = Path.home() / ".pinable-agents"
    return {one.agent: one for one in agenthooks.status(repo.path, home)}[agent]


def settings(repo: GitRepo, path: str = ".claude/settings.local.json") -> Any:
    return json.loads(repo.at(path).read_bytes())


def test_all_four_are_enabled_run_and_disabled(repo: GitRepo) -> None:
    before = repo.snapshot(), repo.user_state()
    assert {status_of(repo, name).state for name in NAMES} == {"off"}
    done = agenthooks.enable(repo.path, NAMES)
    assert [(one.agent, one.state) for one in done] == [(name, "enabled") for name in NAMES]
    after = repo.snapshot(), repo.user_state()
    assert {status_of(repo, name).state for name in NAMES} == {"runs"}
    assert {one.state for one in agenthooks.enable(repo.path, NAMES)} == {"unchanged"}
    assert (repo.snapshot(), repo.user_state()) == after
    assert [one.state for one in agenthooks.disable(repo.path)] == ["disabled"] * 4
    assert (repo.snapshot(), repo.user_state()) == before
    assert [one.state for one in agenthooks.disable(repo.path)] == ["off"] * 4


def test_those_that_are_installed_are_enabled(repo: GitRepo, bin_directory: Path) -> None:
    with pytest.raises(GitSessionError, match="no agent is installed") as caught:
        agenthooks.enable(repo.path)
    assert "--agent" in str(caught.value.hint)
    program(bin_directory, "gemini")
    program(bin_directory, "opencode")
    assert [one.agent for one in agenthooks.enable(repo.path)] == ["gemini", "opencode"]
    assert not repo.at(".claude").exists()


def test_only_those_that_are_named(repo: GitRepo, tmp_path: Path) -> None:
    assert [one.agent for one in agenthooks.enable(repo.path, ["codex", "codex"])] == ["codex"]
    assert [one.state for one in agenthooks.disable(repo.path, ["gemini"])] == ["off"]
    assert status_of(repo, "codex").files == (".codex/hooks.json",)
    with pytest.raises(UsageError, match="no agent 'aider'"):
        agenthooks.enable(repo.path, ["aider"])
    with pytest.raises(NotARepository):
        agenthooks.enable(tmp_path, ["codex"])


def test_a_home_directory_that_is_a_repository(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(repo.path))
    with pytest.raises(RepositoryError, match="nothing is tracked"):
        agenthooks.enable(repo.path, ["codex"])
    assert agenthooks.disable(repo.path, ["codex"])[0].state == "off"


def test_a_file_that_is_refused_does_not_keep_the_others(repo: GitRepo) -> None:
    repo.write(".claude/settings.local.json", "{\n  // mine\n}")
    repo.write(".gemini/settings.json", "{\n  // mine\n}")
    claude, gemini = agenthooks.enable(repo.path, ["claude-code", "gemini"])
    assert (claude.state, gemini.state) == ("refused", "enabled")
    assert ".claude/settings.local.json, line 2, column 3: there is a comment" in str(claude.detail)
    assert status_of(repo, "claude-code").state == "off"  # of what is not ours it need not be told


# Shared ones


def test_a_shared_one_names_no_machine_and_needs_the_program(repo: GitRepo, bin_directory: Path) -> None:
    (done,) = agenthooks.enable(repo.path, ["claude-code"], shared=True)
    assert done.files == (".claude/settings.json",)
    assert any("pinable-hook is not on your PATH" in note for note in done.notes)
    text = repo.at(".claude/settings.json").read_text()
    assert "python" not in text
    assert str(Path(sys.prefix)) not in text
    found = status_of(repo, "claude-code")
    assert (found.state, found.detail) == ("broken", "pinable-hook is not on PATH")
    hook_program(bin_directory)
    assert status_of(repo, "claude-code").state == "runs"


def test_a_shared_one_takes_the_place_of_a_local_one(repo: GitRepo) -> None:
    agenthooks.enable(repo.path, ["claude-code"])
    agenthooks.enable(repo.path, ["claude-code"], shared=True)
    assert status_of(repo, "claude-code").files == (".claude/settings.json",)
    assert not repo.at(".claude/settings.local.json").exists()


def test_a_local_one_beside_a_shared_one_that_runs_is_not_needed(repo: GitRepo, bin_directory: Path) -> None:
    agenthooks.enable(repo.path, ["claude-code"], shared=True)
    (done,) = agenthooks.enable(repo.path, ["claude-code"])
    assert (done.state, done.files) == ("enabled", (".claude/settings.local.json",))  # the shared one does not run here
    hook_program(bin_directory)
    found = status_of(repo, "claude-code")
    assert (found.state, "twice" in str(found.detail)) == ("stale", True)
    agenthooks.disable(repo.path, ["claude-code"], shared=False)
    (done,) = agenthooks.enable(repo.path, ["claude-code"])
    assert (done.state, done.files) == ("unchanged", (".claude/settings.json",))
    assert status_of(repo, "claude-code").state == "runs"


@pytest.mark.parametrize("agent", ["codex", "gemini", "opencode"])
def test_where_there_is_one_file_it_is_either(repo: GitRepo, bin_directory: Path, agent: str) -> None:
    before = repo.snapshot()
    agenthooks.enable(repo.path, [agent])
    (done,) = agenthooks.enable(repo.path, [agent], shared=True)
    assert done.state == "enabled"
    assert sys.executable not in repo.at(done.files[0]).read_text()
    assert status_of(repo, agent).state == "broken"
    hook_program(bin_directory)
    assert status_of(repo, agent).state == "runs"
    agenthooks.disable(repo.path, [agent], local=False)
    assert repo.snapshot() == before


@pytest.mark.parametrize("agent", ["codex", "gemini", "opencode"])
def test_a_committed_one_that_runs_is_left_alone(repo: GitRepo, bin_directory: Path, agent: str) -> None:
    hook_program(bin_directory)
    agenthooks.enable(repo.path, [agent], shared=True)
    before = repo.snapshot()
    (done,) = agenthooks.enable(repo.path, [agent])
    assert (done.state, "run here" in done.notes[0]) == ("unchanged", True)
    assert repo.snapshot() == before


# What a person is told


def test_git_might_see_it(repo: GitRepo) -> None:
    def notes() -> str:
        return "\n".join(agenthooks.enable(repo.path, ["claude-code"])[0].notes)

    assert ".claude/settings.local.json is not ignored" in notes()
    repo.commit("By accident")
    assert "is tracked by git" in notes()
    repo.git("rm", "--quiet", "--cached", ".claude/settings.local.json")
    repo.write(".git/info/exclude", ".claude/\n")
    assert "git" not in notes()


def test_the_file_that_hides_it_is_named_where_it_is(repo: GitRepo, tmp_path: Path) -> None:
    (done,) = agenthooks.enable(repo.path, ["claude-code"])
    assert any("a line in .git/info/exclude hides it" in note for note in done.notes)
    other = tmp_path / "other"
    repo.git("worktree", "add", "--quiet", other)
    (done,) = agenthooks.enable(other, ["claude-code"])
    assert any(f"a line in {repo.path}/.git/info/exclude hides it" in note for note in done.notes)


def test_from_further_down(repo: GitRepo) -> None:
    (done,) = agenthooks.enable(repo.at("src"), ["claude-code"])
    assert repo.at(".claude/settings.local.json").exists()
    assert f"Claude Code reads it when it is started in {repo.path}, not further down" in done.notes
    (done,) = agenthooks.enable(repo.at("src"), ["codex"])
    assert not any("further down" in note for note in done.notes)


def test_a_directory_that_is_a_link(repo: GitRepo) -> None:
    repo.at("agents").mkdir()
    repo.at(".claude").symlink_to("agents")
    (done,) = agenthooks.enable(repo.path, ["claude-code"])
    assert done.state == "enabled"
    assert repo.at("agents/settings.local.json").exists()


def test_an_agent_that_is_not_installed_is_told_of(repo: GitRepo) -> None:
    (done,) = agenthooks.enable(repo.path, ["opencode"])
    assert done.notes[0] == "opencode is not installed here"


# Status


def edited(repo: GitRepo, old: str, new: str, path: str = ".claude/settings.local.json") -> None:
    text = repo.at(path).read_text()
    assert old in text
    repo.write(path, text.replace(old, new))


@pytest.mark.parametrize("shared", [False, True])
def test_a_plugin_that_somebody_changed(repo: GitRepo, bin_directory: Path, shared: bool) -> None:
    hook_program(bin_directory)
    place = repo.at(".opencode/plugins/gitsession.js")
    agenthooks.enable(repo.path, ["opencode"], shared=shared)
    place.write_text(place.read_text() + "// mine\n")
    words = ".opencode/plugins/gitsession.js: somebody changed it"
    advice = "take the change out, or move the file away"
    found = status_of(repo, "opencode")
    again = "pinable-agents enable --shared" if shared else "pinable-agents enable"
    assert (found.state, found.detail) == ("stale", f"{words}: {advice}, then {again}")
    for done in (agenthooks.enable(repo.path, ["opencode"], shared=shared), agenthooks.disable(repo.path)):
        assert [(one.state, one.detail) for one in done if one.agent == "opencode"] == [
            ("refused", f"{words} ({advice})")
        ]
    place.rename(repo.at("away.js"))
    assert agenthooks.enable(repo.path, ["opencode"], shared=shared)[0].state == "enabled"
    assert status_of(repo, "opencode").state == "runs"


def test_a_python_that_is_gone(repo: GitRepo) -> None:
    agenthooks.enable(repo.path, NAMES)
    python = str(Path(sys.executable).with_name("python3"))
    edited(repo, python, "/gone/python")
    repo.write(".opencode/plugins/gitsession.js", text_of(Command("opencode", "/gone/python")))
    for agent in ("claude-code", "opencode"):
        found = status_of(repo, agent)
        assert found.state == "stale"
        assert "the Python it was enabled with is gone (/gone/python)" in str(found.detail)
    assert agenthooks.enable(repo.path, ["claude-code"])[0].state == "enabled"
    assert status_of(repo, "claude-code").state == "runs"


def test_what_another_version_wrote(repo: GitRepo) -> None:
    agenthooks.enable(repo.path, ["claude-code"])
    edited(repo, '"timeout": 30', '"timeout": 5')
    found = status_of(repo, "claude-code")
    assert (found.state, "not what this version writes" in str(found.detail)) == ("stale", True)


@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini"])
@pytest.mark.parametrize("shared", [False, True])
def test_what_an_older_version_wrote_is_brought_up_to_date(
    repo: GitRepo, bin_directory: Path, agent: str, shared: bool
) -> None:
    hook_program(bin_directory)
    before = repo.snapshot()
    (done,) = agenthooks.enable(repo.path, [agent], shared=shared)
    after = repo.snapshot()
    new = commands.shared(agent) if shared else commands.local(agent)
    guarded = f"sh -c 'command -v pinable-hook >/dev/null 2>&1 || exit 0; exec pinable-hook {agent}'"
    for act in ("enable", "disable"):
        edited(repo, new.line, guarded if shared else " ".join(new.words), done.files[0])
        found = status_of(repo, agent)
        assert (found.state, "brings it up to date" in str(found.detail)) == ("stale", True)
        if act == "enable":
            assert agenthooks.enable(repo.path, [agent], shared=shared)[0].state == "enabled"
            assert repo.snapshot() == after
        else:
            assert agenthooks.disable(repo.path, [agent])[0].state == "disabled"
            assert repo.snapshot() == before


def test_a_hook_that_does_not_answer(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = program(tmp_path, "python3", "#!/bin/sh\necho 'No module named gitsession' >&2; exit 1\n")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(other))
        agenthooks.enable(repo.path, ["claude-code"])
    found = status_of(repo, "claude-code")
    assert (found.state, found.detail) == ("broken", "it does not answer: No module named gitsession")


@pytest.mark.parametrize("agent", ["claude-code", "opencode"])
def test_a_program_that_a_repository_brings_along_is_not_run(repo: GitRepo, tmp_path: Path, agent: str) -> None:
    trap = program(repo.path, "python3", f"#!/bin/sh\ntouch {tmp_path}/trapped\n")
    (done,) = agenthooks.enable(repo.path, [agent])
    if agent == "opencode":
        repo.write(done.files[0], text_of(Command(agent, str(trap))))
    else:
        edited(repo, str(Path(sys.executable).with_name("python3")), str(trap))
    found = status_of(repo, agent)
    assert (found.state, "another installation" in str(found.detail)) == ("stale", True)
    assert not (tmp_path / "trapped").exists()


def test_a_file_that_cannot_be_read_any_more(repo: GitRepo) -> None:
    agenthooks.enable(repo.path, ["claude-code"])
    edited(repo, '"hooks": {', '"hooks": {,')
    found = status_of(repo, "claude-code")
    assert (found.state, "line 2" in str(found.detail)) == ("unreadable", True)


def test_the_last_failure_is_told(repo: GitRepo, pinable_home: Path) -> None:
    pinable_home.mkdir()
    for problem in ("first", "last"):
        hooklog.note(pinable_home, "claude-code", "Stop", problem)
    agenthooks.enable(repo.path, ["claude-code", "codex"])
    failure = status_of(repo, "claude-code").failure
    assert failure is not None
    assert (failure["event"], failure["problem"]) == ("Stop", "last")
    assert status_of(repo, "codex").failure is None


@pytest.mark.parametrize(
    ("agent", "path", "settings"),
    [
        ("claude-code", ".claude/settings.local.json", {"disableAllHooks": True}),
        ("claude-code", ".claude/settings.json", {"disableAllHooks": True}),
        ("gemini", ".gemini/settings.json", {"hooksConfig": {"enabled": False}}),
        ("gemini", ".gemini/settings.json", {"hooksConfig": {"disabled": [3, commands.local("gemini").line]}}),
    ],
)
def test_hooks_that_settings_switch_off(repo: GitRepo, agent: str, path: str, settings: dict[str, Any]) -> None:
    repo.write(path, json.dumps(settings))
    agenthooks.enable(repo.path, [agent])
    found = status_of(repo, agent)
    assert (found.state, str(found.detail).startswith(f"{path}: ")) == ("skipped", True)


def test_settings_that_switch_nothing_off(repo: GitRepo) -> None:
    repo.write(".claude/settings.json", '{"disableAllHooks": true,}')  # which Claude Code does not read
    repo.write(
        ".gemini/settings.json", '{"hooksConfig": {"enabled": true, "disabled": ["x"]}, "disableAllHooks": true}'
    )
    agenthooks.enable(repo.path, ["claude-code", "gemini"])
    assert {status_of(repo, agent).state for agent in ("claude-code", "gemini")} == {"runs"}


def test_settings_of_the_person_switch_hooks_off(repo: GitRepo) -> None:
    place = Path.home() / ".claude" / "settings.json"
    place.parent.mkdir()
    place.write_text('{"disableAllHooks": true}')
    agenthooks.enable(repo.path, ["claude-code"])
    found = status_of(repo, "claude-code")
    assert (found.state, found.detail) == ("skipped", f'{place}: "disableAllHooks" is true')


@pytest.mark.parametrize("place", [".", "sessions", "owners", "agents/claude-code"])
def test_a_home_in_which_nothing_can_be_made(repo: GitRepo, pinable_home: Path, place: str) -> None:
    agenthooks.enable(repo.path, ["claude-code"])
    hindrance = pinable_home / place
    hindrance.parent.mkdir(parents=True, exist_ok=True)
    hindrance.touch()
    found = status_of(repo, "claude-code")
    detail = f"no session can be written: {hindrance} is not writable, or no directory"
    assert (found.state, found.detail) == ("broken", detail)
    hindrance.unlink()
    assert status_of(repo, "claude-code").state == "runs"


# Trust


def test_codex_is_asked_whether_it_trusts_them(repo: GitRepo, bin_directory: Path, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted"
    agenthooks.enable(repo.path, ["codex"])
    text = CODEX.format(python=sys.executable, worktree=str(repo.path), trusted=str(trusted))
    program(bin_directory, "codex", text)
    found = status_of(repo, "codex")
    assert (found.state, found.trusted) == ("skipped", False)
    assert "has not been told to trust anything" in str(found.detail)
    (Path.home() / ".codex").mkdir()
    (Path.home() / ".codex" / "config.toml").touch()
    number = len(settings(repo, ".codex/hooks.json")["hooks"])
    trusted.write_text(json.dumps({"enabled": True, "count": number - 2}))
    found = status_of(repo, "codex")
    assert (found.state, f"skips 2 of {number} hooks" in str(found.detail)) == ("skipped", True)
    trusted.write_text(json.dumps({"enabled": False, "count": number}))
    assert "switched off" in str(status_of(repo, "codex").detail)
    trusted.write_text(json.dumps({"enabled": True, "count": number}))
    found = status_of(repo, "codex")
    assert (found.state, found.trusted, found.detail) == ("runs", True, None)


@pytest.mark.parametrize("words", ["exit 1", "echo nonsense", 'echo "[1]"', 'echo \'{"id": 1, "error": {}}\'', "cat"])
def test_a_codex_that_does_not_tell(repo: GitRepo, bin_directory: Path, words: str) -> None:
    (bin_directory / "cat").symlink_to(str(shutil.which("cat")))
    program(bin_directory, "codex", f"#!/bin/sh\n{words}\n")
    (Path.home() / ".codex").mkdir()
    (Path.home() / ".codex" / "config.toml").touch()
    agenthooks.enable(repo.path, ["codex"])
    found = status_of(repo, "codex")
    assert (found.state, found.trusted) == ("runs", None)
    assert "does not say whether it trusts" in str(found.detail)


def test_codex_does_not_load_hooks_of_this_folder(repo: GitRepo, bin_directory: Path) -> None:
    answer = json.dumps({"id": 1, "result": {"data": [{"hooks": []}]}})
    program(bin_directory, "codex", f"#!/bin/sh\nread -r _; read -r _; read -r _\necho '{answer}'\n")
    (Path.home() / ".codex").mkdir()
    (Path.home() / ".codex" / "config.toml").touch()
    agenthooks.enable(repo.path, ["codex"])
    found = status_of(repo, "codex")
    assert (found.state, "does not load hooks of this folder" in str(found.detail)) == ("skipped", True)


@pytest.mark.parametrize(
    ("rules", "trusted"),
    [
        ({}, False),
        ({"{repo}": "TRUST_FOLDER"}, True),
        ({"{repo}": "DO_NOT_TRUST"}, False),
        ({"{parent}": "TRUST_FOLDER"}, True),
        ({"{repo}/src": "TRUST_PARENT"}, True),
        ({"{parent}": "TRUST_FOLDER", "{repo}": "DO_NOT_TRUST"}, False),
        ({"{parent}": "DO_NOT_TRUST", "{repo}": "TRUST_FOLDER"}, True),
        ({"{repo}/src": "TRUST_FOLDER"}, False),
    ],
)
def test_gemini_trusts_folders(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, rules: dict[str, str], trusted: bool
) -> None:
    monkeypatch.delenv("GEMINI_CLI_TRUST_WORKSPACE")
    said = {path.format(repo=repo.path, parent=repo.path.parent): level for path, level in rules.items()}
    place = Path.home() / ".gemini" / "trustedFolders.json"
    place.parent.mkdir()
    place.write_text("// rules\n" + json.dumps(said))
    agenthooks.enable(repo.path, ["gemini"])
    found = status_of(repo, "gemini")
    assert (found.trusted, found.state) == (trusted, "runs" if trusted else "skipped")
    assert (found.detail is None) is trusted


def test_gemini_is_told_by_its_environment(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    agenthooks.enable(repo.path, ["gemini"])
    assert status_of(repo, "gemini").trusted is True
    monkeypatch.setenv("GEMINI_RESTRICTED_MODE", "true")
    found = status_of(repo, "gemini")
    assert (found.state, found.detail) == ("skipped", "GEMINI_RESTRICTED_MODE is true")
    monkeypatch.delenv("GEMINI_RESTRICTED_MODE")
    monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "false")
    assert status_of(repo, "gemini").state == "skipped"


def test_gemini_that_is_not_to_ask_for_trust(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_CLI_TRUST_WORKSPACE")
    switch = '{"security": {"folderTrust": {"enabled": false}}}'
    repo.write(".gemini/settings.json", switch)
    agenthooks.enable(repo.path, ["gemini"])
    found = status_of(repo, "gemini")
    assert (found.state, "folder that you trust" in str(found.detail)) == ("skipped", True)  # a folder has no say
    own = Path.home() / ".gemini" / "settings.json"
    own.parent.mkdir()
    own.write_text(switch)
    assert status_of(repo, "gemini").state == "runs"


def test_the_answer_is_the_hook_s() -> None:
    assert agenthooks.ANSWER == agenthook.ANSWER


def test_where_tells_without_calling(repo: GitRepo) -> None:
    agenthooks.enable(repo.path, ["codex"])
    assert agenthooks.where(repo.path) == {name: ((".codex/hooks.json",) if name == "codex" else ()) for name in NAMES}
    repo.write(".codex/hooks.json", "gitsession.agenthook")
    assert agenthooks.where(repo.path)["codex"] == ()
