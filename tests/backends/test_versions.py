"""Which version of a program is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from backends.agents import script

from gitsession.backends import versions
from gitsession.backends.versions import version_of


def packaged(place: Path, package: Any, says: str = "9.9.9") -> str:
    """A program of an npm package, by the link that npm makes; asked itself, it ``says`` another version."""
    inside = place / "node_modules" / "agent" / "bin"
    inside.mkdir(parents=True)
    program = script(inside, f"echo {says}", name="run.sh")
    text = package if isinstance(package, str) else json.dumps(package)
    (inside.parent / "package.json").write_text(text)
    link = place / "agent"
    link.symlink_to(program)
    return str(link)


@pytest.mark.parametrize("bins", [{"agent": "bin/run.sh"}, "bin/run.sh", {"other": "x", "agent": "./bin/run.sh"}])
def test_the_package_says_it(tmp_path: Path, bins: Any) -> None:
    assert version_of(packaged(tmp_path, {"version": "1.2.3", "bin": bins})) == "1.2.3"


@pytest.mark.parametrize(
    "package",
    [
        {"version": "1.2.3", "bin": {"other": "bin/other.sh"}},
        {"version": "1.2.3"},
        {"version": "1.2.3", "bin": [1]},
        {"version": "soon", "bin": "bin/run.sh"},
        {"bin": "bin/run.sh"},
        [],
        "not JSON",
    ],
)
def test_where_the_package_says_nothing_of_the_program_that_is_asked(tmp_path: Path, package: Any) -> None:
    assert version_of(packaged(tmp_path, package, says="9.9.9")) == "9.9.9"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.1.197 (Claude Code)", "2.1.197"),
        ("codex-cli 0.171.0", "0.171.0"),
        ("v1.0.0-beta.2", "1.0.0-beta.2"),
        ("hello", None),
        ("", None),
    ],
)
def test_the_program_is_asked(tmp_path: Path, text: str, version: str | None) -> None:
    assert version_of(str(script(tmp_path, f'[ "$1" = --version ] && echo "{text}"'))) == version


def test_a_program_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "TIMEOUT", 0.2)
    assert version_of(str(script(tmp_path, "exec sleep 20"))) is None
    assert version_of(str(tmp_path / "nowhere")) is None
