"""Completion as the shells ask for it: commands, options, ids, settings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import cli_environment, program

MakeSession = Callable[..., dict[str, object]]

# Each defines the completion as the help says, asks for it with the words of the command line, and prints what comes.
SHELLS = {
    "bash": """
        eval "$(_{name}_COMPLETE=bash_source {program})"
        COMP_WORDS=({words}); COMP_CWORD={index}
        _{function}_completion {program}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "zsh": """
        compdef() {{ :; }}
        compadd() {{ print -l -- $completions; }}
        _describe() {{ print -l -- ${{completions_with_descriptions%%:*}}; }}
        eval "$(_{name}_COMPLETE=zsh_source {program})"
        words=({words}); CURRENT={index}+1
        _{function}_completion
    """,
    "fish": """
        _{name}_COMPLETE=fish_source {program} | source
        complete --do-complete "{line}" | string split --fields 1 \\t
    """,
}


def complete(shell: str, line: str, home: Path) -> list[str]:
    """What ``shell`` offers at the end of ``line``."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    words = line.split(" ")
    name = words[0]
    function = name.replace("-", "_")
    code = SHELLS[shell].format(
        name=function.upper(),
        function=function,
        program=name,
        words=" ".join(word or "''" for word in words),
        index=len(words) - 1,
        line=line,
    )
    path = os.pathsep.join([str(Path(program(name)).parent), os.environ["PATH"]])
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    done = subprocess.run(
        [shell, *options, "-c", code],
        capture_output=True,
        encoding="utf-8",
        env=cli_environment({"PATH": path}),
        cwd=home,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_completes_commands_and_ids(shell: str, make_session: MakeSession, seal: Path) -> None:
    make_session("my-refactor")
    make_session("my-search")
    make_session("other")
    assert complete(shell, "pinable-agents session insp", seal) == ["inspect"]
    assert sorted(complete(shell, "pinable-agents session inspect my", seal)) == ["my-refactor", "my-search"]
    assert complete(shell, "codeagent-wrapper --session-id oth", seal) == ["other"]
    assert complete(shell, "codeagent-wrapper --backend cod", seal) == ["codex"]
    assert complete(shell, "pinable-agents session list --backend gem", seal) == ["gemini"]
    assert complete(shell, "pinable-agents config set session.tr", seal) == ["session.trash_days"]


def test_names_of_commands_load_none_of_them() -> None:
    code = (
        "import sys\nfrom gitsession.cli.boundary import pinable_agents\nsys.argv = ['pinable-agents']\n"
        "try:\n    pinable_agents()\nexcept SystemExit:\n    pass\n"
        "print(sorted(name for name in sys.modules if name.startswith('gitsession.cli.session.')), file=sys.stderr)\n"
    )
    asked = {"_PINABLE_AGENTS_COMPLETE": "bash_complete", "COMP_WORDS": "pinable-agents session ", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, encoding="utf-8", env=cli_environment(asked)
    )
    assert "plain,inspect" in done.stdout.splitlines()
    assert done.stderr == "[]\n"
