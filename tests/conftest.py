"""Every test is sealed from the machine it runs on.

Nothing of the person's own reaches a test: no home, no sessions, no git configuration, no key, no proxy; dates,
language and umask are fixed.  The environment is cleaned before the first import, because libgit2 reads ``HOME`` as it
is loaded, and again for each test, which gets a home of its own.  Looking into the real ``~/.pinable-agents`` fails the
test that does it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import installed
from hypothesis import settings
from support import GitRepo

FIXED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_DATE": "2026-02-25T10:00:00+00:00",
    "GIT_COMMITTER_DATE": "2026-02-25T10:00:00+00:00",
    "PINABLE_HOOK_SECONDS": "60",
    "EDITOR": "false",
    "VISUAL": "false",
    "PAGER": "cat",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}
GITCONFIG = """\
[user]
\tname = Test Person
\temail = person@example.com
[init]
\tdefaultBranch = main
[protocol "file"]
\tallow = always
"""
SCRUBBED_PREFIXES = ("GIT_", "PINABLE_", "XDG_", "ANTHROPIC_", "CLAUDE_", "OPENAI_", "GEMINI_", "LC_")
SCRUBBED_ENDINGS = ("_PROXY", "_API_KEY", "_TOKEN")
SCRUBBED_NAMES = {"LANG", "LANGUAGE", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "SSH_ASKPASS", "PYTHONPATH"}
REAL_STORES = tuple(
    os.path.join(home, ".pinable-agents") for home in {os.path.expanduser("~"), pwd.getpwuid(os.getuid()).pw_dir}
)
# Background jobs and ``nohup`` ignore some.  A program is handed what its parent ignores, not what that catches.
INTERRUPTING = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
AUDITED = {"open", "os.mkdir", "os.listdir", "os.scandir", "os.rename", "os.remove"}
SEALED_HOME = pytest.StashKey[Path]()

# The same examples each time, and no limit to how long one may take: a slow machine, or an example nobody has met yet,
# fails no run. Others come with ``--hypothesis-profile=default --hypothesis-seed=NUMBER``.
settings.load_profile("ci")


def is_scrubbed(name: str) -> bool:
    """Whether an environment variable could carry something of the machine into a test."""
    upper = name.upper()
    return upper.startswith(SCRUBBED_PREFIXES) or upper.endswith(SCRUBBED_ENDINGS) or upper in SCRUBBED_NAMES


def sealed_environment(home: Path) -> dict[str, str]:
    """What the environment must say for a test whose home is ``home``."""
    (home / ".gitconfig").write_text(GITCONFIG)
    places = {"HOME": home, "GIT_CONFIG_GLOBAL": home / ".gitconfig", "PINABLE_HOME": home / ".pinable-agents"}
    for name in ("CONFIG", "CACHE", "DATA", "STATE"):
        places[f"XDG_{name}_HOME"] = home / f".xdg-{name.lower()}"
    return FIXED | {name: str(path) for name, path in places.items()}


def forbid_real_store(event: str, args: tuple[Any, ...]) -> None:
    """An audit hook: this process must never look into the person's own sessions."""
    if event in AUDITED and isinstance(args[0], str | bytes) and os.fsdecode(args[0]).startswith(REAL_STORES):
        raise AssertionError(f"a test touched the real store: {event} {args[0]!r}")


def pytest_configure(config: pytest.Config) -> None:
    os.environ["GITSESSION_AGENTS"] = str(installed.PLACE)
    config.stash[SEALED_HOME] = home = Path(tempfile.mkdtemp(prefix="sealed-home-"))
    for name in filter(is_scrubbed, list(os.environ)):
        del os.environ[name]
    os.environ.update(sealed_environment(home))
    for number in INTERRUPTING:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    sys.addaudithook(forbid_real_store)


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[SEALED_HOME], ignore_errors=True)


def pytest_report_header() -> str:
    import gitsession

    return f"gitsession: {Path(gitsession.__file__).parent}"


@pytest.fixture(autouse=True)
def seal(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own for each test; the value is that directory."""
    home = tmp_path_factory.mktemp("home")
    for name in filter(is_scrubbed, list(os.environ)):
        monkeypatch.delenv(name)
    for name, value in sealed_environment(home).items():
        monkeypatch.setenv(name, value)
    time.tzset()
    umask = os.umask(0o022)
    yield home
    os.umask(umask)


@pytest.fixture
def pinable_home(seal: Path) -> Path:
    """The sealed ``PINABLE_HOME``; it does not exist until something makes it."""
    return seal / ".pinable-agents"


@pytest.fixture
def empty_repo(tmp_path: Path) -> GitRepo:
    """A repository without a commit, in ``tmp_path/repo``."""
    return GitRepo.init(tmp_path / "repo")


@pytest.fixture
def repo(empty_repo: GitRepo) -> GitRepo:
    """A repository with one commit on ``main``: ``README.md``, ``src/app.py``, ``src/util.py``; the tree is clean."""
    empty_repo.write("README.md", "# sample\n")
    empty_repo.write("src/app.py", "from util import add\n\nprint(add(1, 2))\n")
    empty_repo.write("src/util.py", "def add(a, b):\n    return a + b\n")
    empty_repo.commit("Start")
    return empty_repo
