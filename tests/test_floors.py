"""The house stands on floors: a module imports only from floors below, and only the top floor speaks to people."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gitsession

PACKAGE = Path(gitsession.__file__).parent
FLOORS = (
    {
        "agentevents",
        "claims",
        "clock",
        "config",
        "conversation",
        "demo",
        "errors",
        "githook",
        "home",
        "ids",
        "lifecycle",
        "links",
        "living",
        "model",
        "opencalls",
        "tasks",
        "paths",
        "prices",
        "seam",
        "secrets",
        "unicode",
    },
    {"store", "git", "backends"},  # siblings that never import each other
    {"verbs"},
    {"agenthook", "cli"},
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
# Programs of their own that a session runs: not part of the library.
PROGRAMS = {"gitsession.demo.agent"}
# Where each package that is slow to load, or is for one purpose, may be imported at all.
HOMES = {
    "anthropic": ("gitsession.backends.claude",),
    "click": ("gitsession.cli",),
    "filelock": ("gitsession.store",),
    "jinja2": ("gitsession.cli.render.html",),
    "markupsafe": ("gitsession.cli.render.html",),
    "psutil": ("gitsession.backends", "gitsession.living"),
    "pydantic": ("gitsession.model", "gitsession.store", "gitsession.backends.tools", "gitsession.verbs.verify"),
    "pydantic_core": ("gitsession.store",),
    "pygit2": ("gitsession.git",),
    "rich": ("gitsession.cli.render",),
    "tomlkit": ("gitsession.verbs.settings",),
    "watchfiles": ("gitsession.verbs",),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}
LIBRARY = [name for name in SOURCES if name != "gitsession" and name not in PROGRAMS]


def imported(name: str) -> Iterator[str]:
    """Every module that a module imports, also inside functions and for type checking only."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}, line {node.lineno}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in SOURCES else str(node.module)


def own_imports(name: str) -> set[str]:
    """The modules of ours that a module imports; the package itself, which only looks names up, does not count."""
    return {other for other in imported(name) if other.startswith("gitsession.") and other != name}


def room(name: str) -> str:
    return name.split(".")[1]


def test_every_module_has_its_floor() -> None:
    assert {room(name) for name in SOURCES if name != "gitsession"} <= set(FLOOR_OF)


@pytest.mark.parametrize("name", LIBRARY)
def test_imports_go_down(name: str) -> None:
    here = room(name)
    for other in own_imports(name):
        there = room(other)
        ground = FLOOR_OF[here] == FLOOR_OF[there] == 0
        assert there == here or ground or FLOOR_OF[there] < FLOOR_OF[here], f"{name} imports {other}"


def test_nothing_imports_in_a_circle() -> None:
    try:
        TopologicalSorter({name: own_imports(name) for name in LIBRARY}).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_programs_stand_alone() -> None:
    for name in PROGRAMS:
        assert own_imports(name) == set()


@pytest.mark.parametrize("name", [name for name in LIBRARY if room(name) != "cli"])
def test_the_library_neither_prints_nor_prompts(name: str) -> None:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"print", "input"}, f"line {node.lineno}"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sys":
            assert node.attr not in {"stdin", "stdout", "stderr", "exit"}, f"line {node.lineno}"


@pytest.mark.parametrize("name", SOURCES)
def test_packages_stay_where_they_belong(name: str) -> None:
    for other in imported(name):
        homes = HOMES.get(other.split(".")[0])
        assert homes is None or name.startswith(homes), f"{name} imports {other}"
