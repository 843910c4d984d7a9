"""Which files a tool's call is about."""

from __future__ import annotations

from pathlib import Path

from support import GitRepo

from gitsession.git.repo import Repo
from gitsession.verbs.toolcalls import inside


def test_a_tool_writes_through_links(repo: GitRepo, tmp_path: Path) -> None:
    """Through one above the file as through the file itself; what it writes outside is no work of the repository's."""
    (tmp_path / "outside").mkdir()
    repo.at("way").symlink_to("src")
    repo.at("out").symlink_to(tmp_path / "outside")
    repo.at("link.py").symlink_to("src/app.py")
    found = Repo.discover(repo.path)
    assert inside(found, repo.path, ["way/util.py"]) == [b"src/util.py"]
    assert inside(found, repo.path, ["link.py"]) == [b"link.py", b"src/app.py"]
    assert inside(found, repo.at("src"), ["../way/new.py", "/etc/passwd"]) == [b"src/new.py"]
    assert inside(found, repo.path, ["out/f"]) == []
