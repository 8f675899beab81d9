"""One claim of a task in an agent's hands: what it is told, what it tells, how it came out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock.kernel.errors import (
    CallError,
    FencedError,
    GuardRefusedError,
    KernelError,
    StoreError,
)
from interlock.kernel.machines.tasks.breaker import BreakerLimits, Trip, tripped
from interlock.kernel.reason import ABORT_OF, AbortReason, TransitionReason, why_of
from interlock.kernel.record import Record
from interlock.workers.config import environment_without_settings
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.git.changes import changed_files, commit_all
from interlock.workers.gateways.git.errors import GitError
from interlock.workers.gateways.git.repository import Repository
from interlock.workers.gateways.git.worktree import Worktree
from interlock.workers.processes.agent.process import WATCHDOG_LOST, Exit
from interlock.workers.specs.json_line import as_line
from interlock.workers.supervision.reports import (
    AgentBlocked,
    AgentFailed,
    CancelRequested,
    SplitRequested,
)
from interlock.workers.tasks.launch_spec import ClaimPaths
from interlock.workers.tasks.ownership import IDENTITY, outside
from interlock.workers.tasks.turn_monitor import TurnMonitor
from interlock.workers.tasks.verification.check import check
from interlock.workers.tasks.verification.signals import Signal, SignalType

log = logging.getLogger(__name__)

SUMMARY_LENGTH_MAX = 8_000
REASON_LENGTH_MAX = 2_000
# A shell adds the signal's number to this.
SIGNALS_FROM, SIGNALS_MAX = 128, 64


class TaskTurn:
    """A claimed task, its lease and its turn. `settled`: how it came out is told."""

    def __init__(self, work: Work, place: ClaimPaths, agent: Record) -> None:
        self.work, self.place = work, place
        self.monitor = TurnMonitor(work.dispatch, place.turn, agent)
        self.settled = False
        self.outside: tuple[str, ...] = ()
        self._looked_after = 0

    @property
    def record_id(self) -> str:
        """Return the task's id."""
        return self.work.record.id

    @property
    def data(self) -> Mapping[str, Any]:
        """Return the task's data, as of the claim."""
        return self.work.record.data

    @property
    def prompt(self) -> str:
        """Return what a plain command reads on its stdin."""
        return f"{self.data['title']}\n\n{self.data['text']}".rstrip() + "\n"

    @property
    def words(self) -> dict[str, str]:
        """Return what an agent is told of its task by name."""
        return {
            "TASK_ID": self.record_id,
            "TASK_TITLE": self.data["title"],
            "TASK_TEXT": self.data["text"],
            "TASK_ROLE": self.data["role"],
            "KEY": self.work.key,
            "TOKEN": self.work.lease.token,
            "WORKTREE": self.place.worktree,
            "BRANCH": self.place.branch,
        }

    @property
    def line(self) -> str:
        """Return the JSON line that gives this task to a session."""
        told = {name.lower().removeprefix("task_"): value for name, value in self.words.items()}
        return as_line({"type": "task", **told})

    def begin(self) -> None:
        """Tell that its agent is at work on it."""
        with suppress(KernelError):
            self.work.fire(Outcome("started"))
        self.monitor.turn("agent_spawned")

    def trip(self) -> Trip | None:
        """Return why the breaker cuts its agent off, or None."""
        limits = BreakerLimits(self.data.get("budget_micro"), self.data["tool_failures_max"])
        return tripped(
            limits,
            spent_micro=self.monitor.spent_micro,
            failures_in_row=self.monitor.failures_in_row,
            outside=self.outside,
        )

    def look_is_due(self) -> bool:
        """Whether a tool call ended since its files were looked at; only owned files are."""
        due = bool(self.data["owned_files"]) and self.monitor.tools_ended > self._looked_after
        self._looked_after = self.monitor.tools_ended
        return due

    def look(self) -> None:
        """See which files beyond its own were changed so far."""
        with suppress(GitError, OSError):
            changed = changed_files(self._repository(), self._tree(), base=self.place.base)
            self.outside = outside(changed, self.data["owned_files"])

    def offer(self, told: AgentBlocked | SplitRequested) -> str:
        """Tell at once what it waits for or falls apart into; return why that is refused, or ''.

        Before its agent is ended: one that may not do this goes on.
        """
        try:
            self.work.fire(_outcome_of(told))
        except GuardRefusedError as refusal:
            return refusal.why
        except CallError as refusal:
            self.monitor.told = AgentFailed(f"its report is refused: {refusal}"[:REASON_LENGTH_MAX])
            return ""
        except (FencedError, StoreError):
            log.exception("%s was not told that its work ended", self.work.key)
        self.settled = True
        verb = "split" if isinstance(told, SplitRequested) else "blocked"
        self.monitor.turn("task_failed", reason=f"it {verb} its task")
        return ""

    def cancel_child(self, asked: CancelRequested) -> str:
        """End a part that the agent gives up; return why that is refused, or ''."""
        told = {"child": asked.child, "reason": asked.reason[:REASON_LENGTH_MAX]}
        try:
            self.work.fire(Outcome("child_cancelled", told))
        except GuardRefusedError as refusal:
            return refusal.why
        except KernelError as refusal:
            return str(refusal)
        return ""

    def finished(self, output: str, took_s: float | None) -> Outcome:
        """Keep the work in a commit, unless a stop hook refuses; return what to tell."""
        tree = self._tree()
        if not tree.folder.is_dir():
            return Outcome("orphaned", {"reason": "its worktree is gone"})
        with suppress(KernelError):
            self.work.note("activity", {"word": "committing"})
        try:
            message = f"{self.data['title']}\n\nTask: {self.record_id}\n"
            commit_all(self._repository(), tree, message=message, identity=IDENTITY)
        except (GitError, OSError) as refusal:
            reason = f"its work cannot be committed: {refusal}"[:REASON_LENGTH_MAX]
            return Outcome("failed", {"reason": reason})
        # After the commit: what a hook leaves behind is not the agent's work.
        within_s = self.work.dispatch.settings.verify_s
        if blocked := stop_hook_refusal(self.data["stop_hooks"], tree.folder, within_s=within_s):
            why = TransitionReason.STOP_HOOK_BLOCKED
            return Outcome("failed", {"reason": blocked[:REASON_LENGTH_MAX], "why": why})
        said = ((self.monitor.summary or "").strip() or output.strip())[-SUMMARY_LENGTH_MAX:]
        summary = said or "the agent ended well and said nothing"
        where = {"branch": self.place.branch, "worktree": self.place.worktree, "took_s": took_s}
        return Outcome("completed", {"summary": summary, **where})

    def failed(self, ended: Exit, abort: AbortReason, trip: Trip | None) -> Outcome:
        """Return what to tell of an agent that did not come to its end."""
        if trip is not None:
            told = {"abort": trip.abort, "why": trip.why, "code": f"breaker_{trip.cause}"}
            return Outcome("failed", {**told, "reason": trip.reason, "final": trip.final})
        by_us = ended.reason_by_us not in (None, WATCHDOG_LOST)
        silent = not (self.monitor.told or by_us) and killed(ended.code)
        if silent and self.work.record.state == "in_progress":
            # It could not say anything itself: what it left behind is looked at.
            reason = f"its process was killed, exit code {ended.code}"
            return Outcome("orphaned", {"reason": reason, "abort": abort})
        last = (ended.errors or ended.output).strip().rpartition("\n")[2][-500:]
        reason = f"its agent ended with {abort}, exit code {ended.code}: {last or 'no word'}"
        return Outcome("failed", {"reason": reason, "abort": abort, "why": why_of(abort)})

    def tell(self, outcome: Outcome) -> None:
        """Lead the turn on, and tell the task how it came out."""
        if outcome.trigger == "completed":
            self.monitor.finish()
        elif outcome.trigger != "orphaned":
            # What was lost may be recovered yet, and nobody clears it away before that is known.
            told = {k: v for k, v in outcome.payload.items() if k in ("reason", "why", "abort")}
            self.monitor.turn("task_failed", **told)
        self.settled = True
        tell(self.work, outcome, otherwise="failed")

    def _repository(self) -> Repository:
        return Repository.open(Path(self.place.repo))

    def _tree(self) -> Worktree:
        place = self.place
        return Worktree(place.branch, Path(place.worktree), place.base, present=True)


def killed(code: int) -> bool:
    """Tell whether a signal ended a process, by its exit code or by that of its shell."""
    return code < 0 or SIGNALS_FROM < code <= SIGNALS_FROM + SIGNALS_MAX


def of_failed(told: AgentFailed) -> Outcome:
    """Return the outcome of what an agent said when it could not go on."""
    abort = told.abort or (ABORT_OF.get(told.reason) if told.reason else None)
    said = {"reason": told.error[:REASON_LENGTH_MAX], "why": told.reason, "abort": abort}
    return Outcome("failed", {**said, "retry_after_s": told.retry_after_s})


def _outcome_of(told: AgentBlocked | SplitRequested) -> Outcome:
    match told:
        case AgentBlocked(task=str(task)):
            return Outcome("blocked", {"on": task, "kind": "task"})
        case AgentBlocked(text=text):
            return Outcome("blocked", {"on": str(text)[:REASON_LENGTH_MAX], "kind": "text"})
        case SplitRequested(subtasks=parts):
            return Outcome(
                "split", {"subtasks": [{"title": one.title, "text": one.text} for one in parts]}
            )


def stop_hook_refusal(hooks: list[str], folder: Path, *, within_s: float) -> str:
    """Run the commands that may refuse a completion; return the first refusal, or ''."""
    if not hooks:
        return ""
    signals = [Signal(SignalType.TEST_PASSES, hook) for hook in hooks]
    asked = check(
        signals,
        folder=folder,
        reviewer=None,
        judge=None,
        environment=environment_without_settings(),
        test_s=within_s,
    )
    refused = [one for one in asyncio.run(asked).results if not one.passed]
    return f"a stop hook refused: {refused[0].value}: {refused[0].detail}" if refused else ""


def tell(work: Work, outcome: Outcome, *, otherwise: str) -> None:
    """Fire an outcome; what does not fit is told as `otherwise`, and costs a try."""
    payload = {name: value for name, value in outcome.payload.items() if value is not None}
    reason = str(payload.get("reason", ""))
    try:
        work.fire(Outcome(outcome.trigger, payload, reason=reason))
    except FencedError:
        # It was taken away meanwhile: that it is over is all there is left to say.
        with suppress(KernelError):
            work.dispatch.leases.settle(work.lease, work.dispatch.render)
    except CallError as refusal:
        told = {"reason": f"its report is refused: {refusal}"[:REASON_LENGTH_MAX]}
        with suppress(KernelError):
            work.fire(Outcome(otherwise, told, reason=told["reason"]))
    except StoreError:
        log.exception("%s was not told %s, the store was away", work.key, outcome.trigger)
