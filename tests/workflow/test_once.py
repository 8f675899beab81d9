"""What is begun once: whatever fails after it, it is not begun again by itself."""

from __future__ import annotations

from typing import Literal

import pytest

from interlock import Data, Work, Workflow
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workflow.changing import settled
from interlock.workflow.names import BEGIN
from tests.workflow.at_work import AtWork, Start


class Order(Data):
    item: str
    parcel: str = ""


class World:
    """The other side: what it was asked for, and what fails before and after that."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.asked = 0
        self.before: Exception | None = None
        self.within: Exception | None = None
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


@pytest.fixture
def worker(at_work: Start, world: World) -> AtWork:
    worker = at_work(orders(world))
    worker.client.submit({"item": "tea"}, machine="parcel_order", id="one")
    return worker


def test_a_failure_before_it_is_tried_again_and_what_was_saved_is_not_asked_again(
    worker: AtWork, world: World
) -> None:
    world.before = ConnectionError("no network")

    ended = worker.reach("one", "done")

    assert ended.data["parcel"] == "parcel with tea"
    assert (world.sent, world.asked) == (["tea"], 1)


def test_a_failure_after_it_is_tried_again_with_the_result_that_was_kept(
    worker: AtWork, world: World
) -> None:
    world.after = ValueError("the label is torn")

    ended = worker.reach("one", "done")

    assert ended.data["parcel"] == "parcel with tea"
    assert world.sent == ["tea"]


def test_a_failure_within_it_asks_a_person_who_may_have_it_done_again(
    worker: AtWork, world: World
) -> None:
    world.within = TimeoutError("no answer")

    worker.reach("one", "pack_unclear")

    card = worker.client.card("one")
    assert card
    assert "send: TimeoutError: no answer" in card.question
    assert "test_once.py, line" in card.question
    world.within = None
    worker.answer("one", "again")
    assert worker.reach("one", "done").data["parcel"] == "parcel with tea"
    assert world.sent == ["tea", "tea"], "a person has said so"


def test_what_an_earlier_attempt_began_and_nobody_knows_the_end_of_asks_a_person(
    worker: AtWork, world: World
) -> None:
    def cut_off(work: EffectWork) -> Outcome | None:
        work.fire(Outcome(BEGIN, {"name": "send", "seen": settled(Order, work.record.data)}))
        raise ConnectionError("this attempt ends here, as that of a killed worker does")

    worker.perform("one", cut_off)
    worker.reach("one", "pack_unclear")

    card = worker.client.card("one")
    assert card
    assert "send: the worker that began it was lost" in card.question
    assert world.sent == []
