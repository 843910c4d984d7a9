"""Settings: where each comes from, what is refused, and a file whose comments survive."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession import config
from gitsession.config import Settings
from gitsession.errors import BadValue
from gitsession.verbs import settings


@pytest.fixture
def home(pinable_home: Path) -> Path:
    pinable_home.mkdir()
    return pinable_home


def source(home: Path, key: str, start: Path) -> tuple[str, str]:
    return next((one.value, one.source) for one in settings.in_force(home, start) if one.key == key)


def test_each_layer_goes_before_the_one_below(home: Path, repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    key, place = "capture.max_file_size", repo.at("src")
    assert source(home, key, place) == ("50MB", "default")
    settings.change(home, key, "60MB")
    assert source(home, key, place) == ("60MB", str(home / "config.toml"))
    repo.write(".pinable.toml", '[capture]\nmax_file_size = "70MB"\n')
    assert source(home, key, place) == ("70MB", str(repo.path / ".pinable.toml"))
    assert config.in_repository(config.load(home), repo.path).capture_max_file_size == 70 * 1024**2
    monkeypatch.setenv("PINABLE_CAPTURE__MAX_FILE_SIZE", "80MB")
    assert source(home, key, place) == ("80MB", "$PINABLE_CAPTURE__MAX_FILE_SIZE")
    assert config.in_repository(config.load(home), repo.path).capture_max_file_size == 80 * 1024**2


def test_every_default_is_spelled_so_that_it_reads_back(home: Path) -> None:
    for one in settings.in_force(home, home):
        field = config.field_of(one.key)
        assert config.parse(field, one.value) == getattr(Settings(), field)
    assert {one.key for one in settings.in_force(home, home)} == {
        config.key_of(field.name) for field in fields(Settings)
    }


def test_a_key_that_is_no_setting_can_be_taken_out(home: Path) -> None:
    (home / "config.toml").write_text('stray = 1\n[sesion]\ntrash_days = 3\n[prices."a-1.5"]\ninput = 1.0\n')
    with pytest.raises(BadValue, match="stray"):
        settings.check(home)
    for key in ("stray", "sesion.trash_days", "prices.a-1.5"):
        assert settings.remove(home, key)
    settings.check(home)
    with pytest.raises(BadValue, match="there is no setting"):
        settings.remove(home, "sesion.trash_days")


@pytest.mark.parametrize(("seconds", "text"), [(0.25, "0.25s"), (90.0, "1m30s"), (86400.0, "1d"), (3600.0, "1h")])
def test_times_are_spelled_as_they_are_read(seconds: float, text: str) -> None:
    assert settings.spell("stop_grace", seconds) == text
    assert config.duration(text) == seconds


def test_links_and_line_ends_survive(home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles" / "pinable.toml"
    kept.parent.mkdir()
    kept.write_bytes(b"[session]\r\ntrash_days = 3 # short\r\n")
    (home / "config.toml").symlink_to(kept)
    settings.change(home, "session.trash_days", "5")
    assert (home / "config.toml").is_symlink()
    assert kept.read_bytes() == b"[session]\r\ntrash_days = 5 # short\r\n"


def test_comments_and_what_is_not_ours_survive(home: Path) -> None:
    file = home / "config.toml"
    text = "# mine\n\n[session] # life\ntrash_days = 3 # short\n\n[future]\nx = [1, 2] # kept\n"
    file.write_text(text)
    settings.change(home, "session.trash_days", "5")
    settings.change(home, "session.auto_cleanup_days", "0")
    settings.change(home, "workflow", "do")
    assert settings.remove(home, "session.auto_cleanup_days")
    assert settings.remove(home, "workflow")
    assert not settings.remove(home, "workflow")
    assert file.read_text() == text.replace("trash_days = 3", "trash_days = 5")
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("key", "value", "words", "hint"),
    [
        ("sesion.trash_days", "3", "there is no setting 'sesion.trash_days'", "did you mean session.trash_days?"),
        ("colour", "red", "there is no setting 'colour'", "settings: checkpoint.interval"),
        ("session", "3", "there is no setting 'session'", ""),
        ("session.trash_days", "many", "session.trash_days: 'many' is not a number", "write it like 3"),
        ("session.trash_days", "-1", "is not a number", "write it like 3"),
        ("checkpoint.interval", "soon", "is not a duration", "write it like 90s"),
        ("capture.max_file_size", "big", "is not a size", "write it like 512KB"),
        ("workflow", "dp", "there is no workflow 'dp'", "workflows: do"),
    ],
)
def test_what_cannot_be_is_refused(home: Path, key: str, value: str, words: str, hint: str) -> None:
    with pytest.raises(BadValue) as error:
        settings.change(home, key, value)
    assert words in str(error.value)
    assert (error.value.hint or "").startswith(hint)
    assert not (home / "config.toml").exists()


def test_a_list_is_a_list_in_the_file(home: Path) -> None:
    settings.change(home, "capture.exclude", "build/, *.log")
    assert (home / "config.toml").read_text() == '[capture]\nexclude = ["build/", "*.log"]\n'
    assert source(home, "capture.exclude", home)[0] == "build/, *.log"
    assert config.load(home).capture_exclude == ("build/", "*.log")
    with pytest.raises(BadValue, match="does not exclude anything"):
        settings.change(home, "capture.exclude", "!.env")


def test_a_broken_file_is_not_overwritten(home: Path) -> None:
    (home / "config.toml").write_text("[session\n")
    with pytest.raises(BadValue, match=r"cannot read .*config\.toml: Expected"):
        settings.change(home, "session.trash_days", "3")
    with pytest.raises(BadValue, match="cannot read"):
        settings.in_force(home, home)
    assert (home / "config.toml").read_text() == "[session\n"
    (home / "config.toml").write_text("session = 5\n")
    with pytest.raises(BadValue, match="cannot change"):
        settings.change(home, "session.trash_days", "3")


def test_a_bad_value_shows_with_its_problem(home: Path) -> None:
    (home / "config.toml").write_text('[stop]\ngrace = "x"\n[stp]\ngrace = 1\n')
    (bad,) = [one for one in settings.in_force(home, home) if one.problem]
    assert (bad.key, bad.problem) == ("stop.grace", "'x' is not a duration")


@pytest.mark.parametrize(
    ("text", "key", "hint"),
    [
        ('[stop]\ngrase = "1s"\n', "stop.grase", "did you mean stop.grace?"),
        ("[sesion]\nauto_cleanup_days = 0\n", "sesion.auto_cleanup_days", "did you mean session.auto_cleanup_days?"),
        ("auto_cleanup_days = 0\n", "auto_cleanup_days", "did you mean session.auto_cleanup_days?"),
        ("session = 3\n", "session", "settings: "),
        ("[a.b]\nc = 1\n", "a.b", "settings: "),
    ],
)
def test_what_is_no_setting_is_told_and_refused(home: Path, text: str, key: str, hint: str) -> None:
    (home / "config.toml").write_text(f'{text}[prices."my-model"]\ninput = 3\n')
    (error,) = config.unknown(home / "config.toml")
    assert str(error) == f"there is no setting '{key}'"
    assert error.hint is not None
    assert error.hint.startswith(hint)
    with pytest.raises(BadValue, match=r"there is no setting .*config\.toml"):
        config.load(home, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[claude]\ntimeout = '1s'\n", "sets claude.timeout, which a repository may not"),
        ("[session]\nauto_cleanup_days = 1\n", "sets session.auto_cleanup_days, which a repository may not"),
        ("[hooks]\nrun = 'rm -rf /'\n", "sets hooks.run, which a repository may not"),
        ("command = 'rm'\n", "sets command, which a repository may not"),
        ("[capture.max_file_size]\nx = 1\n", "is not a size"),
        ("workflow = 'other'\n", "there is no workflow 'other'"),
        ("workflow = [\n", "cannot read"),
        ("x=" + "[" * 50000, "nested too deeply"),
        ("x=" + "1" * 5000, "a number has too many digits"),
    ],
)
def test_a_repository_may_set_only_what_is_harmless(repo: GitRepo, text: str, words: str) -> None:
    repo.write(".pinable.toml", text)
    with pytest.raises(BadValue) as error:
        config.in_repository(Settings(), repo.path)
    assert words in str(error.value)


def test_what_a_repository_excludes_is_left_out_of_its_checkpoints(repo: GitRepo) -> None:
    repo.write(".pinable.toml", '[capture]\nexclude = ["build/", "*.log"]\n')
    repo.write("build/out.bin", "1")
    repo.write("src/a.log", "2")
    repo.write("new/build/x", "3")
    repo.write("new/y", "4")
    repo.write("src/app.py", "changed\n")
    session = TestSession(repo)
    repo.write("src/b.log", "5")
    repo.write("src/z", "6")
    session.checkpoint()
    untracked = {path for path in repo.tree("refs/pinable/s1") if path not in repo.tree("HEAD")}
    assert untracked == {b".pinable.toml", b"new/y", b"src/z"}
    assert [record["changes"] for record in session.records] == [[{"path": "src/z", "status": "added"}]]


def test_a_repositorys_file_that_is_no_file_is_none(repo: GitRepo) -> None:
    repo.at(".pinable.toml").symlink_to("/dev/zero")
    assert config.in_repository(Settings(), repo.path) == Settings()
    repo.at(".pinable.toml").unlink()
    repo.write(".pinable.toml", b"#" * (1 << 21))
    with pytest.raises(BadValue, match="too large"):
        config.in_repository(Settings(), repo.path)
