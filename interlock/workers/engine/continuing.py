"""Decides whether a thread of a worker goes on with the effect that follows from its outcome.

The commit of the outcome then gives the lease of that effect to this worker: the effect has no
message, and needs no claim. What a thread performs in a row for one record is a stretch. While
received messages wait for a thread, a stretch is short, and one of a more urgent record ends it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from uuid import uuid4

from interlock.kernel.errors import HeldError
from interlock.kernel.fired import Fired
from interlock.kernel.record import PRIORITY_LAST, Record
from interlock.kernel.store.commands import EffectMessage, InitialLease, Offer
from interlock.kernel.store.leases import Lease
from interlock.kernel.table import Owed
from interlock.workers.engine.celery_app import queue_of
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.effect_slots import UsedSlot
from interlock.workers.engine.leases import initial_lease
from interlock.workers.processes.clock import clock

# How many effects a stretch has at most, and for how long it goes on while messages wait.
EFFECTS_MAX = 16
STRETCH_S_MAX = 0.25


@dataclass(frozen=True, slots=True)
class Granted:
    """A lease of this process, with the slot under which its effect is at work.

    It was asked for at a time of `clock`.
    """

    lease: Lease
    asked_at: float
    used: UsedSlot | None = None


@dataclass(slots=True)
class Stretch:
    """What a thread performs in a row, from the effect whose message it got."""

    began: float
    effects: int = 1
    wanted: InitialLease | None = None  # in the last commit
    asked_at: float = 0.0  # the time of `clock` before that commit
    granted: Granted | None = None  # what the thread goes on with


class Continuing:
    """The stretches of this process's threads. A thread without one goes on with nothing."""

    def __init__(self, dispatch: Dispatch) -> None:
        self._dispatch, self.settings = dispatch, dispatch.settings
        self._thread = threading.local()
        # Without a lock: the thread that receives messages handles SIGQUIT too, and waits there for
        # the threads of the pool, which could then wait for that lock.
        self._waiting: list[deque[None]] = [deque() for _ in range(PRIORITY_LAST + 1)]
        self.queue_name = cache(self._queue_of)
        self._ended = False

    def end(self) -> None:
        """Go on with nothing from now on."""
        self._ended = True

    def wait(self, priority: int) -> None:
        """Count a received message of a record with this priority, which waits for a thread."""
        self._waiting[priority].append(None)

    @contextmanager
    def stretch(self, priority: int) -> Iterator[Stretch]:
        """Let the calling thread perform the effect of such a message, and go on from there."""
        self._waiting[priority].pop()
        stretch = self._thread.stretch = Stretch(clock())
        try:
            yield stretch
        finally:
            self._thread.stretch = None

    def take(self, key: str) -> Granted | None:
        """Return the lease of an effect that the calling thread goes on with, or None."""
        stretch = self._stretch
        if stretch is None or stretch.granted is None or stretch.granted.lease.key != key:
            return None
        granted, stretch.granted = stretch.granted, None
        return granted

    def offer(self) -> Offer | None:
        """Return what asks for the lease of the effect that follows from an outcome, or None."""
        stretch = self._stretch
        # A repeat of the call has the same nonce.
        return partial(self._offer, stretch, uuid4().hex[:8]) if stretch else None

    def go_on(self, record_id: str, fired: Fired | None) -> None:
        """Let the calling thread go on with the lease that the commit of an outcome has given."""
        stretch = self._stretch
        if stretch is None or fired is None:
            return
        lease = fired.lease
        if fired.replayed and stretch.wanted is not None:
            lease = self._lease_of_a_lost_reply(record_id, stretch.wanted)
        granted = Granted(lease, stretch.asked_at) if lease else None
        stretch.wanted, stretch.granted = None, granted

    @property
    def _stretch(self) -> Stretch | None:
        stretch: Stretch | None = getattr(self._thread, "stretch", None)
        return stretch

    def _offer(
        self, stretch: Stretch, nonce: str, after: Record, owed: Owed
    ) -> InitialLease | None:
        """Return the lease of an effect that this thread wants to go on with, or None."""
        stretch.wanted = None
        if self._has_time(stretch, after.priority) and self._may_perform(after, owed):
            effect = self._dispatch.effect(after.machine, owed.effect.name)
            holder = self._dispatch.holder
            stretch.wanted = InitialLease(nonce, holder, effect.lease_ms, optional=True)
            stretch.asked_at = clock()
        return stretch.wanted

    def _has_time(self, stretch: Stretch, priority: int) -> bool:
        """Return whether no record waits for too long, or behind a less urgent one."""
        if self._ended or stretch.effects >= EFFECTS_MAX or any(self._waiting[:priority]):
            return False
        return not any(self._waiting) or clock() - stretch.began < STRETCH_S_MAX

    def _may_perform(self, after: Record, owed: Owed) -> bool:
        """Return whether this process takes messages of this effect, and could lose it unharmed."""
        effect = owed.effect
        if owed.once or effect.attempts_max == 1 or effect.exclusive or effect.kept:
            return False
        if effect.local:
            host = self._dispatch.machines[after.machine].placement.host(after.data)
            if host not in ("", self.settings.host):
                return False
        queues = self._dispatch.publisher.app.amqp.queues.consume_from
        return self.queue_name(after.machine, effect.name) in queues

    def _queue_of(self, machine: str, effect: str) -> str:
        message = EffectMessage("", machine, effect, 0)
        return queue_of(self.settings, self._dispatch.publisher.queue(message))

    def _lease_of_a_lost_reply(self, record_id: str, wanted: InitialLease) -> Lease | None:
        try:
            return initial_lease(self._dispatch, record_id, wanted.nonce, wanted.holder)
        except HeldError:
            return None
