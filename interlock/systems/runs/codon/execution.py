"""Executes one codon from its creation to its end, and fires each step on its record.

It runs in the run's supervisor, which holds the leases of the run and of the codon. It ends the
agent's process for an order or a limit (`_end_if_due`); interlock.systems.runs.outcome then decides
how the codon ended. A checkpoint is taken before each end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, assert_never

from interlock import EffectWork, KernelError, Outcome
from interlock.git.errors import GitError
from interlock.system.agents import (
    AgentProcess,
    Command,
    Exit,
)
from interlock.system.errors import FencedError, GuardRefusedError, IllegalTransitionError
from interlock.system.text import one_line
from interlock.systems.runs.codon.commands import CodonCommands
from interlock.systems.runs.codon.rig import Rig, RigError
from interlock.systems.runs.codon.transcript import Transcript
from interlock.systems.runs.codon.usage import CODON_END_S, TIME_LIMITS, BudgetUsage, CodonLimits
from interlock.systems.runs.context import RunContext
from interlock.systems.runs.failure import CodonFailure, sentinel_load_failure
from interlock.systems.runs.machines.codon.names import LIVE, State, Trigger
from interlock.systems.runs.machines.values import CheckpointType, FailureType
from interlock.systems.runs.outcome import (
    NO_PROCESS,
    CodonEnd,
    CodonOutcome,
    EndFacts,
    exit_code_of,
    outcome_of,
)
from interlock.systems.runs.paths import CodonPaths
from interlock.systems.runs.plan.model import FailurePolicy, OutputFormat, SentinelEventName
from interlock.systems.runs.sentinels.trigger import SentinelEvent
from interlock.systems.runs.sequence import Execution, NextCodon

SENTINELS_S = 120.0
# At most this many rejected lines get a note each; the others are only counted.
REJECTED_NOTES_MAX = 20
SKIPPED, STOPPED = "skipped", "stopped"
EXIT_CODE_FAILED = 1
STATES_WITH_SENTINELS = LIVE[1:]
STATES_WITH_COSTS = LIVE[3:]
LAST_CHECKPOINT_TYPES = {
    CodonEnd.COMPLETED: CheckpointType.COMPLETED,
    CodonEnd.FAILED: CheckpointType.ERROR,
    CodonEnd.SKIPPED: CheckpointType.SKIPPED,
}


class CodonExecution:
    """One execution of a codon.

    `work` holds the codon's lease, and `context.work` the run's. `previous` is the execution whose
    session it continues, `usage` what earlier codons used of the run's budget.
    """

    def __init__(
        self,
        context: RunContext,
        start: NextCodon,
        paths: CodonPaths,
        work: EffectWork,
        *,
        previous: Execution | None,
        usage: BudgetUsage,
    ) -> None:
        self.context, self.start, self.codon = context, start, start.codon
        self.paths, self.work, self.leases = paths, work, (context.work, work)
        self.commands = CodonCommands(context, start, paths, previous)
        self.format = OutputFormat.INTERLOCK if self.codon.model else self.codon.speaks
        self.transcript = Transcript(self._observe, prints=self.format)
        command = replace(self.commands.shell("true"), logs=paths.sentinels)
        self.host = context.sentinel_host(start, command)
        # Events from before the sentinels are loaded; None once they are.
        self.early_events: list[SentinelEvent] | None = []
        self.limits = CodonLimits(self.codon, context.plan.budget, usage)
        self.rejected_lines = 0
        self.active_at = 0.0  # of the agent, by time.monotonic

    def run(self) -> None:
        """Execute the codon to its end. If another process ended its record, settle its effect."""
        try:
            with self.host:
                self._run_steps()
        except FencedError:
            self._note_late_costs()
            with suppress(KernelError):
                self.work.settle()

    def _run_steps(self) -> None:
        try:
            self._run_to_end()
        except (GitError, OSError) as error:
            exit_code = EXIT_CODE_FAILED if self.limits.started_at else NO_PROCESS
            self._end(self._failure(one_line(str(error)), retriable=True), exit_code)

    def _run_to_end(self) -> None:
        self._observe(SentinelEventName.CODON_STARTED, {"codon_id": self.start.runtime_id})
        try:
            sha = self._set_up_rig()
        except RigError as error:
            self._end(self._failure(str(error), retriable=True), error.exit_code)
            return
        if reason := self._order_to_end():
            self._end_early(reason)
            return
        self._fire(Trigger.START, {"checkpoint_sha": sha} if sha else {})
        if failure := self._load_sentinels():
            self._end(CodonOutcome(CodonEnd.FAILED, failure), NO_PROCESS)
            return
        if reason := self._order_to_end():
            self._end_early(reason)
            return
        ended = self._run_agent()
        self._drain_sentinels()
        exit_code = exit_code_of(ended.code)
        self._end(self._outcome(ended, exit_code), exit_code)

    def _set_up_rig(self) -> str | None:
        """Set up the rig, and return the checkpoint after it; None where there is none."""
        if not self.codon.rig:
            return None
        rig = Rig(
            items=self.codon.rig,
            workspace=self.context.workspace,
            base=self.commands.shell("true"),
            run_command=self._run_command,
            reason_to_end=self._order_to_end,
        )
        for problem in rig.set_up():
            self._note("rig_item_failed", {"problem": problem})
        if self._order_to_end():
            return None
        return self._checkpoint(CheckpointType.RIG_SETUP)

    def _load_sentinels(self) -> CodonFailure | None:
        """Load the sentinels; return the failure where one that is required cannot be loaded."""
        failures, events, self.early_events = self.host.load(), self.early_events or [], None
        for event in events:
            self.host.notify(event)
        for failure in failures:
            detail = {"sentinel": failure.sentinel, "why": failure.problem}
            self._note("sentinel_not_loaded", detail)
        self._record_sentinels()
        missing = [failure for failure in failures if failure.required]
        if not missing:
            return None
        why = "; ".join(failure.problem for failure in missing)
        return sentinel_load_failure(tuple(failure.sentinel for failure in missing), why=why)

    def _run_agent(self) -> Exit:
        """Run the agent's process to its end. Raises OSError if it cannot be started."""
        ended = self.context.supervisor.run_command(
            self.commands.agent(),
            lambda: self.leases,
            started=self._initialize,
            read=self._record_reports,
            act=self._end_if_due,
        )
        # The last reports may have used up a budget: this call notes that in the limits.
        self._reason_to_end()
        return ended

    def _initialize(self, agent: AgentProcess) -> None:
        self.limits.start()
        payload: dict[str, Any] = {"pid": agent.pid, "log_path": str(self.paths.output)}
        if self.start.previous_session_id:
            payload["previous_session_id"] = self.start.previous_session_id
        self._fire(Trigger.INITIALIZE, payload)
        if self.format == OutputFormat.PLAIN:
            # A command without reports names no session: use the one before, or a new id.
            self.transcript.session_id = self.start.previous_session_id or self.paths.id

    def _record_reports(self, agent: AgentProcess) -> None:
        """Read the agent's reports, and write their changes to the record."""
        self.active_at = agent.progress
        for _ in range(100):
            if not self._read_reports(agent):
                break
        self._record_costs()
        self._record_sentinels()
        rejected = self.transcript.rejected
        for reason in rejected[: max(0, REJECTED_NOTES_MAX - self.rejected_lines)]:
            self._note("report_refused", {"reason": reason})
        self.rejected_lines += len(rejected)
        rejected.clear()

    def _read_reports(self, agent: AgentProcess) -> bool:
        """Read the next lines of the process; return whether there may be more."""
        reports, lines = agent.reports(), agent.output_lines()
        if self.format != OutputFormat.PLAIN:
            for line in reports:
                self.transcript.hear(*self.transcript.read_line(line))
        for line in lines:
            event = {"line": line.decode(errors="replace")}
            self._observe(SentinelEventName.OUTPUT_LINE, event)
            if self.format == OutputFormat.CLAUDE:
                self.transcript.hear(*self.transcript.read_output(line))
        return bool(reports or lines)

    def _record_costs(self) -> None:
        """Write costs and messages to the record, as soon as a session is known."""
        if self.work.record.state == State.INITIALIZING and self.transcript.session_id:
            self._fire(Trigger.RUN, {"session_id": self.transcript.session_id})
        if self.work.record.state in STATES_WITH_COSTS:
            for trigger, payload in self.transcript.take_changes():
                with suppress(GuardRefusedError):
                    self._fire(trigger, payload)
            self.transcript.mark_recorded()

    def _end_if_due(self, agent: AgentProcess) -> None:
        """End the agent's process if an order or a limit asks for it."""
        if reason := self._reason_to_end():
            agent.end(reason, grace_s=CODON_END_S)

    def _reason_to_end(self) -> str | None:
        """Return the order or the limit for which the agent's process must end now, or None."""
        return self._order_to_end() or self.limits.reason_to_end(self.transcript, self.active_at)

    def _order_to_end(self) -> str | None:
        """Return STOPPED or SKIPPED where a person ordered it, or a lease is lost."""
        run, codon = self.context.work, self.work
        if run.stopped.is_set() or codon.stopped.is_set() or run.interrupted.is_set():
            return STOPPED
        return SKIPPED if codon.interrupted.is_set() else None

    def _drain_sentinels(self) -> None:
        """Let the sentinels finish their calls, unless an order ends the codon first."""
        state = self.work.record.state
        if state not in STATES_WITH_COSTS or not self.host.states() or self._order_to_end():
            return
        if state == State.RUNNING:
            self._fire(Trigger.COMPLETE_SENTINELS, {})
        for work in (self.context.work, self.work):
            work.call_on_order(
                lambda: threading.Thread(target=self.host.shutdown, daemon=True).start()
            )
        if not self.host.drain(SENTINELS_S):
            self._note("sentinels_cut_short", {"limit_s": SENTINELS_S})
        self._record_sentinels()

    def _outcome(self, ended: Exit, exit_code: int) -> CodonOutcome:
        transcript, reason = self.transcript, ended.reason_by_us or ""
        succeeded = self.format == OutputFormat.PLAIN and ended.code == 0
        done = transcript.result_received or succeeded
        said = transcript.error or ended.errors.strip()
        said = self.work.records.redaction.text(said)[-4_000:]
        error = ended.lease_error or said
        outcome = outcome_of(
            EndFacts(
                stopped=self._order_to_end() == STOPPED,
                exit_code=exit_code,
                result_received=done,
                session_opened=transcript.session_id is not None,
                context_exceeded=transcript.context_exceeded,
                context_may_end=self.context.context_may_end(self.start),
                budget_exceeded=self.limits.policy if self.limits.budget_exceeded else None,
                skip_requested=self.work.interrupted.is_set(),
                time_limit_passed=TIME_LIMITS.get(reason),
                error=error,
                retry_after_ms=transcript.retry_after_ms,
            )
        )
        has_session = self.work.record.state != State.INITIALIZING
        if outcome.status is CodonEnd.COMPLETED and not has_session:
            return self._failure("its process ended without reporting its session", retriable=False)
        return outcome

    def _end_early(self, order: str) -> None:
        if order == SKIPPED:
            self._end(CodonOutcome(CodonEnd.SKIPPED), NO_PROCESS)
        else:
            self._end(self._failure("the codon was stopped", retriable=False), NO_PROCESS)

    def _failure(self, message: str, *, retriable: bool) -> CodonOutcome:
        failure = CodonFailure(FailureType.UNKNOWN, retriable=retriable, message=message)
        return CodonOutcome(CodonEnd.FAILED, failure)

    def _end(self, outcome: CodonOutcome, exit_code: int) -> None:
        """Take the last checkpoint, and fire how the codon ended."""
        self.host.shutdown()
        self._record_sentinels()
        if self.rejected_lines > REJECTED_NOTES_MAX:
            self._note("reports_refused", {"lines": self.rejected_lines})
        if self.work.record.state not in STATES_WITH_COSTS:
            self._note_late_costs()
        sha = self._last_checkpoint(LAST_CHECKPOINT_TYPES[outcome.status])
        if sha is None and outcome.status is CodonEnd.COMPLETED:
            outcome = self._failure("its last checkpoint could not be taken", retriable=False)
        checkpoint = {"checkpoint_sha": sha} if sha else {}
        match outcome.status:
            case CodonEnd.COMPLETED:
                payload: dict[str, Any] = {
                    "result_message_received": self.transcript.result_received,
                    "context_exceeded": self.transcript.context_exceeded,
                }
                if (exceeded := self.limits.budget_exceeded) is not None:
                    payload["budget_exceeded"] = exceeded.model_dump(mode="json")
                self._fire(Trigger.COMPLETE, {**checkpoint, **payload})
            case CodonEnd.SKIPPED:
                self._fire(Trigger.SKIP, checkpoint)
            case CodonEnd.FAILED:
                assert outcome.failure is not None, "a failure has a reason"
                ignored = self.codon.on_failure.policy is FailurePolicy.IGNORE
                # A stop ends the run even where the plan ignores failures of this codon.
                ignored = ignored and self._order_to_end() != STOPPED
                reason = {"failure_reason": outcome.failure.payload, "ignored": ignored}
                self._fire(Trigger.FAIL, {**checkpoint, **reason, "exit_code": exit_code})
            case _:
                assert_never(outcome.status)

    def _last_checkpoint(self, kind: CheckpointType) -> str | None:
        try:
            return self._checkpoint(kind)
        except (GitError, OSError) as error:
            self._note("checkpoint_failed", {"why": str(error)[:2_000]})
            return None

    def _checkpoint(self, kind: CheckpointType) -> str:
        taken = self.context.checkpoint(f"{kind}:{self.start.runtime_id} [{self.paths.id}]")
        payload = {"checkpoint_type": str(kind), "sha": taken.sha, "branch": taken.branch}
        self._fire(Trigger.CHECKPOINT_CREATED, payload)
        return taken.sha

    def _note_late_costs(self) -> None:
        """Note the costs that the record cannot count any more; they are shown as late."""
        if costs := self.transcript.unrecorded_micro:
            op_id, deltas = f"{self.work.lease.token}/late_costs", {"late": costs}
            with suppress(KernelError):
                self.work.records.note(
                    self.work.record, "late_costs", {"cost": costs}, op_id=op_id, deltas=deltas
                )

    def _fire(self, trigger: Trigger, payload: Mapping[str, Any]) -> None:
        before = self.work.record.state
        try:
            after = self.work.fire(Outcome(str(trigger), payload)).state
        except IllegalTransitionError:
            # An event from outside has moved the codon on, or has ended it.
            read = self.work.records.views.record
            self.work.record = self.work.retried(lambda: read(self.paths.id))
            if self.work.record.state not in LIVE:
                raise FencedError(self.paths.id, self.work.lease.token) from None
            return
        if before == after:
            if str(trigger) in set(SentinelEventName):
                self._observe(SentinelEventName(str(trigger)), payload)
        else:
            self._observe(SentinelEventName.CODON_TRANSITIONED, {"from": before, "to": after})

    def _observe(self, name: SentinelEventName, data: Mapping[str, Any]) -> None:
        """Notify the sentinels of an event, or keep it until they are loaded."""
        event = SentinelEvent(str(name), int(time.time() * 1_000), data)
        if self.early_events is None:
            self.host.notify(event)
        else:
            self.early_events.append(event)

    def _record_sentinels(self) -> None:
        """Write the states of the sentinels to the record where they changed, and their remarks."""
        states = self.host.take_changes()
        if states and self.work.record.state in STATES_WITH_SENTINELS:
            self._fire(Trigger.SENTINEL_STATES_UPDATED, {"sentinel_states": states})
        for remark in self.host.take_remarks():
            detail = {"sentinel": remark.sentinel, "text": remark.text, "problem": remark.problem}
            self._note("sentinel_remark", {name: value for name, value in detail.items() if value})

    def _note(self, kind: str, detail: Mapping[str, Any]) -> None:
        with suppress(KernelError):
            self.work.audit(kind, detail)

    def _run_command(self, command: Command, act: Callable[[AgentProcess], object]) -> Exit:
        return self.context.supervisor.run_command(command, lambda: self.leases, act=act)
