"""What is built is what is meant: the wheel, the programs it installs, and the two commands of the README."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support import program, run_cli

import gitsession

ROOT = Path(__file__).parent.parent
PROGRAMS = {"codeagent-wrapper", "pinable-agents", "git-pinable", "pinable-hook"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the source archive of this checkout."""
    target = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-P", "-m", "hatchling", "build", "--target", "wheel", "--target", "sdist"]
    subprocess.run([*build, "--directory", target], cwd=ROOT, check=True, capture_output=True)
    return target


@pytest.fixture
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


def package_files() -> set[str]:
    files = (path for path in (ROOT / "gitsession").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    hooks = {f"gitsession/hooks/{path.name}" for path in (ROOT / "hooks").iterdir()}
    return {path.relative_to(ROOT).as_posix() for path in files} | hooks


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == package_files()
    assert {
        "gitsession/py.typed",
        "gitsession/demo/agent.py",
        "gitsession/demo/shop/go.mod",
        "gitsession/demo/shop/src/user/db.go",
        "gitsession/demo/shop/src/order/db.go",
        "gitsession/demo/shop/src/payment/db.go",
    } <= names


def test_the_wheel_installs_the_three_programs(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    parser = configparser.ConfigParser()
    parser.read_string(wheel.read(name).decode())
    assert set(parser["console_scripts"]) == PROGRAMS


def test_the_source_archive_can_be_tested(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "tests/conftest.py", "tests/run.py", "gitsession/demo/agent.py"} <= names


@pytest.mark.parametrize("name", sorted(PROGRAMS - {"pinable-hook"}))  # which says nothing, to nobody
def test_each_program_is_installed_and_says_its_version(name: str) -> None:
    done = run_cli(name, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert gitsession.__version__ in done.stdout


def test_git_finds_its_subcommand() -> None:
    directory = str(Path(program("git-pinable")).parent)
    env = {**os.environ, "PATH": os.pathsep.join([directory, os.environ["PATH"]])}
    done = subprocess.run(["git", "pinable", "--version"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def readme_commands() -> list[str]:
    """The lines of the README's first two shell blocks."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return [block.strip() for block in blocks[:2]]


def test_the_readme_starts_with_two_commands_of_one_line() -> None:
    first, second = readme_commands()
    assert first.endswith("pinable-agents demo")
    assert "\n" not in first + second


def test_ci_runs_the_second_command_as_it_stands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert readme_commands()[1] in script
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
