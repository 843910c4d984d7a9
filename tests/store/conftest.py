"""A store in the sealed home, sessions in it, and other processes that use it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from store.building import new_doc, record

from gitsession import SessionStore, seam

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., "subprocess.Popen[str]"]

PRELUDE = """
import os, sys
from gitsession import SessionStore, seam
store = SessionStore()
"""


@pytest.fixture
def store() -> SessionStore:
    """A store in the sealed home; nothing is on disk yet."""
    return SessionStore()


@pytest.fixture
def session(store: SessionStore) -> str:
    """A session that has run, made two checkpoints, and is paused."""
    store.create(new_doc())
    with store.edit("s") as draft:
        draft.log("status", to="running")
    for index in range(2):
        with store.edit("s") as draft:
            draft.log("checkpoint", record=record(index))
    with store.edit("s") as draft:
        draft.log("status", to="paused", reason="network")
    return "s"


@pytest.fixture
def run() -> Run:
    """Run Python code that knows ``store`` in another process, to its end."""

    def run(code: str, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", PRELUDE + code, *args], capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.fixture
def start() -> Iterator[Start]:
    """Start such a process; it is killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *args: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + code, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def no_hook() -> Iterator[None]:
    """The seam's hook is taken off after each test."""
    yield
    seam.hook = None
