"""What a model may ask for, what it is told, and what it can never reach."""

from __future__ import annotations

import pytest
from backends.workspaces import MemoryWorkspace

from gitsession.backends import tools
from gitsession.backends.base import FileProblem
from gitsession.backends.tools import Planned, Tools

GO = b"package user\n\nfunc Get() {}\nfunc Put() {}\n"


@pytest.fixture
def workspace() -> MemoryWorkspace:
    made = MemoryWorkspace()
    made.held = {b"src/user.go": GO, b"src/order.go": b"a\r\nb\r\n", b"README.md": b"# x\n", b"bin": b"\0\1"}
    return made


def look(workspace: MemoryWorkspace, name: str, **given: object) -> str:
    return Tools(workspace).look(tools.parse(name, given, allow_commands=False))


def plan(workspace: MemoryWorkspace, name: str, **given: object) -> Planned:
    return Tools(workspace).plan(tools.parse(name, given, allow_commands=False))


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "src/../../outside",
        "..",
        "/etc/passwd",
        "~/x",
        "C:\\x",
        "c:/x",
        ".git/hooks/pre-commit",
        ".git",
        "sub/.git/config",
        ".GIT/hooks/pre-commit",
        ".Git/config",
        "./.git/config",
        "src//.git//config",
        ".git /config",
        ".git./config",
        ".git::$INDEX_ALLOCATION/config",
        "git~1/config",
        "GIT~1/config",
        ".g\u200cit/config",
        ".git\\config",
        "a\0b",
        "",
        ".",
        "./",
        "x" * 256,
        "d/" * 3000 + "x",
    ],
)
def test_paths_that_cannot_be_named(workspace: MemoryWorkspace, path: str) -> None:
    with pytest.raises(FileProblem):
        look(workspace, "read_file", path=path)
    with pytest.raises(FileProblem):
        plan(workspace, "write_file", path=path, content="x")
    with pytest.raises(FileProblem):
        plan(workspace, "move_file", path="README.md", to=path)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("src/user.go", b"src/user.go"),
        ("./src//user.go", b"src/user.go"),
        (".gitignore", b".gitignore"),
        (".github/x", b".github/x"),
        ("a..b/c", b"a..b/c"),
        ('"caf\\351"', b"caf\xe9"),
        ("用户.go", "用户.go".encode()),
    ],
)
def test_paths_that_can(path: str, meant: bytes) -> None:
    assert tools.repository_path(path) == meant


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("read_file", {}, "path: Field required"),
        ("read_file", {"path": "a", "first_line": 0}, "first_line: Input should be greater"),
        ("read_file", {"path": "a", "mode": "r"}, "mode: Extra inputs are not permitted"),
        ("write_file", {"path": "a", "content": 7}, "content: Input should be a valid string"),
        ("report_findings", {"findings": [{"file": "a"}]}, "findings.0.line: Field required"),
        ("explode", {}, "there is no tool 'explode'; the tools are list_files, read_file"),
        ("run_command", {"command": "ls"}, "the user has not allowed it"),
    ],
)
def test_an_input_that_does_not_fit_is_explained(name: str, given: dict[str, object], words: str) -> None:
    with pytest.raises(FileProblem) as caught:
        tools.parse(name, given, allow_commands=False)
    assert words in str(caught.value)


def test_definitions_have_plain_schemas() -> None:
    known = {one["name"]: one for one in tools.definitions(allow_commands=True)}
    assert list(known) == [
        "list_files", "read_file", "search", "write_file", "edit_file", "delete_file", "move_file", "run_command",
        "finish_phase", "report_findings",
    ]  # fmt: skip
    assert "run_command" not in {one["name"] for one in tools.definitions(allow_commands=False)}
    schema = known["edit_file"]["input_schema"]
    assert schema["required"] == ["path", "old_text", "new_text"]
    assert schema["additionalProperties"] is False
    assert "title" not in schema
    assert "title" not in schema["properties"]["path"]


def test_listing(workspace: MemoryWorkspace) -> None:
    assert look(workspace, "list_files") == "README.md\nbin\nsrc/order.go\nsrc/user.go"
    assert look(workspace, "list_files", path="src", pattern="u*.go") == "src/user.go"
    assert look(workspace, "list_files", path="lib") == "[no files]"
    workspace.held |= {b"many/%04d" % number: b"" for number in range(1500)}
    listed = look(workspace, "list_files", path="many").splitlines()
    assert len(listed) == 1001
    assert listed[-1] == "[500 more files: name a directory or a pattern]"


def test_reading(workspace: MemoryWorkspace) -> None:
    assert (
        look(workspace, "read_file", path="src/user.go") == "1\tpackage user\n2\t\n3\tfunc Get() {}\n4\tfunc Put() {}"
    )
    part = look(workspace, "read_file", path="src/user.go", first_line=3, lines=1)
    assert part == "3\tfunc Get() {}\n[lines 3 to 3 of 4]"
    assert look(workspace, "read_file", path="src/user.go", first_line=9) == "[it has only 4 lines]"
    assert look(workspace, "read_file", path="src/order.go").endswith("[its lines end in CRLF]")
    assert look(workspace, "read_file", path="bin") == "[bin is a binary file of 2 bytes]"
    workspace.held[b"latin"] = b"caf\xe9\n"
    assert "not UTF-8" in look(workspace, "read_file", path="latin")
    workspace.held[b"empty"] = b""
    assert look(workspace, "read_file", path="empty") == "[empty file]"


def test_results_are_bounded_and_say_so(workspace: MemoryWorkspace) -> None:
    workspace.held[b"long"] = b"x" * 100_000
    assert "[line of 100000 characters, cut]" in look(workspace, "read_file", path="long")
    workspace.held[b"tall"] = b"abcdefgh\n" * 50_000
    text = look(workspace, "read_file", path="tall")
    assert len(text) < tools.RESULT_LIMIT + 100
    assert text.endswith("[lines 1 to 2000 of 50000]")
    text = look(workspace, "search", pattern="abc")
    assert len(text) < tools.RESULT_LIMIT + 100
    assert text.endswith("[there are more matches: search more exactly]")


def test_writing(workspace: MemoryWorkspace) -> None:
    made = plan(workspace, "write_file", path="new.py", content="x = 1\n")
    (change,) = made.changes
    assert (change.path, change.data, change.expected) == (b"new.py", b"x = 1\n", None)
    assert (made.told, made.what) == ("Created new.py", "new.py (new)")
    made = plan(workspace, "write_file", path="README.md", content="# y\n", purpose="the title")
    assert (made.told, made.what) == ("Changed README.md", "the title")
    assert made.changes[0].expected is not None
    with pytest.raises(FileProblem, match="exactly this already"):
        plan(workspace, "write_file", path="README.md", content="# x\n")
    with pytest.raises(FileProblem, match="at most 5 MB"):
        plan(workspace, "write_file", path="huge", content="x" * (tools.WRITE_LIMIT + 1))
    with pytest.raises(FileProblem, match="surrogate"):
        plan(workspace, "write_file", path="odd", content="\ud800")


def test_editing_needs_one_match(workspace: MemoryWorkspace) -> None:
    made = plan(workspace, "edit_file", path="src/user.go", old_text="Get()", new_text="Find()")
    assert made.changes[0].data == GO.replace(b"Get", b"Find")
    assert made.result == "Changed src/user.go at line 3."
    for old, words in (
        ("func ", "occurs 2 times"),
        ("Got", "does not occur"),
        ("Get() {}\nfunc Put() {}\n\n", "does not occur"),
    ):
        with pytest.raises(FileProblem, match=words):
            plan(workspace, "edit_file", path="src/user.go", old_text=old, new_text="x")
    with pytest.raises(FileProblem, match="nothing was changed"):
        plan(workspace, "edit_file", path="src/user.go", old_text="Get", new_text="Get")
    with pytest.raises(FileProblem, match="no such file"):
        plan(workspace, "edit_file", path="lost", old_text="a", new_text="b")


def test_editing_keeps_line_ends_and_bytes(workspace: MemoryWorkspace) -> None:
    made = plan(workspace, "edit_file", path="src/order.go", old_text="a\nb", new_text="a\nc\nb")
    assert made.changes[0].data == b"a\r\nc\r\nb\r\n"
    workspace.held[b"latin"] = b"caf\xe9 = 1\n"
    made = plan(workspace, "edit_file", path="latin", old_text="= 1", new_text="= 2")
    assert made.changes[0].data == b"caf\xe9 = 2\n"


def test_deleting_and_moving(workspace: MemoryWorkspace) -> None:
    (change,) = plan(workspace, "delete_file", path="README.md").changes
    assert change.data is None
    workspace.executable.add(b"bin")
    into, out_of = plan(workspace, "move_file", path="bin", to="tools/bin").changes
    assert (into.path, into.data, into.expected, into.executable) == (b"tools/bin", b"\0\1", None, True)
    assert (out_of.path, out_of.data) == (b"bin", None)
    with pytest.raises(FileProblem, match="there already"):
        plan(workspace, "move_file", path="bin", to="README.md")


def test_a_file_that_somebody_changed_since_must_be_read_again(workspace: MemoryWorkspace) -> None:
    held = Tools(workspace)
    held.look(tools.parse("read_file", {"path": "README.md"}, allow_commands=False))
    workspace.held[b"README.md"] = b"# theirs\n"
    write = tools.parse("write_file", {"path": "README.md", "content": "# mine\n"}, allow_commands=False)
    with pytest.raises(FileProblem, match="changed by somebody else"):
        held.plan(write)
    held.look(tools.parse("read_file", {"path": "README.md"}, allow_commands=False))
    held.made(held.plan(write))
