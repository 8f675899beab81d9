"""Runs a claimed effect: claim, act, fire, settle. Only here is decided what a failure means."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any
from uuid import uuid4

from celery import Celery
from kombu.exceptions import OperationalError

from interlock.kernel.effect import Effect, Kind
from interlock.kernel.errors import FencedError, InvalidIdError, KernelError, StoreError
from interlock.kernel.machine import Machine
from interlock.kernel.record import split_key
from interlock.kernel.store.commands import Doorbell, Jot
from interlock.kernel.store.leases import Refused
from interlock.workers.engine.affinity import Affinity
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.heartbeat import Heartbeat
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.work import Handler, Outcome, Work

log = logging.getLogger(__name__)

BACKOFF_MS_FIRST = 1_000
BACKOFF_MS_MAX = 600_000
DETAIL_MAX = 2_000


class MissingHandlerError(RuntimeError):
    """A stage owes an effect for which this process has no handler; it would strand records."""


class Runner:
    """What a process does with the effects that it is handed."""

    def __init__(self, dispatch: Dispatch, resources: Resources) -> None:
        self.dispatch, self.resources = dispatch, resources
        shortest_s = dispatch.settings.lease_s or min(
            effect.lease_ms / 1_000
            for machine in dispatch.machines.values()
            for effect in machine.effects.values()
        )
        self.affinity = Affinity(one=dispatch.settings.affinity)
        self.heartbeat = Heartbeat(
            lambda: dispatch.leases, lease_s=shortest_s, begin=self.affinity.widen
        )
        self._ending = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._working: set[Work] = set()

    def perform(self, machine: Machine, name: str, run: Handler, key: str) -> str:
        """Do one effect, if it is still owed. The answer is one line for people."""
        effect = self.dispatch.effect(machine.name, name)
        if why := self._turned_away(machine, effect, key):
            return why
        asked_at = time.monotonic()
        try:
            lease = self.dispatch.leases.claim(
                key,
                effect,
                nonce=uuid4().hex[:8],
                holder=self.dispatch.holder,
                schema=machine.schema,
            )
        except InvalidIdError as refusal:
            return self.refuse(f"{machine.name}.{name}", (key,), {"refusal": str(refusal)})
        except StoreError as refusal:
            log.warning("%s is not claimed: %s; a sweep will repeat it", key, refusal)
            return f"not claimed: {refusal}"
        if isinstance(lease, Refused) and lease.word == "other":
            return self.refuse(f"{machine.name}.{name}", (key,), {"it is": lease.detail})
        if isinstance(lease, Refused):
            return f"not claimed: {lease.word} {lease.detail}".rstrip()
        work = Work(
            self.dispatch,
            self.resources,
            machine,
            lease,
            lease_ms=effect.lease_ms,
            asked_at=asked_at,
        )
        self._working.add(work)
        self.heartbeat.hold(work.held)
        try:
            if self._ending.is_set() and work.restartable:
                work.leave()
            return self._act(work, run)
        finally:
            self.heartbeat.drop(work.held)
            self._working.discard(work)

    def _turned_away(self, machine: Machine, effect: Effect, key: str) -> str:
        if self._ending.is_set():
            return "not claimed: this process ends; a sweep will publish it again"
        if effect.local and (host := self._elsewhere(machine, key)):
            return f"sent on to {host}, where its files are"
        return ""

    def _elsewhere(self, machine: Machine, key: str) -> str:
        """Send an effect on to the machine whose files it is about; '' where it is to be done here.

        Nobody else can do it: where that machine is gone, its stage's own time limit says so.
        """
        try:
            record = self.dispatch.views.record(split_key(key)[0])
            host = machine.place(record.data) if machine.place else ""
            if host in ("", self.dispatch.settings.host):
                return ""
            name = next(one.name for one in record.entries if one.key(record.id) == key)
            self.dispatch.send_on(Doorbell(key, machine.name, name, record.priority), host)
        except (KernelError, OperationalError, StopIteration):
            # To claim it answers for what is wrong with it.
            return ""
        return host

    def refuse(self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Set a message aside that is no effect's: it is counted, and never tried again."""
        reason = f"{task} takes the id of one effect"
        try:
            self.dispatch.aside.put("wrong arguments", reason, f"{args!r} {kwargs!r}")
        except StoreError as refusal:
            log.warning("a message for %s is lost: %s", task, refusal)
        return f"set aside: {reason}"

    def shut_down(self) -> None:
        """Let go of what may start again elsewhere; what may not goes on to its end."""
        self._ending.set()
        for work in tuple(self._working):
            if work.restartable:
                work.leave()

    def _act(self, work: Work, run: Handler) -> str:
        try:
            outcome = self._run(work, run)
        except (asyncio.CancelledError, CancelledError):
            return self._stop(work)
        except FencedError as refusal:
            return self._settle(work, f"stale: {refusal}")
        except StoreError as refusal:
            log.warning("%s was given up while the store was away: %s", work.key, refusal)
            return f"given up: {refusal}"
        except Exception as failure:  # noqa: BLE001 - an effect's own failure is recorded and tried again
            return self._failed(work, failure)
        if outcome is None:
            return self._settle(work, "settled")
        return self._conclude(work, outcome)

    def _run(self, work: Work, run: Handler) -> Outcome | None:
        if not inspect.iscoroutinefunction(run):
            quick = work.machine.effects[work.lease.name].quick
            with nullcontext() if quick else self.affinity.wide():
                answer = run(work)
            assert answer is None or isinstance(answer, Outcome), "a handler answers an Outcome"
            return answer
        future = asyncio.run_coroutine_threadsafe(self._watched(work, run(work)), self._started())
        return future.result()

    async def _watched(
        self, work: Work, action: Coroutine[Any, Any, Outcome | None]
    ) -> Outcome | None:
        task = asyncio.ensure_future(action)
        loop = asyncio.get_running_loop()

        def wake() -> None:
            if work.stopped.is_set() or work.leaving.is_set():
                loop.call_soon_threadsafe(task.cancel)

        work.on_order(wake)
        return await task

    def _conclude(self, work: Work, outcome: Outcome) -> str:
        entered = work.record.entered
        try:
            record = work.fire(outcome)
        except FencedError as refusal:
            return self._late(work, outcome, refusal)
        except StoreError as refusal:
            log.warning("%s could not tell its outcome, the store was away: %s", work.key, refusal)
            return f"given up: {refusal}"
        except KernelError as refusal:
            return self._failed(work, refusal)
        line = f"{outcome.trigger} -> {record.state}"
        carries = any(r.carry for r in work.machine.transitions if r.trigger == outcome.trigger)
        if work.lease.kind is not Kind.STATE and (carries or record.entered == entered):
            # A row that stays where it is, or carries what runs along, ends no effect.
            return self._settle(work, line)
        return line

    def _late(self, work: Work, outcome: Outcome, refusal: FencedError) -> str:
        try:
            work.late(outcome)
        except KernelError as unkept:
            log.warning("%s: a late %s is not kept: %s", work.key, outcome.trigger, unkept)
        return self._settle(work, f"stale: {refusal}")

    def _settle(self, work: Work, line: str) -> str:
        lease, kind = work.lease, work.lease.kind
        try:
            answer = self.dispatch.leases.settle(lease, self.dispatch.render)
        except StoreError as refusal:
            return f"not settled: {refusal}"
        self.dispatch.publish(answer.owed)
        if answer.word == "refused":
            assert kind is Kind.STATE, "only a live state effect is not settled"
            return self._failed(work, RuntimeError("the handler ended without an outcome"))
        return line

    def _stop(self, work: Work) -> str:
        if work.lost.is_set():
            return "lost"
        if work.stopped.is_set():
            return self._settle(work, "stopped by order")
        try:
            word = self.dispatch.leases.release(work.lease, counted=False)
        except StoreError as refusal:
            return f"not released, its lease will lapse: {refusal}"
        return f"released at shutdown: {word}"

    def _failed(self, work: Work, failure: Exception) -> str:
        detail = f"{type(failure).__name__}: {failure}"[:DETAIL_MAX]
        log.warning("%s failed, attempt %d: %s", work.key, work.attempt, detail)
        delay_ms = min(BACKOFF_MS_FIRST * 2 ** (work.attempt - 1), BACKOFF_MS_MAX)
        jot = Jot(
            "effect_failed",
            {"effect": work.lease.suffix, "attempt": work.attempt, "detail": detail},
        )
        try:
            self.dispatch.note(work.record, jot, warrant=work.warrant)
            word = self.dispatch.leases.release(work.lease, delay_ms=delay_ms, counted=True)
        except FencedError:
            return self._settle(work, f"stale: {detail}")
        except StoreError as refusal:
            return f"given up: {refusal}"
        return f"failed ({word}): {detail}"

    def _started(self) -> asyncio.AbstractEventLoop:
        # Made on first use: after the fork, and never where no handler is asynchronous.
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.call_soon(self.affinity.widen)
                self._loop.set_default_executor(ThreadPoolExecutor(64, "effects"))
                threading.Thread(target=self._loop.run_forever, name="effects", daemon=True).start()
            return self._loop


def register_effects(
    app: Celery, runner: Runner, machines: Mapping[str, Machine], handlers: Mapping[str, Handler]
) -> None:
    """Register a Celery task for every effect of every machine. Raises MissingHandlerError."""
    for machine in machines.values():
        for name, effect in machine.effects.items():
            if effect.kept:
                continue
            if name not in handlers:
                raise MissingHandlerError(
                    f"{machine.name} owes {name}, which no system has a handler for; "
                    "a record would enter and never leave"
                )
            _register(app, runner, machine, name, handlers[name])


def _register(app: Celery, runner: Runner, machine: Machine, name: str, run: Handler) -> None:
    def task(*args: Any, **kwargs: Any) -> str:
        if kwargs or len(args) != 1 or not isinstance(args[0], str):
            return runner.refuse(f"{machine.name}.{name}", args, kwargs)
        return runner.perform(machine, name, run, args[0])

    task.__doc__ = f"Do the {name} that a {machine.name} is owed."
    app.task(task, name=f"{machine.name}.{name}", ignore_result=True)
