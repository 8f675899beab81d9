"""One claimed effect, as its handler sees it: the record, the key, the orders. It never writes a record."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential_jitter

from kernel.errors import StoreError
from kernel.event import Cause
from kernel.store.plan import Call
from kernel.machine import Machine
from kernel.record import Record
from kernel.store.leases import Lease, Order
from kernel.store.plan import Jot, Warrant
from workers.dispatch import Dispatch
from workers.equipment import Equipment
from workers.heartbeat import Held


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an effect fires when it is done. `deltas` are its costs, as integers."""

    trigger: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    deltas: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""


class Work:
    """The right to do one thing now. `key` is the same for every attempt, `token` for none."""

    def __init__(
        self, dispatch: Dispatch, equipment: Equipment, machine: Machine, lease: Lease, lease_ms: int
    ) -> None:
        self.dispatch, self.equipment = dispatch, equipment
        self.machine, self.lease = machine, lease
        self.record: Record = lease.record
        self.held = Held(lease, lease_ms, self._hear)
        self.stopped = threading.Event()
        self.lost = threading.Event()
        self.interrupted = threading.Event()
        self.leaving = False
        self._wakes: list[Callable[[], None]] = []
        if lease.interrupts:
            self.interrupted.set()

    @property
    def key(self) -> str:
        """The idempotency key: one piece of work, however often it is tried."""
        return self.lease.key

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self.lease.attempt

    def fire(self, outcome: Outcome) -> Record:
        """Fire an outcome under this lease. While the store is away it tries until the lease ends."""
        actor = self.lease.name
        call = Call(
            cause=Cause(actor, outcome.reason),
            op_id=f"{self.lease.token}:{outcome.trigger}",
            warrant=self.warrant,
            deltas=outcome.deltas,
        )
        for attempt in self._patience():
            with attempt:
                fired = self.dispatch.fire(self.record, outcome.trigger, outcome.payload, call)
        self.record = fired.record or self.dispatch.views.record(self.record.id)
        return self.record

    def note(
        self, kind: str, detail: Mapping[str, Any], *, stall_ms: int | None = None
    ) -> None:
        """Write a line to the record's log. `stall_ms` sets its stall timer anew from now."""
        timers = (("stall", stall_ms, 0),) if stall_ms is not None else ()
        jot = Jot(kind, {"effect": self.lease.suffix, **detail}, timers=timers)
        for attempt in self._patience():
            with attempt:
                self.dispatch.note(self.record, jot, warrant=self.warrant)

    def audit(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Write a line that is true whoever holds the effect by now: an end, a step, a card."""
        jot = Jot(kind, {"effect": self.lease.suffix, **detail})
        for attempt in self._patience():
            with attempt:
                self.dispatch.note(self.record, jot)

    def late(self, outcome: Outcome) -> None:
        """Keep the cost and the fact of an outcome that came too late to count."""
        detail = {"effect": self.lease.suffix, "trigger": outcome.trigger, "token": self.lease.token}
        jot = Jot("stale_result", detail, deltas=outcome.deltas)
        self.dispatch.note(self.record, jot, op_id=f"{self.lease.token}:{outcome.trigger}/late")

    def reserve(self, estimate_micro: int) -> bool:
        """Reserve what a call may cost; False where a cap of the family does not allow it."""
        for attempt in self._patience():
            with attempt:
                granted = self.dispatch.leases.reserve(self.lease, estimate_micro)
        return granted

    def on_order(self, wake: Callable[[], None]) -> None:
        """Call this, from the heartbeat's thread, as soon as an order other than go arrives."""
        self._wakes.append(wake)
        if self.stopped.is_set() or self.interrupted.is_set():
            wake()

    def leave(self) -> None:
        """Stop because this process ends; the effect is given back, not failed."""
        self.leaving = True
        self._hear(Order.STOP, 0)

    @property
    def warrant(self) -> Warrant:
        """What entitles this holder."""
        return Warrant.token(self.lease.suffix, self.lease.token)

    def _hear(self, order: Order, interrupts: int) -> None:
        if order is Order.INTERRUPT:
            self.held.acknowledged = interrupts
            self.interrupted.set()
        elif order in (Order.STOP, Order.LOST):
            self.stopped.set()
            if order is Order.LOST:
                self.lost.set()
        else:
            return
        for wake in self._wakes:
            wake()

    def _patience(self) -> Retrying:
        def lease_over(state: RetryCallState) -> bool:
            del state
            return self.held.left_s <= 0

        return Retrying(
            retry=retry_if_exception_type(StoreError),
            wait=wait_exponential_jitter(initial=0.1, max=2.0),
            stop=lease_over,
            reraise=True,
        )


Run = Callable[[Work], Awaitable[Outcome | None]] | Callable[[Work], Outcome | None]

