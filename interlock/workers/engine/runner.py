"""Runs effects: claims one, calls its handler, fires the outcome, retries failures with backoff."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from concurrent.futures import CancelledError
from contextlib import nullcontext, suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from celery.exceptions import Ignore

from interlock.kernel.blame import blamed, with_own_line
from interlock.kernel.effect import Kind
from interlock.kernel.errors import (
    FencedError,
    HeldError,
    KernelError,
    StoreError,
)
from interlock.kernel.event import EFFECT_FAILED
from interlock.kernel.machine import Machine
from interlock.kernel.store.commands import NoteDraft
from interlock.kernel.table import Active, Mode
from interlock.workers.config import ms
from interlock.workers.engine.affinity import Affinity
from interlock.workers.engine.attempt_limit import TookTooLongError
from interlock.workers.engine.claims import Claims, Granted
from interlock.workers.engine.continuing import Continuing
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.effect_ends import (
    EffectFailedError,
    EffectNotOwedError,
    EffectRetriedError,
    OutcomeKeptError,
    may_pass,
)
from interlock.workers.engine.effect_slots import UsedSlot, free, used_slot
from interlock.workers.engine.event_loop import EventLoop
from interlock.workers.engine.heartbeat import Heartbeat
from interlock.workers.engine.isolation import Isolation, Performed, ProcessDiedError, is_suspect
from interlock.workers.engine.log_lines import log_about
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.retry_delay import retry_delay_ms
from interlock.workers.engine.time_limits import TimeLimits
from interlock.workers.engine.tracing import note_outcome, traced
from interlock.workers.engine.work import EffectWork, Handler, InUseError, ObstacleError, Outcome
from interlock.workers.engine.work_results import UnusableResultError
from interlock.workers.redaction import hide_secrets
from interlock.workers.text import storable

log = logging.getLogger(__name__)

DETAIL_MAX = 2_000
# An effect that waits for a held name is polled when it is its turn, and after this time anyway.
HELD_POLL_MS = 60_000
# Errors of ours that are whole sentences, and about no line of anybody's file.
SENTENCES = (ObstacleError, OutcomeKeptError, TookTooLongError)


class Runner:
    """Runs the effects whose messages this process receives."""

    def __init__(self, dispatch: Dispatch, resources: Resources) -> None:
        self.dispatch, self.resources = dispatch, resources
        shortest_s = dispatch.settings.lease_s or min(
            effect.lease_ms / 1_000
            for machine in dispatch.machines.values()
            for effect in machine.effects.values()
        )
        self.affinity = Affinity(enabled=dispatch.settings.affinity)
        self.heartbeat = Heartbeat(
            lambda: dispatch.leases, lease_s=shortest_s, begin=self.affinity.widen
        )
        self._ending = threading.Event()
        self.continuing, self.claims = Continuing(dispatch), Claims(dispatch)
        self.loop = EventLoop(begin=self.affinity.widen)
        self.limits = TimeLimits(end=self._end_hung)
        self._working: dict[EffectWork, UsedSlot | None] = {}
        self.isolation = Isolation()

    def perform(
        self, machine: Machine, name: str, handler: Handler, key: str, *, nonce: str = ""
    ) -> str:
        """Perform an effect if it is still due, and return one line for people.

        With the nonce of a lease that another process holds, it is performed under that lease. Else
        an effect whose worker was lost is performed in a process of its own.
        Raises EffectFailedError if it failed, EffectRetriedError if it is tried again,
        EffectNotOwedError if there is nothing to do, Ignore if another process is doing it.
        """
        granted = self.continuing.take(key) or self._claimed(machine, name, key, nonce)
        lease, used = granted.lease, granted.used
        work = EffectWork(self.dispatch, self.resources, lease, asked_at=granted.asked_at)
        self._working[work] = used
        try:
            with (
                used_slot(self.dispatch, used, work),
                self.heartbeat.holding(work.held),
            ):
                if self._ending.is_set() and work.restartable:
                    work.give_back()
                record, lease = work.record, work.lease
                about = {"record": record.id, "version": record.version, "effect": lease.name}
                with (
                    log_about(**about, attempt=lease.attempt),
                    traced(self.dispatch.views, record, lease),
                ):
                    alone = not nonce and is_suspect(work)
                    line = self._act_alone(work) if alone else self._act(work, handler)
                    note_outcome(line)
                    return line
        finally:
            self._working.pop(work, None)

    def _claimed(self, machine: Machine, name: str, key: str, nonce: str) -> Granted:
        if self._ending.is_set():
            why = "not claimed: this process ends; a sweep will publish it again"
            raise EffectRetriedError(why)
        return self.claims.claim(machine, name, key, nonce=nonce)

    def shut_down(self) -> None:
        """Give back the effects that another worker may start again; the others end here."""
        self._ending.set()
        self.continuing.end()
        for work in tuple(self._working):
            if work.restartable:
                work.give_back()

    def _act_alone(self, work: EffectWork) -> str:
        try:
            performed = self.isolation.perform(work)
        except CancelledError as end:
            return self._stop(work, end)
        except (OSError, ProcessDiedError, TookTooLongError) as failure:
            return self._retry_later(work, failure)
        for error in (EffectFailedError, EffectRetriedError, EffectNotOwedError, Ignore):
            if error.__name__ == performed.error:
                raise error(performed.line)
        return performed.line

    def _act(self, work: EffectWork, handler: Handler) -> str:
        try:
            outcome = work.kept_outcome or self._run(work, handler)
        except (asyncio.CancelledError, CancelledError) as end:
            return self._stop(work, end)
        except FencedError as refusal:
            return self._settle(work, f"stale: {refusal}")
        except (InUseError, HeldError) as refusal:
            return self._wait_for_others(work, refusal)
        except StoreError as refusal:
            log.warning("%s was given up while the store was away: %s", work.key, refusal)
            raise EffectRetriedError(f"given up: {refusal}") from refusal
        except BaseException as failure:
            if isinstance(failure, KeyboardInterrupt):
                raise
            outcome = work.outcome_over_budget(failure)
            if outcome is None:
                is_last = isinstance(failure, UnusableResultError)
                return self._retry_later(work, failure, is_last=is_last)
        if work.handed_over.is_set():
            raise Ignore("its supervisor goes on, and shows its end")
        if outcome is None:
            return self._settle(work, "settled")
        return self._fire(work, outcome)

    def _run(self, work: EffectWork, handler: Handler) -> Outcome | None:
        outcome: Any
        work.raise_if_stopped()
        with self.limits.limiting(work):
            if inspect.iscoroutinefunction(handler):
                outcome = self.loop.run(work, handler(work))
            else:
                quick = work.machine.effects[work.lease.name].quick
                with nullcontext() if quick else self.affinity.wide():
                    outcome = handler(work)
        return self._checked(work, outcome)

    def _checked(self, work: EffectWork, outcome: Any) -> Outcome | None:
        if outcome is None or isinstance(outcome, Outcome):
            return outcome
        task = f"{work.machine.name}.{work.lease.name}"
        raise UnusableResultError(
            f"the handler of {task} returned {type(outcome).__name__}, and no Outcome"
        )

    def _fire(self, work: EffectWork, outcome: Outcome) -> str:
        entered, stage = work.record.entered, work.machine.stage(work.record.state)
        try:
            record = work.fire_or_settle(outcome, self.continuing.fire)
        except StoreError as refusal:
            log.warning("%s could not fire its outcome, the store was away: %s", work.key, refusal)
            raise EffectRetriedError(f"given up: {refusal}") from refusal
        except HeldError as refusal:
            return self._wait_for_others(work, refusal)
        except Exception as refusal:  # noqa: BLE001 - whatever the functions of the table raise
            if may_pass(work, refusal):
                return self._retry_later(work, refusal)
            return self._keep(work, outcome, refusal)
        if record is None:
            return f"stale: {outcome.trigger} came after the lease was lost"
        line = f"{outcome.trigger} -> {record.state}"
        rows = (row for row in work.machine.transitions if row.trigger == outcome.trigger)
        carries = any(row.mode is Mode.CARRY for row in rows)
        if work.lease.kind is not Kind.STATE and (carries or record.entered == entered):
            # The commit has only ended the effect of a state that was left: this one is still open.
            return self._settle(work, line)
        if isinstance(stage, Active) and stage.is_failure(outcome.trigger):
            reasons = (outcome.reason, outcome.payload.get("reason"), outcome.payload.get("detail"))
            reason = next((f": {text}" for text in reasons if text), "")
            raise EffectFailedError(f"{line}{reason}"[:DETAIL_MAX])
        return line

    def _keep(self, work: EffectWork, outcome: Outcome, refusal: Exception) -> str:
        """Keep an outcome that cannot be committed, so that the handler is not called again."""
        try:
            if work.lease.outcome is None:
                work.results.keep(asdict(outcome))
        except FencedError:
            return self._settle(work, f"stale: {outcome.trigger}")
        except StoreError as away:
            raise EffectRetriedError(f"given up: {away}") from away
        except UnusableResultError as too_large:
            return self._retry_later(work, too_large, is_last=True)
        said = str(refusal) if isinstance(refusal, KernelError) else blamed(refusal)
        why = f"its outcome {outcome.trigger} is kept, and only committed again: {said}"
        return self._retry_later(work, OutcomeKeptError(why))

    def _settle(self, work: EffectWork, line: str) -> str:
        try:
            status = work.settle()
        except StoreError as refusal:
            raise EffectRetriedError(f"not settled: {refusal}") from refusal
        if status == "refused" and work.limit.has_passed:
            return self._end_late(work)
        if status == "refused":
            assert work.lease.kind is Kind.STATE, "only the effect of the current state is refused"
            nothing = UnusableResultError("the handler ended without an outcome")
            return self._retry_later(work, nothing, is_last=True)
        return line

    def _stop(self, work: EffectWork, end: BaseException) -> str:
        orders = (work.stopped, work.giving_back, work.lost, self._ending)
        if not any(order.is_set() for order in orders):
            # The handler cancelled something of its own: that has failed, unless the lease is lost.
            self._retry_later(work, end)
        if work.lost.is_set():
            raise Ignore("its lease is over")
        if work.limit.has_passed:
            return self._end_late(work)
        if work.stopped.is_set():
            return self._settle(work, "stopped by order")
        try:
            status = self.dispatch.leases.release(work.lease, counted=False)
        except StoreError as refusal:
            raise EffectRetriedError(f"not released, its lease will lapse: {refusal}") from refusal
        if status in ("gone", "lost"):
            # The command of a worker that was frozen ends before the worker learns of the loss.
            raise Ignore("its lease is over")
        raise EffectRetriedError(f"released at shutdown: {status}")

    def _end_late(self, work: EffectWork) -> str:
        """End an attempt whose time was over, by the outcome that its handler has for that."""
        late = work.limit.error
        try:
            outcome = work.limit.outcome(str(late))
        except StoreError as refusal:
            raise EffectRetriedError(f"given up: {refusal}") from refusal
        return self._fire(work, outcome) if outcome else self._retry_later(work, late)

    def _end_hung(self, work: EffectWork) -> Performed:
        """End an attempt whose handler goes on; the next one gets a process that can be killed."""
        with suppress(KernelError, UnusableResultError):
            work.results.mark_hung()
        ended = Performed.of(partial(self._end_late, work))
        self.heartbeat.drop(work.held)
        if used := self._working.pop(work, None):
            free(self.dispatch, used)
        return ended

    def _wait_for_others(self, work: EffectWork, refusal: InUseError | HeldError) -> str:
        """Give an effect back until others have freed what it, or its outcome, needs."""
        needs: tuple[str, ...] = ()
        if isinstance(refusal, InUseError):
            delay_ms = ms(refusal.after_s)
        elif refusal.needs:
            delay_ms, needs = HELD_POLL_MS, refusal.needs
        else:
            return self._retry_later(work, refusal)
        try:
            status = self.dispatch.leases.release(
                work.lease, delay_ms=delay_ms, counted=False, needs=needs
            )
        except StoreError as away:
            raise EffectRetriedError(f"not released, its lease will lapse: {away}") from away
        if status in ("lost", "gone"):
            raise Ignore(f"{status} while it was to wait: {refusal}") from refusal
        raise EffectRetriedError(f"waits ({status}): {refusal}") from refusal

    def _retry_later(
        self, work: EffectWork, failure: BaseException, *, is_last: bool = False
    ) -> str:
        is_sentence = isinstance(failure, SENTENCES)
        named = not isinstance(failure, UnusableResultError)
        failure, asks = hide_secrets(failure), isinstance(failure, ObstacleError)
        cause = str(failure) if is_sentence else with_own_line(failure, named=named)
        detail = storable(cause)[:DETAIL_MAX]
        log.warning("%s failed, attempt %d: %s", work.key, work.attempt, detail)
        delay_ms = 0 if is_last else retry_delay_ms(work.effect, work.attempt)
        said = {"effect": work.lease.suffix, "attempt": work.attempt, "detail": detail}
        draft = NoteDraft(EFFECT_FAILED, said)
        try:
            self.dispatch.note(work.record, draft, warrant=work.warrant)
            status = self.dispatch.leases.release(
                work.lease, delay_ms=delay_ms, counted=True, asks=asks, is_last=is_last
            )
        except FencedError:
            return self._settle(work, f"stale: {detail}")
        except StoreError as refusal:
            raise EffectRetriedError(f"given up: {refusal}") from refusal
        if status == "owed" and not is_last and work.attempt < work.entry.attempts_max:
            raise EffectRetriedError(
                f"tried again in {delay_ms / 1_000:g} s: {detail}"
            ) from failure
        raise EffectFailedError(detail) from failure
