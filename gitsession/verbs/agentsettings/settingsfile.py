"""One settings file of an agent in a working tree: our hooks in it, put in, taken out.

Whoever is killed in the middle leaves a whole file.  The record is written before the file, and says nothing of any
other bytes than those the file will have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from gitsession.errors import ConflictError, RepositoryError
from gitsession.git.repo import Repo
from gitsession.verbs.agentsettings import files, jsontext, record
from gitsession.verbs.agentsettings.agents import Agent
from gitsession.verbs.agentsettings.commands import MODULE, PROGRAM, Command
from gitsession.verbs.agentsettings.files import Content
from gitsession.verbs.agentsettings.form import Form, NotOurs
from gitsession.verbs.agentsettings.hooks import Hooks
from gitsession.verbs.agentsettings.jsontext import Problem
from gitsession.verbs.agentsettings.plugin import Plugin
from gitsession.verbs.agentsettings.record import Record


class SettingsFile:
    """Everything raises ``ConflictError`` for a file that is not to be touched, with the reason and where it is."""

    def __init__(self, repo: Repo, agent: Agent, relative: str) -> None:
        self.relative = relative
        self._worktree = repo.worktree
        self._agent = agent
        self._record_place = record.place_of(repo.git_dir, agent.name, relative)
        self._form: Form = Plugin() if agent.plugin else Hooks(agent)

    @cached_property
    def place(self) -> Path:
        return files.real_place(self._worktree, self.relative)

    def commands(self) -> list[Command]:
        """Those of our hooks in it."""
        content = self._content()
        with self._explained():
            return self._form.commands(content.text) if content.text and self._may_hold_ours(content) else []

    def is_current(self, command: Command) -> bool:
        """Whether exactly what ``put`` would put in is there."""
        content = self._content()
        with self._explained():
            return self._form.is_current(content.text or "", command)

    def is_as_left(self) -> bool:
        """Whether nobody changed it since ``put``."""
        known = record.read(self._record_place)
        return known is not None and known.is_of(self._content())

    def check_replaceable(self) -> None:
        """Nothing, where ``put`` and ``take`` would not refuse hooks of ours that are in it."""
        with self._explained():
            self._without_ours(self._content(), record.read(self._record_place))

    def put(self, command: Command) -> bool:
        """Have our hooks in it, once, with this command; whether something was to be done."""
        content = self._content()
        if content.mark and not self._agent.mark:
            raise ConflictError(
                f"{self.relative} begins with a byte order mark, and {self._agent.title} reads no file with one: "
                "it was not changed",
                hint="write it without one first",
            )
        with self._explained():
            if self._form.is_current(content.text or "", command):
                return False
            had = bool(self._form.commands(content.text or ""))
            known = record.read(self._record_place) if had else None
            before = self._without_ours(content, known) if had else content
            inserted = self._form.insert(before.text or "", command)
        after = Content(inserted.text, before.mark)
        directories = known.directories if known else tuple(files.missing_directories(self._worktree, self.place))
        existed = known.existed if known else before.text is not None
        new = Record(record.sum_of(after), existed, inserted.undo, inserted.made, directories)
        self._replace(content, after, known, new)
        return True

    def take(self) -> bool:
        """Have none of our hooks in it, and everything else as it was; whether something was to be done."""
        had = bool(self.commands())
        if had:
            content = self._content()
            known = record.read(self._record_place)
            with self._explained():
                after = self._without_ours(content, known)
            if after.text is None:
                files.remove(self.place)
                files.remove_directories(self._worktree, known.directories if known else ())
            else:
                files.write(self.place, after, content)
        record.remove(self._record_place)
        return had

    def _without_ours(self, content: Content, known: Record | None) -> Content:
        """The file as it was, or as it would be without us; no text: it would not be there."""
        assert content.text is not None  # noqa: S101 - ours are in it
        if known is not None and known.is_of(content):
            text = jsontext.replaced(content.text, known.undo)
        else:
            text = self._form.take_out(content.text, known.made if known else None)
        ours_alone = self._agent.plugin if known is None else not known.existed
        gone = ours_alone and text.strip() in ("", "{}") and not (self._worktree / self.relative).is_symlink()
        return Content(None if gone else text, content.mark)

    def _replace(self, before: Content, after: Content, known: Record | None, new: Record) -> None:
        """Write the file, and its record before it; if that fails, everything is as it was."""
        record.write(self._record_place, new)
        try:
            files.write(self.place, after, before)
        except (RepositoryError, ConflictError):
            if known is None:
                record.remove(self._record_place)
                files.remove_directories(self._worktree, new.directories)
            else:
                record.write(self._record_place, known)
            raise

    def _content(self) -> Content:
        return files.read(self.place)

    def _may_hold_ours(self, content: Content) -> bool:
        """So that a file which has nothing of ours need not be readable."""
        return content.text is not None and (self._agent.plugin or MODULE in content.text or PROGRAM in content.text)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except Problem as problem:
            where = f"{self.relative}, line {problem.line}, column {problem.column}"
            raise ConflictError(
                f"{where}: {problem.why}", hint=f"{self._agent.title} has to be able to read it"
            ) from None
        except NotOurs as error:
            raise ConflictError(f"{self.relative}: {error}", hint=error.hint) from None
