"""Which arguments of an agent's own program are passed on."""

from __future__ import annotations

from pathlib import Path

import pytest
from backends.agents import command_job

from gitsession.backends.passing import Refused, flag_of
from gitsession.errors import UsageError

REFUSED = Refused("Some Agent", {"--model": ("-m", "--model")}, ("--worktree", "-w"))


@pytest.mark.parametrize(
    ("argument", "flag"),
    [("--model=x", "--model"), ("--model", "--model"), ("-mx", "-m"), ("-m", "-m"), ("x", "x"), ("", "")],
)
def test_a_flag_is_known_with_its_value(argument: str, flag: str) -> None:
    assert flag_of(argument) == flag


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("do", "it"), "'do' is no flag of Some Agent's", "the task is given with --task TEXT"),
        (("--add", "x", "-mgpt"), "-m of Some Agent is not passed on", "see --model of codeagent-wrapper"),
        (("--worktree=x",), "--worktree of Some Agent is not passed on", "leave it out"),
        (("--add", "--", "x"), "-- of Some Agent is not passed on", "leave it out"),
    ],
)
def test_what_would_break_the_run_is_refused(
    arguments: tuple[str, ...], message: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        REFUSED.check(command_job(tmp_path, command=(), arguments=arguments))
    assert (str(caught.value), caught.value.hint) == (message, hint)


def test_everything_else_is_passed_on(tmp_path: Path) -> None:
    REFUSED.check(command_job(tmp_path, command=()))
    REFUSED.check(command_job(tmp_path, command=(), arguments=("--add-dir", "../lib", "--verbose")))
