"""What a model is told of the time between two runs."""

from __future__ import annotations

from typing import Any

import pytest

from gitsession.verbs.dialogue import news

READ = "read files again before you change them."


def doc(*steps: str | tuple[str, str] | tuple[str, int | None]) -> dict[str, Any]:
    """A session's record: a run of a backend (a word), or a checkpoint with its trigger and its file or target."""
    checkpoints: list[dict[str, Any]] = []
    runs = []
    for one in steps:
        last = len(checkpoints) - 1 if checkpoints else None
        if isinstance(one, str):
            runs.append({"backend": one, "from_checkpoint": last})
        else:
            trigger, what = one
            target = {"restored_from": what} if trigger == "restore" else {}
            files = [what] if isinstance(what, str) else []
            checkpoints.append({"index": len(checkpoints), "trigger": trigger, "files_changed": files, **target})
    return {"checkpoints": checkpoints, "runs": runs}


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((), []),
        (("claude", ("agent", "a"), ("pause", "b"), "claude"), []),
        (("claude", ("agent", "a"), ("resume", "b"), "claude"), ["the user changed b;"]),
        (("claude", ("agent", "a"), ("manual", "b"), ("manual", "c"), "claude"), ["the user changed b, c;"]),
        (
            ("claude", ("agent", "a"), "codex", ("agent", "b"), ("settled", "c"), ("agent", "b"), "claude"),
            ["codex, another agent, changed b, c;"],
        ),
        (
            ("claude", ("agent", "a"), ("resume", "m"), "codex", ("pause", "b"), ("manual", "n"), "claude"),
            ["the user changed m;", "codex, another agent, changed b;", "the user changed n;"],
        ),
        (
            ("claude", ("agent", "a"), "codex", ("agent", "b"), "command", ("agent", "c"), "claude"),
            ["codex, another agent, changed b;", "command, another agent, changed c;"],
        ),
        # A run that came to nothing has told nothing.
        (("claude", ("agent", "a"), "codex", ("agent", "b"), "claude", "claude"), ["codex, another agent, changed b;"]),
        # What is undone is no news, what the user did by hand may be again.
        (
            ("claude", ("agent", "a"), "codex", ("agent", "b"), ("restore", 0), "claude"),
            ["the user put the files back to checkpoint 0;"],
        ),
        (
            ("claude", ("agent", "a"), ("restore", None), "claude"),
            ["the user put the files back to what they were at the start;"],
        ),
    ],
)
def test_what_happened_since_the_agent_last_worked(steps: Any, told: list[str]) -> None:
    assert news(doc(*steps), "claude") == ([*told, READ] if told else [])


def test_many_files_are_not_all_named() -> None:
    many = doc("claude", ("agent", "a"), "codex", *(("agent", f"{number:02}") for number in range(25)), "claude")
    [first, _] = news(many, "claude")
    assert first == f"codex, another agent, changed {', '.join(f'{number:02}' for number in range(20))} and 5 more;"


def test_an_agent_that_keeps_its_conversation_is_told_of_the_user_only() -> None:
    """It goes on with it only if it was the last to work."""
    assert news(doc("codex", ("agent", "a"), "claude", ("agent", "b"), "codex")) == []
