"""A family of two machines comes to its end, whichever call of a worker is its last one."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Barrier
from uuid import uuid4

import pytest

from interlock.kernel.event import Cause
from interlock.kernel.store.commands import Call
from interlock.workers.engine.system import System
from interlock.workers.gateways.server import EmbeddedServer
from tests.kernel.store.kernel_at_a_fixed_time import START_US, Text
from tests.kernel.store.machines_families import ORDER, PART
from tests.known_systems import know_machines, know_only_ours
from tests.races.in_process_worker import Calls, InProcessWorker, LostError

TABLES = "tests.kernel.store.machines_families"
PARTS = 3
ROUNDS_MAX = 50
PAIRS = 12


@pytest.fixture(autouse=True)
def orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process know the machines of orders and of parts."""
    machines = {"order": f"{TABLES}:ORDER", "part": f"{TABLES}:PART"}
    system = System("orders", "tests.races.making", machines=machines)
    know_only_ours(monkeypatch, orders=system)
    know_machines(monkeypatch, order=lambda: ORDER, part=lambda: PART)


@pytest.fixture
def still(server: EmbeddedServer, prefix: str, tmp_path: Path, text: Text) -> InProcessWorker:
    """Return a worker whose clock stands still until the test moves it."""
    text.now_us = START_US
    return InProcessWorker(server.url, prefix, tmp_path, text=text)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def split(worker: InProcessWorker, order: str, *parts: str, strict: bool = False) -> None:
    payload = {"name": "chair", "parts": [*parts], "strict": strict}
    worker.dispatch.lifecycle.create("order", order, payload, Cause("ann"))
    fire(worker, order, "split")


def fire(worker: InProcessWorker, order: str, trigger: str, **payload: object) -> None:
    worker.dispatch.lifecycle.fire(order, trigger, payload, Call(Cause("ann"), uuid4().hex))


def live(worker: InProcessWorker, order: str) -> None:
    """Perform all effects of an order and of its parts, until none is left."""
    for _ in range(ROUNDS_MAX):
        family = [order, *map(str, worker.dispatch.views.children(order))]
        if not any(worker.due_effects(one) for one in family):
            return
        for one in family:
            for name in dict.fromkeys(entry.name for entry in worker.due_effects(one)):
                worker.perform(one, name)
    raise AssertionError(f"{order} does not come to its end")


def live_with_a_loss(worker: InProcessWorker, calls: Calls, order: str, maximum: int) -> bool:
    """Let a worker be lost after so many calls, and another go on; tell whether it was lost."""
    lost = False
    with calls.lost_after(maximum):
        try:
            live(worker, order)
        except LostError:
            lost = True
    worker.expire_leases()
    live(worker, order)
    return lost


@pytest.mark.parametrize(
    ("parts", "strict", "state", "ended"),
    [
        (("leg", "seat", "back"), False, "sent", {"made": 3}),
        (("leg", "weak", "back"), False, "sent", {"made": 2, "broken": 1}),
        (("weak", "seat", "back"), True, "failed", {}),
    ],
)
def test_a_family_comes_to_one_end_whichever_call_its_worker_is_lost_at(
    still: InProcessWorker,
    calls: Calls,
    *,
    parts: tuple[str, ...],
    strict: bool,
    state: str,
    ended: dict[str, int],
) -> None:
    maximum, lost = 0, True
    while lost:
        order, maximum = f"o{maximum}", maximum + 1
        split(still, order, *parts, strict=strict)
        fire(still, order, "change", parts=["another"])
        lost = live_with_a_loss(still, calls, order, maximum)

        record = still.record(order)
        children = [still.record(one) for one in still.dispatch.views.children(order)]
        assert (record.state, record.data.get("tally", {})) == (state, ended), maximum
        assert [child.data["part"] for child in children] == [*parts][: len(children)], maximum
        assert still.count_events(order, "all_in") == (0 if strict else 1), maximum
        assert {child.state for child in children} <= {"made", "broken"}, maximum
        weak = [child.id for child in children if child.data["part"] == "weak"]
        assert record.data.get("lost", []) == weak, maximum
    assert maximum > 2 * len(parts), "the worker was lost between every two calls"
    still.check_consistency()


@pytest.mark.parametrize(("trigger", "state"), [("cancel", "failed"), ("mend", "mending")])
def test_a_parent_that_leaves_its_children_while_it_creates_them_leaves_none_at_work(
    still: InProcessWorker, calls: Calls, trigger: str, state: str
) -> None:
    maximum, lost = 0, True
    while lost:
        order, maximum = f"o{maximum}", maximum + 1
        split(still, order, "leg", "seat", "back")
        with calls.lost_after(maximum), suppress(LostError):
            still.perform(order, "spawn")
        lost = calls.made == maximum
        fire(still, order, trigger)
        still.expire_leases()
        live(still, order)

        states = {still.record(one).state for one in still.dispatch.views.children(order)}
        assert states <= {"broken"}, maximum
        assert still.record(order).state == state
    assert maximum > PARTS
    still.check_consistency()


def race(*acts: Callable[[], object]) -> None:
    """Run functions in threads at nearly the same time, with random delays."""
    start = Barrier(len(acts))

    def run(act: Callable[[], object]) -> None:
        start.wait()
        time.sleep(random.uniform(0, 0.006))  # the workload, not a wait for anything
        act()

    with ThreadPoolExecutor(len(acts)) as pool:
        list(pool.map(run, acts))


def test_a_cancel_beside_the_creation_of_children_closes_all_of_them(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    worker = InProcessWorker(server.url, prefix, tmp_path)
    for number in range(PAIRS):
        order = f"o{number}"
        split(worker, order, *["leg"] * 6)

        def cancel(order: str = order) -> None:
            fire(worker, order, "cancel")
            worker.perform(order, "cascade")

        race(partial(worker.perform, order, "spawn"), cancel)
        live(worker, order)
        children = worker.dispatch.views.children(order)
        assert {worker.record(one).state for one in children} <= {"broken"}
    worker.check_consistency()


def test_ends_beside_the_creation_of_children_advance_their_parent_once(
    server: EmbeddedServer, prefix: str, tmp_path: Path
) -> None:
    worker = InProcessWorker(server.url, prefix, tmp_path)
    for number in range(PAIRS):
        order = f"o{number}"
        split(worker, order, *["leg"] * 4)

        def end_each(order: str = order) -> None:
            for child in worker.dispatch.views.children(order):
                worker.perform(child, "make")

        race(partial(worker.perform, order, "spawn"), end_each, end_each)
        live(worker, order)
        record = worker.record(order)
        assert (record.state, record.data["tally"]) == ("sent", {"made": 4})
        assert worker.count_events(order, "all_in") == 1
