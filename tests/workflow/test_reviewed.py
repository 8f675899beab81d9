"""Mail, marks and times that meet: what a review found, each as a story of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from interlock import Budget, Data, Inbox, Work, Workflow
from interlock.kernel.errors import GuardRefusedError
from interlock.workers.engine.work import EffectWork, Outcome
from tests.workflow.at_work import AtWork, Start


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


def with_mail(worker: AtWork, record_id: str) -> None:
    """Perform the step that is due, and send mail while it is at work."""
    handler = worker.flows["desk"].handlers["work_on"]

    def called(work: EffectWork) -> Outcome:
        outcome = handler(work)
        worker.client.fire(record_id, "tell", {"text": "hello"})
        assert isinstance(outcome, Outcome)
        return outcome

    worker.perform(record_id, called)


def test_mail_begins_no_step_again_that_has_done_what_may_be_done_once(at_work: Start) -> None:
    sent: list[int] = []
    flow = desk_with(sent, reads=True)
    worker = at_work(flow)
    worker.client.submit(flow, Desk(), id="one")

    with_mail(worker, "one")

    record = worker.client.show("one")
    assert (record.state, record.data["mail"], sent) == ("done", ["hello"], [1])
    events = [str(line) for line in worker.client.history("one")]
    assert "done follows; mail has 1 item that no step has read" in events[-1]


def test_a_step_that_leaves_its_mail_ends_all_the_same(at_work: Start) -> None:
    sent: list[int] = []
    flow = desk_with(sent, reads=False)
    worker = at_work(flow)
    worker.client.submit(flow, Desk(), id="one")
    worker.client.fire("one", "tell", {"text": "hello"})

    assert worker.work("one").state == "done"
    assert not [name for name in worker.client.show("one").data if name.startswith("_")]


def test_a_call_cannot_empty_an_inbox(at_work: Start) -> None:
    flow = desk_with([], reads=True)
    worker = at_work(flow)
    worker.client.submit(flow, Desk(), id="one")
    worker.client.fire("one", "tell", {"text": "hello"})

    with pytest.raises(GuardRefusedError, match="mail is emptied by steps alone"):
        worker.client.fire("one", "empty", {"text": ""})


def test_a_wait_goes_by_the_time_that_a_call_has_set(at_work: Start) -> None:
    wait = Workflow("waiting", Desk)
    wait.wait("until_due", until=lambda d: d.due, then="done")

    @wait.on("move")
    def move(d: Desk, letter: Letter) -> None:
        d.due = datetime.fromisoformat(letter.text)

    wait.ends(done=True)
    worker = at_work(wait)
    worker.client.submit(wait, Desk(), id="one")
    sooner = datetime.now(UTC) - timedelta(days=1)

    worker.client.fire("one", "move", {"text": sooner.isoformat()})

    assert worker.reach("one", "done").data["due"] == sooner.isoformat().replace("+00:00", "Z")


def test_a_step_that_is_over_its_budget_after_it_has_paid_asks_a_person(at_work: Start) -> None:
    paid: list[int] = []
    flow = Workflow("paying", Desk, budget=Budget(tokens=1, over="spent"))

    @flow.step(once=True)
    def pay(d: Desk, work: Work) -> Literal["done"]:
        d.sent = send(paid)
        work.reserve(tokens=2)
        return "done"

    flow.ends(done=True, spent=False)
    worker = at_work(flow)
    worker.client.submit(flow, Desk(), id="one")

    assert worker.work("one").state == "pay_unclear"
    card = worker.client.card("one")
    assert card
    assert "2 tokens are needed" in card.question
    assert paid == [1]


def test_an_async_step_saves_begins_once_and_reserves_without_holding_up_others(
    at_work: Start,
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
    worker = at_work(flow)
    worker.client.submit(flow, Desk(), id="one")

    assert worker.reach("one", "done").data["sent"] == 3
    assert sent == [1, 2]


def test_an_async_step_is_told_to_await_what_waits(at_work: Start) -> None:
    flow = Workflow("slow", Desk, budget=Budget(tokens=5))

    @flow.step(max_attempts=1)
    async def work_on(d: Desk, work: Work) -> Literal["done"]:
        del d
        work.reserve(tokens=1)
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Desk(), id="one")

    assert "write `await work.reserve_async(...)`" in worker.perform("one") + str(
        worker.client.history("one")
    )
