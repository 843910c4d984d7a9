"""Edits that happen exactly once, whatever is killed when.

What an edit is to do is in the journal before it touches a file: of each path the object id of the bytes that must be
there before, and of those that are to be there after, which are an object already.  Then the files are written, the
checkpoint is taken, and the journal says that it is done.  A run that finds an edit that was not done goes by what
is on disk: the bytes after it, then it is done; the bytes before it, then it is made, from the object; anything else,
then somebody else was there, and a person has to decide.

In the journal and the session file an edit is::

    call      the tool call that asked for it
    what      the description of its checkpoint;  told  what a person is told;  result  what the model is told
    more      another edit of the same step follows, and takes the checkpoint
    changes   path; before, after (object ids, null for no file); mode (git's, of the file after it)
"""

from __future__ import annotations

import errno
import hashlib
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from gitsession import paths, seam
from gitsession.backends.base import Edit, FileEdit
from gitsession.errors import EditConflict, RepositoryError
from gitsession.git import trees
from gitsession.git.filters import Filters
from gitsession.git.objects import Objects
from gitsession.git.trees import EXECUTABLE, FILE, parents, storable
from gitsession.git.worktree import CHANGED, Found, Obstructed, Worktree, reason_of
from gitsession.lifecycle import Doc, newest
from gitsession.store.draft import Draft
from gitsession.verbs.checkpoint import Recorder

# Not one file's trouble, and nothing that the model could do otherwise.
_FATAL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE}
_THEIRS: Final = "was changed by somebody else a moment ago: read it again"
_KEPT_THEIRS: Final = (
    "This edit was not made: while the session was paused the user changed the file, and their version stays. "
    "Read it again before you go on."
)


@dataclass
class Made:
    """What came of an edit: ``reason`` why it was not made, the checkpoints taken before and after it."""

    reason: str | None = None
    told: str | None = None
    found: list[Doc] = field(default_factory=list)
    saved: list[Doc] = field(default_factory=list)


class Edits:
    """Makes the edits of one session."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._token = hashlib.sha256(recorder.session_id.encode()).hexdigest()[:12]
        self._unsaved: set[bytes] = set()

    def make(self, edit: Edit) -> Made:
        """Make an edit, or say why it cannot be; ``GitSessionError`` when the run cannot go on."""
        with self._recorder.store.edit(self._recorder.session_id) as draft, self._worktree() as worktree:
            before, reason = _looked_at(worktree, edit.changes)
            if reason is not None:
                return Made(reason)
            made = Made()
            # What somebody else wrote there is in a checkpoint before it is written over.
            strange = [change.path for change in edit.changes if not self._is_known(draft.doc, change)]
            if strange and (record := self._take(draft, "found", "changes of somebody else", strange)) is not None:
                made.found.append(record)
            intent = self._write_down(draft, edit, before)
            made.reason = self._carry_out(draft, worktree, intent)
            if made.reason is None:
                made.told = edit.told
                self._finish(draft, intent, made)
            return made

    def settle(self, *, keep_theirs: bool) -> Made:
        """Finish the edit that a former run did not; ``EditConflict`` if a file is neither as before nor as after.

        With ``keep_theirs`` such a file stays as it is, and the model is told.
        """
        made = Made()
        with self._recorder.store.edit(self._recorder.session_id) as draft, self._worktree() as worktree:
            intent = draft.doc.get("pending_edit")
            if intent is not None:
                worktree.sweep({_parent(paths.decode(change["path"])) for change in intent["changes"]})
                conflicts = [change for change in intent["changes"] if not _fits(worktree, change)]
                if conflicts and not keep_theirs:
                    raise _conflict(conflicts)
                if conflicts:
                    draft.log("edit_dropped", call=intent["call"], text=_KEPT_THEIRS)
                elif (reason := self._carry_out(draft, worktree, intent)) is None:
                    self._finish(draft, intent, made)
                else:
                    made.reason = reason
            # A step that was cut: what was made of it is not to be taken for somebody's change.
            if unsaved := draft.doc.get("unsaved"):
                known = [paths.decode(path) for path in unsaved["paths"]]
                if (record := self._take(draft, "agent", unsaved["what"], known)) is not None:
                    made.saved.append(record)
        return made

    def _write_down(self, draft: Draft, edit: Edit, before: dict[bytes, int]) -> Doc:
        """The intent, durable with the bytes it needs."""
        objects = self._recorder.objects
        changes = [
            {
                "path": paths.encode(change.path),
                "before": change.expected,
                "after": None if change.data is None else objects.add("blob", change.data),
                "mode": before.get(change.path, EXECUTABLE if change.executable else FILE),
            }
            for change in edit.changes
        ]
        objects.flush()
        intent = {
            "call": edit.call,
            "what": edit.what,
            "told": edit.told,
            "result": edit.result,
            "more": edit.more,
            "changes": changes,
        }
        draft.log("edit_intent", edit=intent)
        return intent

    def _carry_out(self, draft: Draft, worktree: Worktree, intent: Doc) -> str | None:
        """Bring the files to where the edit wants them; why not, in which case the edit is given up."""
        for change in intent["changes"]:
            try:
                reason = _bring_about(worktree, self._recorder.objects, change)
            except Obstructed as error:
                reason = reason_of(error)
            except OSError as error:
                worktree.sweep([_parent(paths.decode(change["path"]))])
                if error.errno in _FATAL:
                    raise RepositoryError(
                        f"cannot write {change['path']}: {reason_of(error)}",
                        hint="put that right and resume: the edit is written down, and made then",
                    ) from error
                reason = f"cannot be written: {reason_of(error)}"
            if reason is not None:
                draft.log("edit_dropped", call=intent["call"], reason=reason)
                return f"{change['path']}: {reason}"
        worktree.sync()
        return None

    def _finish(self, draft: Draft, intent: Doc, made: Made) -> None:
        """Take the checkpoint, and write down that the edit is done."""
        touched = [change["path"] for change in intent["changes"]]
        self._unsaved.update(paths.decode(path) for path in touched)
        unsaved = None
        if intent["more"]:
            unsaved = {"what": intent["what"], "paths": touched}
        elif not _has_checkpoint(draft.doc, intent["call"]):
            before = {paths.decode(path) for path in (draft.doc.get("unsaved") or {}).get("paths", [])}
            known = sorted(self._unsaved | before)
            record = self._take(draft, "agent", intent["what"], known, call=intent["call"])
            if record is not None:
                made.saved.append(record)
            self._unsaved.clear()
        seam.reach("edit.done")
        draft.log("edit_done", call=intent["call"], text=intent["result"], unsaved=unsaved)

    def _is_known(self, doc: Doc, change: FileEdit) -> bool:
        """Whether the newest checkpoint's tree has exactly the bytes that are there."""
        entry = trees.lookup(self._recorder.objects, newest(doc)["tree"], change.path)
        return change.expected == (entry.oid if entry is not None else None)

    def _take(
        self, draft: Draft, trigger: str, description: str, known: Iterable[bytes], call: str | None = None
    ) -> Doc | None:
        extra = {"call": call} if call is not None else None
        return self._recorder.take_in(draft, trigger, description, known=known, extra=extra)

    def _worktree(self) -> Worktree:
        repo = self._recorder.repo
        return Worktree(
            repo.worktree, self._token, object_format=repo.object_format, executable_bits=self._executable_bits
        )

    @cached_property
    def _executable_bits(self) -> bool:
        return Filters(self._recorder.repo).executable_bits


def _looked_at(worktree: Worktree, changes: Iterable[FileEdit]) -> tuple[dict[bytes, int], str | None]:
    """The modes of the files that are there, and why the edit cannot be made."""
    modes = {}
    for change in changes:
        name = paths.encode(change.path)
        if not storable(change.path):
            return {}, f"{name}: git does not store a file of this name"
        try:
            found = worktree.look(change.path)
            now = _state(worktree, change.path, found)
            others = next((above for above in parents(change.path) if worktree.look(above + b"/.git")), None)
        except Obstructed as obstruction:
            return {}, f"{name}: {paths.encode(obstruction.path)} is no directory, or a link to one"
        except OSError as error:
            return {}, f"{name}: {reason_of(error)}"
        if others is not None:
            return {}, f"{name}: {paths.encode(others)} is another repository, and not this session's to change"
        if now != change.expected:
            return {}, f"{name} {_THEIRS}"
        if found is not None:
            modes[change.path] = found.mode
    return modes, None


def _bring_about(worktree: Worktree, objects: Objects, change: Doc) -> str | None:
    """Make one change unless it is made already; why not, if somebody else wrote there."""
    path = paths.decode(change["path"])
    # Looked at before it is read: whoever saves after this look is noticed when the file is replaced.
    found = worktree.look(path)
    now = _state(worktree, path, found)
    if now == change["after"]:
        return None
    if now != change["before"]:
        return _THEIRS
    if found is not None and change["after"] is None:
        reason = worktree.remove(path, found)
        while reason is None and (path := _parent(path)) and worktree.remove_directory(path):
            pass
    else:
        _, data = objects.read(change["after"])
        worktree.stage(path, [data], change["mode"], found)
        reason = next((reason for _, reason in worktree.place()), None)
    return _THEIRS if reason == CHANGED else reason


def _fits(worktree: Worktree, change: Doc) -> bool:
    """Whether a file is as before the change or as after it."""
    try:
        path = paths.decode(change["path"])
        return _state(worktree, path, worktree.look(path)) in (change["before"], change["after"])
    except (OSError, Obstructed):
        return False


def _state(worktree: Worktree, path: bytes, found: Found | None) -> str | None:
    """The object id of the file found at ``path``; ``None`` for nothing, and what is no id for what is no file."""
    if found is None:
        return None
    if found.mode not in (FILE, EXECUTABLE):
        return f"mode {found.mode:o}"
    return worktree.blob_id(path, found)


def _conflict(conflicts: list[Any]) -> EditConflict:
    first = conflicts[0]
    others = f" (and {len(conflicts) - 1} more)" if len(conflicts) > 1 else ""
    path = shlex.quote(first["path"])
    take = f"git cat-file blob {first['after']} > {path}" if first["after"] else f"rm {path}"
    return EditConflict(
        f"{first['path']}{others} was changed while an edit of it was under way: yours is on disk, "
        f"the agent's is {'object ' + first['after'] if first['after'] else 'its deletion'}; nothing was overwritten",
        hint=f"resume with --force to keep yours, or take the agent's first: {take}",
    )


def _has_checkpoint(doc: Doc, call: str) -> bool:
    return any(checkpoint.get("call") == call for checkpoint in doc["checkpoints"][-3:])


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]
