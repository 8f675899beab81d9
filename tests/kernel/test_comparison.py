"""What another table means for the records of the one before it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, create_model

from interlock import Data, Work, Workflow, days, hours
from interlock.kernel.comparison import compare
from interlock.kernel.effect import Effect
from interlock.kernel.machine import Machine
from interlock.kernel.machines import MACHINES
from interlock.kernel.outline import outline_of
from interlock.kernel.payload import CardAnswer
from interlock.kernel.rows import by
from interlock.kernel.table_change import Outlook, TableChange
from tests.workers.engine.payments import PAY, Trigger, payment


class Refund(Data):
    order: str


def asked(**changes: Any) -> Machine:
    """Return a refund that a person approves, and that is then paid."""
    refund: Workflow[Any] = Workflow("refund", Refund, expires=days(3), start="asking")
    choices = {"approve": "pay", "reject": "failed"}
    refund.ask("asking", "Refund {order}?", **{**choices, **changes})
    paying(refund)
    return refund.machine


def paying(refund: Workflow[Any], ends: Any = Literal["done", "failed"], **step: Any) -> None:
    def pay(r: Refund) -> str:
        return r.order

    pay.__annotations__["return"] = ends
    refund.step(**step)(pay) if step else refund.step(pay)
    refund.ends(done=True, failed=False)


def paid(ends: Any = Literal["done", "failed"], **step: Any) -> Machine:
    refund: Workflow[Any] = Workflow("refund", Refund, start="asking")
    refund.ask("asking", "Refund {order}?", approve="pay", reject="failed")
    paying(refund, ends, **step)
    return refund.machine


def waits(**wait: Any) -> Machine:
    refund: Workflow[Any] = Workflow("refund", Refund, start="pause", expires=days(3))
    refund.wait("pause", **wait)
    refund.ends(done=True)
    return refund.machine


def at_noon(r: Refund) -> datetime:
    del r
    return datetime(2030, 1, 1, 12, tzinfo=UTC)


def questions(**question: Any) -> Machine:
    refund: Workflow[Any] = Workflow("refund", Refund, start="pause", expires=days(3))
    refund.ask("pause", "Go on?", **question)
    refund.ends(done=True)
    return refund.machine


def steps() -> Machine:
    refund: Workflow[Any] = Workflow("refund", Refund, start="pause")

    @refund.step
    def pause(r: Refund) -> Literal["done"]:
        assert r.order
        return "done"

    refund.ends(done=True)
    return refund.machine


def found(old: Machine, new: Machine) -> dict[str, TableChange]:
    return {change.what: change for change in compare(outline_of(old), new)}


LATE: dict[str, Any] = {"timeout": days(1), "on_timeout": "done"}
STRANDED: dict[str, tuple[Machine, Machine, str]] = {
    "a step that becomes a question": (
        steps(),
        questions(go="done"),
        "pause was a step, and is a question",
    ),
    "a question that becomes a step": (
        questions(go="done", **LATE),
        steps(),
        "pause was a question, and is a step",
    ),
    "a wait that becomes a question": (
        waits(go="done"),
        questions(go="done"),
        "pause was a wait, and is a question",
    ),
    "a wait for a record that becomes one for a time": (
        waits(record=lambda r: r.order, then="done", on_failure="done"),
        waits(until=at_noon, then="done"),
        "pause was a wait for a record, and is a wait",
    ),
    "a wait for a call that becomes one for a time": (
        waits(go="done"),
        waits(**LATE, until=at_noon, then="done"),
        "nothing that pause waited for moves a record on from pause",
    ),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_table_is_no_change_of_itself(name: str) -> None:
    assert compare(outline_of(MACHINES[name]), MACHINES[name]) == ()


@pytest.mark.parametrize("name", STRANDED)
def test_a_state_in_which_nothing_moves_its_records_on_strands_them(name: str) -> None:
    old, new, what = STRANDED[name]

    stranded = [one for one in compare(outline_of(old), new) if one.verdict is Outlook.STRANDED]
    (change,) = [one for one in stranded if one.states == ("pause",)]

    assert change.what == what
    assert change.means == (
        "give it another name, and keep pause as it was, with retired=('pause',)"
    )


def test_a_state_that_waits_for_something_else_keeps_those_that_a_timer_or_a_call_moves_on() -> (
    None
):
    asks, pauses = questions(go="done", **LATE), waits(stop="done", **LATE)

    withdrawn, unasked = found(asks, pauses), found(pauses, asks)

    change = withdrawn["pause was a question, and is a wait"]
    assert (change.verdict, change.means) == (Outlook.GOING_ON, "their cards are withdrawn")
    change = unasked["pause was a wait, and is a question"]
    assert (change.verdict, change.means) == (Outlook.GOING_ON, "nobody is asked about them")


def test_ways_that_lead_elsewhere_are_told() -> None:
    old = asked(timeout=days(1), on_timeout="failed")

    other = found(old, asked(approve="done", timeout=days(1), on_timeout="pay"))
    step = found(paid(), paid(Literal["done", "asking"], on_failure="failed"))
    given_up = found(paid(on_failure="failed"), paid(on_failure="asking"))

    too = "those that are there go there, too"
    assert {what: change.means for what, change in other.items()} == {
        "the choice approve of asking leads to done instead of pay": too,
        "the timer timeout of asking leads to pay instead of failed": too,
    }
    assert step["pay leads to asking now"].means == "an attempt that has begun ends as before"
    assert "pay does not lead to failed any more" not in step
    assert given_up["give_up of pay leads to asking instead of failed"].means == too
    assert found(paid(), paid(Literal["done"]))["pay does not lead to failed any more"]


def test_a_way_that_leads_to_a_renamed_state_leads_where_it_did() -> None:
    refund: Workflow[Any] = Workflow("refund", Refund, start="asking", renamed={"pay": "payment"})
    refund.ask("asking", "Refund {order}?", approve="payment", reject="failed")

    @refund.step
    def payment(r: Refund) -> Literal["done", "failed"]:
        return "done" if r.order else "failed"

    refund.ends(done=True, failed=False)

    assert [*found(paid(), refund.machine)] == ["pay is called payment now"]


def with_effect(effect: Effect) -> Machine:
    table = payment()
    rows = tuple(
        replace(row, by=by(effect)) if "pay" in row.by else row for row in table.transitions
    )
    first: Any
    first, *others = table.stages
    return replace(table, stages=(replace(first, effect=effect), *others), transitions=rows)


def test_an_effect_that_is_called_otherwise_in_its_state_strands_those_that_owe_it() -> None:
    other = with_effect(replace(PAY, name="transfer"))

    change = found(payment(), other)["paying has the effect transfer instead of pay"]

    assert (change.verdict, change.states) == (Outlook.STRANDED, ("paying",))
    assert change.means == "give the state another name as well, by renamed={'paying': ...}"


def test_an_effect_that_still_leads_on_from_its_state_strands_nobody() -> None:
    table = with_effect(replace(PAY, name="transfer"))
    both = {
        "paid": lambda row: replace(row, by=by(replace(PAY, name="transfer"), PAY)),
        "reject": lambda row: replace(row, effect=PAY),
    }
    rows = (both.get(row.trigger, lambda row: row)(row) for row in table.transitions)
    table = replace(table, transitions=tuple(rows))

    assert not [one for one in found(payment(), table).values() if one.verdict is Outlook.STRANDED]


class Kind(StrEnum):
    CARD = "card"
    CASH = "cash"


def cart(**fields: Any) -> type[Data]:
    return create_model("Cart", __base__=Data, **fields)


def items(**fields: Any) -> type[Data]:
    item: Any = create_model("Item", __base__=Data, **fields)
    return cart(items=(list[item], []))


DATA: dict[str, tuple[type[Data], type[Data], str]] = {
    "a required field of items": (
        items(price=(int, ...)),
        items(price=(int, ...), vat=(int, ...)),
        "the data have a new field items.vat without a default",
    ),
    "a field of items that is gone": (
        items(price=(int, ...), vat=(int, ...)),
        items(price=(int, ...)),
        "the data have no field items.vat any more",
    ),
    "a limit of items": (
        items(price=(int, ...)),
        items(price=(Annotated[int, Field(le=5)], ...)),
        "items.price was int, and is int (le 5)",
    ),
    "a default that is gone": (
        cart(kind=(str, "")),
        cart(kind=(str, ...)),
        "kind has no default any more",
    ),
    "a member of a Literal that is gone": (
        cart(kind=(Literal["card", "cash"], ...)),
        cart(kind=(Literal["card"], ...)),
        "kind was 'card' | 'cash', and is 'card'",
    ),
    "a member of an enum that is gone": (
        cart(kind=(Kind, ...)),
        cart(kind=(Literal["cash"], ...)),
        "kind was 'card' | 'cash', and is 'cash'",
    ),
    "a limit of a length": (
        cart(kind=(Annotated[str, Field(max_length=9)], ...)),
        cart(kind=(Annotated[str, Field(min_length=1, max_length=5)], ...)),
        "kind was str (max_length 9), and is str (min_length 1, max_length 5)",
    ),
}


@pytest.mark.parametrize("name", DATA)
def test_data_that_may_not_fit_are_told_by_the_field_that_they_are_in(name: str) -> None:
    old, new, what = DATA[name]
    table = payment()

    (change,) = compare(outline_of(replace(table, model=old)), replace(table, model=new))

    assert (change.verdict, change.what) == (Outlook.STRANDED, what)
    assert change.field in ("items", "kind")
    assert change.fitting


PAYLOADS: dict[str, tuple[Any, str, str]] = {
    "a type": ((int, 0), "payment of paid was str, and is int", "and does not fit that"),
    "a default that is gone": ((str, ...), "paid needs payment", "without it"),
    "a field that is gone": (None, "paid has no payment any more", "with it"),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_of_another_shape_is_told(name: str) -> None:
    payment_field, what, which = PAYLOADS[name]
    fields: Any = {"payment": payment_field} if payment_field else {}
    model = create_model("Paid", __base__=CardAnswer, **fields)

    (change,) = compare(outline_of(payment()), replace(payment(), payloads={Trigger.PAID: model}))

    assert (change.verdict, change.what) == (Outlook.GOING_ON, what)
    assert change.means == f"what is under way {which} is refused"
    assert change.states == ("paying", "approval", "unclear")


def test_timers_and_options_are_told_by_what_they_mean_for_those_that_are_there() -> None:
    remind = found(asked(), asked(remind=hours(2)))
    counted = found(paid(), paid(concurrency=2))

    assert [change.means for change in remind.values()] == ["those that are set keep their time"]
    assert counted["pay has concurrency 2, not 0"].means == "those that are owed are not counted"


@pytest.mark.parametrize("option", [{"once": True}, {"on_failure": "failed"}])
def test_a_step_after_whose_failure_nothing_follows_any_more_strands_those_that_owe_it(
    option: dict[str, Any],
) -> None:
    changes = compare(outline_of(paid(**option)), paid())

    (change,) = [one for one in changes if one.states == ("pay",) and one.verdict == "stranded"]

    assert change.what.startswith("nothing follows any more where ")
    assert change.means == (
        "keep that, or give it another name, and keep pay as it was, with retired=('pay',)"
    )


def test_what_follows_a_failure_from_now_on_does_not_for_those_that_are_owed() -> None:
    changes = found(paid(), paid(on_failure="failed"))

    assert changes["give_up follows where the attempts at pay are used up"].means == (
        "those that are owed ask a person"
    )


def done_once(*names: str, is_once: bool = True, **past: Any) -> Machine:
    """Return a refund whose first step is only done once if `is_once`, and all others are."""
    refund: Workflow[Any] = Workflow("refund", Refund, start="asking", **past)
    refund.ask("asking", "Refund {order}?", approve=names[0], reject="failed")
    for name in names:

        @refund.step(name=name, once=is_once or name != names[0])
        def pay(r: Refund) -> Literal["done"]:
            assert r.order
            return "done"

    refund.ends(done=True, failed=False)
    return refund.machine


def marked_once() -> Machine:
    refund: Workflow[Any] = Workflow("refund", Refund, start="pay")

    @refund.step
    def pay(r: Refund, work: Work) -> Literal["done"]:
        work.once("charge", lambda: r.order)
        return "done"

    refund.ends(done=True)
    return refund.machine


def asked_to_pay() -> Machine:
    refund: Workflow[Any] = Workflow("refund", Refund, start="pay")
    refund.ask("pay", "Refund {order}?", yes="done")
    refund.ends(done=True)
    return refund.machine


KEPT = "give it another name, and keep pay as it was, with retired=('pay',)"
TO_PAYMENT: dict[str, Any] = {"renamed": {"pay": "payment"}}
# A step before and after, what to do for the records in its question, and what that comes to.
GONE: dict[str, tuple[Machine, Machine, str, list[Machine]]] = {
    "the step has another name": (
        done_once("pay"),
        done_once("payment"),
        "say renamed={'pay': ...}, or keep pay and say retired=('pay',): the question follows it",
        [done_once("payment", **TO_PAYMENT), done_once("payment", "pay", retired=("pay",))],
    ),
    "the step may be done more than once": (
        done_once("pay"),
        done_once("pay", is_once=False),
        f"keep once= of pay, or {KEPT}",
        [done_once("payment", "pay", is_once=False, retired=("pay",))],
    ),
    "the renamed step may be done more than once": (
        done_once("pay"),
        done_once("payment", is_once=False, **TO_PAYMENT),
        f"keep once= of payment, or {KEPT}",
        [done_once("payment", **TO_PAYMENT)],
    ),
    "the step marks nothing as done once": (
        marked_once(),
        done_once("pay", is_once=False),
        f"keep work.once of pay, or {KEPT}",
        [],
    ),
    "the step is a question": (done_once("pay"), asked_to_pay(), KEPT, []),
}


@pytest.mark.parametrize("name", GONE)
def test_the_question_whether_a_step_was_done_is_kept_as_is_said(name: str) -> None:
    old, new, cure, cured = GONE[name]

    assert found(old, new)["pay_unclear is gone"].means == cure
    for machine in cured:  # the import has not refused it
        after = found(old, machine).values()
        stranded = [one.what for one in after if one.verdict is Outlook.STRANDED]
        assert stranded == []
