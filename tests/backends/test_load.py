"""Names of backends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gitsession import backends
from gitsession.errors import UnknownBackend


def test_load_gives_a_fresh_object_each_time() -> None:
    first, second = backends.load("command"), backends.load("command")
    assert first.name == "command"
    assert first is not second


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownBackend, match="there is no backend 'gpt'") as caught:
        backends.load("gpt")
    assert caught.value.exit_status == 2
    assert caught.value.hint == "backends: command, claude, claude-code, codex, gemini, opencode"


def test_loading_the_command_backend_loads_no_library_of_others() -> None:
    """psutil is for stopping, everything else for other parts."""
    code = (
        "import sys; from gitsession import backends; backends.load('command');"
        "print(sorted({'psutil', 'pydantic', 'click', 'rich', 'pygit2', 'anthropic', 'watchfiles'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
