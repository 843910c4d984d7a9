"""The reference says what the commands say."""

from __future__ import annotations

import re

import reference


def test_the_reference_is_up_to_date() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.text(), "run: python tests/reference.py"


def test_every_command_of_the_readme_is_in_it() -> None:
    named = set(re.findall(r"^## (.*)$", reference.text(), re.MULTILINE))
    readme = (reference.PAGE.parent.parent / "README.md").read_text(encoding="utf-8")
    for command in re.findall(r"^\$ (pinable-agents session [a-z]+)", readme, re.MULTILINE):
        assert command in named
