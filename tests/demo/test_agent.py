"""The demo's agent does what it says to real Go files, and can be stopped anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gitsession import demo
from gitsession.demo.agent import Module, functions, imports, repository_source, write

DEMO = Path(demo.__file__).parent
FILES = ("src/user/db.go", "src/order/db.go", "src/payment/db.go")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEMO / "shop", tmp_path / "shop"))


def run_agent(shop: Path, *options: str, resumed: bool = False) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PINABLE_FILES": "\n".join(FILES), **({"PINABLE_RESUME": "1"} if resumed else {})}
    agent = [sys.executable, "-I", "-S", str(DEMO / "agent.py")]
    return subprocess.run([*agent, *options], cwd=shop, env=env, capture_output=True, encoding="utf-8")


def contents(shop: Path) -> dict[str, str]:
    return {str(path.relative_to(shop)): path.read_text() for path in shop.rglob("*") if path.is_file()}


def finished(tmp_path: Path) -> dict[str, str]:
    """What an undisturbed run makes of the shop."""
    place = Path(shutil.copytree(DEMO / "shop", tmp_path / "undisturbed"))
    assert run_agent(place).returncode == 0
    return contents(place)


def test_it_moves_every_function_and_loses_none(shop: Path) -> None:
    before = {name: functions((shop / name).read_text()) for name in FILES}
    assert sum(map(len, before.values())) == 15
    done = run_agent(shop)
    assert done.returncode == 0, done.stderr
    for name, originals in before.items():
        module = Module(shop / name)
        assert [f.name for f in functions(module.source())] == [f.name for f in originals]
        assert module.to_move() == []
        repository = module.repository.read_text()
        for original in originals:
            assert f"func (r *SQLRepository) {original.signature} {{\n" in repository
            for line in original.body.splitlines():
                if "`" in line and "`+" not in line:
                    assert line.replace("db.", "r.db.") in repository


def test_it_speaks_the_worked_example(shop: Path) -> None:
    spoken = [line for line in run_agent(shop).stdout.splitlines() if not line.startswith("::tokens::")]
    assert spoken == [
        "::phase::analysis::Analyzing 3 files...",
        "::done::Identified 15 functions to refactor",
        "::checkpoint::Saved analysis results",
        "::phase::implementation::Refactoring src/user/db.go...",
        "::done::Created src/user/repository.go",
        "::checkpoint::Saved user module changes",
        "::phase::implementation::Refactoring src/order/db.go...",
        "::done::Created src/order/repository.go",
        "::checkpoint::Saved order module changes",
        "::phase::implementation::Refactoring src/payment/db.go...",
        "::done::Created src/payment/repository.go",
        "::checkpoint::Saved payment module changes",
        "::phase::review::Running code review...",
        "::done::No critical issues found",
    ]


def test_it_loses_its_network_once_and_goes_on(shop: Path, tmp_path: Path) -> None:
    lost = run_agent(shop, "--lose-network-in", FILES[1])
    assert lost.returncode == 1
    assert lost.stdout.splitlines()[-1] == "::error::CONNECTION ERROR: network timeout after 30s"
    assert [(shop / name).with_name("repository.go").exists() for name in FILES] == [True, False, False]
    resumed = run_agent(shop, "--lose-network-in", FILES[1], resumed=True)
    assert resumed.returncode == 0
    assert "src/user" not in resumed.stdout
    assert contents(shop) == finished(tmp_path)


def test_stopped_between_its_two_files_it_does_the_module_again(shop: Path, tmp_path: Path) -> None:
    module = Module(shop / FILES[0])
    write(module.repository, repository_source(module.source()))
    (shop / "src/user/db.go.new").write_text("half a fi")
    assert run_agent(shop, resumed=True).returncode == 0
    assert contents(shop) == finished(tmp_path)


def test_a_second_run_changes_nothing(shop: Path) -> None:
    run_agent(shop)
    before = contents(shop)
    assert run_agent(shop, resumed=True).returncode == 0
    assert contents(shop) == before


def test_review_finds_a_method_that_is_missing(shop: Path) -> None:
    run_agent(shop)
    repository = shop / "src/order/repository.go"
    repository.write_text(repository.read_text().replace(") Cancel(", ") Abandon("))
    done = run_agent(shop, resumed=True)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "::error::review: src/order/repository.go: no method Cancel"


def test_a_missing_file_is_told(shop: Path) -> None:
    (shop / FILES[2]).unlink()
    done = run_agent(shop)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "::error::cannot read src/payment/db.go: No such file or directory"


def test_only_used_imports_stay() -> None:
    code = "x := sql.ErrNoRows // errors.Is\n"
    assert imports(["context", "database/sql", "errors"], code) == 'import (\n\t"database/sql"\n)\n'


@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
def test_the_compiler_and_gofmt_agree(shop: Path) -> None:
    assert run_agent(shop).returncode == 0
    vet = subprocess.run(["go", "vet", "./..."], cwd=shop, capture_output=True, text=True)
    assert (vet.returncode, vet.stderr) == (0, "")
    assert subprocess.run(["gofmt", "-l", "."], cwd=shop, capture_output=True, text=True).stdout == ""
