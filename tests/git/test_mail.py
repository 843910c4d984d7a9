"""A session's patches, applied with ``git am`` by somebody else, give its files to the last bit."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from sessions import TestSession
from support import GitRepo

from gitsession import SessionStore
from gitsession.verbs.export import patches

WORDS = (
    "alpha",
    "beta\r",
    "gamma 中文",
    "",
    "From the start",
    "--- a/x",
    "+++ b/x",
    "diff --git a/x b/x",
    "tail \t",
    "=3D=",
    "\x0c",
)


class Author:
    """Changes files at random, of every kind that git keeps."""

    def __init__(self, repo: GitRepo, seed: int) -> None:
        self.repo = repo
        self.random = random.Random(seed)

    def names(self) -> list[Path]:
        found = [path for path in self.repo.path.rglob("*") if ".git" not in path.relative_to(self.repo.path).parts]
        return sorted(path for path in found if path.is_symlink() or path.is_file())

    def free(self) -> Path:
        """A place for a new file; what is in its way goes."""
        parts = [self.random.choice(["a", "b", "c d", "ü", "x\ty", "-n"]) for _ in range(self.random.randint(1, 3))]
        place = self.repo.path.joinpath(*parts)
        for above in reversed(place.relative_to(self.repo.path).parents):
            self.clear(self.repo.path / above)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    @staticmethod
    def clear(place: Path) -> None:
        if place.is_symlink() or place.is_file():
            place.unlink()

    def content(self) -> bytes:
        if self.random.random() < 0.2:
            return self.random.randbytes(self.random.randint(1, 3000))
        end = self.random.choice(["\n", "\r\n", "\n"])
        lines = [self.random.choice(WORDS) for _ in range(self.random.randint(0, 30))]
        return (end.join(lines) + self.random.choice(["", end, "\r"])).encode()

    def step(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            there = self.names()
            act = self.random.choice([self.write, self.edit, self.rename, self.mode, self.link, self.delete])
            act(self.random.choice(there) if there else None)

    def write(self, _: Path | None) -> None:
        place = self.free()
        self.clear(place)
        place.write_bytes(self.content())

    def edit(self, path: Path | None) -> None:
        if path is not None and not path.is_symlink():
            lines = path.read_bytes().split(b"\n")
            lines[self.random.randrange(len(lines))] = self.random.choice(WORDS).encode()
            path.write_bytes(b"\n".join(lines))

    def rename(self, path: Path | None) -> None:
        if path is not None:
            data = path.readlink() if path.is_symlink() else path.read_bytes()
            path.unlink()
            place = self.free()
            self.clear(place)
            place.symlink_to(data) if isinstance(data, Path) else place.write_bytes(data)

    def mode(self, path: Path | None) -> None:
        if path is not None and not path.is_symlink():
            path.chmod(self.random.choice([0o644, 0o755]))

    def link(self, _: Path | None) -> None:
        place = self.free()
        self.clear(place)
        place.symlink_to(self.random.choice(["nowhere", "../x", "a"]))

    def delete(self, path: Path | None) -> None:
        if path is not None:
            path.unlink()


def applied(session: TestSession, place: Path, head: str | None) -> GitRepo:
    """A repository of somebody who had ``head`` and got the session's patches by mail."""
    other = GitRepo.init(place)
    if head is not None:
        other.git("fetch", "--quiet", session.user.path, head)
        other.git("reset", "--quiet", "--hard", head)
    mails = b"".join(patches(SessionStore(), session.id))
    if mails:
        other.git("am", "--quiet", input=mails)
    return other


@pytest.mark.parametrize("seed", range(8))
def test_random_sessions(repo: GitRepo, tmp_path: Path, seed: int) -> None:
    """Also what was not committed when the session began is there."""
    author = Author(repo, seed)
    for _ in range(2):
        author.step()
    head = repo.commit()
    if seed % 2:
        author.step()
    session = TestSession(repo)
    for number in range(4):
        author.step()
        session.checkpoint(f"step {number}: [PATCH] ÄÖÜ --- {'long ' * 30}")
    other = applied(session, tmp_path / "other", head)
    assert other.git("rev-parse", "HEAD^{tree}") == session.records[-1]["tree"]
    assert other.git("status", "--porcelain") == ""


def test_a_session_in_an_empty_repository(empty_repo: GitRepo, tmp_path: Path) -> None:
    empty_repo.write("a", "before\r\n")
    session = TestSession(empty_repo)
    empty_repo.write("a", "after\r\n")
    session.checkpoint()
    other = applied(session, tmp_path / "other", None)
    assert other.git("rev-parse", "HEAD^{tree}") == session.records[-1]["tree"]


def test_the_persons_configuration_changes_nothing(repo: GitRepo, tmp_path: Path) -> None:
    session = TestSession(repo)
    repo.write("README.md", "# other\n\nx\n")
    session.checkpoint()
    plain = patches(SessionStore(), session.id)
    for key, value in {
        "format.signoff": "true", "format.attach": "true", "format.thread": "true", "format.coverLetter": "true",
        "format.subjectPrefix": "X", "format.headers": "X-A: b", "format.notes": "true", "format.from": "true",
        "format.to": "a@b", "format.cc": "a@b", "format.useAutoBase": "whenAble", "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true", "diff.renames": "false", "color.ui": "always", "format.signature": "me",
        "i18n.logOutputEncoding": "latin1", "format.numbered": "false", "format.encodeEmailHeaders": "false",
        "diff.external": "false", "format.pretty": "oneline",
    }.items():  # fmt: skip
        repo.git("config", key, value)
    assert patches(SessionStore(), session.id) == plain


def test_mails_say_what_they_are_and_nothing_more(repo: GitRepo) -> None:
    repo.write("new", "not committed\n")
    session = TestSession(repo)
    session.checkpoint("nothing changed here")
    repo.write("new", "changed\n")
    session.checkpoint("A word on it")
    first, second = (mail.decode() for mail in patches(SessionStore(), session.id))
    assert "Subject: [PATCH] base\n" in first
    assert "Subject: [PATCH] checkpoint 1: A word on it\n" in second
    assert "\nPinable-Session: s1\nPinable-Checkpoint: 1\n---\n" in second
    assert "Pinable-Record" not in first + second


def test_no_changes_are_no_mails(repo: GitRepo) -> None:
    session = TestSession(repo)
    session.checkpoint()
    assert patches(SessionStore(), session.id) == []
