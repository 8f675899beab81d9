"""Executes one codon, from its birth to its end, and tells its record each step.

It runs in the run's conductor, which holds the leases of both. What ends a codon is decided in
interlock.workers.runs.outcome; before each end a checkpoint of the workspace is taken.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, assert_never

from interlock.kernel.errors import (
    FencedError,
    GuardRefusedError,
    IllegalTransitionError,
    KernelError,
)
from interlock.kernel.machines.runs.codon.names import LIVE, State, Trigger
from interlock.kernel.machines.runs.values import CheckpointType, FailureType
from interlock.kernel.store.commands import Jot
from interlock.workers.engine.work import Outcome
from interlock.workers.gateways.git.errors import GitError
from interlock.workers.processes.agent.containment import LABEL_VARIABLE
from interlock.workers.processes.agent.process import (
    KILL_BY_PASSED,
    WATCHDOG_LOST,
    AgentProcess,
    Exit,
    SpawnError,
)
from interlock.workers.runs.codon.budget import Used
from interlock.workers.runs.codon.commands import CodonCommands
from interlock.workers.runs.codon.limits import PATIENCE, Limits
from interlock.workers.runs.codon.process import Command, Process
from interlock.workers.runs.codon.rig import Rig, RigError
from interlock.workers.runs.codon.transcript import Hearing
from interlock.workers.runs.context import RunWork
from interlock.workers.runs.failure import Failure, sentinels_not_loaded
from interlock.workers.runs.outcome import (
    NO_PROCESS,
    Ended,
    Ending,
    Verdict,
    exit_code_of,
    verdict_on,
)
from interlock.workers.runs.paths import CodonPlace, marks_of
from interlock.workers.runs.plan.model import Observed, Policy, Speech
from interlock.workers.runs.sentinels.trigger import Event
from interlock.workers.runs.sequence import Execution, Start
from interlock.workers.supervision.session_streams import SESSION_STREAMS
from interlock.workers.text import sentence

SENTINELS_S = 120.0
# So many lines that are no reports are noted one by one; the others are counted.
REFUSED_MAX = 20
SKIPPED, STOPPED = "skipped", "stopped"
FAILED = 1
# Why a process was ended that nobody ordered to end.
UNHELD = {
    KILL_BY_PASSED: "its lease could not be renewed in time: the store was away, or this machine",
    WATCHDOG_LOST: "its watchdog was lost",
}
# Where a codon's sentinels are known.
WATCHED = LIVE[1:]
COUNTED = LIVE[3:]
CHECKPOINT_OF = {
    Ended.COMPLETED: CheckpointType.COMPLETED,
    Ended.FAILED: CheckpointType.ERROR,
    Ended.SKIPPED: CheckpointType.SKIPPED,
}


class CodonExecution:
    """One execution of a codon, by its number in the run. `previous` is what it continues."""

    def __init__(
        self, run: RunWork, start: Start, number: int, *, previous: Execution | None, used: Used
    ) -> None:
        self.run, self.start, self.codon = run, start, start.codon
        self.place: CodonPlace = run.place.codon(number)
        self.step = run.born(start, self.place)
        self.commands = CodonCommands(run, start, self.place, previous, mark=self.step.key)
        self.hearing = Hearing(self._observe)
        self.speaks = Speech.INTERLOCK if self.codon.model else self.codon.speaks
        self.speech = SESSION_STREAMS[self.speaks]()
        self.reported = SESSION_STREAMS["interlock"]()
        mark = marks_of(self.step.key)[1]
        self.host = run.sentinel_host(start, self.commands.environment({LABEL_VARIABLE: mark}))
        # What its sentinels are told as soon as they are loaded.
        self.early: list[Event] | None = []
        self.limits = Limits(self.codon, run.plan.budget, used)
        self.refused = 0

    def perform(self) -> None:
        """Execute it to its end. One that somebody else ended is cleared away, and that is all."""
        self.run.heartbeat.hold(self.step.held)
        try:
            with self.host:
                try:
                    self._perform()
                except (GitError, OSError) as error:
                    self._end(
                        self._failed(sentence(str(error)), retriable=True),
                        FAILED if self.limits.began else NO_PROCESS,
                    )
        except FencedError:
            self._book_late()
            with suppress(KernelError):
                answer = self.run.dispatch.leases.settle(self.step.lease, self.run.dispatch.render)
                self.run.dispatch.publish(answer.owed)
        finally:
            self.run.heartbeat.drop(self.step.held)

    def _perform(self) -> None:
        self._observe(Observed.CODON_STARTED, {"codon_id": self.start.runtime_id})
        try:
            sha = self._rigged()
        except RigError as error:
            self._end(self._failed(str(error), retriable=True), error.exit_code)
            return
        if why := self._why_end(None):
            self._cut_short(why)
            return
        self._fire(Trigger.START, {"checkpoint_sha": sha} if sha else {})
        if failure := self._loaded():
            self._end(Verdict(Ended.FAILED, failure), NO_PROCESS)
            return
        if why := self._why_end(None):
            self._cut_short(why)
            return
        try:
            ended = self._run()
        except SpawnError as error:
            said = f"its process does not start: {sentence(str(error))}"
            self._end(self._failed(said, retriable=True), NO_PROCESS)
            return
        self._drained()
        exit_code = exit_code_of(ended.code)
        self._end(self._verdict(ended, exit_code), exit_code)

    # --- preparing and starting ------------------------------------------------------------------

    def _rigged(self) -> str | None:
        """Set up the rig, and return the checkpoint of that; None where there is nothing to do."""
        if not self.codon.rig:
            return None
        rig = Rig(
            items=self.codon.rig,
            workspace=self.run.workspace,
            base=self.commands.shell("true"),
            run=self._process,
            go_on=lambda: self._why_end(None),
        )
        for problem in rig.set_up():
            self._remark("rig_item_failed", {"problem": problem})
        if self._why_end(None):
            return None
        return self._checkpoint(CheckpointType.RIG_SETUP)

    def _loaded(self) -> Failure | None:
        """Load the sentinels; return the failure where one that is required cannot be."""
        problems, told, self.early = self.host.load(), self.early or [], None
        for event in told:
            self.host.tell(event)
        for one in problems:
            self._remark("sentinel_not_loaded", {"sentinel": one.sentinel, "why": one.problem})
        self._tell_sentinels()
        missing = [one for one in problems if one.required]
        if not missing:
            return None
        why = "; ".join(one.problem for one in missing)
        return sentinels_not_loaded(tuple(one.sentinel for one in missing), why=why)

    # --- the process -----------------------------------------------------------------------------

    def _run(self) -> Exit:
        """Run the agent's process to its end. Raises SpawnError or OSError where it never was."""
        process = self._process(self.commands.agent())
        with process.start() as agent:
            self.limits.begin()
            told: dict[str, Any] = {"pid": agent.pid, "log_path": str(self.place.output)}
            if self.start.previous_session_id:
                told["previous_session_id"] = self.start.previous_session_id
            self._fire(Trigger.INITIALIZE, told)
            if not self.speech.reports_result:
                # Who says nothing has no session but this one.
                self.hearing.session_id = self.start.previous_session_id or self.place.id
            return process.followed(agent, self._look)

    def _look(self, agent: AgentProcess) -> str | None:
        for _ in range(100):
            if not self._hear(agent):
                break
        self._tell_costs()
        self._tell_sentinels()
        for reason in self.hearing.refused[: max(0, REFUSED_MAX - self.refused)]:
            self._remark("report_refused", {"reason": reason})
        self.refused += len(self.hearing.refused)
        self.hearing.refused.clear()
        return self._why_end(agent)

    def _hear(self, agent: AgentProcess) -> bool:
        """Take in what the process said; tell whether there may be more."""
        reports, lines = agent.reports(), agent.output_lines()
        if self.speaks != Speech.PLAIN:
            for line in reports:
                for said in self.reported.feed(line):
                    self.hearing.feed(said)
        for line in lines:
            self._observe(Observed.OUTPUT_LINE, {"line": line.decode(errors="replace")})
            if self.speaks == Speech.CLAUDE:
                for said in self.speech.feed(line):
                    self.hearing.feed(said)
        return bool(reports or lines)

    def _tell_costs(self) -> None:
        """Tell the record what was said: costs count from when a session is known."""
        if self.step.record.state == State.INITIALIZING and self.hearing.session_id:
            self._fire(Trigger.RUN, {"session_id": self.hearing.session_id})
        if self.step.record.state in COUNTED:
            for trigger, payload in self.hearing.take():
                with suppress(GuardRefusedError):
                    self._fire(trigger, payload)
            self.hearing.told()

    def _why_end(self, agent: AgentProcess | None) -> str | None:
        """Return why to end it now, if at all; without a process only orders count."""
        held, step = self.run.work, self.step
        if held.stopped.is_set() or step.stopped.is_set() or held.interrupted.is_set():
            return STOPPED
        if step.interrupted.is_set():
            return SKIPPED
        if agent is None:
            return None
        return self.limits.passed(self.hearing, agent.progress)

    # --- the end ---------------------------------------------------------------------------------

    def _drained(self) -> None:
        """Let the sentinels finish what they were told; an order cuts that short."""
        state = self.step.record.state
        if state not in COUNTED or not self.host.states() or self._why_end(None):
            return
        if state == State.RUNNING:
            self._fire(Trigger.COMPLETE_SENTINELS, {})
        for work in (self.run.work, self.step):
            work.call_on_order(
                lambda: threading.Thread(target=self.host.shutdown, daemon=True).start()
            )
        if not self.host.drain(SENTINELS_S):
            self._remark("sentinels_cut_short", {"limit_s": SENTINELS_S})
        self._tell_sentinels()

    def _verdict(self, ended: Exit, exit_code: int) -> Verdict:
        hearing, why = self.hearing, ended.reason_by_us
        done = hearing.result_received or (not self.speech.reports_result and ended.code == 0)
        said = UNHELD.get(why or "") or hearing.error or ended.errors.strip()[-4_000:]
        verdict = verdict_on(
            Ending(
                stopped=self._why_end(None) == STOPPED,
                exit_code=exit_code,
                result_received=done,
                session_opened=hearing.session_id is not None,
                context_exceeded=hearing.context_exceeded,
                context_may_end=self.run.context_may_end(self.start),
                budget_exceeded=self.limits.policy if self.limits.over else None,
                skip_requested=self.step.interrupted.is_set(),
                out_of_time=PATIENCE.get(why or ""),
                error=said,
                retry_after_ms=hearing.retry_after_ms,
            )
        )
        named = self.step.record.state != State.INITIALIZING
        if verdict.status is Ended.COMPLETED and not named:
            return self._failed("its process ended without naming its session", retriable=False)
        return verdict

    def _cut_short(self, why: str) -> None:
        if why == SKIPPED:
            self._end(Verdict(Ended.SKIPPED), NO_PROCESS)
        else:
            self._end(self._failed("the codon was stopped", retriable=False), NO_PROCESS)

    def _failed(self, said: str, *, retriable: bool) -> Verdict:
        reason = Failure(FailureType.UNKNOWN, retriable=retriable, message=said)
        return Verdict(Ended.FAILED, reason)

    def _end(self, verdict: Verdict, exit_code: int) -> None:
        """Take the last checkpoint, and tell how it ended."""
        self.host.shutdown()
        self._tell_sentinels()
        if self.refused > REFUSED_MAX:
            self._remark("reports_refused", {"lines": self.refused})
        if self.step.record.state not in COUNTED:
            self._book_late()
        sha = self._last_checkpoint(CHECKPOINT_OF[verdict.status])
        if sha is None and verdict.status is Ended.COMPLETED:
            verdict = self._failed("its last checkpoint could not be taken", retriable=False)
        at = {"checkpoint_sha": sha} if sha else {}
        match verdict.status:
            case Ended.COMPLETED:
                told: dict[str, Any] = {
                    "result_message_received": self.hearing.result_received,
                    "context_exceeded": self.hearing.context_exceeded,
                }
                if self.limits.over is not None:
                    told["budget_exceeded"] = self.limits.over.model_dump(mode="json")
                self._fire(Trigger.COMPLETE, {**at, **told})
            case Ended.SKIPPED:
                self._fire(Trigger.SKIP, at)
            case Ended.FAILED:
                assert verdict.failure is not None, "a failure has a reason"
                ignored = self.codon.on_failure.policy is Policy.IGNORE
                # A run that is stopped does not go past what it stopped.
                ignored = ignored and self._why_end(None) != STOPPED
                reason = {"failure_reason": verdict.failure.payload, "ignored": ignored}
                self._fire(Trigger.FAIL, {**at, **reason, "exit_code": exit_code})
            case _:
                assert_never(verdict.status)

    def _last_checkpoint(self, kind: CheckpointType) -> str | None:
        try:
            return self._checkpoint(kind)
        except (GitError, OSError) as error:
            self._remark("checkpoint_failed", {"why": str(error)[:2_000]})
            return None

    def _checkpoint(self, kind: CheckpointType) -> str:
        taken = self.run.checkpoint(f"{kind}:{self.start.runtime_id} [{self.place.id}]")
        about = {"checkpoint_type": str(kind), "sha": taken.sha, "branch": taken.branch}
        self._fire(Trigger.CHECKPOINT_CREATED, about)
        return taken.sha

    def _book_late(self) -> None:
        """Keep what its agent had spent and the record was never told: it counts as no cost."""
        if costs := self.hearing.untold_micro:
            token = self.step.lease.token
            jot = Jot("late_costs", {"cost": costs}, deltas={"late": costs})
            with suppress(KernelError):
                self.run.dispatch.note(self.step.record, jot, op_id=f"{token}/late_costs")

    # --- inside ----------------------------------------------------------------------------------

    def _fire(self, trigger: Trigger, payload: Mapping[str, Any]) -> None:
        before = self.step.record.state
        try:
            after = self.step.fire(Outcome(str(trigger), payload)).state
        except IllegalTransitionError:
            # Somebody told from outside that it is further on already, or that it has ended.
            read = self.run.dispatch.views.record
            self.step.record = self.step.retried(lambda: read(self.place.id))
            if self.step.record.state not in LIVE:
                raise FencedError(self.place.id, self.step.lease.token) from None
            return
        if before == after:
            if str(trigger) in set(Observed):
                self._observe(Observed(str(trigger)), payload)
        else:
            self._observe(Observed.CODON_TRANSITIONED, {"from": before, "to": after})

    def _observe(self, name: Observed, data: Mapping[str, Any]) -> None:
        event = Event(str(name), int(time.time() * 1_000), data)
        if self.early is None:
            self.host.tell(event)
        else:
            self.early.append(event)

    def _tell_sentinels(self) -> None:
        """Tell the record where the sentinels stand, if anything of that is new."""
        states = self.host.take_changes()
        if states and self.step.record.state in WATCHED:
            self._fire(Trigger.SENTINEL_STATES_UPDATED, {"sentinel_states": states})
        for remark in self.host.take_remarks():
            said = {"sentinel": remark.sentinel, "said": remark.said, "problem": remark.problem}
            self._remark("sentinel_said", {name: told for name, told in said.items() if told})

    def _remark(self, kind: str, detail: Mapping[str, Any]) -> None:
        with suppress(KernelError):
            self.step.audit(kind, detail)

    def _process(self, command: Command) -> Process:
        leases = (self.run.work, self.step)
        settings = self.run.dispatch.settings
        return Process(command, leases, log_bytes_max=settings.agent_log_bytes_max)
