"""A handler is not called again where only the table, or its outcome, is wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from interlock.kernel.errors import TableFunctionError
from interlock.kernel.event import Note
from interlock.kernel.record import partition_of
from interlock.kernel.store.codec import PAYLOAD_BYTES_MAX
from interlock.workers.api.app import create_app
from interlock.workers.engine.card import Card
from interlock.workers.engine.retry_delay import retry_delay_ms
from interlock.workers.engine.sweeps import stalls
from interlock.workers.engine.work import EffectWork, Outcome
from interlock.workers.engine.work_results import UnusableResultError
from interlock.workers.gateways.server import EmbeddedServer
from tests.sweeping import sweeping
from tests.waiting import until
from tests.workers.engine.payments import PAY, Payments, Trigger, payment
from tests.workers.engine.running import settings_for

NOTHING: dict[str, str] = {}


def broken(_: Any) -> Any:
    return NOTHING["customer"]


LINE = broken.__code__.co_firstlineno + 1
WHY = f"KeyError: 'customer' ({__file__}, line {LINE})"


@pytest.fixture
def payments(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Payments:
    found = Payments(settings_for(server.url, prefix, INTERLOCK_AUTH="none"), monkeypatch)
    found.use(payment(update=broken))
    return found


def asked(payments: Payments) -> Card:
    """Try what is owed until a person is asked, and return the card."""

    def cards() -> list[Card]:
        payments.sweep()
        return payments.client.cards_of("one")

    (card,) = until(cards, what="a person is asked")
    return card


def tried(payments: Payments) -> str:
    return until(
        lambda: "" if (line := payments.work()).startswith("revoked") or "early" in line else line,
        what="the next attempt is due",
    )


def failures(payments: Payments) -> list[str]:
    lines = payments.client.history("one")
    return [
        line.detail["detail"]
        for line in lines
        if isinstance(line, Note) and line.kind == "effect_failed"
    ]


@pytest.mark.parametrize("once", [False, True])
def test_an_update_that_raises_pays_once_and_a_person_commits_what_was_kept(
    payments: Payments, *, once: bool
) -> None:
    payments.use(payment(update=broken, once=once))
    payments.submit()

    lines = [tried(payments) for _ in range(3)]

    said = f"payment: the update of paying/paid raised {WHY}"
    kept = f"its outcome paid is kept, and only committed again: {said}"
    assert failures(payments) == [kept] * 3
    assert [kept in line for line in lines] == [True] * 3
    card = asked(payments)
    assert card.kind == "quarantine"
    assert said in card.question
    assert payments.paid == 1

    payments.use(payment(once=once))
    payments.client.decide("one", "retry", proposal=card.proposal)
    assert payments.work() == "paid -> approval"

    record = payments.client.show("one")
    assert (record.data["payment"], payments.paid) == ("p1", 1)


def test_the_functions_of_the_next_state_may_be_wrong_as_well(payments: Payments) -> None:
    (reminder,) = payment().stage("approval").timers
    payments.use(payment(timers=(replace(reminder, delay=broken),)))
    payments.submit()

    assert "payment: the timer reminder of approval raised" in payments.work()
    assert payments.paid == 1


WRONG: Mapping[str, tuple[Outcome, str]] = {
    "no trigger": (Outcome("payed"), "payment has no trigger 'payed'"),
    "no row": (Outcome("approve"), "payment: approve is not allowed in paying"),
    "no payload": (Outcome("paid", {"payment": 7}), "paid is invalid: payment"),
    "no data": (Outcome("paid", {"payment": "x" * 200_000}), "the data is invalid: it has"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_outcome_that_is_none_is_not_worked_out_again(payments: Payments, wrong: str) -> None:
    outcome, why = WRONG[wrong]
    payments.use(payment(update=lambda ask: {"all": [ask.payload["payment"]] * 50}))
    payments.submit()

    def pay(_: EffectWork) -> Outcome:
        payments.paid += 1
        return outcome

    for _ in range(3):
        until(lambda: "is kept" in payments.work(pay), what="the next attempt is due")

    assert why in asked(payments).question
    assert payments.paid == 1


UNUSABLE: Mapping[str, tuple[Any, str]] = {
    "too large": (
        Outcome(Trigger.PAID, {"payment": "x" * PAYLOAD_BYTES_MAX}),
        "the outcome is invalid: it has",
    ),
    "nothing": (None, "the handler ended without an outcome"),
    "no outcome": (7, "the handler of payment.pay returned int, and no Outcome"),
}


@pytest.mark.parametrize("wrong", UNUSABLE)
def test_what_cannot_be_kept_is_given_up_at_once(payments: Payments, wrong: str) -> None:
    result, why = UNUSABLE[wrong]
    payments.submit()

    def pay(_: EffectWork) -> Any:
        payments.paid += 1
        return result

    assert why in payments.work(pay)

    card = asked(payments)
    assert why in card.question
    assert "(after 1 attempt)" in card.question
    assert payments.paid == 1


def test_what_was_done_once_and_cannot_be_kept_asks_whether_it_was_done(
    payments: Payments,
) -> None:
    payments.use(payment(once=True))
    payments.submit()

    payments.work(lambda _: None)
    payments.sweep()

    assert payments.client.show("one").state == "unclear"


def test_a_handler_that_exits_has_failed_and_its_worker_has_not(payments: Payments) -> None:
    payments.submit()

    def leave(_: EffectWork) -> Outcome:
        raise SystemExit(3)

    said = "retry: tried again in 0.001 s: SystemExit: 3"
    assert payments.work(leave).startswith(f"{said} ({__file__}, line ")


def test_an_effect_says_how_long_a_failure_waits() -> None:
    assert [retry_delay_ms(PAY, n) for n in (1, 2, 3)] == [1, 2, 4]
    assert retry_delay_ms(replace(PAY, retry_delay_ms=400_000), 2) == 600_000
    assert retry_delay_ms(replace(PAY, retry_delay_ms=3_600_000), 9) == 3_600_000


def test_a_later_attempt_gets_back_what_was_saved(payments: Payments) -> None:
    payments.use(payment())
    payments.submit()
    calls: list[str] = []

    def ask_model(text: str, *, loud: bool = False) -> tuple[str, bool]:
        calls.append(text)
        return (text, loud)

    def think(work: EffectWork) -> Outcome:
        found = work.saved("model", ask_model, "hello", loud=True)
        assert found == ["hello", True], "as JSON gives it back, the first time too"
        if len(failures(payments)) == 0:
            raise OSError("the network is away")
        return Outcome(Trigger.PAID, {"payment": found[0]})

    assert "the network is away" in payments.work(think)
    line = until(
        lambda: None if "early" in (found := payments.work(think)) else found,
        what="the next attempt is due",
    )

    assert (line, calls) == ("paid -> approval", ["hello"])


def test_an_async_handler_gets_back_what_was_saved(payments: Payments) -> None:
    payments.use(payment())
    payments.submit()
    calls: list[str] = []

    async def ask_model(text: str) -> str:
        calls.append(text)
        return text

    async def think(work: EffectWork) -> Outcome:
        first = await work.saved_async("model", ask_model, "hello")
        assert first == await work.saved_async("model", ask_model, "again")
        return Outcome(Trigger.PAID, {"payment": first})

    assert (payments.work(think), calls) == ("paid -> approval", ["hello"])


def test_a_result_that_cannot_be_saved_is_not_asked_for_again(payments: Payments) -> None:
    payments.submit()

    def think(work: EffectWork) -> Outcome:
        payments.paid += 1
        work.saved("model", lambda: {1, 2})
        raise AssertionError

    assert "the result model is invalid: it is not JSON" in payments.work(think)
    assert "the result model is invalid" in asked(payments).question
    assert payments.paid == 1


def test_an_unusable_result_of_a_handler_s_own_is_given_up_at_once(payments: Payments) -> None:
    payments.submit()

    def pay(_: EffectWork) -> Outcome:
        raise UnusableResultError("it is none of its states")

    payments.work(pay)

    assert "it is none of its states" in asked(payments).question


def test_a_lost_holder_keeps_nothing(payments: Payments) -> None:
    payments.submit()

    def overtaken(work: EffectWork) -> Outcome:
        payments.client.dispatch.leases.release(work.lease, counted=True)
        return payments.pay(work)

    assert payments.work(overtaken).startswith("stale: paid")
    time.sleep(0.01)
    assert "is kept" in tried(payments)
    assert payments.paid == 2


def test_a_timer_that_a_function_of_the_table_prevents_is_in_the_log_once(
    payments: Payments, caplog: pytest.LogCaptureFixture
) -> None:
    payments.use(payment(late=broken, late_ms=1))
    payments.submit()
    dispatch, partition = payments.client.dispatch, partition_of("one")
    said = f"payment: the update of paying/late raised {WHY}"

    def swept() -> list[Note]:
        stalls.run(sweeping(dispatch), partition)
        found = payments.client.history("one")
        return [one for one in found if isinstance(one, Note) and one.kind == "table_failed"]

    (note,) = until(swept, what="the timer is due")
    assert note.detail == {"trigger": "late", "detail": said}
    assert f"it is tried again later: {said}" in caplog.text
    dispatch.client.zadd(dispatch.keys.timers(partition), {"one:late": 0})
    assert len(swept()) == 1

    payments.use(payment(late_ms=1))
    dispatch.client.zadd(dispatch.keys.timers(partition), {"one:late": 0})
    stalls.run(sweeping(payments.client.dispatch), partition)
    assert payments.client.show("one").state == "unclear"


@pytest.mark.parametrize("function", ["initial_data", "title"])
def test_a_submission_that_a_function_of_the_table_prevents_creates_nothing(
    payments: Payments, function: str
) -> None:
    changes: dict[str, Any] = {function: broken}
    payments.use(replace(payment(), **changes))
    said = f"payment: {function if function != 'title' else 'the title'} raised {WHY}"

    with pytest.raises(TableFunctionError) as refusal:
        payments.submit()
    body, headers = {"machine": "payment", "payload": {}}, {"Idempotency-Key": "one"}
    with TestClient(create_app(payments.client), base_url="http://127.0.0.1") as http:
        answer = http.post("/v1/records", json=body, headers=headers)

    assert str(refusal.value) == said
    assert (answer.status_code, answer.json()["detail"]) == (500, said)
    assert not payments.client.page(machine="payment").rows
