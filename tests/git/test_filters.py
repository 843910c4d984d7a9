"""Where git converts files: the tree holds what git would store, and the bytes on disk can always be had back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support import GitRepo

from gitsession.git import baseline, trees
from gitsession.git.capture import Captured, capture
from gitsession.git.contents import Contents
from gitsession.git.filters import Filters
from gitsession.git.objects import Objects
from gitsession.git.plan import State, Version
from gitsession.git.repo import Repo
from gitsession.git.trees import GITLINK

CONTENTS = {
    "lf": b"one\ntwo\n",
    "crlf": b"one\r\ntwo\r\n",
    "mixed": b"one\r\ntwo\nthree\r\n",
    "no-final": b"one\r\ntwo",
    "id": b"$Id$ x\n$Id: 0123 $\r\n",
    "cr": b"one\rtwo\r\r\n",
    "binary": b"\0\1\r\n\xff\n",
    "utf-16": "\ufeffone\r\ntwö\n".encode("utf-16-le"),
    "empty": b"",
}
ATTRIBUTES = {
    "none": None,
    "text": "f-* text\n",
    "auto": "* text=auto\n",
    "crlf": "f-* text eol=crlf\n",
    "ident": "f-* ident\n",
    "utf-16": "f-* text working-tree-encoding=UTF-16LE-BOM\n",
    "driver": "f-* filter=shout\n",
    "missing": "f-* filter=missing\n",
}


@pytest.fixture
def session(repo: GitRepo) -> Iterator[tuple[Repo, Objects]]:
    found = Repo.discover(repo.path)
    with Objects(found) as objects:
        yield found, objects


def exact(session: tuple[Repo, Objects], captured: Captured) -> dict[bytes, bytes]:
    """The bytes of every file in a checkpoint, made from what the object database holds."""
    repo, objects = session
    objects.flush()
    state = State(captured.tree, captured.raw)
    versions = {path: Version(entry, captured.raw.get(path)) for path, entry in trees.walk(objects, captured.tree)}
    contents = Contents(repo, objects)
    assert contents.find(versions, state) == []
    return {path: b"".join(contents.read(version)) for path, version in versions.items()}


def on_disk(repo: GitRepo) -> dict[bytes, bytes]:
    return {path: data for path, (kind, _, data) in repo.snapshot().items() if kind == "file"}


def take(session: tuple[Repo, Objects], last: Captured | None, paths: list[bytes] | None = None) -> Captured:
    """The next capture, after ``last``, its objects flushed."""
    repo, objects = session
    if last is None:
        return capture(repo, objects, None)
    return capture(repo, objects, last.tree, paths=paths, previous_raw=last.raw, previous_empty=last.empty_dirs)


def set_up(repo: GitRepo, autocrlf: str, attributes: str) -> None:
    """One file of each kind committed before the conversion was configured, and one under it."""
    for name, data in CONTENTS.items():
        repo.write(f"f-old-{name}", data)
    repo.commit("before")
    repo.git("config", "core.autocrlf", autocrlf)
    # Not to be undone: what it makes of two files may be the same.
    repo.git("config", "filter.shout.clean", "tr a-z A-Z | tr -d '\\r'")
    repo.git("config", "filter.shout.smudge", "sed s/^/smudged:/")
    if ATTRIBUTES[attributes] is not None:
        repo.write(".gitattributes", ATTRIBUTES[attributes] or "")
        repo.git("add", ".gitattributes")
    for name, data in CONTENTS.items():
        repo.write(f"f-new-{name}", data)
        repo.git("add", f"f-new-{name}", ok=(0, 1, 128))
    repo.git("commit", "--quiet", "--message", "under it", ok=(0, 1))
    # And one that git itself checks out.
    for name in CONTENTS:
        repo.at(f"f-new-{name}").rename(repo.at(f"f-kept-{name}"))
        repo.git("checkout", "--quiet", "--", f"f-new-{name}", ok=(0, 1))
    # From here on this filter fails, and insists that it must not.
    repo.git("config", "filter.missing.clean", "exit 1")
    repo.git("config", "filter.missing.required", "true")


@pytest.mark.parametrize("attributes", ATTRIBUTES)
@pytest.mark.parametrize("autocrlf", ["true", "input", "false"])
def test_bytes_are_exact(repo: GitRepo, session: tuple[Repo, Objects], autocrlf: str, attributes: str) -> None:
    """Unchanged, staged, untracked, changed, put back; also when the configuration is another one afterwards."""
    set_up(repo, autocrlf, attributes)
    states = []
    last = take(session, None)
    states.append((last, on_disk(repo)))
    turned = dict(zip(CONTENTS, [*list(CONTENTS.values())[1:], b""], strict=True))
    for name, data in turned.items():
        repo.write(f"f-old-{name}", data)
        repo.write(f"f-new-{name}", data)
    changed = [path for path, data in on_disk(repo).items() if data != states[0][1].get(path)]
    by_paths = take(session, last, changed)
    last = take(session, last)
    assert (by_paths.tree, by_paths.raw) == (last.tree, last.raw)
    assert {change.path for change in last.changes} == set(changed)
    states.append((last, on_disk(repo)))
    for path, data in states[0][1].items():
        repo.write(path, data)
    last = take(session, last)
    states.append((last, on_disk(repo)))
    if attributes in ("none", "auto"):
        # Elsewhere git, too, calls a file that was committed before the attribute modified once it is written.
        assert last.tree == states[0][0].tree
    for captured, files in states:
        assert exact(session, captured) == files
    if attributes not in ("driver", "ident", "utf-16"):
        repo.at(".gitattributes").unlink(missing_ok=True)
        repo.git("config", "core.autocrlf", "false")
        for captured, files in states:
            assert exact(session, captured) == files


@pytest.mark.parametrize("attributes", ["none", "text", "auto", "crlf", "ident", "utf-16", "driver"])
@pytest.mark.parametrize("autocrlf", ["true", "input", "false"])
def test_the_tree_is_what_git_would_commit(
    repo: GitRepo, session: tuple[Repo, Objects], autocrlf: str, attributes: str
) -> None:
    set_up(repo, autocrlf, attributes)
    bad = ("binary", "utf-16") if attributes != "utf-16" else [name for name in CONTENTS if name != "utf-16"]
    for name in bad:
        repo.git("rm", "-q", "--force", "--ignore-unmatch", f"f-old-{name}", f"f-new-{name}")
        repo.at(f"f-kept-{name}").unlink(missing_ok=True)
    repo.write("f-old-lf", "changed\r\n".encode("utf-16") if attributes == "utf-16" else "changed\r\n")
    captured = take(session, None)
    repo.git("-c", "core.safecrlf=false", "add", "--all")
    assert captured.tree == repo.git("write-tree")


def test_where_nothing_converts_nothing_is_kept_beside(repo: GitRepo, session: tuple[Repo, Objects]) -> None:
    for name, data in CONTENTS.items():
        repo.write(name, data)
    captured = take(session, None)
    assert captured.raw == {}
    assert exact(session, captured) == on_disk(repo)


def test_an_unchanged_file_that_git_gives_back_is_not_stored_again(
    repo: GitRepo, session: tuple[Repo, Objects]
) -> None:
    repo.git("config", "core.autocrlf", "true")
    repo.write("file", b"one\r\ntwo\r\n")
    repo.commit()
    captured = take(session, None)
    assert captured.raw[b"file"].mode == GITLINK
    assert not session[1].has(captured.raw[b"file"].oid)
    assert exact(session, captured)[b"file"] == b"one\r\ntwo\r\n"


def test_only_line_ends_changed_is_a_difference(repo: GitRepo, session: tuple[Repo, Objects]) -> None:
    """The blob is the same, git sees nothing, and yet the file is another."""
    repo.git("config", "core.autocrlf", "input")
    repo.write("file", b"one\ntwo\n")
    repo.commit()
    first = take(session, None)
    repo.write("file", b"one\r\ntwo\r\n")
    for captured in (take(session, first, [b"file"]), take(session, first)):
        assert captured.tree == first.tree
        assert captured.differs
        assert [(change.path, change.old == change.new) for change in captured.changes] == [(b"file", True)]
        assert exact(session, captured)[b"file"] == b"one\r\ntwo\r\n"


def test_line_ends_that_git_itself_rewrote_are_seen(repo: GitRepo, session: tuple[Repo, Objects]) -> None:
    """The user's index has the new file's stat data and the old blob: nothing there tells that the bytes changed."""
    repo.write("file", b"one\ntwo\n")
    repo.commit()
    first = take(session, None)
    repo.git("config", "core.autocrlf", "true")
    repo.at("file").unlink()
    repo.git("checkout", "--", "file")
    assert repo.at("file").read_bytes() == b"one\r\ntwo\r\n"
    captured = take(session, first)
    assert captured.differs
    assert exact(session, captured)[b"file"] == b"one\r\ntwo\r\n"


def test_line_ends_of_a_former_configuration_are_exact(repo: GitRepo, session: tuple[Repo, Objects]) -> None:
    """Cloned with core.autocrlf on, which is off now: nothing converts, and still the blobs are not the files."""
    repo.git("config", "core.autocrlf", "true")
    repo.write("file", b"one\r\ntwo\r\n")
    repo.write("mixed", b"one\r\ntwo\n")
    repo.commit()
    repo.git("config", "core.autocrlf", "false")
    # Old enough for git to believe that they are unchanged.
    for name in ("file", "mixed"):
        os.utime(repo.at(name), (1, 1))
    repo.git("-c", "core.autocrlf=true", "update-index", "--refresh")
    assert repo.git("diff-files") == ""
    assert exact(session, take(session, None)) == on_disk(repo)


def test_new_attributes_do_not_change_what_was_captured(repo: GitRepo, session: tuple[Repo, Objects]) -> None:
    repo.write("file", b"one\ntwo\n")
    first = take(session, None)
    repo.write(".gitattributes", "* text eol=crlf\n")
    second = take(session, first)
    for captured in (first, second):
        assert exact(session, captured)[b"file"] == b"one\ntwo\n"


def test_a_large_filtered_file_is_compared_and_not_stored_twice(
    repo: GitRepo, session: tuple[Repo, Objects], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with LFS: the blob is small, the file is not, and git can make one of the other."""
    monkeypatch.setattr(baseline, "_SMALL", 10)
    monkeypatch.setattr(baseline, "_TOGETHER", 40)
    repo.git("config", "filter.rot.clean", "tr a-z n-za-m")
    repo.git("config", "filter.rot.smudge", "tr a-z n-za-m")
    repo.write(".gitattributes", "*.rot filter=rot\n")
    for number in range(4):
        repo.write(f"dir {number}/x\n{number}.rot", f"{number} is a lot of text\n")
    repo.commit()
    captured = take(session, None)
    assert {entry.mode for entry in captured.raw.values()} == {GITLINK}
    assert len(captured.raw) == 4
    assert exact(session, captured) == on_disk(repo)
    assert list(session[0].private_dir.glob("smudged-*")) == []
    assert list(session[0].private_dir.glob("scratch-*")) == []


def test_nothing_of_the_users_moves(repo: GitRepo, session: tuple[Repo, Objects]) -> None:
    set_up(repo, "true", "driver")
    before = repo.user_state(), repo.snapshot()
    take(session, None)
    assert (repo.user_state(), repo.snapshot()) == before


SOURCES: Mapping[str, str] = {
    "info": "info/attributes",
    "top": ".gitattributes",
    "above": "src/.gitattributes",
    "beside": "src/deep/.gitattributes",
}


def test_a_path_may_be_deeper_than_calls_may(repo: GitRepo, session: tuple[Repo, Objects]) -> None:
    """Attributes at the top hold at the bottom, too."""
    path = b"d/" * (sys.getrecursionlimit() + 1) + b"f"
    assert not Filters(session[0]).may_apply(path)
    repo.write(".gitattributes", "f text\n")
    assert Filters(session[0]).may_apply(path)


@pytest.mark.parametrize("source", [*SOURCES, "user", "configured"])
def test_attributes_are_found_wherever_they_are(
    repo: GitRepo, session: tuple[Repo, Objects], source: str, seal: Path
) -> None:
    assert not Filters(session[0]).may_apply(b"src/deep/file.x")
    if source == "info":
        place = repo.git_dir / "info" / "attributes"
    elif source == "user":
        place = Path(os.environ["XDG_CONFIG_HOME"]) / "git" / "attributes"
    elif source == "configured":
        place = seal / "attributes"
        repo.git("config", "core.attributesFile", str(place))
    else:
        place = repo.at(SOURCES[source])
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("*.png -diff\n# nothing\n")
    assert not Filters(session[0]).may_apply(b"src/deep/file.x")
    place.write_text("[attr]mine ident\n*.x ident\n")
    filters = Filters(session[0])
    assert filters.may_apply(b"src/deep/file.x")
    assert not filters.may_apply(b"other/file.x") or source in ("info", "user", "configured", "top")
    repo.write("src/deep/file.x", "x")
    assert filters.deep([b"src/deep/file.x", b"src/app.py"]) == {b"src/deep/file.x"}
