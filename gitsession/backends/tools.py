"""The tools a model has: what it may give them, and what they do with the working tree.

Every input is checked by a pydantic model; what does not fit is told to the model in words.  Paths are repository
paths (``gitsession.paths``), relative to the root; nothing outside of it and nothing of git's can be named.  Results
are bounded, and say so where they were cut.  Reading is done here; a change is only described (``FileEdit``) and made
by whoever can do it exactly once.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gitsession import paths
from gitsession.backends.base import FileEdit, FileProblem, FileSeen, Workspace

RESULT_LIMIT: Final = 50_000  # characters of one result
READ_LIMIT: Final = 10 * 1024 * 1024  # bytes of a file that is read at all
WRITE_LIMIT: Final = 5 * 1024 * 1024  # bytes of a file that is written
_LINES: Final = 2000
_LINE: Final = 2000  # characters
_LISTED: Final = 1000
_PROBLEMS: Final = 5
# Characters that some file systems do not see in a name, so that it could still be ``.git``.
_UNSEEN: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


class _Input(BaseModel):
    model_config = ConfigDict(extra="forbid")


_Path = Field(min_length=1, description="Path relative to the repository's root, with forward slashes.")
_Purpose = Field(
    default="",
    max_length=200,
    description="What the change belongs to, in a few words, like 'user module changes'. Changes of one reply with "
    "the same purpose are kept as one checkpoint.",
)


class ListFiles(_Input):
    """List the repository's files: tracked ones, and untracked ones that are not ignored."""

    path: str = Field(default="", description="Only files below this directory; empty for all.")
    pattern: str = Field(default="", description="Only files whose path or name matches, like '*.py'.")


class ReadFile(_Input):
    """Read a text file; each line comes as its number, a tab, and its text."""

    path: str = _Path
    first_line: int = Field(default=1, ge=1)
    lines: int = Field(default=_LINES, ge=1, le=_LINES)


class Search(_Input):
    """Search the repository's files for lines that match a regular expression."""

    pattern: str = Field(min_length=1, max_length=1000, description="A POSIX extended regular expression.")
    path: str = Field(default="", description="Only this file, or files below this directory; empty for all.")
    ignore_case: bool = False


class WriteFile(_Input):
    """Create a file, or replace all of its text."""

    path: str = _Path
    content: str
    purpose: str = _Purpose


class EditFile(_Input):
    """Replace a piece of a file. old_text must occur exactly once, to the last blank."""

    path: str = _Path
    old_text: str = Field(min_length=1, description="The text to replace, without line numbers.")
    new_text: str
    purpose: str = _Purpose


class DeleteFile(_Input):
    """Delete a file."""

    path: str = _Path
    purpose: str = _Purpose


class MoveFile(_Input):
    """Move a file to a path at which nothing is."""

    path: str = _Path
    to: str = Field(min_length=1, description="The new path.")
    purpose: str = _Purpose


class RunCommand(_Input):
    """Run a shell command in the repository's root, without input."""

    command: str = Field(min_length=1, max_length=20_000)
    timeout_seconds: int = Field(default=120, ge=1, le=600)


class FinishPhase(_Input):
    """End the phase you are in."""

    summary: str = Field(min_length=1, max_length=300, description="The result in one line.")
    details: str = Field(default="", max_length=20_000, description="What you found or did, for who goes on from here.")
    decisions: list[str] = Field(default_factory=list, max_length=50, description="Decisions on the architecture.")


class FindingInput(_Input):
    file: str = Field(min_length=1)
    line: int = Field(ge=1, description="The line in the file as it is now.")
    severity: Literal["critical", "warning", "note"]
    message: str = Field(min_length=1, max_length=1000)
    quote: str = Field(min_length=1, max_length=500, description="The line's text, exactly; it is checked.")


class ReportFindings(_Input):
    """End the review with its findings; an empty list if there are none."""

    findings: list[FindingInput] = Field(max_length=100)


READING: Final[dict[str, type[_Input]]] = {"list_files": ListFiles, "read_file": ReadFile, "search": Search}
EDITING: Final[dict[str, type[_Input]]] = {
    "write_file": WriteFile,
    "edit_file": EditFile,
    "delete_file": DeleteFile,
    "move_file": MoveFile,
}
ENDING: Final[dict[str, type[_Input]]] = {"finish_phase": FinishPhase, "report_findings": ReportFindings}
COMMAND: Final = "run_command"


def inputs(*, allow_commands: bool) -> dict[str, type[_Input]]:
    """The tools there are, by name, in the order they are told."""
    return READING | EDITING | ({COMMAND: RunCommand} if allow_commands else {}) | ENDING


def definitions(*, allow_commands: bool) -> list[dict[str, Any]]:
    """The tools as the Messages API takes them."""
    return [
        {"name": name, "description": model.__doc__, "input_schema": _schema(model)}
        for name, model in inputs(allow_commands=allow_commands).items()
    ]


def parse(name: str, given: Any, *, allow_commands: bool) -> _Input:
    """The input of a call, checked; ``FileProblem`` says to the model what is wrong with it."""
    known = inputs(allow_commands=allow_commands)
    if name == COMMAND and not allow_commands:
        raise FileProblem("commands may not be run in this session: the user has not allowed it")
    if name not in known:
        raise FileProblem(f"there is no tool {name!r}; the tools are {', '.join(known)}")
    try:
        return known[name].model_validate(given)
    except ValidationError as error:
        problems = [
            ".".join(str(part) for part in problem["loc"]) + ": " + problem["msg"]
            for problem in error.errors()[:_PROBLEMS]
        ]
        raise FileProblem(f"the input of {name} does not fit: " + "; ".join(problems)) from None


def repository_path(text: str) -> bytes:
    """The path that the model names; ``FileProblem`` for one that is not below the root, or is git's."""
    path = paths.decode(text)
    if b"\0" in path:
        raise FileProblem("a path cannot hold a NUL character")
    if path.startswith((b"/", b"~")) or re.match(rb"[A-Za-z]:[\\/]", path):
        raise FileProblem(f"{text}: only paths relative to the repository's root can be named")
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise FileProblem(f"{text}: '..' could lead out of the repository; name the path from its root")
    if not parts:
        raise FileProblem(f"{text}: this is the repository itself")
    if any(_is_gits(part) for part in parts):
        raise FileProblem(f"{text}: what is inside .git is git's own, and cannot be read or changed here")
    if any(len(part) > 255 for part in parts) or len(path) > 4000:
        raise FileProblem("the path is too long")
    return b"/".join(parts)


def _is_gits(part: bytes) -> bool:
    """Whether a name is ``.git``, or could be taken for it by a file system that is less exact."""
    name = _UNSEEN.sub("", part.decode("utf-8", "replace")).split(":", 1)[0].rstrip(" .").casefold()
    return name in {".git", "git~1"} or "\\.git" in name or name.startswith(".git\\")


@dataclass(frozen=True)
class Planned:
    """A change that a tool call asks for; ``told`` is for a person, ``what`` names it in a checkpoint."""

    changes: tuple[FileEdit, ...]
    told: str
    what: str
    result: str


class Tools:
    """The tools that look at files, and those that say how files should change."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        # What the model has seen of each file: it must not replace what it does not know.
        self._seen: dict[bytes, str] = {}

    def look(self, given: _Input) -> str:
        """The result of a tool that only looks; ``FileProblem`` when it cannot."""
        if isinstance(given, ListFiles):
            return self._list(given)
        if isinstance(given, ReadFile):
            return self._read(given)
        if isinstance(given, Search):
            return self._search(given)
        raise TypeError(f"{type(given).__name__} does not look at files")

    def plan(self, given: _Input) -> Planned:
        """What a tool call changes; ``FileProblem`` when it cannot be."""
        makers: dict[type[_Input], Callable[[Any], Planned]] = {
            WriteFile: self._write,
            EditFile: self._edit,
            DeleteFile: self._delete,
            MoveFile: self._move,
        }
        return makers[type(given)](given)

    def made(self, planned: Planned) -> None:
        """Take note that a change was made."""
        for change in planned.changes:
            # What stands there now is what the model wrote, whatever its id is.
            self._seen.pop(change.path, None)

    # Looking

    def _list(self, given: ListFiles) -> str:
        below = repository_path(given.path) + b"/" if given.path.strip("./") else b""
        names = [paths.encode(path) for path in self._workspace.files() if path.startswith(below)]
        if given.pattern:
            names = [name for name in names if _matches(name, given.pattern)]
        shown = names[:_LISTED]
        more = (
            f"\n[{len(names) - len(shown)} more files: name a directory or a pattern]" if len(names) > _LISTED else ""
        )
        return _bounded("\n".join(shown) + more) if names else "[no files]"

    def _read(self, given: ReadFile) -> str:
        path = repository_path(given.path)
        file = self._existing(path)
        self._seen[path] = file.oid
        if b"\0" in file.data[:8000]:
            return f"[{given.path} is a binary file of {len(file.data)} bytes]"
        notes = []
        try:
            text = file.data.decode("utf-8")
        except UnicodeDecodeError:
            text = file.data.decode("utf-8", "replace")
            notes.append("[not UTF-8: bytes that do not fit are shown as \ufffd and cannot be matched]")
        if "\r\n" in text:
            notes.append("[its lines end in CRLF]")
        lines = text.replace("\r\n", "\n").split("\n")
        if lines[-1] == "":
            lines.pop()
        return _numbered(lines, given.first_line, given.lines, notes)

    def _search(self, given: Search) -> str:
        below = repository_path(given.path) if given.path.strip("./") else b""
        found = self._workspace.search(given.pattern, below, given.ignore_case, RESULT_LIMIT)
        text = found.decode("utf-8", "replace")
        lines = [line if len(line) <= 500 else line[:500] + "…" for line in text.splitlines()]
        cut = "\n[there are more matches: search more exactly]" if len(found) >= RESULT_LIMIT else ""
        return _bounded("\n".join(lines)) + cut if lines else "[no matches]"

    # Changing

    def _write(self, given: WriteFile) -> Planned:
        path = repository_path(given.path)
        data = _encoded(given.content)
        before = self._workspace.read(path, READ_LIMIT)
        if before is not None:
            self._refuse_unknown(path, before)
            if before.data == data:
                raise FileProblem(f"{given.path} holds exactly this already: nothing was changed")
        change = FileEdit(path, data, before.oid if before else None)
        told = f"{'Changed' if before else 'Created'} {paths.encode(path)}"
        what = paths.encode(path) + ("" if before else " (new)")
        return Planned((change,), told, given.purpose or what, f"{told}: {_size(data)}.")

    def _edit(self, given: EditFile) -> Planned:
        path = repository_path(given.path)
        before = self._existing(path)
        self._refuse_unknown(path, before)
        old, new = _encoded(given.old_text), _encoded(given.new_text)
        if old not in before.data and b"\r\n" in before.data and b"\r" not in old:
            old, new = old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")
        count = before.data.count(old)
        if count == 0:
            raise FileProblem(f"old_text does not occur in {given.path}: read it again and give it exactly")
        if count > 1:
            raise FileProblem(f"old_text occurs {count} times in {given.path}: give more of what is around it")
        data = before.data.replace(old, new)
        if data == before.data:
            raise FileProblem(f"new_text is what {given.path} has already: nothing was changed")
        if len(data) > WRITE_LIMIT:
            raise FileProblem(f"{given.path} would become larger than {WRITE_LIMIT // 1024**2} MB")
        told = f"Changed {paths.encode(path)}"
        at = before.data[: before.data.find(old)].count(b"\n") + 1
        change = FileEdit(path, data, before.oid)
        return Planned((change,), told, given.purpose or paths.encode(path), f"{told} at line {at}.")

    def _delete(self, given: DeleteFile) -> Planned:
        path = repository_path(given.path)
        before = self._existing(path)
        told = f"Deleted {paths.encode(path)}"
        what = given.purpose or f"{paths.encode(path)} (deleted)"
        return Planned((FileEdit(path, None, before.oid),), told, what, f"{told}.")

    def _move(self, given: MoveFile) -> Planned:
        path, to = repository_path(given.path), repository_path(given.to)
        before = self._existing(path)
        if self._workspace.read(to, READ_LIMIT) is not None:
            raise FileProblem(f"{given.to} is there already: nothing was moved")
        told = f"Moved {paths.encode(path)} to {paths.encode(to)}"
        changes = (FileEdit(to, before.data, None, before.executable), FileEdit(path, None, before.oid))
        return Planned(changes, told, given.purpose or f"{paths.encode(to)} (was {paths.encode(path)})", f"{told}.")

    def _existing(self, path: bytes) -> FileSeen:
        file = self._workspace.read(path, READ_LIMIT)
        if file is None:
            raise FileProblem(f"{paths.encode(path)}: there is no such file")
        return file

    def _refuse_unknown(self, path: bytes, now: FileSeen) -> None:
        """A file that is not any more what the model saw must be looked at again."""
        seen = self._seen.get(path)
        if seen is not None and seen != now.oid:
            raise FileProblem(f"{paths.encode(path)} was changed by somebody else since you read it: read it again")


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """The input's JSON schema without pydantic's titles."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(part) for key, part in value.items() if not (key == "title" and isinstance(part, str))}
        return [plain(part) for part in value] if isinstance(value, list) else value

    schema: dict[str, Any] = plain(model.model_json_schema())
    schema.pop("description", None)
    return schema


def _encoded(text: str) -> bytes:
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise FileProblem("the text is not valid Unicode (a lone surrogate)") from None
    if len(data) > WRITE_LIMIT:
        raise FileProblem(
            f"the text has {len(data):,} bytes; at most {WRITE_LIMIT // 1024**2} MB can be written at once"
        )
    return data


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.rpartition("/")[2], pattern)


def _numbered(lines: list[str], first: int, count: int, notes: list[str]) -> str:
    """Lines with their numbers, as many as a result takes."""
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[first - 1 : first - 1 + count], first):
        text = line if len(line) <= _LINE else f"{line[:_LINE]}… [line of {len(line)} characters, cut]"
        size += len(text) + 8
        if size > RESULT_LIMIT:
            break
        shown.append(f"{number}\t{text}")
    last = first - 1 + len(shown)
    if not shown and lines:
        notes.append(f"[it has only {len(lines)} lines]")
    elif not lines:
        notes.append("[empty file]")
    elif first > 1 or last < len(lines):
        notes.append(f"[lines {first} to {last} of {len(lines)}]")
    return "\n".join([*shown, *notes])


def _bounded(text: str) -> str:
    if len(text) <= RESULT_LIMIT:
        return text
    return text[:RESULT_LIMIT] + f"\n[cut: {len(text) - RESULT_LIMIT} more characters]"


def _size(data: bytes) -> str:
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    return f"{lines} line{'s' if lines != 1 else ''}, {len(data)} bytes"
