"""Keeps one agent's process: leases, orders, reports, its end. It outlives whoever started it.

A forker forks it, with its spec as sys.argv[1]. It decides nothing: tables do, and orders come
from them.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from interlock.kernel.effect import Effect
from interlock.kernel.errors import KernelError
from interlock.kernel.machines import MACHINES
from interlock.kernel.machines.tasks.breaker import Trip, TripCause
from interlock.kernel.machines.tasks.effects import AGENT, SUPERVISION
from interlock.kernel.reason import AbortReason, TransitionReason, abort_reason
from interlock.kernel.store.commands import Jot
from interlock.kernel.store.leases import Lease
from interlock.workers.config import PREFIX, environment_of_work, read_settings
from interlock.workers.engine.dispatch import Dispatch, open_dispatch
from interlock.workers.engine.heartbeat import Heartbeat
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.processes.agent.process import AgentProcess, Exit, LogFiles, SpawnError
from interlock.workers.specs.json_line import as_line
from interlock.workers.supervision.launch import hand_over
from interlock.workers.supervision.reports import (
    AbortRaised,
    AgentBlocked,
    AgentFailed,
    AgentStream,
    CancelRequested,
    SplitRequested,
)
from interlock.workers.supervision.streams import STREAMS
from interlock.workers.tasks.agent_end import agent_end, ours
from interlock.workers.tasks.claims import cancelled_above
from interlock.workers.tasks.launch_spec import TaskLaunchSpec
from interlock.workers.tasks.session import next_task
from interlock.workers.tasks.turn import REASON_LENGTH_MAX, TaskTurn, of_failed, tell

POLL_S = 0.1
LIFE_S = 1.0
NEXT_S = 1.0
FILES_S = 5.0
PROGRESS_NOTE_S = 5.0
GRACE_S = 10.0
REFUSALS_MAX = 3
FAILURES_MAX = 3
# It was asked to end because its work is over, not because anything is wrong.
OVER = "over"


class TaskSupervisor:
    """One agent, and the task that it works on now: none between two tasks of a session."""

    def __init__(self, spec: TaskLaunchSpec, dispatch: Dispatch) -> None:
        self.spec, self.dispatch = spec, dispatch
        self.own: AgentStream = STREAMS["interlock"]()
        self.stream: AgentStream = STREAMS[spec.stream]()
        self.resources = Resources(dispatch.settings)
        place = spec.place
        task = self._adopted("task", AGENT, place.task_key, place.task_token)
        self.agent = self._adopted("agent", SUPERVISION, spec.key, spec.token)
        self.turn: TaskTurn | None = TaskTurn(task, place, self.agent.record)
        self.first = self.turn
        self.heartbeat = self._heartbeat()
        self.alive = False
        self.trip: Trip | None = None
        self.refusals = self.failures_in_row = 0
        self.noted_at = self.progressed = self.looked_at = 0.0
        # What takes long must not keep it from moving the agent's time to die.
        self.errands = ThreadPoolExecutor(1, "errand")
        self.finishing: Future[Outcome] | None = None
        self.finding: Future[TaskTurn | None] | None = None

    def _adopted(self, machine: str, effect: Effect, key: str, token: str) -> Work:
        asked_at = time.monotonic()
        effect = self.dispatch.effect(machine, effect.name)
        adopt, holder = self.dispatch.leases.adopt, f"{self.dispatch.holder}:{os.getpid()}"
        lease = adopt(key, effect, token, nonce=uuid4().hex[:8], holder=holder)
        return self._work(lease, asked_at)

    def _work(self, lease: Lease, asked_at: float) -> Work:
        machine = MACHINES[lease.record.machine]
        lease_ms = self.dispatch.effect(machine.name, lease.name).lease_ms
        return Work(
            self.dispatch, self.resources, machine, lease, lease_ms=lease_ms, asked_at=asked_at
        )

    def _heartbeat(self) -> Heartbeat:
        lease_s = self.agent.held.lease_ms / 1_000
        return Heartbeat(lambda: self.dispatch.leases, lease_s=lease_s, begin=lambda: None)

    def run(self) -> None:
        """Run the agent to its end, and tell what became of it."""
        for work in (self.first.work, self.agent):
            self.heartbeat.hold(work.held)
        try:
            process = self._started()
        except (SpawnError, OSError) as refusal:
            self._never_began(str(refusal))
            return
        with process:
            ended = self._followed(process)
        self._conclude(ended)

    def _started(self) -> AgentProcess:
        spec, turn = self.spec, self.first
        work_folder = Path(spec.work_folder)
        (work_folder / "task.md").write_text(turn.prompt, "utf-8")
        own = {} if spec.session else {**turn.words, "TASK_FILE": str(work_folder / "task.md")}
        told = {f"{PREFIX}{name}": value for name, value in own.items()}
        return AgentProcess.start(
            ["bash", "-c", spec.command],
            # The worktree of a session's first task is gone before its last.
            folder=work_folder if spec.session else Path(spec.place.worktree),
            environment=environment_of_work(told),
            prompt=turn.line if spec.session else turn.prompt,
            more_follows=spec.session,
            reads_output=spec.stream != "plain",
            logs=LogFiles(
                work_folder / "output.log",
                work_folder / "errors.log",
                self.dispatch.settings.agent_log_bytes_max,
            ),
            label=self.agent.key,
            kill_by=self._kill_by(),
        )

    def _kill_by(self) -> float:
        """Return when all must be dead if nothing is renewed any more, on this machine's clock."""
        graces = [(self.agent.held, SUPERVISION.grace_ms)]
        if self.turn is not None and not self.turn.settled:
            graces.append((self.turn.work.held, AGENT.grace_ms))
        return min(held.valid_until + grace / 2_000 for held, grace in graces)

    # --- while it runs -------------------------------------------------------------------------

    def _followed(self, process: AgentProcess) -> Exit:
        began, armed = time.monotonic(), 0.0
        while True:
            ended = process.wait(POLL_S)
            self._hear(process)
            if ended is not None:
                return ended
            now = time.monotonic()
            if self._kill_by() > armed + 1:
                armed = self._kill_by()
                process.arm(armed)
            lives = process.progress > began or now > began + LIFE_S
            if lives and not self.alive and not isinstance(self.first.monitor.told, AgentFailed):
                self._confirm(process)
            self._note_progress(process.progress, now)
            self._look_at_files(now)
            if why := self._why_end():
                process.end(why, grace_s=GRACE_S)
            elif self.spec.session:
                self._lead_on(process, now)

    def _hear(self, process: AgentProcess) -> None:
        told = [self.own.feed(line) for line in process.reports()]
        if self.spec.stream != "plain":
            told += [self.stream.feed(line) for line in process.output_lines()]
        said = [report for reports in told for report in reports]
        # One that only says that it cannot begin has given no sign of life.
        if not (self.alive or all(isinstance(one, AgentFailed) for one in said)):
            self._confirm(process)
        if self.turn is None:
            return
        for reports in told:
            self.turn.monitor.feed(reports)
        self._consider(process, self.turn)

    def _consider(self, process: AgentProcess, turn: TaskTurn) -> None:
        """Pass on what the agent asks for; what it may not have, it is told, and goes on."""
        asked, turn.monitor.asked = turn.monitor.asked, []
        for one in asked:
            match one:
                case AbortRaised(scope=scope, reason=reason):
                    raised = {"scope": scope, "reason": reason[:REASON_LENGTH_MAX]}
                    with suppress(KernelError):
                        self.agent.fire(Outcome("abort_raised", raised))
                case CancelRequested() if refusal := turn.cancel_child(one):
                    self._reply(process, refusal)
        match turn.monitor.told:
            case (AgentBlocked() | SplitRequested()) as told if not turn.settled:
                if refusal := turn.offer(told):
                    turn.monitor.told = None
                    self._reply(process, refusal)

    def _reply(self, process: AgentProcess, refusal: str) -> None:
        """Tell a session what was refused; others read nothing after their prompt."""
        if self.spec.session:
            line = as_line({"type": "refused", "reason": refusal[:REASON_LENGTH_MAX]})
            process.send(line, last=False)

    def _why_end(self) -> str:
        """Return why the agent must be ended now, or nothing."""
        turn = self.turn
        if self.trip is None and turn is not None:
            self.trip = turn.trip()
        if self.trip is not None:
            return self.trip.abort
        taken = turn is not None and not turn.settled and turn.work.stopped.is_set()
        if self.agent.stopped.is_set() or taken:
            return self._why_stopped()
        over = turn is not None and (turn.settled or isinstance(turn.monitor.told, AgentFailed))
        return OVER if over and not self.spec.session else ""

    def _why_stopped(self) -> str:
        """Return what the records say of an order to stop."""
        views = self.dispatch.views
        try:
            agent = views.record(self.agent.record.id)
            if abort := (agent.data.get("end") or {}).get("abort"):
                return str(abort)
            if agent.state == "dead":
                return OVER
            assert self.turn is not None, "only a task's lease is left to have been taken"
            task = views.record(self.turn.record_id)
            if task.state == "cancelled" and cancelled_above(self.dispatch, task):
                return AbortReason.PARENT_ABORTED
            abort = (task.data.get("failure") or {}).get("abort")
        except KernelError:
            abort = None
        return str(abort or AbortReason.SHUTDOWN_SIGNAL)

    def _confirm(self, process: AgentProcess) -> None:
        """Tell that the process lives; it has not only been forked."""
        self.alive = True
        told = {"pid": process.pid, "containment": process.containment}
        host = self.dispatch.settings.host
        with suppress(KernelError):
            self.agent.fire(Outcome("confirmed_alive", {**told, "host": host}))
        self.first.begin()

    def _note_progress(self, at: float, now: float) -> None:
        if not self.alive or at <= self.progressed or now < self.noted_at + PROGRESS_NOTE_S:
            return
        self.progressed, self.noted_at = at, now
        limit_ms = int(self.agent.record.data["progress_limit_s"]) * 1_000
        jot = Jot("progress", {}, timers=(("progress", limit_ms, 0),))
        with suppress(KernelError):
            self.dispatch.note(self.agent.record, jot, warrant=self.agent.warrant)

    def _look_at_files(self, now: float) -> None:
        turn = self.turn
        busy = self.finishing is not None or self.finding is not None
        if turn is None or turn.settled or busy or now < self.looked_at + FILES_S:
            return
        if turn.look_is_due():
            self.looked_at = now
            self.errands.submit(turn.look)

    # --- a session, from task to task ------------------------------------------------------------

    def _lead_on(self, process: AgentProcess, now: float) -> None:
        turn = self.turn
        if turn is None:
            self._take_up(process, now)
        elif turn.settled:
            self._put_down()
        elif isinstance(turn.monitor.told, AgentFailed):
            turn.tell(of_failed(turn.monitor.told))
            self.failures_in_row += 1
            self._put_down()
        elif self.finishing is not None:
            if self.finishing.done():
                self._judge(process, turn, self.finishing.result())
        elif turn.monitor.summary is not None:
            self.finishing = self.errands.submit(turn.finished, "", None)

    def _judge(self, process: AgentProcess, turn: TaskTurn, outcome: Outcome) -> None:
        """Tell how a task came out, unless a stop hook sends the agent back to it."""
        self.finishing = None
        blocked = outcome.payload.get("why") == TransitionReason.STOP_HOOK_BLOCKED
        self.refusals += blocked
        if blocked and self.refusals < REFUSALS_MAX:
            turn.monitor.summary = None
            self._reply(process, str(outcome.payload["reason"]))
            return
        turn.tell(outcome)
        self.failures_in_row = 0 if outcome.trigger == "completed" else self.failures_in_row + 1
        self._put_down()

    def _put_down(self) -> None:
        """Be idle, or be cut off after too many failures."""
        assert self.turn is not None, "a task ended"
        self.heartbeat.drop(self.turn.work.held)
        self.turn, self.refusals = None, 0
        if self.failures_in_row >= FAILURES_MAX:
            said, abort = f"its last {FAILURES_MAX} tasks failed", AbortReason.SHUTDOWN_SIGNAL
            self.trip = Trip(TripCause.FAILURES, said, abort, TransitionReason.ABORTED)
            return
        with suppress(KernelError):
            self.agent.fire(Outcome("task_finished"))

    def _take_up(self, process: AgentProcess, now: float) -> None:
        if self.finding is None:
            if now >= self.looked_at + NEXT_S:
                self.looked_at = now
                self.finding = self.errands.submit(self._found)
            return
        if not self.finding.done():
            return
        turn, self.finding = self.finding.result(), None
        if turn is None:
            return
        self.turn = turn
        self.heartbeat.hold(turn.work.held)
        with suppress(KernelError):
            self.agent.fire(Outcome("task_assigned", {"task": turn.record_id}))
        if process.send(turn.line, last=False):
            turn.begin()

    def _found(self) -> TaskTurn | None:
        """Claim the next task that this session is for, with a worktree made."""
        asked_at = time.monotonic()
        # Where the store is away there is none now; what was claimed meanwhile lapses.
        with suppress(KernelError):
            if found := next_task(self.dispatch, self.agent.record, self.first.data):
                work = self._work(found[0], asked_at)
                return TaskTurn(work, found[1], self.agent.record)
        return None

    # --- the end -------------------------------------------------------------------------------

    def _never_began(self, reason: str) -> None:
        told = {"reason": reason, "code": "spawn_error", "why": TransitionReason.ABORTED}
        self.first.tell(Outcome("failed", told))
        tell(self.agent, Outcome("spawn_failed", told), otherwise="ended")

    def _conclude(self, ended: Exit) -> None:
        over = ended.reason_by_us == OVER
        abort = None if over else abort_reason(ended.code, killed_by_us=ours(ended.reason_by_us))
        self.errands.shutdown(wait=True)
        if self.finding is not None:
            # Claimed for it, and never given to it.
            self.turn = self.finding.result()
        told = self.turn.monitor.told if self.turn else None
        if self.turn is not None and not self.turn.settled:
            self.turn.tell(self._outcome(self.turn, ended, abort))
        if isinstance(told, AgentFailed):
            abort = abort or of_failed(told).payload["abort"]
        end = agent_end(ended, abort, told, trip=self.trip, alive=self.alive)
        tell(self.agent, end, otherwise="ended")

    def _outcome(self, turn: TaskTurn, ended: Exit, abort: AbortReason | None) -> Outcome:
        told = turn.monitor.told
        if isinstance(told, AgentFailed):
            return of_failed(told)
        if abort is not None:
            return turn.failed(ended, abort, self.trip)
        if self.finishing is not None:
            return self.finishing.result()
        if self.spec.session and turn.monitor.summary is None:
            return Outcome("failed", {"reason": "its agent ended before its task did"})
        if not self.alive:
            self.alive = True
            with suppress(KernelError):
                self.agent.fire(Outcome("confirmed_alive", {"host": self.dispatch.settings.host}))
            turn.begin()
        return turn.finished(ended.output, ended.wall_s)


def main() -> None:
    """Take over what a spec names, say so, and go on alone."""
    spec = TaskLaunchSpec.read(Path(sys.argv[1]))
    hand_over(Path(spec.work_folder), lambda: TaskSupervisor(spec, open_dispatch(read_settings())))
