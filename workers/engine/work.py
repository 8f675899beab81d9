"""One claimed effect, as its handler sees it: record, key, orders. It never writes a record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential_jitter

from interlock.kernel.effect import Kind
from interlock.kernel.errors import ConflictError, StoreError
from interlock.kernel.event import Cause
from interlock.kernel.machine import Machine
from interlock.kernel.record import Entry, Record
from interlock.kernel.store.commands import Call, Jot, Warrant
from interlock.kernel.store.leases import Lease, Order
from interlock.kernel.table import Active
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.heartbeat import Held
from interlock.workers.engine.resources import Resources

# A finished effect waits this long beyond its lease for a store that is away: its token stays good
# until somebody else claims, and after an outage the sweeps give every holder one lease to return.
OUTAGE_S_MAX = 300.0
# What passes by itself.
PASSING = (StoreError, ConflictError)
Answered = TypeVar("Answered")


class NotYetError(RuntimeError):
    """An effect cannot be done now, or not here. It is tried again a little later."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an effect fires when it is done. `deltas` are its costs, as integers."""

    trigger: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    deltas: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""


class Flag:
    """Something that happened, told from one thread to another; nobody waits for it."""

    __slots__ = ("_happened",)

    def __init__(self) -> None:
        self._happened = False

    def set(self) -> None:
        """Say that it happened."""
        self._happened = True

    def is_set(self) -> bool:
        """Whether it happened."""
        return self._happened


class Work:
    """The right to do one thing now. `key` is the same for every attempt, `token` for none."""

    def __init__(
        self,
        dispatch: Dispatch,
        resources: Resources,
        machine: Machine,
        lease: Lease,
        *,
        lease_ms: int,
        asked_at: float,
    ) -> None:
        self.dispatch, self.resources = dispatch, resources
        self.machine, self.lease = machine, lease
        self.record: Record = lease.record
        self.held = Held(lease, lease_ms, self._hear, asked_at=asked_at)
        self.stopped = Flag()
        self.lost = Flag()
        self.interrupted = Flag()
        self.leaving = Flag()
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

    @property
    def entry(self) -> Entry:
        """What the record says of this effect, as of the claim."""
        return next(e for e in self.lease.record.entries if e.suffix == self.lease.suffix)

    @property
    def restartable(self) -> bool:
        """Whether it starts anew elsewhere when it is given back; else its state would crash."""
        if self.lease.kind is not Kind.STATE:
            return True
        stage = self.machine.stage(self.record.state)
        carried_in = isinstance(stage, Active) and stage.effect is None
        return not (carried_in or self.entry.carried)

    def go_on(self) -> None:
        """Raise CancelledError where this work was ordered to stop. Ask it in every loop."""
        if self.stopped.is_set() or self.leaving.is_set():
            raise CancelledError

    def fire(self, outcome: Outcome) -> Record:
        """Fire an outcome under this lease, with patience while the store is away."""
        actor = self.lease.name
        call = Call(
            cause=Cause(actor, outcome.reason),
            # One holder may fire the same twice, from different versions; a retry knows no newer.
            op_id=f"{self.lease.token}:{outcome.trigger}:{self.record.version}",
            warrant=self.warrant,
            deltas=outcome.deltas,
        )

        def fire() -> Record:
            fired = self.dispatch.fire(self.record, outcome.trigger, outcome.payload, call)
            return fired.record or self.dispatch.views.record(self.record.id)

        self.record = self.patiently(fire)
        return self.record

    def note(self, kind: str, detail: Mapping[str, Any], *, stall_ms: int | None = None) -> None:
        """Write a line to the record's log. `stall_ms` sets its stall timer anew from now."""
        timers = (("stall", stall_ms, 0),) if stall_ms is not None else ()
        jot = Jot(kind, {"effect": self.lease.suffix, **detail}, timers=timers)
        self._write(jot, uuid4().hex, self.warrant)

    def audit(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Write a line that is true whoever holds the effect by now: an end, a step, a card."""
        self._write(Jot(kind, {"effect": self.lease.suffix, **detail}), uuid4().hex)

    def late(self, outcome: Outcome) -> None:
        """Keep the cost and the fact of an outcome that came too late to count."""
        token, trigger = self.lease.token, outcome.trigger
        detail = {"effect": self.lease.suffix, "trigger": trigger, "token": token}
        jot = Jot("stale_result", detail, deltas=outcome.deltas)
        self._write(jot, f"{token}:{trigger}/late")

    def reserve(self, estimate_micro: int) -> bool:
        """Reserve what a call may cost; False where a cap of the family does not allow it."""
        return self.patiently(lambda: self.dispatch.leases.reserve(self.lease, estimate_micro))

    def on_order(self, wake: Callable[[], None]) -> None:
        """Call this, from the heartbeat's thread, as soon as an order other than go arrives."""
        self._wakes.append(wake)
        if any(heard.is_set() for heard in (self.stopped, self.interrupted, self.leaving)):
            wake()

    def leave(self) -> None:
        """Stop because this process ends; the effect is given back, not failed."""
        self._wake(self.leaving)

    @property
    def warrant(self) -> Warrant:
        """What entitles this holder."""
        return Warrant.token(self.lease.suffix, self.lease.token)

    def _hear(self, order: Order, interrupts: int) -> None:
        if order is Order.INTERRUPT:
            self.held.acknowledged = interrupts
            self._wake(self.interrupted)
        elif order in (Order.STOP, Order.LOST):
            if order is Order.LOST:
                self.lost.set()
            self._wake(self.stopped)

    def _wake(self, heard: Flag) -> None:
        # Orders are levels, repeated at every renewal; who is stopping is not disturbed again.
        if heard.is_set():
            return
        heard.set()
        for wake in tuple(self._wakes):
            wake()

    def _write(self, jot: Jot, op_id: str, warrant: Warrant | None = None) -> None:
        self.patiently(lambda: self.dispatch.note(self.record, jot, op_id=op_id, warrant=warrant))

    def patiently(self, act: Callable[[], Answered]) -> Answered:
        """Do what may be repeated, with patience while the store is away."""
        try:
            return act()
        except PASSING:
            # Only now, as nearly every call succeeds at once.
            return self._patience()(act)

    def _patience(self) -> Retrying:
        def lease_over(state: RetryCallState) -> bool:
            del state
            return self.held.left_s <= (0 if self.leaving.is_set() else -OUTAGE_S_MAX)

        return Retrying(
            retry=retry_if_exception_type(PASSING),
            wait=wait_exponential_jitter(multiplier=0.1, max=2.0),
            stop=lease_over,
            reraise=True,
        )


Handler = Callable[[Work], Awaitable[Outcome | None]] | Callable[[Work], Outcome | None]
