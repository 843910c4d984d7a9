"""What a restore decides, from trees alone."""

from __future__ import annotations

import itertools

import pytest
from memory import Memory

from gitsession.git import trees
from gitsession.git.plan import Plan, State, below, make_plan
from gitsession.git.trees import EXECUTABLE, FILE, GITLINK, LINK, Entry

STORE = Memory()
Files = dict[str, str | tuple[int, str]]


def entry(content: str, mode: int = FILE) -> Entry:
    return Entry(mode, STORE.add("blob", content.encode()))


def state(files: Files, *, empty: tuple[str, ...] = (), skipped: dict[str, str] | None = None) -> State:
    entries = {
        path.encode(): entry(what) if isinstance(what, str) else entry(what[1], what[0]) for path, what in files.items()
    }
    return State(
        trees.update(STORE, None, entries),
        empty_dirs=frozenset(path.encode() for path in empty),
        skipped={path.encode(): reason for path, reason in (skipped or {}).items()},
    )


def planned(known: State, now: State, target: State, **options: object) -> Plan:
    return make_plan(STORE, known=known, now=now, target=target, **options)  # type: ignore[arg-type]


def actions(plan: Plan) -> dict[str, str]:
    return {step.path.decode(): step.action for step in plan.steps}


def test_each_kind_of_change() -> None:
    target = state({"back": "1", "edited": "1", "run": (EXECUTABLE, "1"), "kind": (LINK, "1"), "same": "1"})
    now = state({"edited": "2", "run": "1", "kind": "1", "same": "1", "new": "1"})
    plan = planned(now, now, target)
    assert actions(plan) == {"back": "create", "edited": "replace", "run": "mode", "kind": "type", "new": "delete"}
    assert not plan.drift
    assert not plan.kept


def test_a_file_edited_since_the_last_checkpoint_is_drift() -> None:
    target, known, now = state({"f": "1"}), state({"f": "2"}), state({"f": "mine"})
    plan = planned(known, now, target)
    assert plan.drift == [(b"f", "changed since the last checkpoint")]
    assert not plan.steps
    assert [(step.path, step.drift) for step in planned(known, now, target, force=True).steps] == [(b"f", True)]


def test_a_file_edited_to_what_the_target_has_is_no_matter() -> None:
    plan = planned(state({"f": "2"}), state({"f": "1"}), state({"f": "1"}))
    assert plan.changes_nothing
    assert not plan.drift


def test_a_file_deleted_since_the_last_checkpoint_comes_back() -> None:
    plan = planned(state({"f": "2"}), state({}), state({"f": "1"}))
    assert actions(plan) == {"f": "create"}


@pytest.mark.parametrize("force", [False, True])
def test_a_file_that_no_checkpoint_held_is_kept_even_by_force(force: bool) -> None:
    plan = planned(state({"f": "1"}), state({"f": "1", "out.log": "x"}), state({"f": "0"}), force=force)
    assert plan.kept == [(b"out.log", "appeared since the last checkpoint")]
    assert actions(plan) == {"f": "replace"}


def test_a_kept_file_in_the_way_is_drift() -> None:
    """The target has a directory where the new file stands, or a file where its directory does."""
    known = state({"f": "1"})
    for now, target in (
        (state({"d": "new"}), state({"d/f": "1"})),
        (state({"d/sub/new": "new"}), state({"d": "1"})),
        (state({"d": "new"}), state({}, empty=("d/e",))),
    ):
        plan = planned(known, now, target)
        assert [reason for _, reason in plan.drift] == [
            "appeared since the last checkpoint, and the checkpoint needs its place"
        ]
        forced = planned(known, now, target, force=True)
        assert not forced.drift
        assert any(step.drift and step.action == "delete" for step in forced.steps)


def test_submodules_stay() -> None:
    with_sub = state({"sub": (GITLINK, "a"), "f": "1"})
    moved = state({"sub": (GITLINK, "b"), "f": "1"})
    without = state({"f": "1"})
    for now, target in ((moved, with_sub), (with_sub, without), (without, with_sub)):
        plan = planned(now, now, target)
        assert plan.changes_nothing
        assert plan.kept == [(b"sub", "a submodule's commit is not moved")]


def test_nothing_is_written_into_a_nested_repository() -> None:
    now = state({"f": "1"}, skipped={"sub": "nested repository"})
    plan = planned(now, now, state({"sub/f": "1", "f": "1"}))
    assert plan.blocked == [(b"sub/f", "nested repository")]
    assert not plan.steps


def test_what_the_scan_could_not_read_is_not_overwritten() -> None:
    now = state({"f": "1"}, skipped={"f": "unreadable: Permission denied"})
    assert planned(now, now, state({"f": "0"})).blocked == [(b"f", "unreadable: Permission denied")]
    assert planned(now, now, state({})).kept == [(b"f", "unreadable: Permission denied")]


@pytest.mark.parametrize("force", [False, True])
def test_what_the_target_had_to_leave_out_is_kept(force: bool) -> None:
    """It was there, so that the target does not say that it is to go."""
    target = state({"f": "1"}, skipped={"big": "too large (2 GB)", "sub": "nested repository"})
    now = state({"f": "1", "big": "1", "sub/in": "1", "subs": "1"})
    plan = planned(now, now, target, force=force)
    assert actions(plan) == {"subs": "delete"}
    assert plan.kept == [
        (b"big", "may have been there, but left out: too large (2 GB)"),
        (b"sub/in", "may have been there, but left out: nested repository"),
    ]


def test_what_stands_where_the_target_has_something_was_not_there() -> None:
    target = state({"d/f": "1"}, skipped={"d": "ignored"})
    now = state({"d": "1"})
    assert actions(planned(now, now, target)) == {"d": "delete", "d/f": "create"}


def test_what_stands_unseen_in_the_place_of_a_file_is_told() -> None:
    """The tree has the file still, for a checkpoint holds what could be looked at last."""
    skipped = {"f": "fifo", "d": "directory unreadable", "new": "socket", "elsewhere": "fifo"}
    now, target = state({"f": "1", "d/in": "1"}, skipped=skipped), state({"f": "1", "d/in": "1"})
    plan = planned(now, now, target, wanted=below([b"f", b"d", b"new"]))
    assert plan.changes_nothing
    assert sorted(plan.kept) == [(b"d", "directory unreadable"), (b"f", "a fifo is in its place")]


def test_exact_bytes_beside_the_tree_count() -> None:
    """The trees agree, but one state had CRLF on disk and the other LF."""
    lf = state({"f": "a\n"})
    crlf = State(lf.tree, raw={b"f": entry("a\r\n")})
    assert actions(planned(lf, lf, crlf)) == {"f": "replace"}
    assert actions(planned(crlf, crlf, lf)) == {"f": "replace"}
    assert planned(lf, crlf, lf).drift == [(b"f", "changed since the last checkpoint")]


def test_the_same_bytes_under_other_filters_are_the_same() -> None:
    """Git stored CRLF as it is, then as LF with the bytes kept beside it; and a driver's bytes that are only named."""
    plain, cleaned = state({"f": "a\r\n"}), State(state({"f": "a\n"}).tree, raw={b"f": entry("a\r\n")})
    named = State(state({"f": "A\n"}).tree, raw={b"f": Entry(GITLINK, entry("a\r\n").oid)})
    states = (plain, cleaned, named)
    other = state({"f": "b\n"})
    for known, now in itertools.product(states, states):
        for target in states:
            assert planned(known, now, target).changes_nothing
        plan = planned(known, now, other)
        assert actions(plan) == {"f": "replace"}
        assert not plan.drift
    executable = State(state({"f": (EXECUTABLE, "a\n")}).tree, raw={b"f": entry("a\r\n")})
    assert actions(planned(plain, plain, executable)) == {"f": "mode"}


def test_directories_come_and_go_with_their_files() -> None:
    target = state({"f": "1"}, empty=("e/deep",))
    now = state({"f": "1", "d/x/new": "1"}, empty=("g",))
    plan = planned(now, now, target)
    assert plan.make_dirs == [b"e/deep"]
    assert plan.drop_dirs == [b"g", b"d/x", b"d"]


def test_an_empty_directory_that_appeared_since_is_kept() -> None:
    known, now = state({"f": "1"}), state({"f": "1"}, empty=("theirs",))
    assert planned(known, now, state({"f": "1"})).drop_dirs == []


def test_a_directory_the_target_has_is_not_dropped() -> None:
    now = state({"d/new": "1", "d/old": "1", "e/new": "1"})
    plan = planned(now, now, state({"d/old": "1"}, empty=("e",)))
    assert plan.drop_dirs == []


def test_only_the_wanted_paths() -> None:
    now, target = state({"a/f": "2", "b/f": "2", "ab": "2"}, empty=("b/e",)), state({"a/f": "1", "b/f": "1"})
    assert actions(planned(now, now, target, wanted=below([b"a"]))) == {"a/f": "replace"}
    assert set(actions(planned(now, now, target, wanted=below([b"b", b"ab"])))) == {"b/f", "ab"}
    assert len(planned(now, now, target, wanted=below([b""])).steps) == 3


def test_what_is_reserved_is_kept_and_told() -> None:
    now, target = state({"a/f": "2", "b/f": "2"}, empty=("b/e",)), state({"a/f": "1", "b/f": "1"})
    plan = planned(now, now, target, force=True, reserved=lambda path: "theirs" if path.startswith(b"b") else None)
    assert actions(plan) == {"a/f": "replace"}
    assert plan.kept == [(b"b/f", "theirs")]
    assert plan.drop_dirs == []
