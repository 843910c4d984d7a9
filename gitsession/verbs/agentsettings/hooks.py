"""Our hooks in a settings file of the form that Claude Code, Codex and Gemini CLI have::

    {"hooks": {"<event>": [{"matcher": "<tools>", "hooks": [{"type": "command", "command": "…", "timeout": 15}]}]}}

What else is in the file is not ours, and stays.  A group of ours goes to the end of each wanted event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitsession.agentevents import WANTED
from gitsession.verbs.agentsettings import jsontext
from gitsession.verbs.agentsettings.agents import Agent
from gitsession.verbs.agentsettings.commands import Command, known_again
from gitsession.verbs.agentsettings.form import Inserted, Keys
from gitsession.verbs.agentsettings.jsontext import Edit, Item, Node, Problem

KEY: Final = "hooks"


@dataclass(frozen=True)
class _Found:
    """A hook of ours: the number of its group in its event, its own number there, and the whole group."""

    event: str
    group: int
    number: int
    command: Command
    value: Mapping[str, Any]


class Hooks:
    """A ``Form``."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._events = {one.event for one in WANTED[agent.name]}

    def commands(self, text: str) -> list[Command]:
        return [found.command for found in self._find(text)]

    def is_current(self, text: str, command: Command) -> bool:
        there = [(one.event, one.value) for one in self._find(text)]
        wanted = list(self._groups(command).items())
        return len(there) == len(wanted) and all(one in there for one in wanted)

    def insert(self, text: str, command: Command) -> Inserted:
        wanted = self._groups(command)
        if not text.strip():
            new = jsontext.text_of({KEY: {event: [group] for event, group in wanted.items()}})
            return Inserted(new, (Edit(0, len(new), text),), ((KEY,), *((KEY, event) for event in wanted)))
        root, hooks = self._read(text)
        there = {event: jsontext.member(text, hooks, event) if hooks else None for event in wanted}
        new_events = {event: [wanted[event]] for event, item in there.items() if item is None}
        edits = [
            edit
            for event, item in there.items()
            if item is not None
            for edit in jsontext.append(text, root, item.node, [(None, wanted[event])])
        ]
        if hooks is None:
            edits += jsontext.append(text, root, root, [(KEY, new_events)])
        elif new_events:
            edits += jsontext.append(text, root, hooks, list(new_events.items()))
        made = (*([(KEY,)] if hooks is None else []), *((KEY, event) for event in new_events))
        return Inserted(jsontext.replaced(text, edits), tuple(jsontext.reverse(text, edits)), made)

    def take_out(self, text: str, made: Collection[Keys] | None) -> str:
        """A comment that somebody put into what was made keeps it."""
        root, hooks = self._read(text)
        if hooks is None:
            return text
        edits: list[Edit] = []
        empty = set()
        for number, event in enumerate(hooks.items):
            doomed, cuts = self._cuts(text, event)
            alone = len(doomed) == len(event.node.items)
            if doomed and alone and _may_go((KEY, str(event.key)), made) and jsontext.is_bare_member(text, event):
                empty.add(number)
            else:
                edits += cuts + (jsontext.remove(text, event.node, doomed) if doomed else [])
        if not empty:
            return jsontext.replaced(text, edits)
        number = next(number for number, item in enumerate(root.items) if item.key == KEY)
        bare = jsontext.is_bare_member(text, root.items[number])
        if len(empty) == len(hooks.items) and _may_go((KEY,), made) and bare:
            return jsontext.replaced(text, jsontext.remove(text, root, {number}))
        return jsontext.replaced(text, [*edits, *jsontext.remove(text, hooks, empty)])

    def _groups(self, command: Command) -> dict[str, dict[str, Any]]:
        """What is to stand at each event."""
        unit = 1000 if self._agent.milliseconds else 1
        wanted = {}
        for one in WANTED[self._agent.name]:
            hook = {"type": "command", "command": command.line, "timeout": one.timeout * unit}
            matcher = {} if one.matcher is None else {"matcher": one.matcher}
            wanted[one.event] = {**matcher, KEY: [hook]}
        return wanted

    def _find(self, text: str) -> list[_Found]:
        if not text.strip():
            return []
        _, hooks = self._read(text)
        return [found for event in (hooks.items if hooks else ()) for found in self._of_event(event)]

    def _cuts(self, text: str, event: Item) -> tuple[set[int], list[Edit]]:
        """The groups of an event that are ours alone, and what takes our hooks out of the others."""
        ours: dict[int, set[int]] = {}
        for found in self._of_event(event):
            ours.setdefault(found.group, set()).add(found.number)
        doomed, cuts = set(), []
        for group, numbers in ours.items():
            hooks = jsontext.member(text, event.node.items[group].node, KEY)
            assert hooks is not None  # noqa: S101 - ours were found there
            if len(numbers) == len(hooks.node.items):
                doomed.add(group)
            else:
                cuts += jsontext.remove(text, hooks.node, numbers)
        return doomed, cuts

    def _of_event(self, event: Item) -> Iterator[_Found]:
        if not isinstance(event.node.value, list):
            return
        for group, value in enumerate(event.node.value):
            hooks = value.get(KEY) if isinstance(value, dict) else None
            for number, hook in enumerate(hooks if isinstance(hooks, list) else ()):
                command = known_again(self._agent.name, hook.get("command")) if isinstance(hook, dict) else None
                if command is not None:
                    yield _Found(str(event.key), group, number, command, value)

    def _read(self, text: str) -> tuple[Node, Node | None]:
        """The whole, and its ``hooks`` if it has any; ``Problem`` where the file does not have its form."""
        root = jsontext.parse(text, comments=self._agent.comments)
        if not isinstance(root.value, dict):
            raise Problem(text, root.start, "it is not an object")
        hooks = jsontext.member(text, root, KEY)
        if hooks is None:
            return root, None
        if not isinstance(hooks.node.value, dict):
            raise Problem(text, hooks.node.start, f'"{KEY}" is not an object')
        for event in hooks.node.items:
            jsontext.member(text, hooks.node, str(event.key))
            if event.key in self._events and not isinstance(event.node.value, list):
                raise Problem(text, event.node.start, f'"{event.key}" is not an array')
        return root, hooks.node


def _may_go(keys: Keys, made: Collection[Keys] | None) -> bool:
    return made is None or keys in made
