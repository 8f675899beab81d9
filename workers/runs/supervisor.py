"""Conducts one run of codons: holds its lease, executes one codon after the other, tells its end.

A forker forks it, with its spec as sys.argv[1]. It outlives whoever started it. Which codon comes
next is told by the plan and the records of those before; nothing of that is kept here alone.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from interlock.kernel.errors import (
    CallError,
    ClosedParentError,
    FencedError,
    HeldError,
    KernelError,
)
from interlock.kernel.machines import MACHINES
from interlock.kernel.machines.runs.codon_types import codon_of, codon_tokens
from interlock.kernel.machines.runs.effects import CONDUCTOR
from interlock.kernel.record import Record, root_of
from interlock.workers.config import read_settings
from interlock.workers.engine.dispatch import Dispatch, open_dispatch
from interlock.workers.engine.heartbeat import Heartbeat
from interlock.workers.engine.polling import polls
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.work import Outcome, Work
from interlock.workers.gateways.git.errors import GitError
from interlock.workers.gateways.git.shadow import Shadow
from interlock.workers.runs.codon.budget import Used, exceeded
from interlock.workers.runs.codon.execution import CodonExecution
from interlock.workers.runs.context import RunWork
from interlock.workers.runs.history import codons_of, history
from interlock.workers.runs.outcome import Ended
from interlock.workers.runs.paths import RunPlace, codon_place, marks_of
from interlock.workers.runs.plan.model import Plan
from interlock.workers.runs.sequence import Execution, Finished, Halted, Start, next_step
from interlock.workers.supervision.launch import LaunchSpec, hand_over
from interlock.workers.supervision.leftovers import kill_leftovers

POLL_S = 0.1
# Beyond the lease and grace of what an earlier run left, nothing of it can be at work.
CLEAR_S_MAX = 120.0
LEFT_OUT_MAX = 100
NAME_LENGTH_MAX = 500


class RunSupervisor:
    """One run, from where its records say that it stands."""

    def __init__(self, spec: LaunchSpec, dispatch: Dispatch) -> None:
        self.dispatch, settings = dispatch, dispatch.settings
        effect = dispatch.effect("run", CONDUCTOR.name)
        asked_at = time.monotonic()
        holder = f"{dispatch.holder}:{os.getpid()}"
        lease = dispatch.leases.adopt(
            spec.key, effect, spec.token, nonce=uuid4().hex[:8], holder=holder
        )
        self.work = Work(
            dispatch,
            Resources(settings),
            MACHINES["run"],
            lease,
            lease_ms=effect.lease_ms,
            asked_at=asked_at,
        )
        self.place = RunPlace(lease.record.id, settings)
        self.workspace = Path(str(lease.record.data["folder"]))
        self.plan = Plan.of(lease.record.data["plan"])
        self.heartbeat = Heartbeat(
            lambda: dispatch.leases, lease_s=effect.lease_ms / 1_000, begin=lambda: None
        )

    def run(self) -> None:
        """Conduct the run to its end, and tell what became of it."""
        self.heartbeat.hold(self.work.held)
        try:
            try:
                outcome = self._conducted()
            except ClosedParentError:
                raise
            except (CallError, GitError, OSError) as error:
                outcome = Outcome("fail", {"reason": str(error)[:4_000]})
            self.work.fire(outcome)
        except (ClosedParentError, FencedError):
            # It was ended by somebody else: nothing of it is left here.
            with suppress(KernelError):
                answer = self.dispatch.leases.settle(self.work.lease, self.dispatch.render)
                self.dispatch.publish(answer.owed)
        self.heartbeat.drop(self.work.held)

    # --- to begin --------------------------------------------------------------------------------

    def _conducted(self) -> Outcome:
        if why := self._cleared():
            return Outcome("fail", {"reason": why})
        run: RunWork | None = None
        while True:
            if self._stops():
                return Outcome("fail", {"reason": self._asked_to_stop()})
            run = run or self._begun()
            codons = self.work.retried(partial(codons_of, self.dispatch.views, self.place.id))
            done, begins = history(self.work.record, codons)
            match next_step(self.plan, done, begins=begins):
                case Finished():
                    return Outcome("complete")
                case Halted(turn=turn, reason=reason):
                    return Outcome("fail", {"reason": reason, "codon": turn.runtime_id})
                case Start() as start:
                    used = used_by(codons, self._now_ms())
                    if over := exceeded(self.plan.budget, used):
                        told = f"{over.currency} is used up: {over.used} of {over.limit}"
                        return Outcome("fail", {"reason": told, "codon": start.runtime_id})
                    self._execute(run, start, len(codons) + 1, done, used)

    def _begun(self) -> RunWork:
        """Open the checkpoints, bring the workspace to where the run begins, and keep that."""
        shadow = Shadow.open(self.workspace)
        run = RunWork(
            work=self.work,
            dispatch=self.dispatch,
            heartbeat=self.heartbeat,
            plan=self.plan,
            workspace=shadow.workspace,
            place=self.place,
            shadow=shadow,
        )
        # One that is there already is of another store, or of a copy of this folder.
        shadow.set_aside(run.branch)
        starting, rescued = self.work.record.data["starting"], {}
        if starting["kind"] == "continuation":
            sha = str(starting["source"]["checkpoint_sha"])
            if starting["restores"] and shadow.differs(sha):
                kept = shadow.rescue()
                self.work.audit("rescued", {"branch": kept.branch, "sha": kept.sha})
                rescued = {"rescued": kept.sha}
                shadow.restore(sha)
            shadow.branch_from(run.branch, sha)
        taken = run.checkpoint(f"initial [{self.place.id}]")
        left_out = [_shown(name) for name in taken.left_out[:LEFT_OUT_MAX]]
        told = {"sha": taken.sha, "left_out": left_out, **rescued}
        self.work.fire(Outcome("initial_checkpoint_set", told))
        return run

    def _cleared(self) -> str:
        """Wait until nothing of an earlier run can be at work here; say what is, after long."""
        for _ in polls(CLEAR_S_MAX):
            left = self.work.retried(self._left)
            if not left:
                return ""
            if self._stops():
                return self._asked_to_stop()
        return f"{left[0].id} is still being cleared away"

    def _left(self) -> list[Record]:
        """Return what of earlier runs has work that somebody may still do."""
        views, number = self.dispatch.views, int(self.place.id.partition("/")[2])
        found: list[Record] = []
        while (number := number - 1) > 0:
            run = views.record(f"{root_of(self.place.id)}/{number}")
            codons = codons_of(views, run.id)
            found += [one for one in (run, *codons) if _may_be_at_work(one)]
            if codons and not found:
                self._end_what_is_left(codons[-1].id)
            if "initial_checkpoint" in run.data:
                # It began, so it had looked itself at what was before it.
                break
        return found

    def _end_what_is_left(self, codon: str) -> None:
        """Kill what a conductor and its watchdog left when both died at once."""
        mark = codon_place(codon, self.dispatch.settings).mark
        if mark.is_file():
            for one in marks_of(mark.read_text("utf-8")):
                kill_leftovers(one, owner=codon)

    # --- to go on --------------------------------------------------------------------------------

    def _execute(
        self, run: RunWork, start: Start, number: int, done: list[Execution], used: Used
    ) -> None:
        if not self._rested(start.delay_ms):
            return
        previous = continued(start, done)
        with suppress(HeldError):
            # Another of its workspace is still being ended: then it is tried again.
            CodonExecution(run, start, number, previous=previous, used=used).perform()
            return
        self._rested(int(POLL_S * 1_000))

    def _rested(self, delay_ms: int) -> bool:
        """Wait so long; False where somebody wants the run to end."""
        until = time.monotonic() + delay_ms / 1_000
        while (left_s := until - time.monotonic()) > 0 and not self._stops():
            time.sleep(min(POLL_S, left_s))
        return not self._stops()

    def _stops(self) -> bool:
        return self.work.stopped.is_set() or self.work.interrupted.is_set()

    def _asked_to_stop(self) -> str:
        with suppress(KernelError):
            return str(self.dispatch.views.record(self.place.id).data.get("stop", "stopped"))
        return "stopped"

    def _now_ms(self) -> int:
        return self.work.retried(self.dispatch.views.now_ms)


def continued(start: Start, done: list[Execution]) -> Execution | None:
    """Return the execution whose session a codon goes on with."""
    if not start.previous_session_id:
        return None
    same = (one for one in reversed(done) if one.session_id == start.previous_session_id)
    return next((one for one in same if one.status is not Ended.FAILED), None)


def used_by(codons: list[Record], now_ms: int) -> Used:
    """Return what the codons of a run have used: cost, tokens, and the time since the first."""
    cost = sum(record.counters.get("spent", 0) for record in codons)
    tokens = sum(codon_tokens(codon_of(record)).output_tokens for record in codons)
    began_ms = codons[0].created_ms if codons else now_ms
    return Used().plus(Used(cost, now_ms - began_ms, tokens))


def _shown(name: str) -> str:
    """Return a file's name as a record can hold it, whatever bytes are in it."""
    return name.encode(errors="replace").decode()[:NAME_LENGTH_MAX]


def _may_be_at_work(record: Record) -> bool:
    return any(entry.state == "leased" or entry.exclusive for entry in record.entries)


def main() -> None:
    """Take over what a spec names, say so, and go on alone."""
    spec = LaunchSpec.read(Path(sys.argv[1]))
    hand_over(Path(spec.work_folder), lambda: RunSupervisor(spec, open_dispatch(read_settings())))
