"""What is begun once: whatever fails after it, it is not begun again by itself."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any, Literal

import pytest

from interlock import Data, Work, Workflow
from interlock.testing import Kit
from interlock.testing.wire import CrashedError
from tests.workflow import test_once  # as a step may name another module

NewKit = Callable[..., Kit[Any]]


class Order(Data):
    item: str
    parcel: str = ""


class World:
    """The other side: what it was asked for, and what fails before and after that."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.asked = 0
        self.before: Exception | None = None
        self.within: BaseException | None = None
        self.after: Exception | None = None

    def weigh(self, item: str) -> int:
        self.asked += 1
        return len(item)

    def send(self, item: str) -> str:
        self.sent.append(item)
        if self.within:
            raise self.within
        return f"parcel with {item}"


def orders(world: World) -> Workflow[Order]:
    order = Workflow("parcel_order", Order)

    @order.step
    def pack(o: Order, work: Work) -> Literal["done"]:
        work.saved("weight", world.weigh, o.item)
        if failure := world.before:
            world.before = None
            raise failure
        o.parcel = work.once("send", world.send, o.item)
        if failure := world.after:
            world.after = None
            raise failure
        return "done"

    order.ends(done=True)
    return order


@pytest.fixture
def world() -> World:
    return World()


def submitted(kit: NewKit, flow: Workflow[Order]) -> Kit[Order]:
    worker: Kit[Order] = kit(flow)
    worker.submit(Order(item="tea"))
    return worker


@pytest.fixture
def worker(kit: NewKit, world: World) -> Kit[Order]:
    return submitted(kit, orders(world))


def test_a_failure_before_it_is_tried_again_and_what_was_saved_is_not_asked_again(
    worker: Kit[Order], world: World
) -> None:
    world.before = ConnectionError("no network")

    worker.run()

    assert worker.data.parcel == "parcel with tea"
    assert (world.sent, world.asked) == (["tea"], 1)


def test_a_failure_after_it_is_tried_again_with_the_result_that_was_kept(
    worker: Kit[Order], world: World
) -> None:
    world.after = ValueError("the label is torn")

    worker.run()

    assert worker.data.parcel == "parcel with tea"
    assert world.sent == ["tea"]


def test_a_failure_within_it_asks_a_person_who_may_have_it_done_again(
    worker: Kit[Order], world: World
) -> None:
    world.within = TimeoutError("no answer")

    assert worker.run().state == "pack_unclear"

    assert "send: TimeoutError: no answer" in worker.card.question
    assert "test_once.py, line" in worker.card.question
    world.within = None
    worker.answer("again")
    worker.run()
    assert worker.data.parcel == "parcel with tea"
    assert world.sent == ["tea", "tea"], "a person has said so"


def test_what_an_earlier_attempt_began_and_nobody_knows_the_end_of_asks_a_person(
    worker: Kit[Order], world: World
) -> None:
    world.within = CrashedError()

    assert worker.run().state == "pack_unclear"

    said = "send: it was begun, and no result was kept: its worker was lost"
    assert said in worker.card.question
    assert world.sent == ["tea"]


def send_it(work: Work, world: World, item: str) -> str:
    """Send a parcel, as a helper that steps call."""
    return work.once("send", world.send, item)


def send_soon(work: Work, world: World, item: str) -> str:
    """Send a parcel by another helper."""
    return send_it(work, world, item)


class Sender:
    """An object that sends for the step."""

    def send(self, work: Work, world: World, item: str) -> str:
        """Send a parcel by a method."""
        return work.once("send", world.send, item)

    def __call__(self, work: Work, world: World, item: str) -> str:
        """Send a parcel where the import cannot see it."""
        return self.send(work, world, item)


SENDER = Sender()
HIDDEN = {"sends": SENDER}


def by_a_helper(o: Order, work: Work, world: World) -> None:
    o.parcel = send_soon(work, world, o.item)


def by_a_lambda(o: Order, work: Work, world: World) -> None:
    calls = {"send": lambda item: work.once("send", world.send, item)}
    o.parcel = calls["send"](o.item)


def by_a_comprehension(o: Order, work: Work, world: World) -> None:
    o.parcel = next(work.once("send", world.send, item) for item in [o.item])


def by_a_method_that_is_handed_on(o: Order, work: Work, world: World) -> None:
    o.parcel = next(map(work.once, ["send"], [world.send], [o.item]))


def by_an_object(o: Order, work: Work, world: World) -> None:
    o.parcel = SENDER.send(work, world, o.item)


def by_a_module(o: Order, work: Work, world: World) -> None:
    o.parcel = test_once.send_it(work, world, o.item)


def by_what_nobody_sees(o: Order, work: Work, world: World) -> None:
    o.parcel = HIDDEN["sends"](work, world, o.item)


SEEN = (
    by_a_helper,
    by_a_lambda,
    by_a_comprehension,
    by_a_method_that_is_handed_on,
    by_an_object,
    by_a_module,
)


def sending(how: Callable[[Order, Work, World], None], world: World) -> Workflow[Order]:
    order = Workflow("parcel_order", Order)

    @order.step(max_attempts=2)
    def pack(o: Order, work: Work) -> Literal["done"]:
        how(o, work, world)
        return "done"

    order.ends(done=True)
    return order


@pytest.mark.parametrize("how", SEEN)
def test_it_may_be_begun_by_what_the_step_calls(
    how: Callable[[Order, Work, World], None], kit: NewKit, world: World
) -> None:
    flow = sending(how, world)
    worker = submitted(kit, flow)

    worker.run()

    assert worker.data.parcel == "parcel with tea"
    assert world.sent == ["tea"]
    assert "pack_unclear" in str(flow.machine.stages)


def test_where_the_import_does_not_see_it_nothing_begins_and_a_card_has_the_line(
    kit: NewKit, world: World
) -> None:
    worker = submitted(kit, sending(by_what_nobody_sees, world))

    worker.run()

    [line] = worker.lines
    assert "work.once('send', ...) is called where the import did not see it" in line
    first = inspect.getsourcelines(Sender.send)[1]
    assert f"({__file__}, line {first + 2})" in line
    assert world.sent == []
    assert "as in `send(order, work.once)`" in worker.card.question


def test_nothing_is_done_once_after_an_end(kit: NewKit, world: World) -> None:
    flow = Workflow("parcel_order", Order)
    flow.ask("shall", "Shall it end?", yes="done")

    @flow.at_end("done")
    def clean(o: Order, work: Work) -> None:
        by_what_nobody_sees(o, work, world)

    flow.ends(done=True)
    worker = submitted(kit, flow)
    worker.answer("yes")

    worker.run()

    said = "work.once('send', ...) is called after an end, where nobody could be asked"
    assert said in str(worker.lines)
    assert world.sent == []


def test_its_result_is_the_same_when_it_is_made_and_when_it_is_given_back(kit: NewKit) -> None:
    results: list[object] = []
    flow = Workflow("parcel_order", Order)

    @flow.step
    async def pack(o: Order, work: Work) -> Literal["done"]:
        async def later() -> tuple[int, int]:
            return (3, 4)

        del o
        pair = work.once("pair", lambda: (1, {2: 3}))
        results.append((pair, await work.once_async("later", later)))
        if work.attempt == 1:
            raise ConnectionError("the results are given back")
        return "done"

    flow.ends(done=True)
    submitted(kit, flow).run()

    assert results == [([1, {"2": 3}], [3, 4])] * 2


class GreenTimeout(BaseException):
    """What some libraries raise, and is no Exception."""


END = (SystemExit, asyncio.CancelledError, CancelledError, GreenTimeout)


@pytest.mark.parametrize("end", END)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_step_that_ends_in_any_way_after_it_has_paid_asks_a_person(
    is_async: bool,  # noqa: FBT001
    end: type[BaseException],
    kit: NewKit,
    world: World,
) -> None:
    flow = Workflow("parcel_order", Order)

    def pays(o: Order) -> Literal["done"]:
        world.send(o.item)
        raise end("no more paper")

    async def pays_later(o: Order) -> Literal["done"]:
        return pays(o)

    flow.step(once=True, name="pay")(pays_later if is_async else pays)
    flow.ends(done=True)
    worker = submitted(kit, flow)

    assert worker.run().state == "pay_unclear"

    assert f"{end.__name__}: no more paper (" in worker.card.question
    assert world.sent == ["tea"]
