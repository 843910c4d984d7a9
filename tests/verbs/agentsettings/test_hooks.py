"""Our hooks go into a settings file and out of it, and nothing else in it changes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonc import PROPERTY, comments_of, texts, tokens, value_of

from gitsession.agentevents import WANTED
from gitsession.verbs.agentsettings import jsontext
from gitsession.verbs.agentsettings.agents import AGENTS, Agent, named
from gitsession.verbs.agentsettings.commands import Command
from gitsession.verbs.agentsettings.form import Keys
from gitsession.verbs.agentsettings.hooks import Hooks
from gitsession.verbs.agentsettings.jsontext import Node, Problem

SETTINGS = [agent for agent in AGENTS if not agent.plugin]
CLAUDE = named("claude-code")
HERE = Command("claude-code", "/opt/it's here/$HOME/python")


def ours(agent: Agent, command: Command) -> dict[str, list[dict[str, Any]]]:
    """What has to be in the file, said once more."""
    wanted: dict[str, list[dict[str, Any]]] = {}
    for one in WANTED[agent.name]:
        timeout = one.timeout * (1000 if agent.name == "gemini" else 1)
        group: dict[str, Any] = {} if one.matcher is None else {"matcher": one.matcher}
        group["hooks"] = [{"type": "command", "command": command.line, "timeout": timeout}]
        wanted[one.event] = [group]
    return wanted


def with_ours(document: dict[str, Any], agent: Agent, command: Command) -> dict[str, Any]:
    document = copy.deepcopy(document)
    hooks = document.setdefault("hooks", {})
    for event, groups in ours(agent, command).items():
        hooks.setdefault(event, []).extend(groups)
    return document


@PROPERTY
@given(st.data(), st.sampled_from(SETTINGS))
def test_in_and_out_of_any_file(data: st.DataObject, agent: Agent) -> None:
    text = data.draw(texts(agent.comments))
    form, command = Hooks(agent), Command(agent.name, "/opt/it's here/$HOME/python")
    assert form.commands(text) == []
    assert not form.is_current(text, command)
    done = form.insert(text, command)
    assert value_of(done.text) == with_ours(value_of(text), agent, command)
    assert comments_of(done.text) == comments_of(text)
    assert form.is_current(done.text, command)
    assert form.commands(done.text) == [command] * len(WANTED[agent.name])
    assert jsontext.replaced(done.text, done.undo) == text
    assert all(not old.strip() for _, _, old in done.undo)
    assert tokens(form.take_out(done.text, done.made)) == tokens(text)


@PROPERTY
@given(st.data(), st.sampled_from(SETTINGS))
def test_out_of_a_file_of_which_nobody_knows_what_it_was(data: st.DataObject, agent: Agent) -> None:
    text = data.draw(texts(agent.comments))
    form = Hooks(agent)
    back = form.take_out(form.insert(text, Command(agent.name, "/python")).text, None)
    assert form.commands(back) == []
    assert without_the_empty(value_of(back)) == without_the_empty(value_of(text))
    assert comments_of(back) == comments_of(text)


@PROPERTY
@given(st.data(), st.sampled_from(SETTINGS))
def test_what_somebody_added_to_ours_stays(data: st.DataObject, agent: Agent) -> None:
    text = data.draw(texts(agent.comments))
    form, command = Hooks(agent), Command(agent.name, "/python")
    done = form.insert(text, command)
    mine = {"type": "command", "command": "mine"}
    edited = done.text
    for event in ours(agent, command):
        root = jsontext.parse(edited, comments=True)
        groups = at(edited, root, "hooks", event)
        hooks = at(edited, groups.items[-1].node, "hooks")
        edited = jsontext.replaced(edited, jsontext.append(edited, root, hooks, [(None, mine)]))
    expected = with_ours(value_of(text), agent, command)
    for event in ours(agent, command):
        expected["hooks"][event][-1]["hooks"] = [mine]
    assert not form.is_current(edited, command)
    assert value_of(form.take_out(edited, done.made)) == expected
    assert comments_of(form.take_out(edited, done.made)) == comments_of(text)


def at(text: str, node: Node, *keys: str) -> Node:
    for key in keys:
        item = jsontext.member(text, node, key)
        assert item is not None
        node = item.node
    return node


def without_the_empty(document: dict[str, Any]) -> dict[str, Any]:
    """Without events that have no groups, and ``hooks`` without events."""
    hooks = {event: groups for event, groups in document.pop("hooks", {}).items() if groups}
    return document | ({"hooks": hooks} if hooks else {})


def test_a_new_file() -> None:
    form = Hooks(CLAUDE)
    done = form.insert("", HERE)
    assert done.text == json.dumps({"hooks": ours(CLAUDE, HERE)}, indent=2) + "\n"
    assert jsontext.replaced(done.text, done.undo) == ""
    assert form.take_out(done.text, done.made) == "{}\n"


def test_what_it_looks_like_in_a_file_of_the_usual_form() -> None:
    text = '{\n  "model": "opus",\n  "hooks": {\n    "Stop": [\n      {"hooks": []}\n    ]\n  }\n}\n'
    lines = Hooks(CLAUDE).insert(text, HERE).text.splitlines()
    assert lines[:10] == [
        "{",
        '  "model": "opus",',
        '  "hooks": {',
        '    "Stop": [',
        '      {"hooks": []},',
        "      {",
        '        "hooks": [',
        "          {",
        '            "type": "command",',
        f'            "command": {json.dumps(HERE.line)},',
    ]
    assert lines[-4:] == ["      }", "    ]", "  }", "}"]


def test_other_tools_hooks_are_not_ours() -> None:
    others = ["python -m gitsession.agenthook claude-code", "/p -I -m gitsession.agenthook codex", "x; pinable-hook", 7]
    document = {"hooks": {"Stop": [{"hooks": [{"command": other} for other in others]}, 3, {"hooks": 3}, {}]}}
    text = json.dumps(document)
    assert Hooks(CLAUDE).commands(text) == []
    assert Hooks(CLAUDE).take_out(text, None) == text


def test_ours_of_another_installation_and_of_another_version_are_found() -> None:
    old = Command("claude-code", "/gone/python")
    shared = Command("claude-code", None)
    document = {"hooks": {"Gone": [{"hooks": [{"command": old.line}, {"command": shared.line}]}]}}
    form = Hooks(CLAUDE)
    assert form.commands(json.dumps(document)) == [old, shared]
    assert not form.is_current(json.dumps(document), old)
    assert form.take_out(json.dumps(document), None) == "{}"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("[]", 1, "it is not an object"),
        ('{\n"hooks": []}', 2, '"hooks" is not an object'),
        ('{"hooks": {\n\n"Stop": {}}}', 3, '"Stop" is not an array'),
        ('{"hooks": {},\n"hooks": {}}', 2, "twice"),
        ('{"hooks": {"Stop": [],\n"Stop": []}}', 2, "twice"),
        ("// mine\n{}", 1, "comment"),
        ("/* nothing else */", 1, "comment"),
    ],
)
def test_a_file_of_another_form_is_refused(text: str, line: int, why: str) -> None:
    with pytest.raises(Problem, match=why) as caught:
        Hooks(CLAUDE).insert(text, HERE)
    assert caught.value.line == line


def test_events_that_are_not_ours_may_be_anything() -> None:
    text = '{"hooks": {"enabled": true, "disabled": ["x"], "Later": {"hooks": 1}}}'
    done = Hooks(CLAUDE).insert(text, HERE)
    assert value_of(done.text) == with_ours(json.loads(text), CLAUDE, HERE)


def test_another_key_may_stand_twice() -> None:
    text = '{"a": 1, "a": 2, "hooks": {"Later": 1, "Stop": []}}'
    done = Hooks(CLAUDE).insert(text, HERE)
    assert done.text.startswith('{"a": 1, "a": 2, ')
    assert jsontext.replaced(done.text, done.undo) == text


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (None, "{}"),
        ((), '{"hooks": {}}'),
        ((("hooks",),), "{}"),
    ],
)
def test_what_is_left_of_what_held_ours(left: tuple[Keys, ...] | None, expected: str) -> None:
    """``hooks`` stays if it was there before, and an event if it was."""
    text = json.dumps({"hooks": ours(CLAUDE, HERE)})
    made = None if left is None else (*left, *(("hooks", event) for event in ours(CLAUDE, HERE)))
    assert Hooks(CLAUDE).take_out(text, made) == expected
