"""Mail, marks and times that meet: what a review found, each as a story of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from interlock import Budget, Data, Inbox, Work, Workflow
from interlock.kernel.errors import GuardRefusedError
from interlock.testing import Kit

NewKit = Callable[..., Kit[Any]]


class Letter(Data):
    text: str


class Desk(Data):
    due: datetime = datetime(2036, 1, 1, tzinfo=UTC)
    sent: int = 0
    mail: Inbox[str] = []


def desk_with(sent: list[int], *, reads: bool) -> Workflow[Desk]:
    desk = Workflow("desk", Desk)

    @desk.step
    def work_on(d: Desk, work: Work) -> Literal["done"]:
        # In a comprehension of Python 3.11, `once` is in the code of an inner function.
        d.sent = max([work.once(name, send, sent) for name in ("send",)])
        if reads:
            d.mail = []
        return "done"

    @desk.on("tell")
    def tell(d: Desk, letter: Letter) -> None:
        d.mail.append(letter.text)

    @desk.on("empty")
    def empty(d: Desk, letter: Letter) -> None:
        del letter
        d.mail = []

    desk.ends(done=True)
    return desk


def send(sent: list[int]) -> int:
    sent.append(1)
    return len(sent)


def submitted(kit: NewKit, flow: Workflow[Desk]) -> Kit[Desk]:
    desk: Kit[Desk] = kit(flow)
    desk.submit(Desk())
    return desk


def test_mail_begins_no_step_again_that_has_done_what_may_be_done_once(kit: NewKit) -> None:
    sent: list[int] = []
    desk = submitted(kit, desk_with(sent, reads=True))

    def with_mail(d: Desk, work: Work) -> str:
        d.sent = work.once("send", send, sent)
        desk.tell("tell", text="hello")
        return "done"

    with desk.replaced(work_on=with_mail):
        assert desk.run().state == "done"

    assert (desk.data.mail, sent) == (["hello"], [1])
    assert "done follows; mail has 1 item that no step has read" in str(desk.history[-1])


def test_a_step_that_leaves_its_mail_ends_all_the_same(kit: NewKit) -> None:
    desk = submitted(kit, desk_with([], reads=False))
    desk.tell("tell", text="hello")

    assert desk.run().state == "done"
    assert not [name for name in desk.record.data if name.startswith("_")]


def test_a_call_cannot_empty_an_inbox(kit: NewKit) -> None:
    desk = submitted(kit, desk_with([], reads=True))
    desk.tell("tell", text="hello")

    with pytest.raises(GuardRefusedError, match="mail is emptied by steps alone"):
        desk.tell("empty", text="")


def test_a_wait_goes_by_the_time_that_a_call_has_set(kit: NewKit) -> None:
    wait = Workflow("waiting", Desk)
    wait.wait("until_due", until=lambda d: d.due, then="done")

    @wait.on("move")
    def move(d: Desk, letter: Letter) -> None:
        d.due = datetime.fromisoformat(letter.text)

    wait.ends(done=True)
    desk = submitted(kit, wait)
    sooner = desk.now - timedelta(days=1)

    desk.tell("move", text=sooner.isoformat())

    assert desk.run().state == "done"
    assert desk.data.due == sooner


def test_a_step_that_is_over_its_budget_after_it_has_paid_asks_a_person(kit: NewKit) -> None:
    paid: list[int] = []
    flow = Workflow("paying", Desk, budget=Budget(tokens=1, over="spent"))

    @flow.step(once=True)
    def pay(d: Desk, work: Work) -> Literal["done"]:
        d.sent = send(paid)
        work.reserve(tokens=2)
        return "done"

    flow.ends(done=True, spent=False)
    desk = submitted(kit, flow)

    assert desk.run().state == "pay_unclear"
    assert "2 tokens are needed" in desk.card.question
    assert paid == [1]


def test_an_async_step_saves_begins_once_and_reserves_without_holding_up_others(
    kit: NewKit,
) -> None:
    sent: list[int] = []
    flow = Workflow("quick", Desk, budget=Budget(tokens=5))

    async def send_later(start: int) -> int:
        sent.append(start)
        return start + 1

    @flow.step
    async def work_on(d: Desk, work: Work) -> Literal["done"]:
        await work.reserve_async(tokens=5)
        begun = await work.saved_async("begin", send_later, 1)
        d.sent = await work.once_async("send", send_later, begun)
        if work.attempt == 1:
            raise ConnectionError("what was kept is given back")
        return "done"

    flow.ends(done=True)
    desk = submitted(kit, flow)

    assert desk.run().state == "done"
    assert desk.data.sent == 3
    assert sent == [1, 2]


def test_an_async_step_is_told_to_await_what_waits(kit: NewKit) -> None:
    flow = Workflow("slow", Desk, budget=Budget(tokens=5))

    @flow.step(max_attempts=1)
    async def work_on(d: Desk, work: Work) -> Literal["done"]:
        del d
        work.reserve(tokens=1)
        return "done"

    flow.ends(done=True)
    desk = submitted(kit, flow)

    desk.run()

    assert "write `await work.reserve_async(...)`" in desk.lines[0]
