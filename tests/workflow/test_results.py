"""What a person says of a step that may have been done: the fields that it would have set."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, Literal

import pytest

from interlock import Data, Workflow
from interlock.kernel.errors import InvalidPayloadError
from interlock.workers.console.forms import fields_of
from tests.workflow.at_work import AtWork, Start


class Order(Data):
    item: str = "tea"
    payment: str = ""
    fee: int | None = None
    reason: str = ""
    question: str = ""


class Lost:
    """The other side, which never answers."""

    def pay(self) -> Any:
        raise TimeoutError("no answer")


BANK = Lost()
Ends = Literal["done", "failed"]


def one_way(o: Order) -> Literal["done"]:
    o.payment = BANK.pay()
    return "done"


def two_ways(o: Order) -> Ends:
    try:
        o.payment, o.fee = BANK.pay()
    except ValueError as refusal:
        o.reason = str(refusal)
        return "failed"
    if not o.payment:
        return "failed"
    with closing(BANK.pay()):
        return "done"


def in_a_loop(o: Order) -> Ends:
    for payment in BANK.pay():
        if payment:
            o.payment = payment
            return "done"
    o.reason = "none"
    return "failed"


def perhaps(o: Order) -> Literal["done"]:
    if fee := BANK.pay():
        o.fee = fee
    return "done"


def as_it_comes(o: Order) -> Ends:
    found: Ends
    o.payment, found = BANK.pay()
    return found


def nothing(o: Order) -> Ends:
    BANK.pay()
    return "done" if o.item else "failed"


@pytest.fixture
def unclear(at_work: Start) -> Callable[[Any], AtWork]:
    """Return what lets a step pay, after which nobody knows whether it has paid."""

    def started(step: Any) -> AtWork:
        flow = Workflow("parcel_order", Order, start="pay")
        flow.step(once=True, name="pay", on_failure="failed")(step)
        flow.ends(done=True, failed=False)
        worker = at_work(flow)
        worker.client.submit(flow, Order(), id="one")
        assert worker.work("one").state == "pay_unclear"
        return worker

    return started


PAYMENT, ANY = ["payment"], ["payment", "fee", "reason"]


@pytest.mark.parametrize(
    ("step", "taken", "shown"),
    [
        (one_way, {"done": PAYMENT}, {"done": """--answer '{"payment": "..."}'"""}),
        (
            two_ways,
            {"done": ["payment", "fee"], "failed": ANY},
            {"done": """--answer '{"payment": "...", "fee": "..."}'""", "failed": ""},
        ),
        (
            in_a_loop,
            {"done": PAYMENT, "failed": ["payment", "reason"]},
            {"done": """--answer '{"payment": "..."}'""", "failed": "--text '...'"},
        ),
        (perhaps, {"done": ["fee"]}, {"done": ""}),
        (
            as_it_comes,
            {"done": PAYMENT, "failed": PAYMENT},
            dict.fromkeys(("done", "failed"), """--answer '{"payment": "..."}'"""),
        ),
        (nothing, {"done": [], "failed": []}, {"done": "", "failed": ""}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_its_card_takes_and_shows_what_it_would_have_set_before_each_state(
    step: Any,
    taken: dict[str, list[str]],
    shown: dict[str, str],
    unclear: Callable[[Any], AtWork],
) -> None:
    worker = unclear(step)

    card = worker.client.card("one")

    assert card
    offered = {one.name: one for one in card.affordances if one.name in taken}
    assert {name: [*one.schema.get("properties", {})] for name, one in offered.items()} == taken
    commands = {name: one.command.partition(card.proposal)[2] for name, one in offered.items()}
    assert {name: command.strip() for name, command in commands.items()} == shown
    for name, fields in taken.items():
        said = f"{name} (with {', '.join(fields)}, as it would have set)" if fields else name
        assert said in card.question


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (one_way, "say what pay would have set: payment$"),
        (two_ways, "say what pay would have set: at least one of payment, fee$"),
    ],
)
def test_an_answer_without_all_that_it_would_have_set_is_refused(
    step: Any, sentence: str, unclear: Callable[[Any], AtWork]
) -> None:
    worker = unclear(step)

    with pytest.raises(InvalidPayloadError, match=sentence):
        worker.answer("one", "done")

    assert worker.client.show("one").state == "pay_unclear"
    assert worker.answer("one", "done", payment="p-7").data["payment"] == "p-7"


@pytest.mark.parametrize("step", [perhaps, nothing])
def test_a_step_that_may_set_nothing_needs_no_answer(
    step: Any, unclear: Callable[[Any], AtWork]
) -> None:
    assert unclear(step).answer("one", "done").state == "done"


def test_the_form_of_the_console_needs_what_it_would_have_set(
    unclear: Callable[[Any], AtWork],
) -> None:
    card = unclear(one_way).client.card("one")

    assert card
    fields = {one.name: fields_of(one.schema, {}) for one in card.affordances}
    assert [(one.name, one.required) for one in fields["done"]] == [("payment", True)]
    assert fields["again"] == []
