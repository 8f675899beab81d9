"""The heartbeat: it renews in time, passes every order on, and nothing ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, cast

from interlock.kernel.effect import Kind
from interlock.kernel.errors import StoreDownError
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.store.leases import Lease, Leases, Order
from interlock.workers.engine.heartbeat import PERIOD_S_MAX, Heartbeat, HeldLease
from tests.waiting import until

Orders = dict[str, tuple[Order, int]]


class Scripted:
    """Leases that answer what a test says, or fail as it says; only the answers matter here."""

    def __init__(self, *answers: Orders | Exception) -> None:
        self.answers, self.asked = list(answers), list[dict[str, Any]]()

    def renew(self, held: Mapping[str, Any]) -> Orders:
        self.asked.append(dict(held))
        answer = self.answers.pop(0) if self.answers else dict.fromkeys(held, (Order.GO, 0))
        if isinstance(answer, Exception):
            raise answer
        return answer


def beating(leases: Scripted, lease_s: float = 0.03) -> Heartbeat:
    return Heartbeat(lambda: cast("Leases", leases), lease_s=lease_s, begin=lambda: None)


def leased(key: str = "one:1.0:n", token: str = "") -> Lease:
    of, _, suffix = key.partition(":")
    record = Record(RecordId(of), "thread", "executing", Version(1), {})
    return Lease(key, suffix, token or "1-n", 1, "execution", Kind.STATE, record, 0)


def held(
    on_order: Any = lambda *_: None, lease: Lease | None = None, lease_ms: int = 1_000
) -> HeldLease:
    asked_at = time.monotonic()
    return HeldLease(lease or leased(), lease_ms, on_order, asked_at=asked_at)


def test_a_renewal_prolongs_the_lease_from_before_it_was_asked() -> None:
    leases, one = Scripted(), held()
    first = one.valid_until
    heartbeat = beating(leases)

    heartbeat.hold(one)
    until(lambda: one.valid_until > first, what="it is renewed")
    heartbeat.drop(one)

    assert one.valid_until <= time.monotonic() + 1
    assert leases.asked[0] == {"one:1.0:n": ("1-n", 1_000, 0)}


def test_a_lease_counts_from_before_the_claim_was_sent() -> None:
    one = HeldLease(leased(), 1_000, lambda *_: None, asked_at=50.0)

    assert one.valid_until == 51.0


def test_every_lease_is_renewed_several_times_before_it_ends() -> None:
    assert beating(Scripted(), lease_s=3.0)._period_s == 1.0
    assert beating(Scripted(), lease_s=3_000.0)._period_s == PERIOD_S_MAX


def test_orders_are_passed_on_and_a_lost_lease_is_not_prolonged() -> None:
    orders: list[tuple[Order, int]] = []
    leases = Scripted({"one:1.0:n": (Order.INTERRUPT, 3)}, {"one:1.0:n": (Order.LOST, 0)})
    one = held(lambda order, number: orders.append((order, number)))
    heartbeat = beating(leases)

    heartbeat.hold(one)
    until(lambda: len(orders) >= 2, what="both orders arrive")
    heartbeat.drop(one)

    assert orders[:2] == [(Order.INTERRUPT, 3), (Order.LOST, 0)]


def test_neither_a_store_that_is_away_nor_a_listener_that_fails_ends_the_heartbeat() -> None:
    calls: list[Order] = []

    def fail(order: Order, _: int) -> None:
        calls.append(order)
        if len(calls) == 1:
            raise RuntimeError("a closed loop")

    leases = Scripted(StoreDownError("away"))
    heartbeat, one = beating(leases), held(fail)

    heartbeat.hold(one)
    until(lambda: len(calls) >= 3, what="it goes on")
    heartbeat.drop(one)


def test_a_second_claim_of_an_effect_in_one_process_tells_the_first_that_it_is_lost() -> None:
    orders: list[Order] = []
    leases, heartbeat = Scripted(), beating(Scripted(), lease_s=60)
    del leases
    first = held(lambda order, _: orders.append(order))
    second = held(lease=leased(token="2-m"))

    heartbeat.hold(first)
    heartbeat.hold(second)
    heartbeat.drop(first)

    assert orders == [Order.LOST]
    assert heartbeat.count() == 1, "the first drops its own lease alone"


def test_one_thread_renews_whatever_is_held() -> None:
    leases = Scripted()
    heartbeat = beating(leases)
    many = [held(lease=leased(f"r{n}:1.0:n")) for n in range(50)]
    before = threading.active_count()

    for one in many:
        heartbeat.hold(one)
    until(lambda: any(len(asked) == 50 for asked in leases.asked), what="all are renewed at once")
    assert threading.active_count() <= before + 1
    for one in many:
        heartbeat.drop(one)
