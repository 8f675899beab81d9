"""Supervises one agent: renews its leases, obeys orders, passes on its reports and its outcome.

The fork server starts it with the file of its launch spec as sys.argv[1]; it outlives the worker.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path

from interlock import EffectWork, KernelError, Outcome
from interlock.git.errors import GitError
from interlock.system.agents import (
    AgentFailed,
    AgentProcess,
    Command,
    Exit,
    ReportListener,
    Supervisor,
)
from interlock.system.records import Records
from interlock.system.tables import AbortReason, TransitionReason
from interlock.systems.tasks.agent_outcome import WORK_OVER, abort_by_us, agent_outcome, why_stopped
from interlock.systems.tasks.agent_sandbox import TASK_FILE, agent_sandbox
from interlock.systems.tasks.assignment import next_task, prepare_for_session
from interlock.systems.tasks.current_task import CurrentTask, failure_outcome, report_outcome
from interlock.systems.tasks.idle_sessions import was_ended
from interlock.systems.tasks.launch_spec import TaskLaunchSpec
from interlock.systems.tasks.machines.agent.payloads import AgentData
from interlock.systems.tasks.machines.agent.table import Trigger as AgentTrigger
from interlock.systems.tasks.machines.breaker import Trip, TripCause
from interlock.systems.tasks.machines.effects import AGENT, SUPERVISION
from interlock.systems.tasks.machines.task.limits import REASON_LENGTH_MAX
from interlock.systems.tasks.machines.task.names import Trigger

ALIVE_AFTER_S = 1.0  # an agent that prints and reports nothing counts as working after that
NEXT_TASK_S = 1.0  # between two looks for the next task of a session
FILE_CHECK_S = 5.0  # between two looks at which files an agent has changed
PROGRESS_NOTE_S = 5.0  # between two notes that an agent makes progress
AGENT_END_S = 10.0  # from SIGTERM until SIGKILL, for the processes of an agent
REFUSALS_MAX = 3  # by stop hooks, of one task of a session
FAILURES_MAX = 3  # tasks of a session in a row


class TaskSupervisor(Supervisor, ReportListener):
    """Supervises one agent and its current task. A session has no task while it is idle."""

    machine, effect = "agent", SUPERVISION
    spec_type = TaskLaunchSpec

    def __init__(self, spec: TaskLaunchSpec, records: Records) -> None:
        super().__init__(spec, records)
        self.spec = spec
        self.prints = spec.stream
        claim = spec.claim
        task = self.adopt("task", AGENT, claim.task_key, claim.task_token)
        self.agent: EffectWork[AgentData] = self.adopt("agent", SUPERVISION, spec.key, spec.token)
        self.task: CurrentTask | None = CurrentTask(task, claim, self.agent.record)
        self.first_task = self.task
        self.alive, self.started_at = False, 0.0
        self.trip: Trip | None = None
        self.stopped_because = ""
        self.refusals = self.failures_in_row = 0
        self.progress_noted_at = self.progressed_at = self.checked_at = 0.0
        # A thread for slow jobs: the loop must not be late to extend the agent's kill deadline.
        self.background = ThreadPoolExecutor(1, "background")
        self.finishing: Future[Outcome] | None = None
        self.claiming: Future[CurrentTask | None] | None = None

    def run(self) -> None:
        """Run the agent to its end, and fire the outcomes of its task and of the agent."""
        for work in self._leases():
            self.heartbeat.hold(work.held)
        try:
            command = self._command()
            self.first_task.begin_if_once()
        except (GitError, OSError, KernelError) as refusal:
            self._report_spawn_failure(str(refusal))
            return
        try:
            ended = self.run_command(
                command,
                self._leases,
                started=self._report_spawned,
                read=self._read_reports,
                act=self._act,
            )
        except OSError as refusal:
            if self.started_at:
                raise
            self._report_spawn_failure(str(refusal))
        else:
            self._report_end(ended)

    def _leases(self) -> list[EffectWork]:
        """Return the work whose leases the agent's process needs."""
        if self.task is None or self.task.reported:
            return [self.agent]
        return [self.agent, self.task.work]

    def _command(self) -> Command:
        spec, task, work_folder = self.spec, self.first_task, self.work_folder
        (work_folder / TASK_FILE).write_text(task.prompt, "utf-8")
        variables = {}
        if not spec.session:
            variables = {**task.variables, "TASK_FILE": str(work_folder / TASK_FILE)}
        prefixed = {f"INTERLOCK_{name}": value for name, value in variables.items()}
        return Command(
            arguments=("bash", "-c", spec.command),
            # A session outlives the worktree of its first task, so it starts in its work folder.
            folder=work_folder if spec.session else Path(spec.claim.worktree),
            variables=prefixed,
            sandbox=agent_sandbox(task, work_folder, is_session=spec.session),
            prompt=task.line if spec.session else task.prompt,
            more_follows=spec.session,
            reads_output=spec.stream != "plain",
        )

    def _report_spawned(self, _: AgentProcess) -> None:
        self.started_at = time.monotonic()
        self.first_task.report_spawned()

    def _act(self, process: AgentProcess) -> None:
        """Do what is due: report that the agent works, end it, or give a session its next task.

        An agent that prints and reports nothing works once it has run for ALIVE_AFTER_S.
        """
        now = time.monotonic()
        if now > self.started_at + ALIVE_AFTER_S and not self._has_failed():
            self._confirm_alive(process)
        self._note_progress(process.progress, now)
        self._check_files(now)
        if reason := self._why_end():
            process.end(reason, grace_s=AGENT_END_S)
        elif self.spec.session:
            self._advance_session(process, now)

    def _read_reports(self, process: AgentProcess) -> None:
        """Apply the reports that the agent has sent since the last call.

        The agent works once it has printed something, or reported anything but a failure.
        """
        # Read first: a report that counts as progress here is then among those taken below.
        progressed = process.progress > process.began
        every = [report for line in process.reports() for report in self.read_line(line)]
        if self.spec.stream != "plain":
            for line in process.output_lines():
                every += self.read_output(line)
        printed = progressed and not (every or self._has_failed())
        if printed or not all(isinstance(report, AgentFailed) for report in every):
            self._confirm_alive(process)
        if self.task is None:
            return
        self.task.reports.hear(*every)
        self._fulfil_requests(process, self.task)

    def _fulfil_requests(self, process: AgentProcess, task: CurrentTask) -> None:
        """Fire the agent's requests. A session gets the reason of a refusal, and continues."""
        requests, task.reports.requests = task.reports.requests, []
        for request in requests:
            if request.trigger == Trigger.CHILD_CANCELLED:
                if refusal := task.cancel_child(request):
                    self._send_refusal(process, refusal)
                continue
            with suppress(KernelError):
                self.agent.fire(request)
        match task.reports.end_report:
            case Outcome() as end if not task.reported:
                if refusal := task.report_end(end):
                    # Only a session can read that it was refused, and go on with its task.
                    failed = None if self.spec.session else task.refused(end, refusal)
                    task.reports.end_report = failed
                    self._send_refusal(process, refusal)

    def _send_refusal(self, process: AgentProcess, refusal: str) -> None:
        """Send a refusal to a session; a plain command reads nothing after its prompt."""
        if self.spec.session:
            told = {"type": "refused", "reason": refusal[:REASON_LENGTH_MAX]}
            process.send(json.dumps(told, ensure_ascii=False) + "\n", last=False)

    def _why_end(self) -> str:
        """Return why the process must be ended now, or ''."""
        task = self.task
        if self.trip is None and task is not None:
            self.trip = task.trip()
        if self.trip is not None:
            return self.trip.abort
        taken_away = task is not None and not task.reported and task.work.stopped.is_set()
        if self.agent.stopped.is_set() or taken_away:
            return self._why_stopped()
        over = task is not None and (
            task.reported or isinstance(task.reports.end_report, AgentFailed)
        )
        return WORK_OVER if over and not self.spec.session else ""

    def _why_stopped(self) -> str:
        task_id = self.task.record_id if self.task else None
        abort, self.stopped_because = why_stopped(self.records, self.agent.record.id, task_id)
        return abort

    def _confirm_alive(self, process: AgentProcess) -> None:
        """Record that the agent works and its first task has started, unless that is recorded."""
        if self.alive:
            return
        self.alive = True
        where = {"pid": process.pid, "containment": process.containment}
        host = self.records.settings.host
        with suppress(KernelError):
            self.agent.fire(Outcome(AgentTrigger.CONFIRMED_ALIVE, {**where, "host": host}))
        if not self.first_task.reported:
            self.first_task.report_started()

    def _has_failed(self) -> bool:
        """Return whether the agent has reported that it failed at its first task."""
        return isinstance(self.first_task.reports.end_report, AgentFailed)

    def _note_progress(self, progressed_at: float, now: float) -> None:
        due = now >= self.progress_noted_at + PROGRESS_NOTE_S
        if not self.alive or progressed_at <= self.progressed_at or not due:
            return
        self.progressed_at, self.progress_noted_at = progressed_at, now
        record, held = self.agent.record, (self.agent.lease.suffix, self.agent.lease.token)
        limit_ms = record.data["progress_limit_s"] * 1_000
        with suppress(KernelError):
            self.records.note(
                record, "output_seen", {}, once=False, timers={"progress": limit_ms}, held=held
            )

    def _check_files(self, now: float) -> None:
        task = self.task
        busy = self.finishing is not None or self.claiming is not None
        if task is None or task.reported or busy or now < self.checked_at + FILE_CHECK_S:
            return
        if task.file_check_is_due():
            self.checked_at = now
            self.background.submit(task.check_files)

    def _advance_session(self, process: AgentProcess, now: float) -> None:
        task = self.task
        if task is None:
            self._take_next_task(process, now)
        elif task.reported:
            self._drop_task()
        elif isinstance(task.reports.end_report, AgentFailed):
            task.report(failure_outcome(task.reports.end_report))
            self.failures_in_row += 1
            self._drop_task()
        elif self.finishing is not None:
            if self.finishing.done():
                self._finish_task(process, task, self.finishing.result())
        elif task.reports.summary is not None:
            # A stop hook runs in the span of this thread.
            self.finishing = self.background.submit(copy_context().run, task.finish, "")

    def _finish_task(self, process: AgentProcess, task: CurrentTask, outcome: Outcome) -> None:
        """Report the outcome of a task, unless a stop hook sends the session back to it."""
        self.finishing = None
        refused = outcome.payload.get("why") == TransitionReason.STOP_HOOK_BLOCKED
        self.refusals += refused
        if refused and self.refusals < REFUSALS_MAX:
            task.reports.summary = None
            self._send_refusal(process, str(outcome.payload["reason"]))
            return
        task.report(outcome)
        succeeded = outcome.trigger == Trigger.COMPLETED
        self.failures_in_row = 0 if succeeded else self.failures_in_row + 1
        self._drop_task()

    def _drop_task(self) -> None:
        """Make the session idle, or trip the circuit breaker after too many failures in a row."""
        assert self.task is not None, "a task ended"
        self.task.reports.count_usage()
        self.heartbeat.drop(self.task.work.held)
        self.task, self.refusals = None, 0
        if self.failures_in_row >= FAILURES_MAX:
            reason, abort = f"its last {FAILURES_MAX} tasks failed", AbortReason.SHUTDOWN_SIGNAL
            self.trip = Trip(TripCause.FAILURES, reason, abort, TransitionReason.ABORTED)
            return
        with suppress(KernelError):
            self.agent.fire(Outcome(AgentTrigger.TASK_FINISHED))

    def _take_next_task(self, process: AgentProcess, now: float) -> None:
        if self.claiming is None:
            if now >= self.checked_at + NEXT_TASK_S:
                self.checked_at = now
                self.claiming = self.background.submit(self._claim_next_task)
            return
        if not self.claiming.done():
            return
        task, self.claiming = self.claiming.result(), None
        if task is None:
            return
        self.heartbeat.hold(task.work.held)
        with suppress(KernelError):
            self.agent.fire(Outcome(AgentTrigger.TASK_ASSIGNED, {"task": task.record_id}))
        if was_ended(self.records, self.agent.record.id):
            # The session was ended meanwhile. Its claim lapses, and another agent gets the task.
            self.heartbeat.drop(task.work.held)
            return
        self.task = task
        task.report_spawned()
        try:
            task.begin_if_once()
        except KernelError as refusal:
            reason = f"its start could not be reported: {refusal}"[:REASON_LENGTH_MAX]
            task.report(Outcome(Trigger.FAILED, {"reason": reason, "code": "spawn_error"}))
            return
        if process.send(task.line, last=False):
            task.report_started()

    def _claim_next_task(self) -> CurrentTask | None:
        """Claim the next task for this session and make its worktree. None if there is none."""
        agent, first = self.agent.record, self.first_task.data
        # If the store is away, the next poll tries again; a claim made meanwhile lapses.
        with suppress(KernelError):
            if work := self.taken(lambda: next_task(self.records, agent, first)):
                claim = prepare_for_session(self.records, agent, work.lease)
                return CurrentTask(work, claim, agent) if claim else None
        return None

    def _report_spawn_failure(self, reason: str) -> None:
        payload = {"reason": reason, "code": "spawn_error", "why": TransitionReason.FAILED}
        self.first_task.report(Outcome(Trigger.FAILED, payload))
        report_outcome(self.agent, Outcome(AgentTrigger.SPAWN_FAILED, payload), AgentTrigger.ENDED)

    def _report_end(self, ended: Exit) -> None:
        over = ended.reason_by_us == WORK_OVER
        by_us = None if over else abort_by_us(ended.reason_by_us)
        abort = None if over else AbortReason.of_exit(ended.code, killed_by_us=by_us)
        self.background.shutdown(wait=True)
        # A task that was claimed for the session and not yet given to it is not reported as failed:
        # nobody renews its lease, so it is soon offered to the next agent.
        end_report = self.task.reports.end_report if self.task else None
        of_task: Outcome | None = None
        if self.task is not None:
            self.task.reports.count_usage()
            if not self.task.reported:
                of_task = self._task_outcome(self.task, ended, abort)
                self.task.report(of_task)
        if isinstance(end_report, AgentFailed):
            abort = abort or failure_outcome(end_report).payload["abort"]
        outcome = agent_outcome(
            ended,
            abort,
            end_report,
            task=of_task,
            trip=self.trip,
            stopped_because=self.stopped_because,
            hide=self.records.redaction.text,
            alive=self.alive,
        )
        report_outcome(self.agent, outcome, AgentTrigger.ENDED)

    def _task_outcome(self, task: CurrentTask, ended: Exit, abort: AbortReason | None) -> Outcome:
        end_report = task.reports.end_report
        if isinstance(end_report, AgentFailed):
            return failure_outcome(end_report)
        if abort is not None:
            return task.failure(ended, abort, self.trip)
        if self.finishing is not None:
            return self.finishing.result()
        if refused := task.reports.refused_end:
            return failure_outcome(AgentFailed(f"a report of its agent is refused: {refused}"))
        if self.spec.session and task.reports.summary is None:
            reason = "its agent ended without a report on the task"
            return Outcome(Trigger.FAILED, {"reason": reason})
        if not self.alive:
            # A command that printed nothing and succeeded within its first second has worked.
            self.alive = True
            with suppress(KernelError):
                where = {"host": self.records.settings.host}
                self.agent.fire(Outcome(AgentTrigger.CONFIRMED_ALIVE, where))
            task.report_started()
        return task.finish(ended.output)


main = TaskSupervisor.supervise
