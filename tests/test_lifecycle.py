"""States, and what each entry does to the record."""

from __future__ import annotations

import copy
import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession import lifecycle
from gitsession.errors import IllegalTransition
from gitsession.lifecycle import COMPLETED, CREATED, PAUSED, RUNNING, STATES, NetChanges, fold, transition

LEGAL = {(CREATED, RUNNING), (RUNNING, PAUSED), (RUNNING, COMPLETED), (PAUSED, RUNNING)}
ILLEGAL = sorted(set(product(STATES, STATES)) - LEGAL)
AT = "2026-02-25T10:00:00Z"


def new_doc() -> dict[str, Any]:
    return {"id": "s", "status": CREATED, "cost": {}, "metadata": {}, "updated_at": AT}


def folded(entries: list[dict[str, Any]], doc: dict[str, Any] | None = None) -> dict[str, Any]:
    """The record after these entries (numbered from 1 where they have no number), by way of JSON both times."""
    doc = new_doc() if doc is None else json.loads(json.dumps(doc))
    for number, entry in enumerate(entries, 1):
        fold(doc, json.loads(json.dumps({"seq": number, "at": AT, **entry})))
    result: dict[str, Any] = json.loads(json.dumps(doc))
    return result


@pytest.mark.parametrize(("current", "target"), sorted(LEGAL))
def test_a_legal_transition_gives_the_new_state(current: str, target: str) -> None:
    assert transition(current, target) == target


@pytest.mark.parametrize(("current", "target"), [*ILLEGAL, ("corrupted", RUNNING), (RUNNING, "corrupted")])
def test_every_other_pair_of_states_is_refused_with_a_reason(current: str, target: str) -> None:
    with pytest.raises(IllegalTransition, match=f"cannot become {target}: ") as caught:
        transition(current, target)
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(("current", "target"), ILLEGAL)
def test_an_illegal_status_entry_leaves_the_record_as_it_was(current: str, target: str) -> None:
    doc = new_doc() | {"status": current, "journal": {"seq": 3, "offset": 9}}
    before = copy.deepcopy(doc)
    with pytest.raises(IllegalTransition):
        fold(doc, {"seq": 4, "at": "2026-02-25T11:00:00Z", "event": "status", "to": target})
    assert doc == before


def test_a_run_is_opened_and_closed() -> None:
    doc = folded(
        [
            {"event": "status", "to": RUNNING, "at": "2026-02-25T10:00:01Z", "run": {"branch": "main"}},
            {"event": "status", "to": PAUSED, "at": "2026-02-25T10:00:02Z", "reason": "network"},
            {"event": "status", "to": RUNNING, "at": "2026-02-25T10:00:03Z"},
        ]
    )
    assert doc["runs"] == [
        {
            "started_at": "2026-02-25T10:00:01Z",
            "ended_at": "2026-02-25T10:00:02Z",
            "end": "network",
            "branch": "main",
        },
        {"started_at": "2026-02-25T10:00:03Z", "ended_at": None},
    ]
    assert doc["pause_reason"] is None
    assert doc["metadata"]["start_time"] == "2026-02-25T10:00:01Z"
    assert doc["context"]["working_branch"] == "main"
    assert doc["updated_at"] == "2026-02-25T10:00:03Z"


def test_a_run_that_died_ends_when_it_was_last_seen() -> None:
    doc = folded(
        [
            {"event": "status", "to": RUNNING},
            {"event": "status", "to": PAUSED, "reason": "killed", "ended_at": "2026-02-25T09:00:00Z"},
        ]
    )
    assert doc["runs"][0]["ended_at"] == "2026-02-25T09:00:00Z"
    assert doc["pause_reason"] == "killed"


def test_a_phase_is_current_when_it_begins_and_completed_once() -> None:
    entries = [{"event": "phase", "phase": "analysis"}, *[{"event": "phase", "phase": "analysis", "done": True}] * 2]
    doc = folded([*entries, {"event": "phase", "phase": "review"}])
    assert (doc["current_phase"], doc["phases_completed"]) == ("review", ["analysis"])


def test_tokens_are_summed_and_pending_until_the_next_checkpoint() -> None:
    usage = {"event": "usage", "input": 10, "output": 2, "cost_usd": 0.1}
    doc = folded([usage, usage])
    assert doc["cost"]["pending"] == {"input": 20, "output": 4, "cost_usd": 0.2}
    assert (doc["cost"]["total_tokens"], doc["cost"]["estimated_cost_usd"]) == (24, 0.2)
    doc = folded([usage, {"event": "checkpoint", "record": {"index": 0}}, usage])
    assert doc["cost"]["pending"] == {"input": 10, "output": 2, "cost_usd": 0.1}


def test_one_unpriced_token_makes_the_cost_unknown() -> None:
    doc = folded(
        [
            {"event": "usage", "input": 1, "output": 0, "cost_usd": 0.5},
            {"event": "usage", "input": 1, "output": 0, "cost_usd": None},
            {"event": "usage", "input": 1, "output": 0, "cost_usd": 0.5},
        ]
    )
    assert doc["cost"]["estimated_cost_usd"] is None
    assert (doc["cost"]["priced_usd"], doc["cost"]["unpriced_tokens"]) == (1.0, 1)


def test_a_checkpoint_told_again_under_a_new_number_is_not_added_twice() -> None:
    record = {"index": 0, "changes": [{"path": "a", "status": "added"}]}
    doc = folded([{"event": "checkpoint", "record": record}, {"event": "checkpoint", "record": record}])
    assert doc["checkpoints"] == [{**record, "said": {"messages": 0, "phases": 0}}]


def test_going_back_to_a_checkpoint_takes_phases_and_words_back() -> None:
    def prompt(text: str, phase: str) -> dict[str, Any]:
        return {"event": "prompt", "text": text, "phase": phase}

    doc = folded(
        [
            prompt("look", "analysis"),
            {"event": "checkpoint", "record": {"index": 0, "phase": "analysis"}},
            {"event": "reply", "message": {"content": []}, "usage": {"input": 1, "output": 1}},
            prompt("change", "implementation"),
            {"event": "findings", "findings": ["one"], "dropped": 0},
            {"event": "rewound", "to": 0},
        ]
    )
    assert (doc["current_phase"], doc["phases_completed"]) == ("analysis", [])
    assert [message["content"][0]["text"] for message in doc["context"]["conversation_history"]] == ["look"]
    assert [len(aside["messages"]) for aside in doc["context"]["set_aside"]] == [2]
    assert "findings" not in doc


def test_an_unknown_event_changes_only_the_moment_and_the_number() -> None:
    doc = folded([{"event": "from_the_future", "at": "2026-02-25T12:00:00Z", "status": "odd"}])
    assert doc == new_doc() | {"updated_at": "2026-02-25T12:00:00Z", "journal": {"seq": 1, "offset": 0}}


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A legal journal: entries with rising numbers."""
    path = st.sampled_from(["a", "b", "c", "d"])
    change = st.builds(dict, path=path, status=st.sampled_from(["added", "modified", "deleted", "type"]))
    number = st.integers(0, 10**6)
    entries: list[dict[str, Any]] = []
    state, index = CREATED, 0
    for seq in range(1, draw(st.integers(0, 12)) + 1):
        event = draw(st.sampled_from(["status", "phase", "checkpoint", "usage", "base", "settings", "other"]))
        targets = [target for current, target in sorted(LEGAL) if current == state]
        fields: dict[str, Any] = {}
        match event:
            case "status" if targets:
                state = draw(st.sampled_from(targets))
                fields = {"to": state, "reason": draw(st.none() | st.text(max_size=3))}
            case "status":
                event = "other"
            case "phase":
                fields = {"phase": draw(st.sampled_from(["analysis", "review"])), "done": draw(st.booleans())}
            case "checkpoint":
                fields = {"record": {"index": index, "changes": draw(st.lists(change, max_size=4))}}
                index += draw(st.integers(0, 1))
            case "usage":
                cost = draw(st.none() | st.floats(0, 100))
                fields = {"input": draw(number), "output": draw(number), "cost_usd": cost}
            case "base":
                fields = {"base": {"commit": draw(st.text("0123456789abcdef", max_size=4))}}
            case "settings":
                fields = {"values": {"model": draw(st.text(max_size=3))}}
        entries.append({"seq": seq, "at": f"2026-02-25T10:00:{seq:02}Z", "event": event, **fields})
    return entries


@given(histories(), st.data())
def test_folding_any_prefix_and_then_the_rest_equals_folding_all(
    entries: list[dict[str, Any]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(entries)))
    assert folded(entries[cut:], folded(entries[:cut])) == folded(entries)


@given(histories(), st.data())
def test_folding_again_what_was_folded_changes_nothing(entries: list[dict[str, Any]], data: st.DataObject) -> None:
    doc = folded(entries)
    again = data.draw(st.integers(0, len(entries)))
    assert folded(entries[again:], doc) == doc
    assert folded(entries, doc) == doc


@given(histories())
def test_folding_does_not_change_or_keep_hold_of_the_entries(entries: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(entries)
    doc = new_doc()
    for entry in entries:
        fold(doc, entry)
    assert entries == before


def net_by_rule(changes: list[tuple[str, str]]) -> dict[str, str]:
    """What is net of changes, by the plain rule."""
    net: dict[str, str] = {}
    for path, status in changes:
        match net.get(path), status:
            case "added", "deleted":
                del net[path]
            case "added", _:
                pass
            case "deleted", "added":
                net[path] = "modified"
            case _:
                net[path] = status
    return net


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["added", "modified", "deleted", "type"]))),
    st.lists(st.sampled_from(["text", {"path": "only"}, {"other": 1}]), max_size=3),
)
def test_net_changes_follow_the_rule_and_keep_items_of_another_shape(
    changes: list[tuple[str, str]], foreign: list[Any]
) -> None:
    net = NetChanges(foreign)
    for path, status in changes:
        net.add(path, status)
    ours = [item for item in net if lifecycle._has_path(item)]
    assert {item["path"]: item["status"] for item in ours} == net_by_rule(changes)
    assert len(ours) == len(net_by_rule(changes))
    assert sorted(map(str, foreign)) == sorted(str(item) for item in net if not lifecycle._has_path(item))
    assert json.loads(json.dumps(net)) == list(net)
