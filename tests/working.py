"""A session at work in a repository, without an agent: it writes files and takes checkpoints."""

from __future__ import annotations

from support import GitRepo

from gitsession.config import Settings
from gitsession.git.repo import Repo
from gitsession.store.sessions import SessionStore
from gitsession.verbs.checkpoint import Recorder
from gitsession.verbs.run import RunRequest, new_doc

PAGE = "".join(f"line number {number} of the page\n" for number in range(1, 31))


class Worker:
    """A session ``name`` in ``repo``; the base is taken as it begins."""

    def __init__(self, repo: GitRepo, name: str = "worker", *, task: str = "Do the work") -> None:
        self.repo = repo
        self.name = name
        found = Repo.discover(repo.path)
        store = SessionStore()
        store.create(new_doc(RunRequest(start=repo.path, task=task), task, name, found, "command"))
        self.recorder = Recorder(store, name, found, Settings())
        self.recorder.base()

    def work(self, files: dict[str, str | None], *, trigger: str = "agent", known: bool = False) -> int:
        """Write (None: delete) files and take a checkpoint; its index."""
        for path, text in files.items():
            if text is None:
                self.repo.at(path).unlink()
            else:
                self.repo.write(path, text)
        paths = [path.encode() for path in files] if known else None
        record = self.recorder.take(trigger, f"Work on {', '.join(files)}", always=True, known=paths)
        assert record is not None
        index: int = record["index"]
        return index

    def close(self) -> None:
        self.recorder.close()


def edited(*numbers: int) -> str:
    """``PAGE`` with the given lines rewritten."""
    lines = PAGE.splitlines()
    for number in numbers:
        lines[number - 1] = f"what the agent wrote instead of line {number}"
    return "\n".join(lines) + "\n"
