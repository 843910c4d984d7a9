"""The reference says what the commands say."""

from __future__ import annotations

import re
import shlex

import reference
from click import Argument


def test_the_reference_is_up_to_date() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.text(), "run: python tests/reference.py"


def test_every_command_of_the_readme_is_in_it() -> None:
    named = set(re.findall(r"^## (.*)$", reference.text(), re.MULTILINE))
    readme = (reference.PAGE.parent.parent / "README.md").read_text(encoding="utf-8")
    for command in re.findall(r"^\$ (pinable-agents session [a-z]+)", readme, re.MULTILINE):
        assert command in named


def test_what_takes_words_shows_an_example_and_examples_are_what_the_command_takes() -> None:
    for context in reference.commands():
        examples = re.findall(rf"^ +({context.command_path} .*)$", context.command.get_help(context), re.MULTILINE)
        takes_words = any(isinstance(parameter, Argument) for parameter in context.command.params)
        assert examples or not takes_words, context.command_path
        for example in examples:
            given = shlex.split(re.split(r" [|>] ", example)[0])[len(context.command_path.split()) :]
            context.command.make_context(context.info_name, given, context.parent)
