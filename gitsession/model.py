"""The session file, version 1: ``sessions/<id>.json``, UTF-8 JSON, one object.

Fields of the published format, always there::

    id                 the session's id (``gitsession.ids``)
    status             created | running | paused | completed
    backend, model     what does the work; ``model`` is null where the backend has none
    task               the task's text, exactly as given
    task_hash          "sha256:" + lower-case hex of the task's UTF-8; may be cut short, compare by the shorter
    files              the files the task is about, relative to the worktree, in the order given
    created_at         UTC, ISO 8601 with a Z
    updated_at         the moment of the last entry folded in
    workflow           "do" (analysis, implementation, review)
    current_phase      the phase it is in, or null
    phases_completed   phases that ended, in order
    checkpoints        list of checkpoints, ``index`` 0, 1, 2 …:
        index, timestamp, phase, description
        files_changed      paths (``gitsession.paths``) that differ from the checkpoint before; at most
                           1,000 are listed, ``files_changed_total`` then says how many there are
        tokens_used        {input, output} since the checkpoint before
    context            conversation_history (gitsession.conversation), accumulated_changes ({path, status} net since
                       the base), working_branch (the branch when last run), handed_over ({session, text} of
                       each session that --context-from named), set_aside ({at, to, messages} of what was said
                       after a checkpoint that the conversation went back to)
    cost               total_tokens; estimated_cost_usd, null when any part of it is unknown
    metadata           git_branch, git_commit (7 digits), working_dir, os (darwin|linux|windows),
                       wrapper_version, task_hash, start_time, backend, model: as at creation, never changed

Ours::

    schema_version     1; a reader that meets a higher number must not write the file
    repository         worktree, git_dir, common_dir (absolute paths), object_format: which repository it is
    base               {commit, tree, head}: the commit before the first change, null until it is taken
    command            the ``command`` backend's program and arguments
    command_offered    a program that an archive or a repository named: run only when its user names it
    priority           higher is recovered first; 0 by default
    pause_reason       why it is paused, null otherwise
    runs               one object a run: started_at, ended_at (null while it runs), end, said (the agent's last words),
                       tracked (true where a person used the agent, and its hooks fed the session)
    restoring          a restore that was begun (gitsession.verbs.restore), or null
    pending_edit       an edit that was begun (gitsession.verbs.edits), or null
    unsaved            {what, paths}: edits of a step whose checkpoint is still to be taken, or null
    agents             the agents' own sessions, the one that worked last at the end: agent (a backend's name), id,
                       version, model, directory (where it ran), transcript (its own record), counted (of an agent
                       that sums up its tokens: its sums that are in ``tokens_used``), at; each but agent and id may
                       be null
    tracked            {agent, turn, calls} while an agent's hooks feed it (gitsession.verbs.tracking), null otherwise:
                       turn is whether it is about something it was told, calls {call, key, tool, at, leaves} are
                       the calls of tools that it began and that have not ended (at: since when; leaves: of a patch in
                       a shell command the SHA-256 of what it leaves, by path)
    follows            the session that was completed, deleted or of another repository when the agent's own went on
    rewound            {to, agent}: the conversation is to go on from checkpoint ``to``, there in the agent's own
                       session; null once it does
    findings           {file, line, severity: critical|warning|note, message, quote} of the review
    findings_dropped   how many findings were not kept, because their quote was not in the file
    head_moves         where HEAD went meanwhile (gitsession.verbs.heads); head_seen: the last one's serial
    journal            {seq, offset}: up to where ``<id>.journal`` is folded in
    cost.pending       tokens used since the last checkpoint
    cost.unpriced_tokens, cost.priced_usd   what makes estimated_cost_usd null, and the sum of what is known

    and in a checkpoint
        commit, tree       hex ids; null in a session that has no repository
        capture            "scan" (the whole working tree was looked at) or "paths" (only files known to differ)
        trigger            agent | phase | settled | interval | manual | pause | end | resume | restore | found
                           (what an agent's edit was about to replace, or what changed without a tracked agent's tool)
        agent              {agent, id, at}: the agent's own session, and how far its conversation had come (or null)
        call               the agent's call that asked for it, where there is one
        cost_usd           what its tokens cost; null when that is not known, absent when there were none
        changes            {path, status: added|modified|deleted|type} for each of files_changed
        head_before, head  where HEAD was at the scan before and is now; only there if it moved
        skipped            {path, reason} for what was left out of the tree
        empty_dirs         directories without any file, which a git tree cannot hold
        meta               commit on refs/pinable-meta/<id> with exact bytes that git's filters would change, or null
        said               where the conversation was (gitsession.conversation), and how many phases had ended
        restored_from      the index this checkpoint's files were restored from; null for the base, and elsewhere
        safety             of a restore: the checkpoint that holds what was before (null: the base)
        restored_paths     of a restore: the paths it was limited to

Unknown fields are kept, at every level, and written back.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gitsession.lifecycle import SCHEMA_VERSION


class Record(BaseModel):
    """Base of all parts: unknown fields survive."""

    model_config = ConfigDict(extra="allow")


class TokensUsed(Record):
    input: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)


class Change(Record):
    path: str
    status: str


class SkippedPath(Record):
    path: str
    reason: str


class Checkpoint(Record):
    index: int = Field(ge=0)
    timestamp: str
    phase: str | None = None
    description: str
    files_changed: list[str] = Field(default_factory=list)
    tokens_used: TokensUsed = Field(default_factory=TokensUsed)
    commit: str | None = None
    tree: str | None = None
    capture: str | None = None
    trigger: str | None = None
    changes: list[Change] = Field(default_factory=list)
    files_changed_total: int | None = None
    skipped: list[SkippedPath] = Field(default_factory=list)
    empty_dirs: list[str] = Field(default_factory=list)
    meta: str | None = None
    restored_from: int | None = None


class Context(Record):
    conversation_history: list[Any] = Field(default_factory=list)
    accumulated_changes: list[Any] = Field(default_factory=list)
    working_branch: str | None = None


class Cost(Record):
    total_tokens: int = 0
    estimated_cost_usd: float | None = None


class Metadata(Record):
    git_branch: str | None = None
    git_commit: str | None = None
    working_dir: str
    os: str
    wrapper_version: str


class Repository(Record):
    worktree: str
    git_dir: str
    common_dir: str
    object_format: str = "sha1"


class Base(Record):
    commit: str
    tree: str
    head: str | None = None


class Run(Record):
    started_at: str
    ended_at: str | None = None
    end: str | None = None


class Session(Record):
    """One session as its file holds it; see the module's docstring for each field."""

    schema_version: int = SCHEMA_VERSION
    id: str
    status: str
    backend: str
    model: str | None = None
    task: str
    task_hash: str
    files: list[str] = Field(default_factory=list)
    created_at: str
    updated_at: str
    workflow: str | None = "do"
    current_phase: str | None = None
    phases_completed: list[str] = Field(default_factory=list)
    checkpoints: list[Checkpoint] = Field(default_factory=list)
    context: Context = Field(default_factory=Context)
    cost: Cost = Field(default_factory=Cost)
    metadata: Metadata
    repository: Repository | None = None
    base: Base | None = None
    command: list[str] | None = None
    priority: int = 0
    pause_reason: str | None = None
    runs: list[Run] = Field(default_factory=list)

    @property
    def last_checkpoint(self) -> Checkpoint | None:
        return self.checkpoints[-1] if self.checkpoints else None
