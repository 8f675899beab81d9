"""Renews the leases that this process works under, from a thread of its own.

Each order that a renewal returns is passed on at once. A lease that is only kept until a supervisor
takes it over is renewed by its launcher.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from interlock.kernel.errors import StoreError
from interlock.kernel.store.leases import Lease, Leases, Order
from interlock.workers.processes.clock import clock

log = logging.getLogger(__name__)

PERIOD_S_MAX = 2.0
RENEWALS_PER_LEASE = 3
OnOrder = Callable[[Order, int], None]


class HeldLease:
    """A lease that this process holds, and the callback for orders that its renewals return."""

    def __init__(self, lease: Lease, lease_ms: int, on_order: OnOrder, *, asked_at: float) -> None:
        self.lease, self.lease_ms, self.on_order = lease, lease_ms, on_order
        self.acknowledged = 0
        # Counted on our clock from before the claim was sent, so it ends before the store's own.
        self.valid_until = asked_at + lease_ms / 1_000

    @property
    def left_s(self) -> float:
        """How many seconds this holder may still rely on its lease."""
        return self.valid_until - clock()


class Heartbeat:
    """Renews the leases of this process. Short effects end before their first renewal."""

    def __init__(
        self, leases: Callable[[], Leases], *, lease_s: float, begin: Callable[[], None]
    ) -> None:
        self._leases, self._period_s = leases, min(PERIOD_S_MAX, lease_s / RENEWALS_PER_LEASE)
        self._begin = begin  # called first in the renewing thread
        self._held: dict[str, HeldLease] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    @contextmanager
    def holding(self, held: HeldLease) -> Iterator[None]:
        """Renew a lease while the block runs."""
        self.hold(held)
        try:
            yield
        finally:
            self.drop(held)

    def hold(self, held: HeldLease) -> None:
        """Renew a lease from now on. An older lease of the same effect in this process is lost."""
        with self._lock:
            earlier = self._held.get(held.lease.key)
            self._held[held.lease.key] = held
            if self._thread is None:
                self._start()
        if earlier is not None:
            earlier.on_order(Order.LOST, 0)

    def drop(self, held: HeldLease) -> None:
        """Stop renewing a lease."""
        with self._lock:
            if self._held.get(held.lease.key) is held:
                del self._held[held.lease.key]

    def count(self) -> int:
        """Return how many leases this process holds."""
        return len(self._held)

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        self._begin()
        while not self._wake.wait(self._period_s):
            try:
                self.renew()
            except Exception:
                # If this thread ended, every lease of the process would lapse.
                log.exception("leases are not renewed this time")

    def renew(self) -> None:
        """Renew all leases of this process, and pass on the orders that come back."""
        with self._lock:
            held = dict(self._held)
        if held:
            self._renew(held)

    def _renew(self, held: dict[str, HeldLease]) -> None:
        before = clock()
        wanted = {
            key: (each.lease.token, each.lease_ms, each.acknowledged) for key, each in held.items()
        }
        try:
            orders = self._leases().renew(wanted)
        except StoreError as refusal:
            log.warning("leases are not renewed: %s", refusal)
            return
        for key, (order, interrupts) in orders.items():
            renewed = held[key]
            if order in (Order.GO, Order.INTERRUPT, Order.PAUSE):
                renewed.valid_until = before + renewed.lease_ms / 1_000
            renewed.on_order(order, interrupts)
