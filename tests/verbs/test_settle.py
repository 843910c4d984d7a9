"""The watcher's hint: once for a burst, after it, and never more than a hint."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gitsession.verbs import settle
from gitsession.verbs.settle import SettleWatcher

QUIET = 0.3


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "there.py").touch()
    (tmp_path / ".git" / "objects").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def watcher(place: Path) -> Iterator[SettleWatcher]:
    """One that watches already and has nothing to tell."""
    watcher = SettleWatcher(place, ignore=(place / ".git",), start_after=0.0)
    assert told_within(watcher, 60), "what changed before it began counts as changed"
    yield watcher
    watcher.close()


def told_within(watcher: SettleWatcher, seconds: float, quiet: float = QUIET) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if watcher.changed_and_quiet(quiet):
            return True
        time.sleep(0.01)
    return False


def change(place: Path, number: int) -> None:
    """One that the system tells of in one piece: it cannot come as two bursts."""
    (place / "src" / "there.py").chmod(0o600 | number)


def test_a_change_is_told_once(place: Path, watcher: SettleWatcher) -> None:
    change(place, 0)
    assert told_within(watcher, 60)
    assert not told_within(watcher, 3 * QUIET)


def test_it_is_told_after_the_last_change_of_a_burst(
    place: Path, watcher: SettleWatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(settle, "time", SimpleNamespace(monotonic=lambda: now))
    for count in range(5):
        now += 0.75
        change(place, count)
        until = time.monotonic() + 60
        while watcher._changed_at != now:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert not watcher.changed_and_quiet(1.0)
    now += 0.75
    assert not watcher.changed_and_quiet(1.0)
    now += 0.75
    assert watcher.changed_and_quiet(1.0)
    now += 0.75
    assert not watcher.changed_and_quiet(1.0)


def test_deletions_renames_modes_and_new_directories_count(place: Path, watcher: SettleWatcher) -> None:
    target = place / "src" / "a.py"
    for act in (
        lambda: target.write_text("a"),
        lambda: target.chmod(0o755),
        lambda: target.rename(place / "b.py"),
        (place / "b.py").unlink,
        lambda: (place / "new" / "deep").mkdir(parents=True),
    ):
        act()
        assert told_within(watcher, 60)


def test_ignored_places_do_not_count_but_their_namesakes_do(place: Path, watcher: SettleWatcher) -> None:
    (place / ".git" / "index").write_text("x")
    (place / ".git" / "objects" / "ab").mkdir()
    assert not told_within(watcher, 3 * QUIET)
    (place / ".gitignore").write_text("x")
    assert told_within(watcher, 60)


def test_a_name_that_is_not_utf8_does_not_silence_it(place: Path, watcher: SettleWatcher) -> None:
    (place / b"src".decode() / "caf\udce9").write_text("x")
    assert told_within(watcher, 60)
    (place / "src" / "later.py").write_text("x")
    assert told_within(watcher, 60)


def test_it_begins_as_often_as_it_has_to(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writing of a file whose name is not UTF-8 may be told in two pieces, of which each ends a watch."""
    import watchfiles

    begun: list[str] = []

    def watch(*args: object, **options: object) -> Iterator[set[object]]:
        begun.append("again")
        if len(begun) != 2:
            yield set()
        if len(begun) < 4:
            raise RuntimeError("Unable to decode path")

    monkeypatch.setattr(watchfiles, "watch", watch)
    SettleWatcher(place, start_after=0.0)
    await_threads()
    assert len(begun) == 4


def await_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "settle":
            thread.join(60)
            assert not thread.is_alive()


def test_a_short_run_never_loads_the_library(place: Path) -> None:
    await_threads()  # of other tests
    before = set(sys.modules)
    watcher = SettleWatcher(place, start_after=3600)
    assert not watcher.changed_and_quiet(0.0)
    watcher.close()
    await_threads()
    assert not {name for name in set(sys.modules) - before if name.startswith("watchfiles")}


@pytest.mark.parametrize("failure", [OSError(28, "OS file watch limit reached"), ImportError("no such library")])
def test_where_watching_fails_it_never_has_anything_to_say(
    place: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    import watchfiles

    def refuse(*args: object, **options: object) -> None:
        raise failure

    monkeypatch.setattr(watchfiles, "watch", refuse)
    watcher = SettleWatcher(place, start_after=0.0)
    assert not told_within(watcher, 0.3, quiet=0.0)
    watcher.close()


def test_stop_may_be_called_twice(place: Path) -> None:
    watcher = SettleWatcher(place, start_after=0.0)
    watcher.close()
    watcher.close()
