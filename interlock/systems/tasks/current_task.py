"""The task that a supervised agent works on: its prompt, its variables and its outcome."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from interlock import CallError, EffectWork, KernelError, Outcome
from interlock.git.changes import changed_files, commit_all
from interlock.git.errors import GitError
from interlock.git.repository import COMMITTER, Repository
from interlock.git.worktree import Worktree
from interlock.system.agents import (
    AgentFailed,
    Exit,
    Sandbox,
)
from interlock.system.errors import GuardRefusedError
from interlock.system.tables import AbortReason, Record, TransitionReason
from interlock.systems.tasks.claim_sandbox import check_sandbox
from interlock.systems.tasks.last_try import rejections_of, told_of_last_try
from interlock.systems.tasks.launch_spec import PreparedClaim
from interlock.systems.tasks.left_work import save_uncommitted
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.breaker import BreakerLimits, Trip, tripped
from interlock.systems.tasks.machines.ownership import outside
from interlock.systems.tasks.machines.task.data import TaskData
from interlock.systems.tasks.machines.task.limits import REASON_LENGTH_MAX, SUMMARY_LENGTH_MAX
from interlock.systems.tasks.machines.task.lost import runs_once
from interlock.systems.tasks.machines.task.names import State, Trigger
from interlock.systems.tasks.machines.turn.table import Trigger as TurnTrigger
from interlock.systems.tasks.parent_task import refuse_other_tasks
from interlock.systems.tasks.settings import TaskSettings
from interlock.systems.tasks.turn_reports import TurnReports
from interlock.systems.tasks.verification.check import check
from interlock.systems.tasks.verification.judgeable import check_parts
from interlock.systems.tasks.verification.signals import ParsedSignal, SignalType

log = logging.getLogger(__name__)

# A shell's exit code for a command that a signal ended is 128 plus the number of the signal.
SIGNALS_FROM, SIGNALS_MAX = 128, 64


class CurrentTask:
    """A claimed task, its lease and its turn.

    `reported`: its outcome was reported, or could not be; it is not reported again.
    """

    def __init__(
        self, work: EffectWork[TaskData], claim: PreparedClaim, agent: Record[AgentData]
    ) -> None:
        self.work, self.claim = work, claim
        self.reports = TurnReports(work.records, claim.turn, agent)
        self.reported = False
        self.begun_at = time.monotonic()
        self.outside: tuple[str, ...] = ()
        self._tools_ended_at_check = 0

    @property
    def record_id(self) -> str:
        """Return the task's id."""
        return self.work.record.id

    @property
    def data(self) -> TaskData:
        """Return the task's data, as of the claim."""
        return self.work.record.data

    @property
    def prompt(self) -> str:
        """Return the text that a plain command reads from stdin."""
        return f"{self.data['title']}\n\n{self.text}".rstrip() + "\n"

    @cached_property
    def last_try(self) -> str:
        """Return how the last try failed, or ''."""
        return told_of_last_try(self.work.record, self.work.records)

    @property
    def text(self) -> str:
        """Return the text of the task, and why earlier tries were not accepted."""
        parts = (self.data["text"], rejections_of(self.data), self.last_try)
        return "\n\n".join(part for part in parts if part)

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that describe the task to its agent, without their prefix."""
        return {
            "TASK_ID": self.record_id,
            "TASK_TITLE": self.data["title"],
            "TASK_TEXT": self.text,
            "TASK_LAST_TRY": self.last_try,
            "TASK_ROLE": self.data["role"],
            "KEY": self.work.key,
            "TOKEN": self.work.lease.token,
            "WORKTREE": self.claim.worktree,
            "BRANCH": self.claim.branch,
        }

    @property
    def line(self) -> str:
        """Return the JSON line that gives this task to a session."""
        fields = {
            name.lower().removeprefix("task_"): value for name, value in self.variables.items()
        }
        return json.dumps({"type": "task", **fields}, ensure_ascii=False) + "\n"

    @property
    def sandbox(self) -> Sandbox | None:
        """Return the sandbox of the level that this computer had at the claim."""
        level = str(self.data["claim"].get("sandbox"))
        return Sandbox.of_level(self.work.records.settings, level)

    def repository(self) -> Repository:
        """Open the repository of the task. Raises GitError."""
        return Repository.open(Path(self.claim.repo), sandbox=self.sandbox)

    def tree(self) -> Worktree:
        """Return the worktree of the claim."""
        claim = self.claim
        return Worktree(claim.branch, Path(claim.worktree), claim.base, present=True)

    def report_spawned(self) -> None:
        """Report that the agent's process runs, which leads the turn to `spawning`."""
        self.reports.fire(TurnTrigger.AGENT_SPAWNED)

    def begin_if_once(self) -> None:
        """Report a task that may not be repeated as started, before its agent is given it.

        If this process died after that, the agent would count as lost. Raises KernelError.
        """
        if runs_once(self.data):
            self.work.fire(Outcome(Trigger.STARTED))

    def report_started(self) -> None:
        """Report that the agent works on the task, which leads the turn to `running`.

        The published table has the same trigger for this step as for that of `report_spawned`.
        """
        if self.work.record.state == State.CLAIMED:
            with suppress(KernelError):
                self.work.fire(Outcome(Trigger.STARTED))
        self.reports.fire(TurnTrigger.AGENT_SPAWNED)

    def trip(self) -> Trip | None:
        """Return why the circuit breaker ends the agent, or None."""
        limits = BreakerLimits(self.data.get("budget_micro"), self.data["tool_failures_max"])
        return tripped(
            limits,
            spent_micro=self.reports.spent_micro,
            failures_in_row=self.reports.failures_in_row,
            outside=self.outside,
        )

    def file_check_is_due(self) -> bool:
        """Whether the task owns files, and a tool call ended since the last time this was asked."""
        due = bool(self.data["owned_files"]) and (
            self.reports.tools_ended > self._tools_ended_at_check
        )
        self._tools_ended_at_check = self.reports.tools_ended
        return due

    def check_files(self) -> None:
        """Find the changed files that the task does not own."""
        with suppress(GitError, OSError):
            changed = changed_files(self.repository(), self.tree(), base=self.claim.base)
            self.outside = outside(changed, self.data["owned_files"])

    def report_end(self, outcome: Outcome) -> str:
        """Report that the task is blocked or split; return why the machine refuses it, or ''.

        The agent is still running then. After a refusal a session continues to work on the task.
        """
        try:
            check_parts(self.work.records, outcome.payload.get("subtasks"))
            self.work.fire(outcome)
        except GuardRefusedError as refusal:
            return refusal.why
        except CallError as refusal:
            reason = f"its report is refused: {refusal}"[:REASON_LENGTH_MAX]
            self.reports.end_report = AgentFailed(reason)
            return ""
        except KernelError:
            log.exception("the end of the work of %s could not be reported", self.work.key)
        self.reported = True
        verb = "split" if outcome.trigger == Trigger.SPLIT else "blocked"
        self.reports.fire(TurnTrigger.TASK_FAILED, reason=f"the agent {verb} its task")
        return ""

    def refused(self, outcome: Outcome, refusal: str) -> AgentFailed:
        """Return the failure of a command whose report on the end of its work was refused.

        It cannot learn of the refusal, and has not done the work, whatever its exit code says. A
        person can resolve what it waits for, promote the agent, or try the task again.
        """
        what = f" ({outcome.payload['on']})" if outcome.trigger == Trigger.BLOCKED else ""
        identity = self.data["claim"]["identity"]
        remedy = f"`interlock agent promote {identity}` raises it"
        error = f"its report {outcome.trigger}{what} was refused: {refusal}; {remedy}"
        return AgentFailed(error, TransitionReason.PERMISSION_DENIED, final=True)

    def cancel_child(self, request: Outcome) -> str:
        """Cancel a subtask, as the agent asks; return why that is refused, or ''."""
        try:
            refuse_other_tasks(self.record_id, request.payload["child"])
            self.work.fire(request)
        except GuardRefusedError as refusal:
            return refusal.why
        except KernelError as refusal:
            return str(refusal)
        return ""

    def finish(self, output: str) -> Outcome:
        """Commit the work, run the stop hooks, and return the outcome to report."""
        took_s = time.monotonic() - self.begun_at
        tree = self.tree()
        if not tree.folder.is_dir():
            return Outcome(Trigger.ORPHANED, {"reason": "its worktree is gone"})
        with suppress(KernelError):
            self.work.note("activity", {"doing": "committing"})
        message = f"{self.data['title']}\n\nTask: {self.record_id}\n"
        try:
            commit_all(self.repository(), tree, message=message, identity=COMMITTER)
        except (GitError, OSError) as refusal:
            reason = save_uncommitted(self.repository(), tree, refusal, message=message)
            return Outcome(Trigger.FAILED, {"reason": reason})
        # After the commit, so that files which a hook writes are not committed as the agent's work.
        within_s = self.work.records.settings.of(TaskSettings).verify_s
        hooks, sandbox = self.data["stop_hooks"], self.sandbox
        sandbox = check_sandbox(sandbox, self.claim.repo, tree.folder)
        if refused := stop_hook_refusal(hooks, tree.folder, sandbox, within_s=within_s):
            why = TransitionReason.STOP_HOOK_BLOCKED
            return Outcome(Trigger.FAILED, {"reason": refused, "why": why})
        text = ((self.reports.summary or "").strip() or output.strip())[-SUMMARY_LENGTH_MAX:]
        summary = text or "the agent succeeded and reported no summary"
        where = {"branch": self.claim.branch, "worktree": self.claim.worktree, "took_s": took_s}
        return Outcome(Trigger.COMPLETED, {"summary": summary, **where})

    def failure(self, ended: Exit, abort: AbortReason, trip: Trip | None) -> Outcome:
        """Return the outcome to report for an agent that was ended, or ended with an error."""
        if trip is not None:
            codes = {"abort": trip.abort, "why": trip.why, "code": f"breaker_{trip.cause}"}
            return Outcome(Trigger.FAILED, {**codes, "reason": trip.reason, "final": trip.final})
        if ended.outlived_lease:
            # It has done nothing wrong, so this is no failed try. How far it came is not known.
            self.report_started()
            return Outcome(Trigger.ORPHANED, {"reason": ended.lease_error})
        by_us = ended.by_supervisor
        silent = not (self.reports.end_report or by_us) and ended_by_signal(ended.code)
        if silent and self.work.record.state == State.IN_PROGRESS:
            # A killed agent could not report how its work went: the recovery looks at the work.
            reason = f"its process was killed, exit code {ended.code}"
            return Outcome(Trigger.ORPHANED, {"reason": reason, "abort": abort})
        last = (ended.errors or ended.output).strip().rpartition("\n")[2][-500:]
        known = "" if abort is AbortReason.UNKNOWN else f"{abort}, "
        reason = f"its agent ended with {known}exit code {ended.code}: {last or 'no output'}"
        return Outcome(Trigger.FAILED, {"reason": reason, "abort": abort, "why": abort.why})

    def report(self, outcome: Outcome) -> None:
        """Fire the outcome at the task, and its consequence at the turn."""
        outcome = self._without_secrets(outcome)
        if outcome.trigger == Trigger.COMPLETED:
            self.reports.finish()
        elif outcome.trigger != Trigger.ORPHANED:
            # The turn of an orphaned task goes on: its worktree is kept until the recovery is over.
            names = ("reason", "why", "abort")
            payload = {name: value for name, value in outcome.payload.items() if name in names}
            self.reports.fire(TurnTrigger.TASK_FAILED, **payload)
        self.reported = True
        report_outcome(self.work, outcome, Trigger.FAILED)

    def _without_secrets(self, outcome: Outcome) -> Outcome:
        """Return an outcome in whose texts, which agents and hooks have printed, no secret is."""
        redaction = self.work.records.redaction
        texts = {
            name: redaction.text(str(outcome.payload[name]))
            for name in ("reason", "summary")
            if outcome.payload.get(name)
        }
        return replace(outcome, payload={**outcome.payload, **texts})


def report_outcome(work: EffectWork, outcome: Outcome, fallback: str) -> None:
    """Fire an outcome. If the call is refused, fire the trigger `fallback` with the reason."""
    payload = {name: value for name, value in outcome.payload.items() if value is not None}
    try:
        work.fire_or_settle(Outcome(outcome.trigger, payload))
    except CallError as refusal:
        refused = {"reason": f"its report is refused: {refusal}"[:REASON_LENGTH_MAX]}
        with suppress(KernelError):
            work.fire(Outcome(fallback, refused))
    except KernelError:
        # The lease of the effect runs out with this process, and a sweep recovers the work.
        log.exception("%s could not be reported of %s", outcome.trigger, work.key)


def failure_outcome(report: AgentFailed) -> Outcome:
    """Return the outcome of a task whose agent reported that it failed."""
    abort = report.abort or (report.reason.abort if report.reason else None)
    payload = {"reason": report.error[:REASON_LENGTH_MAX], "why": report.reason, "abort": abort}
    return Outcome(
        Trigger.FAILED, {**payload, "retry_after_s": report.retry_after_s, "final": report.final}
    )


def ended_by_signal(code: int) -> bool:
    """Whether a signal ended a process, by its exit code or by that of its shell."""
    return code < 0 or SIGNALS_FROM < code <= SIGNALS_FROM + SIGNALS_MAX


def stop_hook_refusal(
    hooks: Sequence[str], folder: Path, sandbox: Sandbox | None, *, within_s: float
) -> str:
    """Run the commands that may refuse a completion; return the first refusal, or ''."""
    if not hooks:
        return ""
    signals = [ParsedSignal(SignalType.TEST_PASSES, hook) for hook in hooks]
    checked = check(
        signals,
        folder=folder,
        reviewer=None,
        judge=None,
        sandbox=sandbox,
        test_s=within_s,
    )
    refused = [result for result in asyncio.run(checked).results if not result.passed]
    if not refused:
        return ""
    return refused[0].not_passed(f"a stop hook refused: {refused[0].short_value}")
