"""The session's side of a conversation that a backend holds with a model: make it durable, hold its limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from gitsession import prices
from gitsession.backends import base as backend
from gitsession.backends.base import EditOutcome, Usage
from gitsession.lifecycle import Doc, newest
from gitsession.prices import Tokens
from gitsession.verbs import review
from gitsession.verbs.checkpoint import Recorder
from gitsession.verbs.edits import Edits, Made
from gitsession.verbs.workspace import Workspace

_NAMED: Final = 20


@dataclass(frozen=True)
class Limits:
    """When a run is to pause: after so many replies of the model in it, or US dollars spent on the session."""

    max_turns: int | None = None
    max_cost: float | None = None


class Dialogue:
    """Answers the events of a backend that converses (``backends.base.Conversing``).

    ``made`` is called with what came of each edit.
    """

    def __init__(self, recorder: Recorder, limits: Limits, made: Callable[[Made], None]) -> None:
        self.edits = Edits(recorder)
        self._recorder = recorder
        self._limits = limits
        self._made = made
        self._turns = 0
        self._spent: float | None = None
        self._reckoned = 0.0
        self._unpriced = 0
        self._prices: prices.Prices | None = None

    def answer(self, event: backend.Conversing) -> backend.Answer:
        """Do what an event says, durably, and answer it."""
        match event:
            case backend.Turn(model):
                return self._enough(model)
            case backend.Reply(message, usage):
                self._turns += 1
                self._spent = self._log("reply", message=message, usage=self.spent(usage))["cost"]["estimated_cost_usd"]
            case backend.Prompt(text, phase, task):
                self._log("prompt", text=text, phase=phase, task=task)
            case backend.ToolStarted(call, text):
                self._log("tool_started", call=call, text=text)
            case backend.ToolResult(call, text, error, phase):
                self._log("tool_result", call=call, text=text, error=error, phase=phase)
            case backend.Compacted(calls):
                self._log("compacted", calls=list(calls))
            case backend.Edit():
                made = self.edits.make(event)
                self._made(made)
                return EditOutcome(made.reason)
            case backend.ReviewWanted():
                doc = self._recorder.store.read(self._recorder.session_id)
                repo, objects = self._recorder.repo, self._recorder.objects
                return review.manifest(repo, objects, doc["base"]["tree"], newest(doc)["tree"])
            case backend.Findings(call, findings):
                checked = review.check(Workspace(self._recorder.repo), findings)
                kept = [asdict(finding) for finding in checked.kept]
                self._log("findings", call=call, findings=kept, dropped=len(checked.dropped))
                return checked
        return None

    def spent(self, usage: Usage) -> Doc:
        """A ``usage`` entry's fields: all tokens that went in, those that came out, and what they cost."""
        tokens = Tokens(usage.input, usage.output, usage.cache_write, usage.cache_read)
        cost, priced = usage.cost_usd, 0
        if usage.run_cost_usd is not None:
            cost, priced = round(usage.run_cost_usd - self._reckoned, 9), self._unpriced
            self._unpriced = 0
        elif cost is None and usage.model is not None:
            cost = self._price_list().cost(usage.model, tokens)
        if cost is None:
            self._unpriced += tokens.prompt + tokens.output
        else:
            self._reckoned += cost
        more = {"cache_write": usage.cache_write, "cache_read": usage.cache_read, "priced": priced}
        return {
            "input": tokens.prompt,
            "output": usage.output,
            "cost_usd": cost,
            **({name: count for name, count in more.items() if count}),
        }

    def _enough(self, model: str) -> str | None:
        """Why the model is not to be asked any more."""
        limits = self._limits
        if limits.max_turns is not None and self._turns >= limits.max_turns:
            return f"the limit of {limits.max_turns} replies (--max-turns) is reached"
        if limits.max_cost is None:
            return None
        if self._price_list().of(model) is None:
            return f"the price of {model} is not known, so --max-cost cannot be held; see prices in config.toml"
        if self._turns == 0:
            doc = self._recorder.store.read(self._recorder.session_id)
            self._spent = doc["cost"].get("priced_usd", 0.0) if not doc["cost"].get("unpriced_tokens") else None
        if self._spent is None:
            return "a part of what this session spent has no known price, so --max-cost cannot be held"
        if self._spent >= limits.max_cost:
            return f"the limit of ${limits.max_cost:g} (--max-cost) is reached: ${self._spent:.2f} are spent"
        return None

    def _price_list(self) -> prices.Prices:
        if self._prices is None:
            self._prices = prices.load(self._recorder.store.home / "config.toml")
        return self._prices

    def _log(self, event: str, **fields: Any) -> Doc:
        """An entry in the journal, without the fields that say nothing; the session after it."""
        with self._recorder.store.edit(self._recorder.session_id) as draft:
            draft.log(event, **{name: value for name, value in fields.items() if value is not None})
            return draft.doc


def news(doc: Doc, backend_name: str | None = None) -> list[str]:
    """What happened to the files since the agent last worked on them, in sentences for the model.

    ``backend_name`` is the agent's, if its conversation is held here: to an agent that keeps its own and was not the
    last to work, the whole is told in another way (``gitsession.verbs.continuation``).
    """
    told: list[tuple[str, list[str]]] = []  # the newest first
    for checkpoint in reversed(doc["checkpoints"]):
        worker = _worker(doc, checkpoint["index"])
        if checkpoint.get("trigger") == "restore":
            target = checkpoint.get("restored_from")
            where = "what they were at the start" if target is None else f"checkpoint {target}"
            told.append((f"the user put the files back to {where};", []))
            backend_name = None  # what others did before is undone
        elif checkpoint.get("trigger") in ("resume", "manual"):
            told.append(("the user", checkpoint["files_changed"]))
        elif None not in (worker, backend_name) and worker != backend_name:
            told.append((f"{worker}, another agent,", checkpoint["files_changed"]))
        elif checkpoint.get("trigger") != "pause":
            break
    sentences = []
    for who, several in groupby(reversed(told), key=itemgetter(0)):
        names = list(dict.fromkeys(name for _, changed in several for name in changed))
        shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        if names or who.endswith(";"):
            sentences.append(f"{who} changed {shown};" if names else who)
    return [*sentences, "read files again before you change them."] if sentences else []


def _worker(doc: Doc, checkpoint: int) -> str | None:
    """The backend whose run made a checkpoint."""
    for run in reversed(doc.get("runs") or []):
        if run.get("from_checkpoint") is None or run["from_checkpoint"] < checkpoint:
            name: str | None = run.get("backend")
            return name
    return None
