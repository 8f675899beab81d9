"""Runs effects: claims one, calls its handler, fires the outcome, retries failures with backoff."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from celery.app.task import Task
from celery.exceptions import Ignore
from kombu.exceptions import OperationalError

from interlock.kernel.effect import Kind
from interlock.kernel.errors import (
    AnotherVersionError,
    FencedError,
    HeldError,
    InvalidIdError,
    KernelError,
    StoreError,
    UnknownStateError,
)
from interlock.kernel.machine import Machine
from interlock.kernel.shown_stage import knows
from interlock.kernel.store.leases import Refused
from interlock.kernel.table import Active, Mode
from interlock.workers.engine.affinity import Affinity
from interlock.workers.engine.attempt_limit import TookTooLongError
from interlock.workers.engine.continuing import Continuing, Granted
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.effect_ends import (
    DETAIL_MAX,
    EffectEnds,
    EffectFailedError,
    EffectNotOwedError,
    EffectRetriedError,
    may_pass,
)
from interlock.workers.engine.effect_slots import UsedSlot, claim_with_slot, free, used_slot
from interlock.workers.engine.event_loop import EventLoop
from interlock.workers.engine.heartbeat import Heartbeat
from interlock.workers.engine.isolation import Isolation, Performed, ProcessDiedError, is_suspect
from interlock.workers.engine.log_lines import log_about
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.time_limits import TimeLimits
from interlock.workers.engine.tracing import note_outcome, traced
from interlock.workers.engine.unclaimed import (
    left_to_others,
    not_claimed,
    rejected,
    send_to_its_host,
    unknown_state,
)
from interlock.workers.engine.work import EffectWork, Handler, NotYetError, Outcome
from interlock.workers.engine.work_results import UnusableResultError
from interlock.workers.processes.clock import clock

log = logging.getLogger(__name__)


class Runner(EffectEnds):
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
        self.continuing = Continuing(dispatch)
        self.loop = EventLoop(begin=self.affinity.widen)
        self.limits = TimeLimits(end=self.end_hung)
        self._working: dict[EffectWork, UsedSlot | None] = {}
        self.isolation = Isolation()

    def task(self, machine: Machine, name: str, handler: Handler) -> Callable[..., str]:
        """Return what the Celery task of an effect does with a message."""

        def task(celery_task: Task, *args: Any, **kwargs: Any) -> str:
            if kwargs or len(args) != 1 or not isinstance(args[0], str):
                raise rejected(self.dispatch, f"{machine.name}.{name}", args, kwargs)
            try:
                return self.perform(machine, name, handler, args[0])
            except EffectNotOwedError as refusal:
                log.info("%s: %s", args[0], refusal)
                if self.dispatch.settings.task_events:
                    # Flower shows it as revoked, unless an earlier message has reported its end.
                    with suppress(OperationalError):
                        celery_task.send_event("task-revoked")
                raise Ignore(str(refusal)) from refusal

        return task

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
                    if not knows(work.machine, record.state):
                        unknown = UnknownStateError(work.machine.name, record.state)
                        return self._wait_for_others(work, unknown)
                    alone = not nonce and is_suspect(work)
                    line = self._act_alone(work) if alone else self._act(work, handler)
                    note_outcome(line)
                    return line
        finally:
            self._working.pop(work, None)

    def _claimed(self, machine: Machine, name: str, key: str, nonce: str) -> Granted:
        """Claim an effect. Raises what Celery shows for one that is not claimed."""
        if self._ending.is_set():
            why = "not claimed: this process ends; a sweep will publish it again"
            raise EffectRetriedError(why)
        effect = self.dispatch.effect(machine.name, name)
        if effect.local and (host := send_to_its_host(self.dispatch, machine, key)):
            raise EffectRetriedError(f"sent on to {host}, where its files are")
        if refusal := unknown_state(self.dispatch, machine, name, key):
            log.warning("%s is not claimed: %s", key, refusal)
            raise left_to_others(self.dispatch, key, str(refusal))
        asked_at = clock()
        claim = partial(
            self.dispatch.leases.claim,
            key,
            effect,
            nonce=nonce or uuid4().hex[:8],
            holder=self.dispatch.holder,
            schema=machine.schema,
        )
        try:
            lease, used = claim(), None
            if isinstance(lease, Refused) and lease.status == "slot":
                lease, used = claim_with_slot(self.dispatch, key, effect, claim, lease)
        except InvalidIdError as refusal:
            task, said = f"{machine.name}.{name}", {"refusal": str(refusal)}
            raise rejected(self.dispatch, task, (key,), said) from refusal
        except StoreError as refusal:
            log.warning("%s is not claimed: %s; a sweep will repeat it", key, refusal)
            raise EffectRetriedError(f"not claimed: {refusal}") from refusal
        if isinstance(lease, Refused):
            raise not_claimed(self.dispatch, machine, name, key, lease)
        return Granted(lease, asked_at, used)

    def shut_down(self) -> None:
        """Order handlers to give back the effects that another worker may start again.

        The pool of the worker waits for all other handlers (thread_pool.py).
        """
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
            self._bring_up_to_date(work)
            outcome = work.kept_outcome or self._run(work, handler)
        except (asyncio.CancelledError, CancelledError) as end:
            return self._stop(work, end)
        except FencedError as refusal:
            return self._end_fenced(work, refusal)
        except (NotYetError, HeldError, AnotherVersionError) as refusal:
            outcome = work.outcome_over_budget(refusal)
            if outcome is None:
                return self._wait_for_others(work, refusal)
        except StoreError as refusal:
            log.warning("%s was given up while the store was away: %s", work.key, refusal)
            raise EffectRetriedError(f"given up: {refusal}") from refusal
        except BaseException as failure:
            if isinstance(failure, KeyboardInterrupt):
                raise
            is_last = isinstance(failure, UnusableResultError)
            return self._retry_later(work, failure, is_last=is_last)
        if work.handed_over.is_set():
            raise Ignore("its supervisor goes on, and shows its end")
        if outcome is None:
            return self._settle(work, "settled")
        return self._fire(work, outcome)

    def _bring_up_to_date(self, work: EffectWork) -> None:
        """Move the record, where an older version of its table has left it. Raises as `Mover`."""
        mover = self.dispatch.lifecycle.mover
        work.record = work.retried(lambda: mover.present(work.record, work.warrant))

    def _run(self, work: EffectWork, handler: Handler) -> Outcome | None:
        outcome: Any
        work.raise_if_stopped()
        with self.limits.limiting(work):
            if inspect.iscoroutinefunction(handler):
                outcome = self.loop.run(work, handler(work))
            else:
                with self.affinity.handler((work.machine.name, work.lease.name)):
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
            record = work.fire_or_settle(outcome, self.continuing.offer())
            if record is None:
                return f"stale: {outcome.trigger} came after the lease was lost"
            work.retried(partial(self.continuing.go_on, record.id, work.fired))
        except StoreError as refusal:
            log.warning("%s could not fire its outcome, the store was away: %s", work.key, refusal)
            raise EffectRetriedError(f"given up: {refusal}") from refusal
        except HeldError as refusal:
            return self._wait_for_others(work, refusal)
        except Exception as refusal:  # noqa: BLE001 - whatever the functions of the table raise
            if may_pass(work, refusal):
                return self._retry_later(work, refusal)
            return self._keep(work, outcome, refusal)
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

    def end_hung(self, work: EffectWork) -> Performed:
        """End an attempt whose handler goes on; the next one gets a process that can be killed."""
        with suppress(KernelError, UnusableResultError):
            work.results.mark_hung()
        try:
            return Performed.of(partial(self._end_late, work))
        finally:
            self.heartbeat.drop(work.held)
            if used := self._working.pop(work, None):
                free(self.dispatch, used)
