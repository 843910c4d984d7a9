"""Sessions for tests that begin where a run has left off: a record, a base and checkpoints, no agent."""

from __future__ import annotations

import os
from pathlib import Path

from support import GitRepo

from gitsession.clock import timestamp
from gitsession.config import Settings
from gitsession.git.repo import Repo
from gitsession.lifecycle import Doc
from gitsession.model import Session
from gitsession.store.sessions import SessionStore
from gitsession.tasks import task_hash
from gitsession.verbs.checkpoint import Recorder
from gitsession.verbs.restore import RestoreReport, restore, undo


class TestSession:
    """One session of ``user``'s repository, whose base is taken when it is made."""

    __test__ = False

    def __init__(
        self, user: GitRepo, session_id: str = "s1", *, start: Path | None = None, settings: Settings | None = None
    ) -> None:
        self.user = user
        self.id = session_id
        self.settings = settings or Settings()
        self.store = SessionStore()
        repo = Repo.discover(user.path)
        now = timestamp()
        session = Session.model_validate(
            {
                "id": session_id,
                "status": "created",
                "backend": "command",
                "task": "task",
                "task_hash": task_hash("task"),
                "created_at": now,
                "updated_at": now,
                "metadata": {"working_dir": os.fspath(start or user.path), "os": "linux", "wrapper_version": "0"},
                "repository": {
                    "worktree": str(repo.worktree),
                    "git_dir": str(repo.git_dir),
                    "common_dir": str(repo.common_dir),
                    "object_format": repo.object_format,
                },
            }
        )
        self.store.create(session.model_dump(mode="json"))
        with_base = Recorder(self.store, session_id, repo, self.settings)
        with_base.base()
        with_base.close()

    def checkpoint(self, description: str = "step") -> int:
        """Take a checkpoint of the files as they are; its index."""
        recorder = Recorder(self.store, self.id, Repo.discover(self.user.path), self.settings)
        try:
            record = recorder.take("manual", description, always=True)
        finally:
            recorder.close()
        assert record is not None
        index: int = record["index"]
        return index

    def restore(self, index: int | None, *paths: str, force: bool = False, dry_run: bool = False) -> RestoreReport:
        return restore(
            self.store,
            self.id,
            index,
            settings=self.settings,
            paths=paths,
            start=self.user.path,
            force=force,
            dry_run=dry_run,
        )

    def undo(self, *, force: bool = False, dry_run: bool = False) -> RestoreReport:
        return undo(self.store, self.id, settings=self.settings, start=self.user.path, force=force, dry_run=dry_run)

    @property
    def doc(self) -> Doc:
        return self.store.read(self.id)

    @property
    def records(self) -> list[Doc]:
        checkpoints: list[Doc] = self.doc["checkpoints"]
        return checkpoints
