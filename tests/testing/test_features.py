"""The test kit with what workflows can do: slots, children, and versions of a workflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from interlock import Data, Work, Workflow, days
from interlock.kernel.errors import StrandedError
from interlock.testing import Kit, KitError

NewKit = Callable[..., Kit[Any]]


class Call(Data):
    tenant: str


calls = Workflow("kit_calls", Call)


@calls.step(concurrency=1, key=lambda call: call.tenant)
def ask(_: Call) -> Literal["done"]:
    return "done"


calls.ends(done=True)


def test_only_so_many_are_in_a_step_at_one_time(kit: NewKit) -> None:
    asked, seen = kit(calls), list[str]()

    def slow(_: Call, work: Work) -> str:
        if work.id == "one":
            asked.advance(minutes=2)
            seen.extend(asked.client.show(name).state for name in ("two", "other"))
        return "done"

    for name, tenant in (("one", "acme"), ("two", "acme"), ("other", "nobody")):
        asked.submit(Call(tenant=tenant), id=name)
    with asked.replaced(ask=slow):
        asked.run()

    assert seen == ["ask", "done"]
    assert asked.client.show("two").state == "done"
    asked.check()


def test_the_slot_of_a_lost_worker_is_free_again(kit: NewKit) -> None:
    asked = kit(calls)
    asked.crash("ask", before="call")
    asked.submit(Call(tenant="acme"), id="one")
    asked.submit(Call(tenant="acme"), id="two")

    asked.run()

    assert [asked.client.show(name).state for name in ("one", "two")] == ["done", "done"]
    asked.check()


class Chunk(Data):
    text: str
    length: int = 0


class Text(Data):
    chunks: list[Chunk]
    length: int = 0


text = Workflow("kit_text", Text, start="begin")


@text.step
def begin(t: Text) -> Literal["count"]:
    del t
    return "count"


@text.each("chunks", then="add", max_attempts=1, on_failure="ask")
def count(chunk: Chunk) -> None:
    chunk.length = len(chunk.text)


@text.step
def add(t: Text, work: Work) -> Literal["done"]:
    t.length = sum(chunk.length for chunk in work.results(count) if chunk)
    return "done"


text.ends(done=True)


def test_the_card_of_a_child_is_answered_and_its_parent_goes_on(kit: NewKit) -> None:
    texts, failures = kit(text), [RuntimeError("no dictionary")]

    def count_once_more(chunk: Chunk) -> None:
        if chunk.text == "tea" and failures:
            raise failures.pop()
        chunk.length = 10

    texts.submit(Text(chunks=[Chunk(text="tea"), Chunk(text="cup")]))
    with texts.replaced(count=count_once_more):
        assert texts.run().state == "count"
        texts.id = "one/2.1"
        assert "no dictionary" in texts.card.question
        assert (texts.calls("count"), texts.data) == (1, Chunk(text="tea"))
        texts.answer("retry")
        texts.run()
        texts.id = "one"

    assert (texts.state, texts.data.length) == ("done", 20)
    texts.check()


class Old(Data):
    order: str


class New(Data):
    number: str


def newer(old: Old) -> New:
    if old.order == "tea":
        raise ValueError("this is no order")
    return New(number=old.order.removeprefix("o-"))


before = Workflow("kit_order", Old, expires=days(3))


@before.step
def check(o: Old) -> Literal["asking"]:
    del o
    return "asking"


before.ask("asking", "Pay {order}?", approve="pay", reject="failed")


@before.step(once=True)
def pay(o: Old) -> Literal["done"]:
    del o
    return "done"


before.ends(done=True, failed=False)


def after(**past: Any) -> Workflow[Any]:
    flow = Workflow("kit_order", New, expires=days(3), **past)

    @flow.step
    def look(o: New) -> Literal["approval"]:
        del o
        return "approval"

    flow.ask("approval", "Pay number {number}?", approve="transfer", reject="failed")

    @flow.step(once=True)
    def pay(o: New) -> Literal["done"]:
        raise AssertionError(f"{o.number} is paid by a fake")

    @flow.step(once=True)
    def transfer(o: New) -> Literal["done"]:
        o.number += ", transferred"
        return "done"

    flow.ends(done=True, failed=False)
    return flow


RENAMED = {"check": "look", "asking": "approval"}


def test_records_go_on_by_a_new_version_of_their_workflow(kit: NewKit) -> None:
    orders = kit(before, calls)
    orders.submit(Call(tenant="acme"), flow=calls, id="call")
    orders.submit(Old(order="o-3"), id="approved")
    orders.run()
    orders.submit(Old(order="o-2"), id="asking")
    orders.run()
    orders.submit(Old(order="o-1"), id="checked")
    orders.id = "approved"
    orders.answer("approve")
    began = orders.now

    with orders.replaced(pay=lambda _: "done"):
        orders.deploy(after(renamed=RENAMED, retired=("pay",), schema=2, migrate=newer))
        orders.run()

    assert (orders.state, orders.data.number) == ("done", "3")
    orders.id = "asking"
    assert orders.card.question == "Pay number 2?"
    orders.answer("approve")
    orders.run()
    assert (orders.state, orders.data.number) == ("done", "2, transferred")
    orders.id = "checked"
    assert orders.state == "approval"
    assert (orders.calls("look"), orders.calls("pay")) == (1, 0)
    assert orders.now >= began
    orders.check()
    orders.advance(days=3)
    assert orders.state == "expired"
    assert orders.client.show("call").state == "done"


def test_a_version_without_a_place_for_a_record_is_refused(kit: NewKit) -> None:
    orders = kit(before)
    orders.submit(Old(order="tea"))
    orders.run()

    with pytest.raises(StrandedError, match="1 record is in kit_order/asking"):
        orders.deploy(after(schema=2, migrate=newer, retired=("pay",)))
    with pytest.raises(StrandedError, match="this is no order"):
        orders.deploy(after(renamed=RENAMED, retired=("pay",), schema=2, migrate=newer))

    assert orders.card.question == "Pay tea?"
    orders.answer("approve")
    with (
        orders.replaced(pay=lambda _: orders.deploy(before)),
        pytest.raises(KitError, match="a step is at work"),
    ):
        orders.run()


def test_a_version_that_changes_nothing_is_deployed_as_well(kit: NewKit) -> None:
    orders = kit(before)
    orders.submit(Old(order="tea"))
    orders.deploy(before)
    orders.run()
    orders.answer("approve")
    assert orders.run().state == "done"


class Machine(Data):
    name: str


lease = Workflow("kit_lease", Machine, expires=days(1))
lease.ask("in_use", "Still in use?", no="done")


@lease.at_end("expired")
@lease.at_end("cancelled")
def give_back(m: Machine) -> None:
    raise RuntimeError(f"{m.name} is given back")


lease.ends(done=True)


def test_what_is_done_after_an_end_is_replaced_counted_and_lost_like_a_step(kit: NewKit) -> None:
    leases, given = kit(lease), list[str]()

    def fake(m: Machine, work: Work) -> None:
        given.append(f"{m.name} of {work.id}")

    async def fake_async(m: Machine) -> None:
        given.append(m.name)

    leases.submit(Machine(name="m-1"))
    leases.crash("after_expired", before="commit")
    with leases.replaced(after_expired=fake, after_cancelled=fake_async):
        assert leases.advance(days=2).state == "expired"
        assert (given, leases.calls("after_expired")) == (["m-1 of one"] * 2, 2)
        leases.submit(Machine(name="m-2"), id="two")
        leases.cancel()
        leases.run()

    assert given[2:] == ["m-2"]
    leases.check()
