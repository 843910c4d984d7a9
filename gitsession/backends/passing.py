"""Arguments of an agent's own program, given after ``--``: passed on, but for what would break what is built on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gitsession.backends.base import Job
from gitsession.errors import UsageError


def flag_of(argument: str) -> str:
    """A flag without its value, which a short one may have right after it."""
    if argument.startswith("--"):
        return argument.split("=", 1)[0]
    return argument[:2] if argument.startswith("-") else argument


@dataclass(frozen=True)
class Refused:
    """The flags of an agent's program that are not passed on.

    ``ours`` are theirs by our flag that does it; with those ``elsewhere`` it does not work here, does not work at all,
    or forgets.  ``spelled`` reads a flag as the program does.
    """

    agent: str
    ours: Mapping[str, tuple[str, ...]]
    elsewhere: tuple[str, ...]
    spelled: Callable[[str], str] = flag_of

    def check(self, job: Job) -> None:
        """``UsageError`` if one of them is given, or what is no flag."""
        if job.arguments and not job.arguments[0].startswith("-"):
            raise UsageError(
                f"{job.arguments[0]!r} is no flag of {self.agent}'s", hint="the task is given with --task TEXT"
            )
        for flag in map(self.spelled, job.arguments):
            ours = next((ours for ours, theirs in self.ours.items() if flag in theirs), None)
            if ours is not None:
                raise UsageError(f"{flag} of {self.agent} is not passed on", hint=f"see {ours} of codeagent-wrapper")
            if flag in (*self.elsewhere, "--"):
                raise UsageError(f"{flag} of {self.agent} is not passed on", hint="leave it out")
