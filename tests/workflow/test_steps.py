"""Steps: where they lead, what they change, and what happens to one that may be done once."""

from __future__ import annotations

from typing import Literal

import pytest

from interlock import Data, Work, Workflow, days
from interlock.kernel.errors import GuardRefusedError, InvalidPayloadError
from tests.workflow.at_work import Start


class Refund(Data):
    order: str
    cents: int
    payment: str = ""
    reason: str = ""


class Bank:
    """The other side: it counts what it was asked to pay, and may fail after that."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.failure: Exception | None = None

    def pay(self, refund: str) -> str:
        self.paid.append(refund)
        if self.failure:
            raise self.failure
        return f"p-{refund}"


def refunds(bank: Bank) -> Workflow[Refund]:
    refund = Workflow("refund", Refund, expires=days(3), title="Refund of {order}")

    @refund.step
    def check(r: Refund) -> Literal["approval", "pay", "failed"]:
        if r.cents <= 0:
            r.reason = f"{r.cents} is not positive"
            return "failed"
        return "approval" if r.cents > 100_00 else "pay"

    refund.ask("approval", "Refund {cents} cents of {order}?", approve="pay", reject="failed")

    @refund.step(once=True)
    def pay(r: Refund, work: Work) -> Literal["done"]:
        r.payment = bank.pay(work.id)
        return "done"

    refund.ends(done=True, failed=False)
    return refund


@pytest.fixture
def bank() -> Bank:
    return Bank()


def test_a_record_goes_where_its_steps_lead_and_keeps_what_they_set(
    at_work: Start, bank: Bank
) -> None:
    worker = at_work(refunds(bank))
    for name, cents in (("small", 50), ("none", 0), ("large", 500_00)):
        worker.client.submit({"order": "o-1", "cents": cents}, machine="refund", id=name)

    ends = {name: worker.work(name) for name in ("small", "none", "large")}

    assert {name: one.state for name, one in ends.items()} == {
        "small": "done",
        "none": "failed",
        "large": "approval",
    }
    assert ends["small"].data["payment"] == "p-small"
    assert ends["none"].data["reason"] == "0 is not positive"
    card = worker.client.card("large")
    assert card
    assert card.question == "Refund 50000 cents of o-1?"
    assert [offer.name for offer in card.affordances] == ["approve", "reject"]
    assert worker.answer("large", "approve").state == "pay"
    assert worker.work("large").data["payment"] == "p-large"
    assert bank.paid == ["small", "large"]
    assert ends["small"].title == "Refund of o-1"


def test_a_step_that_may_be_done_once_is_not_repeated_and_a_person_says_what_is_so(
    at_work: Start, bank: Bank
) -> None:
    worker = at_work(refunds(bank))
    worker.client.submit({"order": "o-1", "cents": 50}, machine="refund", id="one")
    worker.perform("one")
    bank.failure = TimeoutError("no answer")

    worker.perform("one")
    worker.sweep("one")

    card = worker.client.card("one")
    assert card, worker.lines
    assert "TimeoutError: no answer" in card.question
    assert worker.client.show("one").state == "pay_unclear"
    assert worker.answer("one", "done", payment="p-7").data["payment"] == "p-7"
    assert worker.client.show("one").state == "done"
    assert bank.paid == ["one"]


def test_a_step_that_may_be_done_once_is_not_cancelled(at_work: Start, bank: Bank) -> None:
    worker = at_work(refunds(bank))
    worker.client.submit({"order": "o-1", "cents": 50}, machine="refund", id="one")
    worker.perform("one")

    with pytest.raises(GuardRefusedError, match="pay may be done once and may have begun"):
        worker.client.cancel("one", reason="no")
    worker.client.submit({"order": "o-1", "cents": 50}, machine="refund", id="two")
    assert worker.client.cancel("two", reason="ordered twice").state == "cancelled"


def test_while_nobody_knows_whether_it_was_done_it_is_not_cancelled_but_by_its_card(
    at_work: Start, bank: Bank
) -> None:
    worker = at_work(refunds(bank))
    worker.client.submit({"order": "o-1", "cents": 50}, machine="refund", id="one")
    bank.failure = TimeoutError("no answer")
    assert worker.work("one").state == "pay_unclear"

    with pytest.raises(GuardRefusedError, match="pay was done is not known: answer its card first"):
        worker.client.cancel("one", reason="no")

    assert [timer.name for timer in worker.client.show("one").timers] == ["reminder"]
    assert worker.answer("one", "cancelled").state == "cancelled"
    assert bank.paid == ["one"]


def test_what_does_not_fit_the_data_is_refused_at_submission(at_work: Start, bank: Bank) -> None:
    worker = at_work(refunds(bank))

    for payload, fault in (
        ({"order": "o", "cents": "many"}, "cents: Input should be a valid integer"),
        ({"order": "o"}, "cents: this field is missing"),
        ({"order": "o", "cents": 1, "centz": 1}, "centz: Extra inputs are not permitted"),
    ):
        with pytest.raises(InvalidPayloadError, match=fault):
            worker.client.submit(payload, machine="refund")


def test_a_refund_that_nobody_answers_expires_three_days_after_its_creation(
    at_work: Start, bank: Bank
) -> None:
    worker = at_work(refunds(bank))
    worker.client.submit({"order": "o-1", "cents": 500_00}, machine="refund", id="one")
    worker.work("one")
    [expiry] = [one for one in worker.client.show("one").timers if one.name == "expiry"]
    created_ms = worker.client.history("one")[0].at_ms

    assert expiry.due_at == created_ms + 3 * 86_400_000
