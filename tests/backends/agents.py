"""Small agents for the ``command`` backend: shell and Python scripts in the test's own directory."""

from __future__ import annotations

import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from gitsession.backends.base import Job
from gitsession.backends.command import CommandBackend

PATIENT = 60.0  # seconds


def quick_backend() -> CommandBackend:
    """The backend with waits that a test can afford, of an agent that does not heed what it is asked."""
    return CommandBackend(stop_grace=0.3, terminate_grace=0.3, pipe_grace=0.3)


def patient_backend() -> CommandBackend:
    """The backend for an agent that heeds what it is asked, however slow the machine is."""
    return CommandBackend(stop_grace=PATIENT, terminate_grace=PATIENT, pipe_grace=0.3)


def lives(process: psutil.Process) -> bool:
    """Whether it runs; one that is dead and that nobody has collected does not."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def script(place: Path, text: str, *, name: str = "agent.sh", mode: int = 0o755) -> Path:
    """An executable file; it is a shell's unless ``text`` says otherwise."""
    path = place / name
    body = textwrap.dedent(text)
    path.write_text(body if body.startswith("#!") else "#!/bin/sh\n" + body)
    path.chmod(mode)
    return path


def python_script(place: Path, text: str) -> Path:
    return script(place, f"#!{sys.executable}\n" + textwrap.dedent(text), name="agent.py")


def command_job(place: Path, agent: str | None = None, **facts: Any) -> Job:
    """A job in the directory ``place`` for a shell script of that text, or for ``command``."""
    if agent is not None:
        facts["command"] = (str(script(place, agent)),)
    defaults: dict[str, Any] = {
        "session_id": f"sess_{abs(hash(place))}",
        "task": "the task",
        "files": (),
        "phase": None,
        "resume": None,
        "resume_description": None,
        "worktree": place,
    }
    return Job(**(defaults | facts))
