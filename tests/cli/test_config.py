"""``pinable-agents config`` as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import GitRepo, run_cli

CONFIG = ("pinable-agents", "config")


def test_set_get_unset_and_where_it_comes_from(pinable_home: Path) -> None:
    assert run_cli(*CONFIG, "get", "session.trash_days").stdout == "14\n"
    assert not pinable_home.exists()
    done = run_cli(*CONFIG, "set", "session.trash_days", "30")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (pinable_home / "config.toml").read_text() == "[session]\ntrash_days = 30\n"
    assert run_cli(*CONFIG, "get", "session.trash_days").stdout == "30\n"
    lines = run_cli(*CONFIG, "list").stdout.splitlines()
    assert lines[0].split() == ["KEY", "VALUE", "FROM"]
    assert ["session.trash_days", "30", f"{pinable_home}/config.toml"] in [line.split() for line in lines]
    assert ["checkpoint.interval", "2m", "default"] in [line.split() for line in lines]
    assert run_cli(*CONFIG, "unset", "session.trash_days").stderr == ""
    assert run_cli(*CONFIG, "get", "session.trash_days").stdout == "14\n"
    assert "is not in" in run_cli(*CONFIG, "unset", "session.trash_days").stderr


def test_what_is_set_elsewhere_is_said(repo: GitRepo) -> None:
    env = {"PINABLE_SESSION__TRASH_DAYS": "7"}
    done = run_cli(*CONFIG, "set", "session.trash_days", "30", env=env)
    assert done.stderr == "$PINABLE_SESSION__TRASH_DAYS goes before it: session.trash_days is 7\n"
    repo.write(".pinable.toml", '[capture]\nmax_file_size = "1KB"\n')
    found = json.loads(run_cli(*CONFIG, "list", "--json", cwd=repo.path, env=env).stdout)
    sources = {one["key"]: (one["value"], one["source"]) for one in found}
    assert sources["session.trash_days"] == ("7", "$PINABLE_SESSION__TRASH_DAYS")
    assert sources["capture.max_file_size"] == ("1KB", str(repo.path / ".pinable.toml"))


def test_a_repositorys_broken_file_keeps_nobody_from_setting_their_own(repo: GitRepo) -> None:
    repo.write(".pinable.toml", "[capture\n")
    assert run_cli(*CONFIG, "set", "session.trash_days", "30", cwd=repo.path).returncode == 0
    assert run_cli(*CONFIG, "get", "session.trash_days").stdout == "30\n"


def test_a_negative_number_is_a_value(pinable_home: Path) -> None:
    done = run_cli(*CONFIG, "set", "session.trash_days", "-1")
    assert done.returncode == 2
    assert "session.trash_days: " in done.stderr
    assert "no such option" not in done.stderr


@pytest.mark.parametrize("command", [["get", "sesion.trash_days"], ["set", "sesion.trash_days", "3"], ["unset", "x"]])
def test_an_unknown_key_is_refused(command: list[str], pinable_home: Path) -> None:
    done = run_cli(*CONFIG, *command)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no setting" in done.stderr
    assert not pinable_home.exists()


def test_a_variable_that_names_no_setting_is_refused(repo: GitRepo) -> None:
    env = {"PINABLE_SESION__TRASH_DAYS": "3"}
    done = run_cli("codeagent-wrapper", "--task", "t", "--", "true", cwd=repo.path, env=env)
    assert (done.returncode, done.stdout) == (2, "")
    assert "$PINABLE_SESION__TRASH_DAYS: there is no setting 'sesion.trash_days'" in done.stderr
    assert "did you mean session.trash_days?" in done.stderr


def test_the_path_and_the_editor(pinable_home: Path, tmp_path: Path) -> None:
    assert run_cli(*CONFIG, "path").stdout == f"{pinable_home}/config.toml\n"
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "[session]\\ntrash_dayz = 3\\n" > "$1"\n')
    editor.chmod(0o755)
    done = run_cli(*CONFIG, "edit", env={"VISUAL": str(editor)})
    assert done.returncode == 2
    assert "there is no setting 'session.trash_dayz'" in done.stderr
    assert "did you mean session.trash_days?" in done.stderr
    assert "did you mean session.trash_days?" in run_cli(*CONFIG, "list").stderr
    failed = run_cli(*CONFIG, "edit", env={"VISUAL": "false"})
    assert failed.returncode == 1
    assert "the editor failed" in failed.stderr


def test_a_repository_that_sets_what_it_may_not_is_refused_before_anything_is_done(
    repo: GitRepo, pinable_home: Path
) -> None:
    repo.write(".pinable.toml", '[claude]\ntimeout = "1s"\n')
    done = run_cli("codeagent-wrapper", "--task", "x", "--", "true", cwd=repo.path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "sets claude.timeout, which a repository may not" in done.stderr
    assert not pinable_home.exists()
    repo.write(".pinable.toml", '[capture]\nmax_file_size = "10"\n')
    repo.write("large.txt", "x" * 100)
    done = run_cli("codeagent-wrapper", "--task", "x", "--", "sh", "-c", "echo > small", cwd=repo.path)
    assert done.returncode == 0, done.stderr
    assert "large.txt" in done.stderr


def test_a_broken_file_is_named_with_what_is_wrong(pinable_home: Path) -> None:
    pinable_home.mkdir()
    (pinable_home / "config.toml").write_text("[session]\ntrash_days 3\n")
    done = run_cli(*CONFIG, "set", "session.trash_days", "4")
    assert done.returncode == 2
    assert f"cannot read {pinable_home}/config.toml: Expected '=' after a key" in done.stderr
    assert "line 2" in done.stderr


def test_a_place_that_would_drive_the_terminal(tmp_path: Path) -> None:
    env = {"PINABLE_HOME": str(tmp_path / "a\x1b[2Jb")}
    assert run_cli(*CONFIG, "path", env=env).stdout == f"{tmp_path}/a^[[2Jb/config.toml\n"
    assert "\x1b" not in run_cli(*CONFIG, "unset", "session.trash_days", env=env).stderr
    assert "\x1b" not in run_cli("pinable-agents", "session", "list", env=env).stderr
