"""What the pages say is what the code does, where that can be asked."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from support import GitRepo, run_cli

from gitsession import config
from gitsession.backends import NAMES

ROOT = Path(__file__).parent.parent
PAGES = {path.name: path.read_text(encoding="utf-8") for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]}


def section(page: str, title: str) -> str:
    """The text of one section of a page."""
    return re.split(r"^## ", PAGES[page].split(f"## {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_backend_has_its_place_in_the_docs() -> None:
    for name in NAMES:
        page = f"{name}-backend.md" if name in ("command", "claude") else "agents.md"
        assert f"`{name}`" in PAGES[page], name
        assert f"docs/{page}" in PAGES["README.md"]


def test_every_setting_has_its_row() -> None:
    rows = re.findall(r"^\| `(\S+)` \| `(\S+)` \| `(\S+)` \|", section("files.md", "Settings"), re.MULTILINE)
    assert [(key, variable, config.parse(config.field_of(key), value.strip("-"))) for key, variable, value in rows] == [
        (config.key_of(field.name), config.variable_of(field.name), field.default) for field in fields(config.Settings)
    ]


@pytest.mark.parametrize("page", sorted(PAGES))
def test_links_lead_somewhere(page: str) -> None:
    directory = ROOT if (ROOT / page).exists() else ROOT / "docs"
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGES[page]):
        assert (directory / target).exists(), target


def test_the_command_backend_page_names_every_variable_and_directive(repo: GitRepo) -> None:
    page = PAGES["command-backend.md"]
    agent = 'env | cut -d= -f1 | grep ^PINABLE_ | grep -v ^PINABLE_HOOK > names; [ -n "$PINABLE_RESUME" ]'
    start = ("codeagent-wrapper", "--task", "x", "--model", "m")
    assert run_cli(*start, "--session-id", "before", "--", "true", cwd=repo.path).returncode == 0
    first = run_cli(*start, "--context-from", "before", "--", "sh", "-c", agent, cwd=repo.path)
    assert first.returncode == 3, first.stderr
    assert run_cli("codeagent-wrapper", "--session-id", "latest", cwd=repo.path).returncode == 0
    names = set((repo.path / "names").read_text().split())
    assert names == set(re.findall(r"^\| `(PINABLE_\w+)` \|", page, re.MULTILINE))
