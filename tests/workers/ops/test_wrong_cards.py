"""A card is shown with its choices, whatever the functions of its table do; doctor names them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from interlock.kernel.machine import Machine
from interlock.workers.api.app import create_app
from interlock.workers.console.app import create_console
from interlock.workers.engine.effects import HANDLERS
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops.doctor import problems_of_cards
from tests.workers.engine.payments import Payments, Trigger, payment
from tests.workers.engine.running import settings_for

NOTHING: dict[str, str] = {}


def broken(*_: Any) -> Any:
    return NOTHING["customer"]


LINE = broken.__code__.co_firstlineno + 1
WHY = f"raised KeyError: 'customer' ({__file__}, line {LINE})"
AFFORDANCES = (("approve", Trigger.APPROVE), ("reject", Trigger.REJECT))


@pytest.fixture
def payments(server: EmbeddedServer, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Payments:
    """Return two payments that wait for a person, asked by a table without a fault."""
    found = Payments(settings_for(server.url, prefix, INTERLOCK_AUTH="none"), monkeypatch)
    found.use(payment())
    for record_id in ("one", "two"):
        found.client.submit({}, id=record_id, machine="payment")
        entry = found.client.show(record_id).entries[0]
        found.runner.perform(found.machine, "pay", found.pay, entry.key(record_id))
    return found


def wrong(part: str) -> Machine:
    """Return the table in which one function raises by now."""
    match part:
        case "the question of approval":
            return payment(question=broken)
        case "the title of approval":
            return replace(payment(), title=broken)
        case "the tags of approval":
            return replace(payment(), tags=broken)
        case "inspect of approval":
            return payment(inspect=broken)
        case "the choices of approval":
            return payment(offered_if={Trigger.APPROVE: broken})
        case _:
            affordances = (
                ("approve", Trigger.APPROVE),
                ("reject", Trigger.REJECT),
                ("again", Trigger.PAID),
            )
            return payment(affordances=affordances, values={Trigger.PAID: broken})


PARTS = [
    "the question of approval",
    "the title of approval",
    "the tags of approval",
    "inspect of approval",
    "the choices of approval",
    "the values of paid of approval",
]


# A decision gives the record its new title.
NEEDED_TO_DECIDE = {"the title of approval"}


@pytest.mark.parametrize("part", PARTS)
def test_a_card_is_shown_though_a_part_of_it_cannot_be_made(payments: Payments, part: str) -> None:
    payments.use(wrong(part))
    said = f"payment: {part} {WHY}"

    cards = payments.client.cards()

    assert [card.record_id for card in cards] == ["one", "two"]
    for card in cards:
        assert [each.name for each in card.affordances][:2] == ["approve", "reject"]
        assert card.question.endswith(f"Not all of this card can be shown: {said}.")
    assert payments.client.card("one") == cards[0]
    assert list(problems_of_cards(payments.client.dispatch)) == [
        f"2 cards, such as that of one cannot be shown whole: {said}; repair that function"
    ]
    if part not in NEEDED_TO_DECIDE:
        done = payments.client.decide("one", "reject", proposal=cards[0].proposal)
        assert done.state == "failed"


def test_its_question_is_everywhere_where_cards_are(payments: Payments) -> None:
    payments.use(payment(question=broken))
    said = f"payment: the question of approval {WHY}"
    client = payments.client

    with TestClient(create_app(client), base_url="http://127.0.0.1") as http:
        listed = http.get("/v1/cards").json()["cards"]
    with TestClient(create_console(client), base_url="http://127.0.0.1") as browser:
        inbox, page = browser.get("/inbox").text, browser.get("/inbox/one").text

    assert [said in card["question"] for card in listed] == [True, True]
    assert "the question of approval raised KeyError" in inbox
    assert "the question of approval raised KeyError" in page
    assert "reject" in page.casefold()


def test_the_effect_that_shows_cards_does_not_fail(payments: Payments) -> None:
    payments.use(payment(question=broken))

    assert payments.work(HANDLERS["resolution"], "resolution") == "settled"


def test_a_card_that_no_list_can_show_is_named_by_doctor(payments: Payments) -> None:
    payments.use(payment(asks=broken))

    (problem,) = problems_of_cards(payments.client.dispatch)

    assert f"payment: asks of approval {WHY}; repair that function" in problem


def test_a_table_without_a_fault_has_no_wrong_card(payments: Payments) -> None:
    assert list(problems_of_cards(payments.client.dispatch)) == []


def test_what_is_foretold_of_a_record_may_be_wrong_as_well(payments: Payments) -> None:
    payments.use(payment(outlook=broken))
    record = payments.client.show("one")

    assert payments.client.outlook(record) == f"payment: the outlook of approval {WHY}"
