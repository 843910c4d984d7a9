"""What tests build with and look through: real repositories and the installed programs."""

from __future__ import annotations

import os
import stat
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Snapshot = dict[bytes, tuple[str, int, bytes]]

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


@dataclass(frozen=True)
class GitRepo:
    """A repository of the user's, driven by the git program and nothing of ours."""

    path: Path

    @classmethod
    def init(cls, path: Path, *options: str, object_format: str = "sha1") -> GitRepo:
        """A new repository at ``path`` (made if need be) on branch ``main``; ``options`` go to ``git init``."""
        path.mkdir(parents=True, exist_ok=True)
        repo = cls(path)
        repo.git("init", "--quiet", "--template=", f"--object-format={object_format}", *options)
        return repo

    def git(
        self,
        *args: str | bytes | Path,
        input: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
    ) -> str:
        """What ``git ARGS`` printed, without the last newline; bytes that are not UTF-8 become surrogates."""
        output = self.git_bytes(*args, input=input, env=env, ok=ok)
        return os.fsdecode(output).removesuffix("\n")

    def git_bytes(
        self,
        *args: str | bytes | Path,
        input: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
    ) -> bytes:
        """The same, byte for byte."""
        done = subprocess.run(
            ["git", *args],
            cwd=self.path,
            env={**os.environ, **(env or {})},
            input=os.fsencode(input) if isinstance(input, str) else input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
        )
        assert done.returncode in ok, f"git {args}: exit {done.returncode}: {os.fsdecode(done.stderr)}"
        return done.stdout

    def at(self, path: str | bytes) -> Path:
        """The place of a repository path in the file system."""
        return self.path / os.fsdecode(path)

    def write(self, path: str | bytes, data: str | bytes, mode: int | None = None) -> Path:
        """Write a file, its directories too; ``mode`` are its permission bits, else what stands there or 0644."""
        target = self.at(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            target.chmod(mode)
        return target

    def commit(self, message: str = "commit", *, add: bool = True) -> str:
        """Commit everything (with ``add`` off: what is staged), also nothing; the new commit's id."""
        if add:
            self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    @property
    def git_dir(self) -> Path:
        """This worktree's git directory."""
        return Path(self.git("rev-parse", "--absolute-git-dir"))

    @property
    def common_dir(self) -> Path:
        """The git directory that linked worktrees share."""
        return Path(self.git("rev-parse", "--path-format=absolute", "--git-common-dir"))

    def index_bytes(self) -> bytes:
        """The user's index, empty when there is none."""
        index = self.git_dir / "index"
        return index.read_bytes() if index.exists() else b""

    def tree(self, commit: str) -> dict[bytes, tuple[str, str]]:
        """Path to (mode, object id) of everything in a commit or tree."""
        listing = self.git_bytes("ls-tree", "-r", "-z", "--full-tree", commit)
        entries = (line.split(b"\t", 1) for line in listing.split(b"\0") if line)
        return {path: (facts.split()[0].decode(), facts.split()[2].decode()) for facts, path in entries}

    def snapshot(self) -> Snapshot:
        """Everything in the working tree but the top ``.git``: path to (kind, permission bits, bytes or link target).

        Directories are in it, too, with no bytes, so an empty one that comes or goes shows.
        """
        return {
            path: facts for path, facts in _walk(os.fsencode(self.path)) if path != b".git" and path[:5] != b".git/"
        }

    def user_state(self) -> dict[str, bytes]:
        """Every byte in the git directories that is the user's: index, HEAD, config, hooks, stash, reflogs, states of
        merges and rebases, and the refs outside ``refs/pinable*``.

        Left out are objects, our ``pinable`` directories, and how refs are stored (what they say is in).
        """
        state = {"refs": b"\n".join(self._user_refs())}
        for top in {self.git_dir, self.common_dir}:
            for path, (kind, mode, data) in _walk(os.fsencode(top)):
                if kind != "dir" and not _is_ours_or_storage(path):
                    state[f"{top.name}/{os.fsdecode(path)}"] = b"%s %o %s" % (kind.encode(), mode, data)
        return state

    def _user_refs(self) -> list[bytes]:
        refs = self.git_bytes("for-each-ref", "--format=%(refname) %(objectname) %(symref)")
        return [line for line in refs.splitlines() if not line.startswith(b"refs/pinable")]


def _is_ours_or_storage(path: bytes) -> bool:
    parts = path.split(b"/")
    if parts[0] == b"worktrees":
        parts = parts[2:] or [b""]
    return parts[0] in {b"objects", b"refs", b"packed-refs", b"reftable", b"pinable"} or (
        parts[:2] == [b"logs", b"refs"] and len(parts) > 2 and parts[2].startswith(b"pinable")
    )


def _walk(top: bytes, below: bytes = b"") -> Iterator[tuple[bytes, tuple[str, int, bytes]]]:
    """Each thing below ``top``, by its path from there, in a fixed order."""
    for name in sorted(os.listdir(os.path.join(top, below))):
        path = os.path.join(below, name)
        full = os.path.join(top, path)
        status = os.lstat(full)
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "device")
        yield path, (kind, stat.S_IMODE(status.st_mode), _content(full, kind))
        if kind == "dir":
            yield from _walk(top, path)


def _content(path: bytes, kind: str) -> bytes:
    if kind == "link":
        return os.readlink(path)
    if kind != "file":
        return b""
    with open(path, "rb") as file:
        return file.read()


def program(name: str) -> str:
    """Where the installed console program ``name`` of this interpreter's environment is."""
    path = Path(sysconfig.get_path("scripts")) / name
    assert path.exists(), f"{path} is not installed: the tests need the package installed, see CONTRIBUTING.md"
    return str(path)


def cli_environment(env: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """This test's environment with ``env`` on top; a value of None takes a name out."""
    merged: dict[str, str | None] = {**os.environ, **(env or {})}
    return {name: value for name, value in merged.items() if value is not None}


def run_cli(
    name: str,
    *args: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    input: str | None = None,
    timeout: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """Run an installed program to its end, ``timeout`` seconds at most; without ``input`` its input is empty."""
    return subprocess.run(
        [program(name), *args],
        cwd=cwd,
        env=cli_environment(env),
        input=input,
        stdin=subprocess.DEVNULL if input is None else None,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=timeout,
    )


def start_cli(
    name: str, *args: str | Path, cwd: Path | None = None, env: Mapping[str, str | None] | None = None
) -> subprocess.Popen[str]:
    """Start an installed program in a process group of its own, its output in pipes; whoever starts it ends it."""
    return subprocess.Popen(
        [program(name), *args],
        cwd=cwd,
        env=cli_environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",
        start_new_session=True,
    )
