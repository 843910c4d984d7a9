"""What switches all hooks off is found on whatever level it stands, and a stronger level overrules a weaker one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gitsession.verbs.agentsettings import levels
from gitsession.verbs.agentsettings.levels import gemini_wants_trust, switched_off

OFF, ON = {"disableAllHooks": True}, {"disableAllHooks": False}
NO, YES = {"hooksConfig": {"enabled": False}}, {"hooksConfig": {"enabled": True}}


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the settings of the machine, all of them."""
    place = tmp_path / "etc"
    for name in ("_MANAGED", "_SYSTEM"):
        monkeypatch.setattr(levels, name, {sys.platform: str(place)})
    return place


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return tmp_path / "tree"


def write(place: Path, settings: Any) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(settings if isinstance(settings, str) else json.dumps(settings))


def claude_places(tree: Path, machine: Path) -> list[Path]:
    """The weakest first."""
    return [
        Path.home() / ".claude" / "settings.json",
        tree / ".claude" / "settings.json",
        tree / ".claude" / "settings.local.json",
        machine / "managed-settings.json",
        machine / "managed-settings.d" / "10.json",
    ]


def gemini_places(tree: Path, machine: Path) -> list[Path]:
    return [
        machine / "system-defaults.json",
        Path.home() / ".gemini" / "settings.json",
        tree / ".gemini" / "settings.json",
        machine / "settings.json",
    ]


@pytest.mark.parametrize("level", range(5))
def test_claude_code_reads_five(tree: Path, machine: Path, level: int) -> None:
    places = claude_places(tree, machine)
    assert switched_off("claude-code", tree, ()) is None
    write(places[level], OFF)
    name = places[level].relative_to(tree) if level in (1, 2) else places[level]
    assert switched_off("claude-code", tree, ()) == f'{name}: "disableAllHooks" is true'
    for stronger in places[level + 1 :]:
        write(stronger, ON)
        assert switched_off("claude-code", tree, ()) is None
        stronger.unlink()
    for weaker in places[:level]:
        write(weaker, ON)
    assert switched_off("claude-code", tree, ()) is not None


@pytest.mark.parametrize("level", range(4))
def test_gemini_cli_reads_four(tree: Path, machine: Path, level: int) -> None:
    places = gemini_places(tree, machine)
    assert switched_off("gemini", tree, ()) is None
    write(places[level], NO)
    name = places[level].relative_to(tree) if level == 2 else places[level]
    assert switched_off("gemini", tree, ()) == f'{name}: "hooksConfig.enabled" is false'
    for stronger in places[level + 1 :]:
        write(stronger, YES)
        assert switched_off("gemini", tree, ()) is None
        stronger.unlink()
    for weaker in places[:level]:
        write(weaker, YES)
    assert switched_off("gemini", tree, ()) is not None


@pytest.mark.parametrize("level", range(4))
def test_a_list_of_gemini_cli_counts_on_all_levels(tree: Path, machine: Path, level: int) -> None:
    places = gemini_places(tree, machine)
    for place in places:
        write(place, {"hooksConfig": {"disabled": ["another", 3]}})
    assert switched_off("gemini", tree, {"ours"}) is None
    write(places[level], {"hooksConfig": {"disabled": ["another", "ours"]}})
    assert str(switched_off("gemini", tree, {"ours"})).endswith('they are in "hooksConfig.disabled"')


def test_only_what_is_managed_allows_no_other_hooks(tree: Path, machine: Path) -> None:
    only = {"allowManagedHooksOnly": True}
    user, *_, managed, _ = claude_places(tree, machine)
    write(user, only)
    assert switched_off("claude-code", tree, ()) is None
    write(managed, only)
    assert switched_off("claude-code", tree, ()) == f'{managed}: "allowManagedHooksOnly" is true'


def test_where_variables_say_that_they_are(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, place, settings in (
        ("CLAUDE_CONFIG_DIR", tmp_path / "c", OFF),
        ("GEMINI_CLI_HOME", tmp_path / "g", NO),
        ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", tmp_path / "s.json", NO),
        ("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", tmp_path / "d.json", NO),
    ):
        agent = "claude-code" if variable.startswith("CLAUDE") else "gemini"
        file = {"c": place / "settings.json", "g": place / ".gemini" / "settings.json"}.get(place.name, place)
        write(file, settings)
        assert switched_off(agent, tree, ()) is None
        with monkeypatch.context() as patch:
            patch.setenv(variable, str(place))
            assert str(switched_off(agent, tree, ())).startswith(f"{file}: ")


@pytest.mark.parametrize(
    "text",
    ['{"disableAllHooks": true,}', "// mine\n" + json.dumps(OFF), "[]", "null", '{"disableAllHooks": "true"}', ""],
)
def test_what_says_nothing(tree: Path, text: str) -> None:
    write(Path.home() / ".claude" / "settings.json", text)
    assert switched_off("claude-code", tree, ()) is None


def test_what_cannot_be_read_says_nothing(tree: Path) -> None:
    (Path.home() / ".claude" / "settings.json").mkdir(parents=True)
    write(Path.home() / ".gemini" / "settings.json", "// mine\n" + json.dumps(NO))
    assert switched_off("claude-code", tree, ()) is None
    assert switched_off("gemini", tree, ()) is not None  # which reads a file with comments
    (Path.home() / ".gemini" / "settings.json").write_bytes(b'{"hooksConfig": {"enabled": false}, "a": "\xff"}')
    assert switched_off("gemini", tree, ()) is None


def test_the_others_have_no_such_switch(tree: Path) -> None:
    write(tree / ".codex" / "hooks.json", OFF | NO)
    assert {switched_off(agent, tree, ()) for agent in ("codex", "opencode")} == {None}


def test_a_folder_has_no_say_in_its_own_trust(tree: Path, machine: Path) -> None:
    defaults, user, project, system = gemini_places(tree, machine)

    def say(place: Path, enabled: bool) -> None:
        write(place, {"security": {"folderTrust": {"enabled": enabled}}})

    assert gemini_wants_trust()
    say(project, False)
    assert gemini_wants_trust()
    say(defaults, False)
    assert not gemini_wants_trust()
    say(user, True)
    assert gemini_wants_trust()
    say(system, False)
    assert not gemini_wants_trust()
