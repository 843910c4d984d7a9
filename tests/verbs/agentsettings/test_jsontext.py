"""JSON text is read as strictly as agents read it, and an edit touches nothing but what it is for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonc import PROPERTY, comments_of, gap, value_of

from gitsession.verbs.agentsettings.jsontext import (
    Edit,
    Node,
    Problem,
    append,
    is_bare,
    is_bare_member,
    member,
    parse,
    remove,
    replaced,
    reverse,
)


def at(text: str, *keys: str) -> Node:
    """The value at a path of keys."""
    node = parse(text, comments=True)
    for key in keys:
        item = member(text, node, key)
        assert item is not None
        node = item.node
    return node


def appended(text: str, *keys: str, key: str | None = "new", value: object = 1) -> str:
    return replaced(text, append(text, parse(text, comments=True), at(text, *keys), [(key, value)]))


def removed(text: str, *numbers: int, keys: tuple[str, ...] = ()) -> str:
    return replaced(text, remove(text, at(text, *keys), numbers))


def test_values_are_what_json_says() -> None:
    text = '\r\n{"a": [1, -2.5e3, true, false, null, "\\u00e9\\n\\"", {}], "b\\/": {"": []}}\t'
    assert parse(text).value == json.loads(text)
    assert parse("[" + "9" * 5000 + "]").value == [float("inf")]  # more digits than Python takes for a whole number


def test_every_part_knows_its_place() -> None:
    text = '{ "a" : [1 , 22], "b": "x" }'
    root = parse(text)
    assert text[root.start : root.end] == text
    first, second = root.items
    assert (text[first.start], text[second.node.start : second.node.end]) == ('"', '"x"')
    assert [text[item.node.start : item.node.end] for item in first.node.items] == ["1", "22"]
    assert (first.node.items[0].comma, first.comma, second.comma) == (text.index(","), text.index("],") + 1, None)


@pytest.mark.parametrize(
    ("text", "line", "column", "why"),
    [
        ("", 1, 1, "there is no value"),
        ('{"a": 1,}', 1, 8, "a comma has nothing after it"),
        ("[1,\n 2,\n]", 2, 3, "a comma has nothing after it"),
        ('{\n  "a": 1\n  "b": 2}', 3, 3, '"," or "}" is missing'),
        ('{"a" 1}', 1, 6, '":" is missing'),
        ('{"a": }', 1, 7, "there is no value"),
        ("{'a': 1}", 1, 2, "there is no string, or it does not end"),
        ('{"a": "b', 1, 7, "there is no string, or it does not end"),
        ('{"a": "\t"}', 1, 7, "there is no string, or it does not end"),
        ('{"a": "\\x"}', 1, 7, "there is no string, or it does not end"),
        ("[01]", 1, 3, '"," or "]" is missing'),
        ("[١]", 1, 2, "there is no value"),
        ("[NaN]", 1, 2, "there is no value"),
        ("{} {}", 1, 4, "something follows the value"),
        ("{", 1, 2, "there is no string, or it does not end"),
        ("[1\u00a0]", 1, 3, '"," or "]" is missing'),
        ("[" * 200, 1, 101, "it is nested too deeply"),
        ("// all mine\n{}", 1, 1, "there is a comment, and it reads no file with one"),
        ("{/**/}", 1, 2, "there is a comment, and it reads no file with one"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, line: int, column: int, why: str) -> None:
    with pytest.raises(Problem) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column, caught.value.why) == (line, column, why)


@pytest.mark.parametrize("text", ["/* {}", "{} /", "{} // a\rb", "{ /*/ }", "# {}"])
def test_what_is_no_comment(text: str) -> None:
    with pytest.raises(Problem):
        parse(text, comments=True)


def test_comments_are_read_over() -> None:
    text = '// a "{"\r\n/* \n*/{/**/"a"/*,*/:// }\n 1 //, "a": 2\n,"b"//\n:"//"}//end'
    assert parse(text, comments=True).value == {"a": 1, "b": "//"}


def test_a_key_that_stands_twice_is_refused_where_it_is_looked_up() -> None:
    text = '{"a": 1,\n "a": 2, "b": 3}'
    root = parse(text)
    found = member(text, root, "b")
    assert found is not None
    assert found.node.value == 3
    with pytest.raises(Problem, match="twice") as caught:
        member(text, root, "a")
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "new": 1\n}'),
        ("{ }\n", '{\n  "new": 1\n}\n'),
        ('{"a": 1}', '{"a": 1, "new": 1}'),
        ('{\n  "a": 1\n}\n', '{\n  "a": 1,\n  "new": 1\n}\n'),
        ('{\r\n\t"a": 1\r\n}', '{\r\n\t"a": 1,\r\n\t"new": 1\r\n}'),
        ('{\n"a": 1}', '{\n"a": 1,\n"new": 1}'),
        ('{\n  "a": 1 // one\n}', '{\n  "a": 1, // one\n  "new": 1\n}'),
        (
            '{\n  "a": 1 /* one */ // two\n  // three\n}',
            '{\n  "a": 1, /* one */ // two\n  "new": 1\n  // three\n}',
        ),
        ("{ // mine\n}", '{ // mine\n  "new": 1\n}'),
        ("{ /* mine */ }", '{ /* mine */\n  "new": 1\n}'),
        ('{"a": 1 /* one */}', '{"a": 1, "new": 1 /* one */}'),
    ],
)
def test_appending_keeps_the_style_and_the_rest(before: str, after: str) -> None:
    edits = append(before, parse(before, comments=True), at(before), [("new", 1)])
    assert replaced(before, edits) == after
    assert replaced(after, reverse(before, edits)) == before


def test_appending_deeper() -> None:
    text = '{\n    "hooks": {"Stop": []},\n    "list": [\n        1\n    ]\n}'
    assert appended(text, "list", key=None, value=[2]) == text.replace(
        "1\n", "1,\n        [\n            2\n        ]\n"
    )
    assert appended(text, "hooks", value=[2]) == text.replace("[]", '[], "new": [2]')
    assert appended('{"a":{"b":[]}}', "a", "b", key=None, value={"c": 2}) == '{"a":{"b":[{"c": 2}]}}'
    assert appended('{\n\t"a": {}\n}', "a") == '{\n\t"a": {\n\t\t"new": 1\n\t}\n}'


def test_several_are_appended_at_once() -> None:
    text = '{\n  "a": 1\n}'
    edits = append(text, parse(text), parse(text), [("b", 2), ("ü", "é")])
    assert replaced(text, edits) == '{\n  "a": 1,\n  "b": 2,\n  "ü": "é"\n}'
    assert replaced("[]", append("[]", parse("[]"), parse("[]"), [(None, 1), (None, 2)])) == "[\n  1,\n  2\n]"


@pytest.mark.parametrize(
    ("before", "numbers", "after"),
    [
        ("[1, 2, 3]", [1], "[1, 3]"),
        ("[1, 2, 3]", [0], "[ 2, 3]"),
        ("[1, 2, 3]", [2], "[1, 2]"),
        ("[1, 2, 3]", [1, 2], "[1]"),
        ("[1, 2, 3]", [0, 2], "[ 2]"),
        ("[ 1, 2 ]", [0, 1], "[]"),
        ("[\n  1,\n  2\n]", [1], "[\n  1\n]"),
        ("[\n  1, // one\n  2 // two\n]", [1], "[\n  1 // one\n // two\n]"),
        ("[\n  1, // one\n  2]", [1], "[\n  1 // one\n]"),
        ("[ // none\n  1\n]", [0], "[ // none\n]"),
        ("[ // none\n  1]", [0], "[ // none\n]"),
        ("[ // one\r\n  1, \t\r\n 2]", [0], "[ // one\r\n 2]"),
        ("[ // none\n1,\n2]", [0, 1], "[ // none\n]"),
        ("[ 0 // zero\n, // one\n1 /**/,\n2]", [1, 2], "[ 0 // zero\n // one\n /**/]"),
        ("[1 /* one */, 2]", [0], "[ /* one */ 2]"),
        ("[1 // one\n, 2]", [0], "[ // one\n 2]"),
        ("[/* a */ 1, /* b */ 2 /* c */]", [1], "[/* a */ 1 /* b */ /* c */]"),
    ],
)
def test_removing_takes_the_comma_and_leaves_comments(before: str, numbers: list[int], after: str) -> None:
    assert removed(before, *numbers) == after
    parse(after, comments=True)


def test_bare() -> None:
    for text, bare in [("[1, 2]", True), ("[ ]", True), ("[1, /**/ 2]", False), ("[1 //\n]", False), ("[/**/]", False)]:
        assert is_bare(text, parse(text, comments=True)) is bare
    assert is_bare("[[/**/]]", parse("[[/**/]]", comments=True))  # a comment in an item is the item's


@pytest.mark.parametrize(
    ("text", "bare"),
    [('{"a" : [1]}', True), ('{"a"/**/: [1]}', False), ('{"a": /**/[1]}', False), ('{"a": [1//\n]}', False)],
)
def test_bare_members(text: str, bare: bool) -> None:
    (item,) = parse(text, comments=True).items
    assert is_bare_member(text, item) is bare


@PROPERTY
@given(st.lists(st.tuples(gap(True), gap(True), st.booleans()), min_size=1, max_size=4))
def test_any_items_are_removed_from_any_array(items: list[tuple[str, str, bool]]) -> None:
    text = f"[{','.join(f'{before}{number}{after}' for number, (before, after, _) in enumerate(items))}]"
    doomed = {number for number, (_, _, goes) in enumerate(items) if goes}
    after = removed(text, *doomed)
    assert value_of(after) == [number for number in range(len(items)) if number not in doomed]
    assert comments_of(after) == comments_of(text)
    assert parse(after, comments=True).value == value_of(after)


@PROPERTY
@given(st.lists(st.tuples(gap(True), gap(True)), max_size=3), gap(True))
def test_anything_is_appended_to_any_array(items: list[tuple[str, str]], inner: str) -> None:
    text = f"[{','.join(f'{before}{number}{after}' for number, (before, after) in enumerate(items)) or inner}]"
    edits = append(text, parse(text, comments=True), at(text), [(None, [7]), (None, "x")])
    after = replaced(text, edits)
    assert value_of(after) == [*range(len(items)), [7], "x"]
    assert comments_of(after) == comments_of(text)
    assert replaced(after, reverse(text, edits)) == text
    assert value_of(removed(after, len(items), len(items) + 1)) == value_of(text)
    assert comments_of(removed(after, len(items), len(items) + 1)) == comments_of(text)


def test_edits_and_their_reverse() -> None:
    text = "abcdef"
    edits = [Edit(4, 6, "X"), Edit(0, 0, ">"), Edit(1, 3, "")]
    new = replaced(text, edits)
    assert new == ">adX"
    assert replaced(new, reverse(text, edits)) == text
