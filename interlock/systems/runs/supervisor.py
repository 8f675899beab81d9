"""The supervisor of a run: holds its lease, executes its codons one by one, and ends the run.

The fork server starts it, with the path of its launch spec as sys.argv[1]. It outlives the worker
that launched it. It decides each next codon anew from the plan and the records of the codons
before, so its own memory holds nothing that a crash could lose.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from interlock import CallError, EffectWork, KernelError, Outcome
from interlock.git.checkpoint_store import CheckpointStore
from interlock.git.errors import GitError
from interlock.system.agents import LaunchSpec, Supervisor, kill_leftovers
from interlock.system.errors import FencedError, HeldError
from interlock.system.records import Records, polls
from interlock.system.tables import Record
from interlock.systems.runs.admission import refuse_invalid_plan, refuse_invalid_runs, source_of
from interlock.systems.runs.codon.execution import CodonExecution
from interlock.systems.runs.codon.usage import BudgetUsage, exceeded_limit
from interlock.systems.runs.context import RunContext
from interlock.systems.runs.history import codons_of, history
from interlock.systems.runs.machines.codon.payloads import CodonData
from interlock.systems.runs.machines.codon_types import codon_of, codon_tokens, codon_types
from interlock.systems.runs.machines.effects import LAUNCH
from interlock.systems.runs.machines.run.payloads import RunData
from interlock.systems.runs.machines.run.table import State, Trigger
from interlock.systems.runs.outcome import CodonEnd
from interlock.systems.runs.paths import RunPaths, codon_paths
from interlock.systems.runs.plan.model import RunPlan
from interlock.systems.runs.sequence import Execution, Halted, NextCodon, PlanFinished, next_step
from interlock.systems.runs.start import RunRefusedError

POLL_S = 0.1
# After this time every lease of an earlier run and its grace period are over.
CLEANUP_WAIT_S_MAX = 120.0
LEFT_OUT_MAX = 100
NAME_LENGTH_MAX = 500

# The fork server imports this module once: its forks need not build the validator again.
codon_types()


class RunSupervisor(Supervisor):
    """Supervises one run, which may have executed codons under an earlier supervisor."""

    machine, effect = "run", LAUNCH

    def __init__(self, spec: LaunchSpec, records: Records) -> None:
        super().__init__(spec, records)
        self.work: EffectWork[RunData] = self.adopt("run", LAUNCH, spec.key, spec.token)
        run = self.work.record
        self.paths = RunPaths(run.id, records.settings)
        self.workspace = Path(run.data["folder"])

    def run(self) -> None:
        """Execute the run to its end, and fire how it ended."""
        with self.heartbeat.holding(self.work.held):
            try:
                outcome = self._run_codons()
            except FencedError:
                self._settle()
                return
            except (CallError, GitError, OSError) as error:
                if self._has_ended():
                    self._settle()
                    return
                outcome = Outcome(Trigger.FAIL, {"reason": str(error)[:4_000]})
            self.work.fire_or_settle(outcome)

    def _has_ended(self) -> bool:
        run: Record[RunData] = self.work.retried(partial(self.records.views.record, self.paths.id))
        return run.state != State.RUNNING

    def _settle(self) -> None:
        """Settle the lease of a run that a person or a sweep has ended; nothing else is left."""
        with suppress(KernelError):
            self.work.settle()

    def _run_codons(self) -> Outcome:
        if problem := self._wait_for_earlier_runs():
            return Outcome(Trigger.FAIL, {"reason": problem})
        run = self.work.record
        refuse_invalid_plan(run.data["plan"], run.data["done"])
        self.work.retried(self._refuse_invalid_runs)
        plan = RunPlan.of(run.data["plan"])
        context: RunContext | None = None
        while True:
            if self._is_stopping():
                return Outcome(Trigger.FAIL, {"reason": self._stop_reason()})
            context = context or self._open_context(plan)
            codons = self.work.retried(partial(codons_of, self.records, self.paths.id))
            done, start_index = history(self.work.record, codons)
            match next_step(plan, done, start_index=start_index):
                case PlanFinished():
                    return Outcome(Trigger.COMPLETE)
                case Halted(position=position, reason=reason):
                    return Outcome(Trigger.FAIL, {"reason": reason, "codon": position.runtime_id})
                case NextCodon() as start:
                    usage = usage_of(codons, self._now_ms())
                    if over := exceeded_limit(plan.budget, usage):
                        reason = f"{over.currency} is used up: {over.used} of {over.limit}"
                        return Outcome(Trigger.FAIL, {"reason": reason, "codon": start.runtime_id})
                    self._execute(context, start, len(codons) + 1, done, usage)

    def _open_context(self, plan: RunPlan) -> RunContext:
        """Open the checkpoints, restore the one from which the run starts, take the initial one."""
        checkpoint_store = CheckpointStore.open(self.workspace)
        context = RunContext(
            work=self.work,
            supervisor=self,
            plan=plan,
            workspace=checkpoint_store.root,
            paths=self.paths,
            checkpoint_store=checkpoint_store,
        )
        starting, rescued = self.work.record.data["starting"], {}
        continues = starting["kind"] == "continuation"
        start = starting["source"]["checkpoint_sha"] if continues else None
        # Any run is refused here if a checkpoint of an earlier one is damaged.
        if checkpoint_store.missing([start] if start else []):
            raise RunRefusedError(
                f"it is to begin with checkpoint {start}, which {checkpoint_store.store} lacks; "
                "restore the folder from a copy, or roll back to another checkpoint: "
                "`interlock run checkpoints` lists them"
            )
        # A branch that has this name already was made with another store, or this folder is a copy.
        checkpoint_store.rename_former_branch(context.branch)
        if start and starting["restores"] and checkpoint_store.differs(start):
            recovery = checkpoint_store.rescue()
            self.work.audit("rescued", {"branch": recovery.branch, "sha": recovery.sha})
            rescued = {"rescued": recovery.sha}
            checkpoint_store.restore(start)
        taken = context.checkpoint(f"initial [{self.paths.id}]", start=start)
        left_out = [_storable(name) for name in taken.left_out[:LEFT_OUT_MAX]]
        payload = {"sha": taken.sha, "left_out": left_out, **rescued}
        self.work.fire(Outcome(Trigger.INITIAL_CHECKPOINT_SET, payload))
        return context

    def _refuse_invalid_runs(self) -> None:
        """Check what is recorded. A client did so too, but not every run is created by a client."""
        source = source_of(self.work.record.data["starting"])
        refuse_invalid_runs(self.records, self.work.record.root, (self.paths.id, source))

    def _wait_for_earlier_runs(self) -> str:
        """Wait until no process of an earlier run can be alive; return why this run must end."""
        for _ in polls(CLEANUP_WAIT_S_MAX):
            active = self.work.retried(self._active_records)
            if not active:
                return ""
            if self._is_stopping():
                return self._stop_reason()
        return f"the processes of {active[0].id} are still being ended"

    def _active_records(self) -> list[Record[CodonData]]:
        """Return the earlier runs and codons whose effects a process may still execute.

        If there are none so far, kill the leftovers of a run's last codon.
        """
        views, number = self.records.views, int(self.paths.id.partition("/")[2])
        active: list[Record[CodonData]] = []
        while (number := number - 1) > 0:
            run = views.record(f"{self.work.record.root}/{number}")
            codons = codons_of(self.records, run.id)
            active += [record for record in (run, *codons) if _may_be_active(record)]
            if codons and not active:
                self._kill_leftovers(codons[-1].id)
            if "initial_checkpoint" in run.data:
                # This run has waited for those before it, so they have no process any more.
                break
        return active

    def _kill_leftovers(self, codon_id: str) -> None:
        """Kill the processes of a codon whose supervisor and watchdog both died at once."""
        paths = codon_paths(codon_id, self.records.settings)
        for folder in (paths.folder, paths.sentinels):
            kill_leftovers(folder, owner=codon_id)

    def _execute(
        self,
        context: RunContext,
        start: NextCodon,
        number: int,
        done: list[Execution],
        usage: BudgetUsage,
    ) -> None:
        if not self._wait(start.delay_ms):
            return
        previous = continued_execution(start, done)
        # HeldError: another codon of the workspace has not ended yet. The caller tries again.
        paths = self.paths.codon(number)
        with suppress(HeldError):
            work = context.create_codon(start, paths)
            with self.holding(work):
                CodonExecution(context, start, paths, work, previous=previous, usage=usage).run()
            return
        self._wait(int(POLL_S * 1_000))

    def _wait(self, delay_ms: int) -> bool:
        """Wait for the delay; return False as soon as the run is to stop."""
        until = time.monotonic() + delay_ms / 1_000
        while (left_s := until - time.monotonic()) > 0 and not self._is_stopping():
            time.sleep(min(POLL_S, left_s))
        return not self._is_stopping()

    def _is_stopping(self) -> bool:
        return self.work.stopped.is_set() or self.work.interrupted.is_set()

    def _stop_reason(self) -> str:
        with suppress(KernelError):
            return str(self.records.views.record(self.paths.id).data.get("stop", "stopped"))
        return "stopped"

    def _now_ms(self) -> int:
        return self.work.retried(self.records.now_ms)


def continued_execution(start: NextCodon, done: list[Execution]) -> Execution | None:
    """Return the execution whose session a codon continues."""
    if not start.previous_session_id:
        return None
    same = (
        execution
        for execution in reversed(done)
        if execution.session_id == start.previous_session_id
    )
    return next((execution for execution in same if execution.status is not CodonEnd.FAILED), None)


def usage_of(codons: list[Record[CodonData]], now_ms: int) -> BudgetUsage:
    """Return the cost, the tokens and the time since the first codon that a run has used."""
    cost = sum(record.counters.get("spent", 0) for record in codons)
    tokens = sum(codon_tokens(codon_of(record)).output_tokens for record in codons)
    started_ms = codons[0].created_ms if codons else now_ms
    return BudgetUsage().plus(BudgetUsage(cost, now_ms - started_ms, tokens))


def _storable(name: str) -> str:
    """Return the name of a file as a record can store it, whatever bytes are in it."""
    return name.encode(errors="replace").decode()[:NAME_LENGTH_MAX]


def _may_be_active(record: Record) -> bool:
    return any(entry.is_leased or entry.exclusive for entry in record.entries)


main = RunSupervisor.supervise
