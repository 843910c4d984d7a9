"""JSON text of which every part knows its place, so that a change touches what it changes and not one byte more.

``parse`` reads a text as strictly as the program does that the text is for: with comments (``//`` to the end of the
line, ``/* */``) only where it takes them, and never with a comma that nothing follows, a key that stands twice where
somebody looks it up, or a number, string or word that JSON does not have.  ``append`` and ``remove`` say which edits
put something in or take it out; comments, blanks, the order and the spelling of everything else stay as they are.
``replaced`` carries edits out, ``reverse`` are those that take them back.

Places are counted in characters.  A text is written in the style it has: its line ends, its indentation, a line a
value or all in one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

_BLANK: Final = re.compile(r"[ \t\r\n]*")
# A lone carriage return ends a line for some programs and not for others: a comment with one is none.
_COMMENT: Final = re.compile(r"//[^\r\n]*(?=\r?\n|\Z)|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_WORD: Final = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INDENTATION: Final = re.compile(r"[ \t]*")
_END_OF_LINE: Final = re.compile(r"[ \t]*(?:\r?\n|\Z)")
_DEEPEST: Final = 100


class Problem(Exception):
    """Why a text is not what it should be, and where (lines and columns from 1)."""

    def __init__(self, text: str, place: int, why: str) -> None:
        super().__init__(why)
        self.line = text.count("\n", 0, place) + 1
        self.column = place - text.rfind("\n", 0, place)
        self.why = why


@dataclass(frozen=True)
class Node:
    """A value in a text: what it is, and where.  Numbers are ``float``; of a key that stands twice the last counts."""

    value: Any
    start: int
    end: int
    items: tuple[Item, ...] = ()
    """What is in an object or an array."""


@dataclass(frozen=True)
class Item:
    """A member of an object, or an element of an array (``key`` is None).  ``comma`` is where the one after it is."""

    key: str | None
    start: int
    node: Node
    comma: int | None


class Edit(NamedTuple):
    """``new`` instead of what is from ``start`` to ``end``."""

    start: int
    end: int
    new: str


def parse(text: str, *, comments: bool = False) -> Node:
    """The one value of ``text``; ``Problem``."""
    reader = _Reader(text, comments)
    place = reader.skip(0)
    if place == len(text):
        raise Problem(text, place, "there is no value")
    node = reader.value(place, 0)
    rest = reader.skip(node.end)
    if rest < len(text):
        raise Problem(text, rest, "something follows the value")
    return node


def member(text: str, node: Node, key: str) -> Item | None:
    """The member of an object; ``Problem`` if its key stands twice: programs do not agree on what that means."""
    found = [item for item in node.items if item.key == key]
    if len(found) > 1:
        raise Problem(text, found[1].start, f'"{key}" stands there twice')
    return found[0] if found else None


def replaced(text: str, edits: Iterable[Edit]) -> str:
    """``text`` after edits that do not overlap."""
    parts, place = [], 0
    for edit in sorted(edits):
        parts += [text[place : edit.start], edit.new]
        place = edit.end
    return "".join([*parts, text[place:]])


def reverse(text: str, edits: Iterable[Edit]) -> list[Edit]:
    """The edits that make ``text`` again of what ``replaced`` makes of it."""
    back, shift = [], 0
    for edit in sorted(edits):
        start = edit.start + shift
        back.append(Edit(start, start + len(edit.new), text[edit.start : edit.end]))
        shift += len(edit.new) - (edit.end - edit.start)
    return back


def append(text: str, root: Node, node: Node, entries: Sequence[tuple[str | None, Any]]) -> list[Edit]:
    """What puts ``entries`` (key and value; the key is None in an array) after the last item of ``node``."""
    style = _Style.of(text, root)
    if not node.items:
        return [_fill(text, node, entries, style)]
    last = node.items[-1]
    indentation = _own_line(text, last.start)
    if indentation is None:
        return [Edit(last.node.end, last.node.end, "".join(f", {style.in_line(*entry)}" for entry in entries))]
    begin = style.newline + indentation
    place = _end_of_remarks(text, last.node.end)
    added = f",{begin}".join(style.on_lines(*entry, indentation) for entry in entries)
    if place == last.node.end:
        return [Edit(place, place, f",{begin}{added}")]
    return [Edit(last.node.end, last.node.end, ","), Edit(place, place, begin + added)]


def remove(text: str, node: Node, doomed: Collection[int]) -> list[Edit]:
    """What takes the items of these numbers out of ``node``, and nothing but them and their commas."""
    kept = [number for number in range(len(node.items)) if number not in doomed]
    if not kept and is_bare(text, node):
        return [Edit(node.start + 1, node.end - 1, "")]
    cuts = [cut for number in doomed for cut in _cuts(text, node, number)]
    if kept and kept[-1] + 1 < len(node.items):
        comma = node.items[kept[-1]].comma
        assert comma is not None  # noqa: S101 - something follows
        cuts.append(_Cut(comma, comma + 1))
    return [_edit(text, cut) for cut in _joined(cuts)]


def is_bare(text: str, node: Node) -> bool:
    """Whether an object or array holds nothing beside its items: no comment."""
    start = node.start + 1
    for item in node.items:
        end = item.node.end if item.comma is None else item.comma
        if text[start : item.start].strip() or text[item.node.end : end].strip():
            return False
        start = item.node.end if item.comma is None else item.comma + 1
    return not text[start : node.end - 1].strip()


def is_bare_member(text: str, item: Item) -> bool:
    """The same of what a key stands for, and nothing stands between the two but the colon."""
    key = _STRING.match(text, item.start)
    assert key is not None  # noqa: S101 - asked of a member
    return text[key.end() : item.node.start].strip() == ":" and is_bare(text, item.node)


def text_of(value: Any) -> str:
    """A whole new text."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


# Reading


class _Reader:
    def __init__(self, text: str, comments: bool) -> None:
        self._text = text
        self._comments = comments

    def skip(self, place: int) -> int:
        """Over blanks and comments."""
        while True:
            place = _match(_BLANK, self._text, place)
            if self._text[place : place + 1] != "/":
                return place
            if not self._comments:
                raise Problem(self._text, place, "there is a comment, and it reads no file with one")
            found = _COMMENT.match(self._text, place)
            if found is None:
                raise Problem(self._text, place, "a comment does not end")
            place = found.end()

    def value(self, place: int, depth: int) -> Node:
        first = self._text[place : place + 1]
        if first in ("{", "["):
            if depth == _DEEPEST:
                raise Problem(self._text, place, "it is nested too deeply")
            return self._container(place, depth, "}" if first == "{" else "]")
        if first == '"':
            value, end = self._string(place)
            return Node(value, place, end)
        found = _WORD.match(self._text, place)
        if found is None:
            raise Problem(self._text, place, "there is no value")
        # As float, because Python refuses whole numbers of very many digits.
        return Node(json.loads(found[0], parse_int=float), place, found.end())

    def _container(self, start: int, depth: int, closing: str) -> Node:
        items: list[Item] = []
        place = self.skip(start + 1)
        while self._text[place : place + 1] != closing:
            if items and items[-1].comma is None:
                raise Problem(self._text, place, f'"," or "{closing}" is missing')
            begin, key = place, None
            if closing == "}":
                key, place = self._key(place)
            node = self.value(place, depth + 1)
            place = self.skip(node.end)
            comma = place if self._text[place : place + 1] == "," else None
            items.append(Item(key, begin, node, comma))
            if comma is not None:
                place = self.skip(comma + 1)
        if items and items[-1].comma is not None:
            raise Problem(self._text, items[-1].comma, "a comma has nothing after it")
        values = [item.node.value for item in items]
        value = dict(zip([item.key for item in items], values, strict=True)) if closing == "}" else values
        return Node(value, start, place + 1, tuple(items))

    def _key(self, place: int) -> tuple[str, int]:
        """A member's key, and where its value begins."""
        key, end = self._string(place)
        colon = self.skip(end)
        if self._text[colon : colon + 1] != ":":
            raise Problem(self._text, colon, '":" is missing')
        return key, self.skip(colon + 1)

    def _string(self, place: int) -> tuple[str, int]:
        found = _STRING.match(self._text, place)
        if found is None:
            raise Problem(self._text, place, "there is no string, or it does not end")
        return json.loads(found[0]), found.end()


def _match(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Where a pattern that may match nothing ends."""
    found = pattern.match(text, place)
    return found.end() if found else place


# Writing


@dataclass(frozen=True)
class _Style:
    newline: str
    unit: str
    """By how much a level is indented; empty: everything is in one line."""

    @classmethod
    def of(cls, text: str, root: Node) -> _Style:
        newline = "\r\n" if "\r\n" in text else "\n"
        indented = (_own_line(text, item.start) for item in root.items)
        unit = next((found for found in indented if found), "")
        one_line = root.items and "\n" not in text[root.start : root.end]
        return cls(newline, "" if one_line else unit or "  ")

    def in_line(self, key: str | None, value: Any) -> str:
        return _with_key(key, json.dumps(value, ensure_ascii=False))

    def on_lines(self, key: str | None, value: Any, indentation: str) -> str:
        """Of several lines, of which all but the first are indented already."""
        if not self.unit:
            return self.in_line(key, value)
        text = json.dumps(value, ensure_ascii=False, indent=self.unit)
        return _with_key(key, text.replace("\n", self.newline + indentation))


def _with_key(key: str | None, text: str) -> str:
    return text if key is None else f"{json.dumps(key, ensure_ascii=False)}: {text}"


def _fill(text: str, node: Node, entries: Sequence[tuple[str | None, Any]], style: _Style) -> Edit:
    """What is put into a container that is empty but for blanks and comments."""
    place = node.start + 1
    for found in _comments(text, place, node.end - 1):
        place = found.end()
    if not style.unit and place == node.start + 1:
        return Edit(place, node.end - 1, ", ".join(style.in_line(*entry) for entry in entries))
    outer = _indentation(text, node.start)
    inner = outer + style.unit
    lines = f",{style.newline}{inner}".join(style.on_lines(*entry, inner) for entry in entries)
    return Edit(place, node.end - 1, f"{style.newline}{inner}{lines}{style.newline}{outer}")


class _Cut(NamedTuple):
    """What is to go; ``remark``: a comment to the end of the line stands right before it."""

    start: int
    end: int
    remark: bool = False


def _cuts(text: str, node: Node, number: int) -> Iterator[_Cut]:
    """An item with the blanks before it, and its own comma."""
    item = node.items[number]
    previous = node.items[number - 1].comma if number else None
    start, remark = (node.start if previous is None else previous) + 1, False
    for found in _comments(text, start, item.start):
        start, remark = found.end(), found[0].startswith("//")
    end = item.node.end
    if item.comma is not None:
        if text[end : item.comma].strip():  # a comment stands between them
            yield _Cut(item.comma, item.comma + 1)
        else:
            end = item.comma + 1
    yield _Cut(start, end, remark)


def _joined(cuts: Iterable[_Cut]) -> list[_Cut]:
    """Cuts with nothing between them as one."""
    joined: list[_Cut] = []
    for cut in sorted(cuts):
        if joined and joined[-1].end == cut.start:
            joined[-1] = joined[-1]._replace(end=cut.end)
        else:
            joined.append(cut)
    return joined


def _edit(text: str, cut: _Cut) -> Edit:
    start, end = cut.start, cut.end
    if cut.remark:  # what follows must not become part of the comment
        if _END_OF_LINE.match(text, end):
            end = _match(_INDENTATION, text, end)
        else:
            start = _match(_END_OF_LINE, text, start)
    return Edit(start, end, "")


def _comments(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """The comments in a stretch that has nothing else but blanks."""
    place = _match(_BLANK, text, start)
    while place < end:
        found = _COMMENT.match(text, place)
        assert found is not None  # noqa: S101 - it was read before
        yield found
        place = _match(_BLANK, text, found.end())


def _end_of_remarks(text: str, place: int) -> int:
    """The end of the comments that begin in the line of ``place``, behind what they are about."""
    while True:
        begin = _match(_INDENTATION, text, place)
        found = _COMMENT.match(text, begin)
        if found is None:
            return place
        place = found.end()


def _own_line(text: str, place: int) -> str | None:
    """The indentation of what begins a line at ``place``; ``None`` if something stands before it."""
    indentation = _indentation(text, place)
    line = text.rfind("\n", 0, place) + 1
    return indentation if line and line + len(indentation) == place else None


def _indentation(text: str, place: int) -> str:
    """That of the line of ``place``."""
    line = text.rfind("\n", 0, place) + 1
    return text[line : _match(_INDENTATION, text, line)]
