"""Chains as files: names and members that can be, nothing lost, nothing taken for what it is not."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from gitsession.errors import BadSessionId, BadValue, ChainNotFound, StoreError
from gitsession.store.chains import ChainStore


@pytest.fixture
def chains(pinable_home: Path) -> ChainStore:
    return ChainStore(pinable_home)


def test_nothing_is_made_by_looking(chains: ChainStore, pinable_home: Path) -> None:
    assert (chains.names(), list(chains.all()), chains.holding("a")) == ([], [], [])
    assert not pinable_home.exists()


def test_a_chain_is_one_private_file(chains: ChainStore, pinable_home: Path) -> None:
    made = chains.create("my-refactor", ["sess_analysis", "sess_impl"])
    file = pinable_home / "chains" / "my-refactor.json"
    assert json.loads(file.read_text()) == {
        "schema_version": 1,
        "name": "my-refactor",
        "sessions": ["sess_analysis", "sess_impl"],
        "created_at": made.created_at,
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert chains.read("my-refactor") == made
    assert (made.before("sess_analysis"), made.before("sess_impl")) == (None, "sess_analysis")


@pytest.mark.parametrize(
    ("name", "sessions", "error", "words"),
    [
        ("../x", ["a"], BadValue, "'../x' cannot be a chain's name"),
        ("latest", ["a"], BadValue, "'latest' cannot be a chain's name"),
        ("c", [], BadValue, "a chain needs sessions"),
        ("c", ["a", "../b"], BadSessionId, "'../b' cannot be a session id"),
        ("c", ["a", "b", "A"], BadValue, "'A' is in the chain twice"),
        ("MINE", ["a"], BadValue, "there is a chain 'mine' already"),
    ],
)
def test_what_cannot_be_a_chain(
    chains: ChainStore, name: str, sessions: list[str], error: type[Exception], words: str
) -> None:
    chains.create("mine", ["a"])
    with pytest.raises(error, match=words):
        chains.create(name, sessions)
    assert chains.names() == ["mine"]


def test_members_are_found_in_every_chain(chains: ChainStore) -> None:
    chains.create("one", ["a", "b"])
    chains.create("two", ["c", "b"])
    assert [chain.name for chain in chains.holding("b")] == ["one", "two"]
    assert chains.members() == {"a", "b", "c"}


def test_delete_takes_the_chain_only(chains: ChainStore) -> None:
    chains.create("one", ["a"])
    chains.delete("one")
    assert chains.names() == []
    for act in (chains.read, chains.delete):
        with pytest.raises(ChainNotFound, match="there is no chain 'one'"):
            act("one")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not a chain"),
        (b"[]", "is not a chain"),
        (b'{"name": "other", "sessions": [], "created_at": ""}', "is not a chain"),
        (b'{"name": "one", "sessions": [1], "created_at": ""}', "is not a chain"),
        (b'{"name": "one", "sessions": [], "created_at": ""}', "is not a chain"),
        (b'{"name": "one", "sessions": ["../../x"], "created_at": ""}', "is not a chain"),
        (b'{"name": "one", "sessions": ["a"], "created_at": 1}', "is not a chain"),
        (b'{"schema_version": 2, "name": "one"}', r"was written by a newer version \(schema 2\)"),
    ],
)
def test_a_damaged_chain_is_told_and_can_be_deleted(
    chains: ChainStore, pinable_home: Path, data: bytes, words: str
) -> None:
    chains.create("one", ["a"])
    (pinable_home / "chains" / "one.json").write_bytes(data)
    for act in (lambda: chains.read("one"), lambda: chains.holding("a")):
        with pytest.raises(StoreError, match=words):
            act()
    chains.delete("one")
    assert chains.holding("a") == []
