"""Random JSON texts with comments for Hypothesis, and a reader of them that shares nothing with the one under test."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

PROPERTY = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
"""How the tests use them: a busy machine is no failure."""
EVENTS = ("SessionStart", "Stop", "AfterTool", "Other")
_BLANKS = ["", "", "", " ", "\n", "\n  ", "\n\t\t", "\r\n    ", "  \t"]
_COMMENTS = ["/**/", "/* , } ] */", '/* "a": { */\n', "// x\n", '// "{[,\r\n', "//\n", "/* a\n   b */"]
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.sampled_from([0.5, -1e20]),
    st.text(max_size=5),
    st.sampled_from(["//", "/* x */", '"', "\\", ",}", "é\u2028"]),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_hook = st.fixed_dictionaries({"type": st.just("command"), "command": st.sampled_from(["true", "./x 'y'", "pinable"])})
_group = st.fixed_dictionaries({"hooks": st.lists(_hook, max_size=2)}, optional={"matcher": st.just("Edit")})
_groups = st.lists(_group | _scalars, max_size=3)
_hooks = st.dictionaries(st.sampled_from(EVENTS), _groups, max_size=4)
documents = st.tuples(st.dictionaries(st.text(max_size=4), _values, max_size=4), st.none() | _hooks).map(
    lambda pair: (
        {key: value for key, value in pair[0].items() if key != "hooks"}
        | ({} if pair[1] is None else {"hooks": pair[1]})
    )
)


def gap(comments: bool) -> st.SearchStrategy[str]:
    """What may stand between two tokens."""
    return st.lists(st.sampled_from(_BLANKS + (_COMMENTS if comments else [])), max_size=2).map("".join)


@st.composite
def texts(draw: Callable[..., Any], comments: bool) -> str:
    """The text of a document, with anything that JSON (and comments) allow between its tokens."""
    gaps = gap(comments)
    plain = draw(st.booleans())
    document = draw(documents)
    if plain:
        return json.dumps(document, indent=draw(st.sampled_from([None, 2, 4, "\t"])), ensure_ascii=draw(st.booleans()))
    return draw(gaps) + _spell(document, lambda: str(draw(gaps))) + draw(gaps)


def _spell(value: Any, gap: Callable[[], str]) -> str:
    match value:
        case dict():
            parts = [f"{gap()}{json.dumps(key)}{gap()}:{gap()}{_spell(one, gap)}{gap()}" for key, one in value.items()]
            return "{" + (",".join(parts) or gap()) + "}"
        case list():
            return "[" + (",".join(f"{gap()}{_spell(one, gap)}{gap()}" for one in value) or gap()) + "]"
    return json.dumps(value, ensure_ascii=False)


def tokens(text: str) -> list[str]:
    """Its strings, words, marks and comments; no blanks."""
    found, place = [], 0
    while place < len(text):
        char, end = text[place], place + 1
        if char in " \t\r\n":
            place += 1
            continue
        if char == '"':
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            end += 1
        elif text.startswith("//", place):
            end = min(index for index in (text.find("\n", place), len(text)) if index >= 0)
        elif text.startswith("/*", place):
            end = text.index("*/", place + 2) + 2
        elif char not in "{}[],:":
            while end < len(text) and text[end] not in "{}[],: \t\r\n/":
                end += 1
        found.append(text[place:end].rstrip("\r"))
        place = end
    return found


def comments_of(text: str) -> list[str]:
    return [token for token in tokens(text) if token.startswith("/")]


def value_of(text: str) -> Any:
    return json.loads("".join(token for token in tokens(text) if not token.startswith("/")))
