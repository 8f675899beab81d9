"""The test kit: time that passes while a step is at work, and orders that reach it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import pytest

from interlock import Budget, Data, Work, Workflow, hours, minutes, seconds
from interlock.testing import Kit

NewKit = Callable[..., Kit[Any]]


class Order(Data):
    item: str = "tea"
    note: str = ""


order = Workflow("kit_order", Order)


@order.step(timeout=minutes(10), max_attempts=2, retry_delay=seconds(20), on_failure="lost")
def pack(o: Order) -> Literal["send"]:
    o.note = "packed"
    return "send"


@order.step(timeout=hours(1), once=True)
async def send(o: Order) -> Literal["done"]:
    o.note += ", sent"
    return "done"


order.ends(done=True, lost=False)


@pytest.fixture
def orders(kit: NewKit) -> Kit[Order]:
    made: Kit[Order] = kit(order)
    made.submit(Order())
    return made


def test_a_step_that_takes_longer_than_its_timeout_fails_and_its_result_does_not_count(
    orders: Kit[Order],
) -> None:
    def pack_slowly(o: Order) -> str:
        orders.advance(minutes=11)
        o.note = "too late"
        return "send"

    began = orders.now
    with orders.replaced(pack=pack_slowly):
        assert orders.run().state == "lost"

    assert (orders.calls("pack"), orders.data.note) == (2, "")
    assert "it took longer than 10 min" in str(orders.history)
    assert re.search(r"does not stop; it is at .*test_time_in_steps.py", str(orders.history))
    assert timedelta(minutes=20) < orders.now - began < timedelta(minutes=22)
    orders.check()


def test_a_step_within_its_timeout_keeps_its_lease(orders: Kit[Order]) -> None:
    def pack_slowly(_: Order) -> str:
        orders.advance(minutes=9.9)
        return "send"

    with orders.replaced(pack=pack_slowly):
        assert orders.run().state == "done"

    assert orders.calls("pack") == 1


def test_a_step_that_looks_stops_at_its_timeout(orders: Kit[Order]) -> None:
    looked: list[timedelta] = []

    def pack_slowly(o: Order, work: Work) -> str:
        del o
        began = orders.now
        while True:
            orders.advance(minutes=1)
            looked.append(orders.now - began)
            work.raise_if_stopped()

    with orders.replaced(pack=pack_slowly):
        assert orders.run().state == "lost"

    assert looked == [timedelta(minutes=number) for number in range(1, 11)] * 2


@pytest.mark.parametrize("is_async", [False, True])
def test_a_cancel_stops_a_step_at_work(orders: Kit[Order], is_async: bool) -> None:  # noqa: FBT001
    def pack_until_stopped(o: Order, work: Work) -> str:
        del o
        orders.cancel("ordered twice")
        work.raise_if_stopped()
        pytest.fail("it was not stopped")

    async def pack_until_cancelled(o: Order) -> str:
        del o
        orders.cancel("ordered twice")
        await asyncio.sleep(60)
        pytest.fail("it was not stopped")

    with orders.replaced(pack=pack_until_cancelled if is_async else pack_until_stopped):
        assert orders.run().state == "cancelled"

    assert orders.lines[-1] == "pack: stopped by order"
    assert orders.calls("pack") == 1


def test_an_async_step_that_takes_too_long_is_unclear_if_it_may_be_done_once(
    orders: Kit[Order],
) -> None:
    async def send_slowly(o: Order) -> str:
        del o
        orders.advance(hours=2)
        return "done"

    with orders.replaced(send=send_slowly):
        assert orders.run().state == "send_unclear"

    assert orders.calls("send") == 1
    assert "it took longer than 60 min" in orders.card.question


def test_others_are_at_work_while_a_step_takes_its_time(kit: NewKit) -> None:
    orders = kit(order)
    orders.submit(Order(item="cup"), id="cup")
    orders.submit(Order(item="tea"), id="tea")
    seen: list[str] = []

    async def send_slowly(o: Order) -> str:
        if o.item == "cup":
            orders.advance(minutes=1)
            seen.append(orders.client.show("tea").state)
        return "done"

    with orders.replaced(send=send_slowly):
        orders.run()

    assert seen == ["done"]
    assert orders.client.show("cup").state == "done"


class Answer(Data):
    text: str
    tokens: int = 0


class Questions(Data):
    answers: list[Answer]


questions = Workflow("kit_questions", Questions, start="begin", budget=Budget(tokens=100))


@questions.step
def begin(q: Questions) -> Literal["ask"]:
    del q
    return "ask"


@questions.each("answers", then="join", on_failure="skip")
def ask(answer: Answer, work: Work) -> None:
    work.reserve(tokens=60)
    work.spend(tokens=answer.tokens)


@questions.step
def join(q: Questions, work: Work) -> Literal["done"]:
    q.answers = [answer for answer in work.results(ask) if answer]
    return "done"


questions.ends(done=True)


def test_a_step_waits_for_what_a_lost_worker_has_reserved(kit: NewKit) -> None:
    asked = kit(questions)
    asked.submit(Questions(answers=[Answer(text="a", tokens=9), Answer(text="b", tokens=8)]))
    asked.crash("ask", after="call")

    assert asked.run().state == "done"

    assert asked.data.answers == [], "what a lost worker had reserved counts as used"
    asked.id = asked.client.list(parent="one")[1].id
    assert "budget_waits" in str(asked.history)
    assert asked.history[-1].at_ms - asked.history[0].at_ms == 30_000, "so long is a lease"
    asked.check()
