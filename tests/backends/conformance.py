"""What every backend must do, whatever does the work.

A backend takes part by a ``Subject``: how to make it, and a job for each scenario.  ``CHECKS`` are run on it.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from backends.agents import PATIENT

from gitsession.backends.base import (
    Backend,
    CheckpointHint,
    Done,
    Event,
    Failed,
    Job,
    Output,
    Phase,
    Reply,
    Tick,
    Usage,
)
from gitsession.backends.processes import find_survivors
from gitsession.errors import BackendMissing, UsageError

SCENARIOS = {
    "speaks": "tells a phase (if it has any) and its end, usage of 10 in and 5 out, a checkpoint hint, 'hello'; ends",
    "fails": "fails by itself",
    "waits": "prints 'ready', then works until it is asked to stop (ten minutes at least), and heeds that",
    "stubborn": "prints 'ready', then works on whatever it is asked",
    "missing": "needs something that is not installed",
    "impossible": "is a job that lacks what the backend needs",
}


@dataclass(frozen=True)
class Subject:
    """``make`` gives a backend with short waits (about 0.3 s each); ``job`` one of ``SCENARIOS`` in a directory."""

    name: str
    make: Callable[[], Backend]
    job: Callable[[str, Path], Job]
    phases: bool = True
    """Whether it goes through phases."""


def run(backend: Backend, job: Job, on_event: Callable[[Event], None] = lambda event: None) -> list[Event]:
    """All events of a run; ``on_event`` sees each as it comes."""
    events = []
    for event in backend.run(job):
        events.append(event)
        on_event(event)
    return events


def spoken(events: list[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Tick)]


def when_ready(act: Callable[[], None]) -> Callable[[Event], None]:
    """Calls ``act`` once, as soon as the work says it is ready."""
    done = []

    def on_event(event: Event) -> None:
        if not done and isinstance(event, Output) and "ready" in event.text:
            done.append(True)
            act()

    return on_event


def check_name_and_capabilities_are_told(subject: Subject, place: Path) -> None:
    backend = subject.make()
    assert backend.name == subject.name
    assert isinstance(backend.capabilities.takes_command, bool)
    assert isinstance(backend.capabilities.takes_model, bool)
    assert backend.pid is None


def check_events_of_a_run_that_succeeds(subject: Subject, place: Path) -> None:
    job = subject.job("speaks", place)
    backend = subject.make()
    backend.validate(job)
    events = spoken(run(backend, job))
    kinds = [type(event) for event in events]
    assert CheckpointHint in kinds
    if subject.phases:
        assert kinds.index(Phase) < kinds.index(CheckpointHint)
        assert any(isinstance(event, Phase) and event.done for event in events)
    spent = [event.usage if isinstance(event, Reply) else event for event in events if isinstance(event, Usage | Reply)]
    assert sum(usage.input for usage in spent) == 10
    assert sum(usage.output for usage in spent) == 5
    assert "hello" in "".join(event.text for event in events if isinstance(event, Output))
    assert isinstance(events[-1], Done)


def check_exactly_one_end_and_it_is_last(subject: Subject, place: Path) -> None:
    for scenario in ("speaks", "fails"):
        events = run(subject.make(), subject.job(scenario, place))
        assert [isinstance(event, Done | Failed) for event in events].index(True) == len(events) - 1


def check_a_failure_says_why_in_one_line(subject: Subject, place: Path) -> None:
    last = run(subject.make(), subject.job("fails", place))[-1]
    assert isinstance(last, Failed)
    assert last.kind != "interrupted"
    assert last.reason.strip()
    assert "\n" not in last.reason


def check_something_comes_at_least_every_tenth_of_a_second(subject: Subject, place: Path) -> None:
    backend = subject.make()
    times: list[float] = []

    def on_event(event: Event) -> None:
        times.append(time.monotonic())
        if len(times) == 30:
            backend.stop()

    run(backend, subject.job("waits", place), on_event)
    gaps = sorted(b - a for a, b in itertools.pairwise(times))
    # A busy machine makes gaps longer, none shorter.
    assert gaps[len(gaps) // 4] <= 0.1
    assert gaps[-1] < PATIENT, "nothing is waited for to its end, also while it is being stopped"


def check_stop_interrupts(subject: Subject, place: Path) -> None:
    backend = subject.make()
    job = subject.job("waits", place)
    started = time.monotonic()
    last = run(backend, job, when_ready(backend.stop))[-1]
    assert isinstance(last, Failed)
    assert last.kind == "interrupted"
    assert time.monotonic() - started < PATIENT
    assert backend.pid is None
    assert not find_survivors(job.session_id)


def check_stop_works_from_a_thread_and_twice(subject: Subject, place: Path) -> None:
    backend = subject.make()

    def stop_twice() -> None:
        backend.stop()
        backend.stop()

    thread = threading.Thread(target=stop_twice)
    last = run(backend, subject.job("waits", place), when_ready(thread.start))[-1]
    thread.join()
    assert isinstance(last, Failed)
    assert last.kind == "interrupted"


def check_stop_works_from_a_signal_handler(subject: Subject, place: Path) -> None:
    backend = subject.make()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: backend.stop())
    try:
        last = run(backend, subject.job("waits", place), when_ready(lambda: signal.raise_signal(signal.SIGUSR1)))[-1]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert isinstance(last, Failed)
    assert last.kind == "interrupted"


def check_stop_insists(subject: Subject, place: Path) -> None:
    backend = subject.make()
    job = subject.job("stubborn", place)
    last = run(backend, job, when_ready(backend.stop))[-1]
    assert isinstance(last, Failed)
    assert last.kind == "interrupted"
    assert backend.pid is None
    assert not find_survivors(job.session_id)


def check_stop_before_the_run_is_heeded(subject: Subject, place: Path) -> None:
    backend = subject.make()
    backend.stop()
    events = run(backend, subject.job("stubborn", place))
    assert isinstance(events[-1], Failed)
    assert events[-1].kind == "interrupted"
    assert not any(isinstance(event, Output) for event in events)


def check_kill_is_immediate(subject: Subject, place: Path) -> None:
    backend = subject.make()
    killed_at: list[float] = []

    def kill() -> None:
        killed_at.append(time.monotonic())
        backend.kill()

    last = run(backend, subject.job("stubborn", place), when_ready(kill))[-1]
    assert isinstance(last, Failed)
    assert last.kind == "interrupted"
    assert time.monotonic() - killed_at[0] < PATIENT
    assert backend.pid is None


def check_stop_and_kill_after_the_end_do_nothing(subject: Subject, place: Path) -> None:
    backend = subject.make()
    run(backend, subject.job("speaks", place))
    backend.stop()
    backend.kill()


def check_closing_the_iterator_kills_the_work(subject: Subject, place: Path) -> None:
    backend = subject.make()
    job = subject.job("stubborn", place)
    events = backend.run(job)
    for event in events:
        if isinstance(event, Output) and "ready" in event.text:
            break
    events.close()  # type: ignore[attr-defined]
    assert backend.pid is None
    assert not find_survivors(job.session_id)


def check_what_is_missing_is_said_before_the_run(subject: Subject, place: Path) -> None:
    with pytest.raises(BackendMissing) as caught:
        subject.make().validate(subject.job("missing", place))
    assert caught.value.exit_status == 127
    assert caught.value.hint


def check_an_impossible_job_is_refused(subject: Subject, place: Path) -> None:
    with pytest.raises(UsageError) as caught:
        subject.make().validate(subject.job("impossible", place))
    assert caught.value.exit_status == 2
    assert caught.value.hint


CHECKS = [check for name, check in sorted(globals().items()) if name.startswith("check_")]
