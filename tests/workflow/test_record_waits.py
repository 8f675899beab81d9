"""Waits for the end of another record: when it has ended, is gone, never was, or waits as well."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from interlock import Data, Workflow, days, hours
from interlock.kernel.effect import AWAITING
from interlock.kernel.errors import GuardRefusedError
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.machines import MACHINES
from interlock.kernel.payload import RecordEnd
from interlock.kernel.store.commands import Call, Warrant
from interlock.workers.engine.awaited import report_end
from tests.waiting import until
from tests.workers.engine.running import perform
from tests.workflow.at_work import AtWork, Start


class Parcel(Data):
    ok: bool = True


class Order(Data):
    parcel: str = ""


class Named(Data):
    parcel: str


def parcels() -> Workflow[Parcel]:
    parcel = Workflow("parcel", Parcel)

    @parcel.step
    def send(p: Parcel) -> Literal["done", "lost"]:
        return "done" if p.ok else "lost"

    parcel.ends(done=True, lost=False)
    return parcel


def orders() -> Workflow[Order]:
    order = Workflow("shop_order", Order, expires=days(9))
    order.wait(
        "shipped",
        record=lambda o: o.parcel,
        then="thank",
        on_failure="failed",
        timeout=days(2),
        on_timeout="late",
    )

    @order.step
    def thank(_: Order) -> Literal["done"]:
        return "done"

    @order.on("send_as")
    def send_as(o: Order, named: Named) -> None:
        o.parcel = named.parcel

    order.ends(done=True, failed=False, late=False)
    return order


@pytest.fixture
def worker(at_work: Start) -> AtWork:
    return at_work(parcels(), orders())


def submit(worker: AtWork, machine: str, record_id: str, **payload: Any) -> None:
    worker.client.submit(payload, machine=machine, id=record_id)


def both(worker: AtWork, **payload: Any) -> None:
    """Let an order wait for a parcel that is not sent yet."""
    submit(worker, "parcel", "p-1", **payload)
    submit(worker, "shop_order", "o-1", parcel="p-1")
    worker.work("o-1")
    assert worker.client.show("o-1").state == "shipped"


def ended(worker: AtWork, record_id: str = "o-1") -> str:
    return worker.work(record_id).state


def sentence(worker: AtWork, record_id: str = "o-1") -> str:
    return worker.client.outlook(worker.client.show(record_id))


def said(worker: AtWork, record_id: str = "o-1") -> list[str]:
    lines = worker.client.history(record_id)
    return [line.says for line in lines if isinstance(line, Event) and line.says]


def notes(worker: AtWork, record_id: str) -> list[str]:
    lines = worker.client.history(record_id)
    return [line.kind for line in lines if isinstance(line, Note) and "refused" in line.kind]


@pytest.mark.parametrize(("ok", "end"), [(True, "done"), (False, "failed")])
def test_the_end_of_the_other_record_decides_and_comes_with_its_commit(
    worker: AtWork, *, ok: bool, end: str
) -> None:
    both(worker, ok=ok)
    worker.work("p-1")  # its step, and the notification that its last commit made it owe

    assert ended(worker) == end
    assert said(worker)[0] == f"what became of record p-1: {'done' if ok else 'lost'}"


def test_a_record_that_has_ended_before_is_found_at_once(worker: AtWork) -> None:
    submit(worker, "parcel", "p-1")
    worker.work("p-1")
    submit(worker, "shop_order", "o-1", parcel="p-1")

    assert ended(worker) == "done"


def test_an_end_by_cancel_is_no_success(worker: AtWork) -> None:
    both(worker)
    worker.client.cancel("p-1", reason="not needed")
    worker.work("p-1")

    assert ended(worker) == "failed"


def test_a_record_that_does_not_exist_yet_is_waited_for_until_it_has_ended(worker: AtWork) -> None:
    submit(worker, "shop_order", "o-1", parcel="p-1")
    worker.work("o-1")
    assert sentence(worker) == (
        "It waits for the end of p-1, which does not exist, or is deleted already."
    )
    submit(worker, "parcel", "p-1")
    assert sentence(worker) == "It waits for the end of p-1, a parcel that is send."
    worker.work("p-1")

    assert ended(worker) == "done"


def test_a_record_that_was_deleted_after_its_end_is_no_success(worker: AtWork) -> None:
    submit(worker, "parcel", "p-1")
    worker.work("p-1")
    record = worker.client.show("p-1")
    assert worker.client.dispatch.indexes.prune(record, [], age_ms=0) == "pruned"
    submit(worker, "shop_order", "o-1", parcel="p-1")

    assert ended(worker) == "failed"
    assert said(worker)[0] == "what became of record p-1: pruned"


def test_what_can_be_no_id_is_no_success(worker: AtWork) -> None:
    submit(worker, "shop_order", "o-1", parcel="a parcel / of tea")

    assert ended(worker) == "failed"
    assert said(worker)[0] == "what became of record a parcel / of tea: no id"


def test_data_that_name_no_record_yet_wait_for_a_call_that_names_one(worker: AtWork) -> None:
    submit(worker, "parcel", "p-1")
    worker.work("p-1")
    submit(worker, "shop_order", "o-1")
    worker.work("o-1")
    assert sentence(worker) == (
        "It waits for the end of another record, which its data do not name yet."
    )
    worker.client.fire("o-1", "send_as", {"parcel": "p-1"})

    assert ended(worker) == "done"


def test_a_call_that_names_another_record_lets_the_first_end_pass(worker: AtWork) -> None:
    both(worker)
    submit(worker, "parcel", "p-2", ok=False)
    worker.client.fire("o-1", "send_as", {"parcel": "p-2"})
    worker.work("o-1")
    worker.work("p-1")
    assert ended(worker) == "shipped"
    assert notes(worker, "p-1") == [], "it was not asked"
    worker.work("p-2")

    assert ended(worker) == "failed"


def test_an_end_that_is_reported_late_is_refused_by_the_row(worker: AtWork) -> None:
    """A call changes what is awaited between the report's read and its commit."""
    both(worker)
    before = worker.client.show("o-1")
    worker.client.fire("o-1", "send_as", {"parcel": "p-2"})
    end = RecordEnd(record="p-1", state="done", is_success=True)

    refusal = report_end(worker.client.dispatch, before, end, "notification", "k")
    assert "it waits for another record by now" in refusal
    assert worker.client.show("o-1").state == "shipped"


def test_nobody_but_the_engine_says_that_a_record_has_ended(worker: AtWork) -> None:
    both(worker)
    end = {"record": "p-1", "state": "done", "is_success": True}

    with pytest.raises(GuardRefusedError, match="record_ended"):
        worker.client.fire("o-1", "record_ended", end)


def test_an_end_waits_for_a_worker_that_knows_the_table_of_who_waits(worker: AtWork) -> None:
    both(worker)
    worker.perform("p-1")
    dispatch = worker.client.dispatch
    key = dispatch.keys.record("o-1")
    dispatch.client.hset(key, "schema", 2)
    assert worker.perform("p-1").startswith("retry: waits (owed)")
    dispatch.client.hset(key, "schema", 1)

    until(lambda: worker.perform("p-1") == "settled", what="the notification is due again")

    assert ended(worker) == "done"


def test_a_lost_notification_is_made_up_for_by_the_recheck(worker: AtWork) -> None:
    both(worker)
    worker.perform("p-1")
    keys = worker.client.dispatch.keys
    worker.client.dispatch.client.delete(keys.subscribers("p-1"))
    worker.work("p-1")
    assert ended(worker) == "shipped"
    assert sentence(worker).endswith("which has ended as done: a worker goes on with that soon.")
    stage = worker.flows["shop_order"].machine.stage("shipped")
    recheck = stage.timer("recheck")
    assert recheck
    assert recheck.effect == AWAITING
    worker.client.dispatch.lifecycle.wake("o-1", recheck.effect, {"why": "it is time"}, "recheck")

    assert ended(worker) == "done"


@pytest.mark.parametrize(("trigger", "end"), [("force_success", "done"), ("cancel", "failed")])
def test_the_other_record_may_be_of_any_machine(worker: AtWork, trigger: str, end: str) -> None:
    dispatch = worker.client.dispatch
    job = {"phases": [{"worker": {"command": "true"}}], "manual": True}
    dispatch.lifecycle.create("job", "g/a", job, Cause("test"))
    dispatch.lifecycle.fire("g/a", "activate", {}, Call(Cause("test"), op_id="begin"))
    submit(worker, "shop_order", "o-1", parcel="g/a")
    worker.work("o-1")
    assert sentence(worker) == "It waits for the end of g/a, a job that is pending."
    seen = Warrant.person(worker.client.show("g/a").entered)
    dispatch.lifecycle.fire("g/a", trigger, {"reason": "so it is"}, Call(Cause("ann"), "end", seen))
    entry = next(one for one in worker.entries("g/a") if one.name == "notification")
    handler = worker.common["notification"]
    perform(worker.runner, MACHINES["job"], entry.name, handler, entry.key("g/a"))

    assert ended(worker) == end


def test_one_table_that_is_wrong_keeps_no_other_record_waiting(at_work: Start) -> None:
    broken = False

    def parcel_of(order: Order) -> str:
        if broken:
            raise LookupError("no parcels today")
        return order.parcel

    wrong = Workflow("wrong_order", Order)
    wrong.wait(
        "shipped",
        record=parcel_of,
        then="done",
        on_failure="failed",
        timeout=days(1),
        on_timeout="failed",
    )
    wrong.ends(done=True, failed=False)
    worker = at_work(parcels(), orders(), wrong)
    both(worker)
    submit(worker, "wrong_order", "w-1", parcel="p-1")
    worker.work("w-1")
    broken = True
    worker.work("p-1")

    assert ended(worker) == "done"
    assert worker.client.show("w-1").state == "shipped"
    lines = worker.client.history("p-1")
    why = [str(line.detail) for line in lines if isinstance(line, Note) and "refused" in line.kind]
    assert len(why) == 1
    assert "w-1" in why[0]
    assert "LookupError: no parcels today" in why[0]
    assert "test_record_waits.py, line" in why[0]
    assert "LookupError: no parcels today" in sentence(worker, "w-1")


def test_who_waits_no_more_is_left_alone(worker: AtWork) -> None:
    both(worker)
    worker.client.cancel("o-1", reason="changed their mind")
    worker.work("o-1")
    worker.work("p-1")

    assert worker.client.show("o-1").state == "cancelled"
    assert notes(worker, "p-1") == []


def test_records_that_wait_for_each_other_say_so_and_their_time_limits_end_it(
    at_work: Start,
) -> None:
    worker = at_work(slow_orders())
    for record_id, other in (("a", "b"), ("b", "c"), ("c", "a")):
        submit(worker, "slow_order", record_id, parcel=other)
        worker.work(record_id)

    assert sentence(worker, "a") == (
        "It waits for the end of b, which waits for c, which waits for a: none of them goes on "
        "until a time limit, an expiry, a call or a cancel ends a wait."
    )
    assert sentence(worker, "c").startswith("It waits for the end of a, which waits for b")
    worker.client.cancel("b", reason="not needed")
    worker.work("b")
    assert (ended(worker, "a"), ended(worker, "c")) == ("failed", "failed")


def slow_orders() -> Workflow[Order]:
    order = Workflow("slow_order", Order)
    order.wait(
        "shipped",
        record=lambda o: o.parcel,
        then="done",
        on_failure="failed",
        timeout=hours(1),
        on_timeout="failed",
    )
    order.ends(done=True, failed=False)
    return order
