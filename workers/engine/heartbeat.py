"""Renews every lease of this process from a thread of its own, and passes each order on at once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from interlock.kernel.errors import StoreError
from interlock.kernel.store.leases import Lease, Leases, Order

log = logging.getLogger(__name__)

PERIOD_S_MAX = 2.0
RENEWALS_A_LEASE = 3
Hear = Callable[[Order, int], None]


class Held:
    """One lease in this process: what to renew, and whom to tell."""

    def __init__(self, lease: Lease, lease_ms: int, hear: Hear, *, asked_at: float) -> None:
        self.lease, self.lease_ms, self.hear = lease, lease_ms, hear
        self.acknowledged = 0
        # On our own clock, from before the claim was sent: the store counts from later.
        self.good_until = asked_at + lease_ms / 1_000

    @property
    def left_s(self) -> float:
        """How long this holder may still believe in its lease."""
        return self.good_until - time.monotonic()


class Heartbeat:
    """The leases that this process holds. Short effects end before their first renewal."""

    def __init__(
        self, leases: Callable[[], Leases], *, lease_s: float, begin: Callable[[], None]
    ) -> None:
        self._leases, self._period_s = leases, min(PERIOD_S_MAX, lease_s / RENEWALS_A_LEASE)
        self._begin = begin  # what its thread does first
        self._held: dict[str, Held] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    def hold(self, held: Held) -> None:
        """Begin to renew a lease. An earlier one of the same effect in this process is lost."""
        with self._lock:
            earlier = self._held.get(held.lease.key)
            self._held[held.lease.key] = held
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
                self._thread.start()
        if earlier is not None:
            earlier.hear(Order.LOST, 0)

    def drop(self, held: Held) -> None:
        """Renew a lease no more."""
        with self._lock:
            if self._held.get(held.lease.key) is held:
                del self._held[held.lease.key]

    def count(self) -> int:
        """Return how many leases this process holds."""
        return len(self._held)

    def _beat(self) -> None:
        self._begin()
        while not self._wake.wait(self._period_s):
            with self._lock:
                held = dict(self._held)
            try:
                if held:
                    self._renew(held)
            except Exception:
                # Without this thread every lease of the process would lapse, whoever was at fault.
                log.exception("leases are not renewed this time")

    def _renew(self, held: dict[str, Held]) -> None:
        before = time.monotonic()
        wanted = {
            key: (one.lease.token, one.lease_ms, one.acknowledged) for key, one in held.items()
        }
        try:
            orders = self._leases().renew(wanted)
        except StoreError as refusal:
            log.warning("leases are not renewed: %s", refusal)
            return
        for key, (order, interrupts) in orders.items():
            one = held[key]
            if order in (Order.GO, Order.INTERRUPT, Order.PAUSE):
                one.good_until = before + one.lease_ms / 1_000
            one.hear(order, interrupts)
