"""The heartbeat renews in time, passes every order on, and goes on after errors."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from interlock.kernel.effect import Kind
from interlock.kernel.errors import StoreDownError
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.store.leases import Lease, Leases, Order
from interlock.workers.engine.heartbeat import PERIOD_S_MAX, Heartbeat, HeldLease
from interlock.workers.processes.clock import clock
from tests.waiting import until

Orders = dict[str, tuple[Order, int]]


class Scripted:
    """Leases whose renewals return, or raise, the results of a test."""

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
    record_id, _, suffix = key.partition(":")
    record: Record = Record(RecordId(record_id), "thread", "executing", Version(1), {})
    return Lease(key, suffix, token or "1-n", 1, "execution", Kind.STATE, record, 0)


def held(
    on_order: Any = lambda *_: None, lease: Lease | None = None, lease_ms: int = 1_000
) -> HeldLease:
    asked_at = clock()
    return HeldLease(lease or leased(), lease_ms, on_order, asked_at=asked_at)


def test_a_renewal_extends_the_lease_from_before_it_was_sent() -> None:
    leases, lease = Scripted(), held()
    first = lease.valid_until
    heartbeat = beating(leases)

    heartbeat.hold(lease)
    until(lambda: lease.valid_until > first, what="it is renewed")
    heartbeat.drop(lease)

    assert lease.valid_until <= clock() + 1
    assert leases.asked[0] == {"one:1.0:n": ("1-n", 1_000, 0)}


def test_a_lease_counts_from_before_the_claim_was_sent() -> None:
    lease = HeldLease(leased(), 1_000, lambda *_: None, asked_at=50.0)

    assert lease.valid_until == 51.0


def test_every_lease_is_renewed_several_times_before_it_ends() -> None:
    assert beating(Scripted(), lease_s=3.0)._period_s == 1.0
    assert beating(Scripted(), lease_s=3_000.0)._period_s == PERIOD_S_MAX


def test_orders_are_passed_on_and_a_lost_lease_is_not_extended() -> None:
    orders: list[tuple[Order, int]] = []
    leases = Scripted({"one:1.0:n": (Order.INTERRUPT, 3)}, {"one:1.0:n": (Order.LOST, 0)})
    lease = held(lambda order, number: orders.append((order, number)))
    heartbeat = beating(leases)

    heartbeat.hold(lease)
    until(lambda: len(orders) >= 2, what="both orders arrive")
    heartbeat.drop(lease)

    assert orders[:2] == [(Order.INTERRUPT, 3), (Order.LOST, 0)]


def test_neither_a_store_that_is_away_nor_a_callback_that_fails_ends_the_heartbeat() -> None:
    calls: list[Order] = []

    def fail(order: Order, _: int) -> None:
        calls.append(order)
        if len(calls) == 1:
            raise RuntimeError("a closed loop")

    leases = Scripted(StoreDownError("away"))
    heartbeat, lease = beating(leases), held(fail)

    heartbeat.hold(lease)
    until(lambda: len(calls) >= 3, what="it goes on")
    heartbeat.drop(lease)


def test_a_second_claim_of_an_effect_in_one_process_ends_the_first() -> None:
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


def test_a_lease_is_renewed_only_while_its_block_runs() -> None:
    heartbeat = beating(Scripted(), lease_s=60)

    with suppress(OSError), heartbeat.holding(held()):
        assert heartbeat.count() == 1
        raise OSError

    assert heartbeat.count() == 0


def test_one_thread_renews_all_held_leases() -> None:
    leases = Scripted()
    heartbeat = beating(leases)
    many = [held(lease=leased(f"r{n}:1.0:n")) for n in range(50)]
    before = threading.active_count()

    for lease in many:
        heartbeat.hold(lease)
    until(lambda: any(len(asked) == 50 for asked in leases.asked), what="all are renewed at once")
    assert threading.active_count() <= before + 1
    for lease in many:
        heartbeat.drop(lease)
