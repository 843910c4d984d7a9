"""Where sessions are kept, for this process and for others."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from gitsession.errors import StoreError
from gitsession.home import home_of
from gitsession.store.files import default_home


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/home/ann"}, "/home/ann/.pinable-agents"),
        ({"HOME": "/home/ann", "PINABLE_HOME": ""}, "/home/ann/.pinable-agents"),
        ({"HOME": "/home/ann", "PINABLE_HOME": "/srv/sessions/"}, "/srv/sessions/"),
        ({"HOME": "/home/ann", "PINABLE_HOME": "~/kept"}, "/home/ann/kept"),
        ({"HOME": "/home/ann", "PINABLE_HOME": "~"}, "/home/ann"),
        ({"HOME": "/home/ann", "PINABLE_HOME": "a~/b"}, "{cwd}/a~/b"),
        ({"PINABLE_HOME": "~/kept"}, "{own}/kept"),
        ({"HOME": "/home/ann", "PINABLE_HOME": "~{name}/kept"}, "{own}/kept"),
    ],
)
def test_it_is_absolute_and_by_the_environment_asked_about(
    environ: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOME")
    user = pwd.getpwuid(os.getuid())
    environ = {name: value.replace("{name}", user.pw_name) for name, value in environ.items()}
    assert home_of(environ) == expected.format(cwd=tmp_path, own=user.pw_dir)


def test_a_user_that_is_not_known_has_none() -> None:
    with pytest.raises(StoreError, match="not known"):
        home_of({"PINABLE_HOME": "~no-such-user-here/x"})


def test_this_process_s_own(pinable_home: Path) -> None:
    assert default_home() == pinable_home
