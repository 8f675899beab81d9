"""Workflows whose records an older version has left: states renamed and retired, older data."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from interlock import Data, Log, Workflow
from interlock.kernel.blame import PlacedError


class OldRefund(Data):
    order: str
    cents: int


class Refund(Data):
    order: str
    euros: float
    notes: Log[str] = []


def with_cents(data: dict[str, Any]) -> dict[str, Any]:
    return {"order": data["order"], "cents": data["dollars"]}


def in_euros(old: OldRefund) -> Refund:
    return Refund(order=old.order, euros=old.cents / 100)


def refund_of(**options: Any) -> Workflow[Refund]:
    refund = Workflow("refund", Refund, **options)

    @refund.step
    def check(r: Refund) -> Literal["approval", "payment"]:
        return "approval" if r.euros > 1 else "payment"

    refund.ask("approval", "Pay {euros}?", approve="payment", reject="failed")

    @refund.step(once=True)
    def payment(r: Refund) -> Literal["done"]:
        r.notes.append("paid")
        return "done"

    @refund.step(once=True)
    def manual_check(r: Refund) -> Literal["manual_approval"]:
        r.notes.append("checked")
        return "manual_approval"

    refund.ask("manual_approval", "Pay {euros}?", yes="payment", no="refused")
    refund.ends(done=True, failed=False, refused=False)
    return refund


RETIRED = ("manual_check", "manual_approval", "refused")


def test_what_is_retired_is_kept_for_its_records_with_its_question() -> None:
    machine = refund_of(retired=(*RETIRED, "expired")).machine

    assert machine.retired == (*RETIRED, "expired", "manual_check_unclear")
    assert machine.stages[0].state == "check"
    assert machine.rows("manual_check_unclear", "manual_check_unclear_again")
    assert {"refused", "expired"} <= {str(stage.state) for stage in machine.stages}


def test_the_question_of_a_step_is_renamed_with_it() -> None:
    renamed = {"asking": "approval", "pay": "payment", "checking": "check"}

    machine = refund_of(retired=RETIRED, renamed=renamed).machine

    assert machine.renamed == {**renamed, "pay_unclear": "payment_unclear"}


def test_older_data_pass_through_each_function_to_the_present_schema() -> None:
    both = {1: with_cents, 2: in_euros}
    migrate = refund_of(retired=RETIRED, schema=3, migrate=both).machine.migrate
    assert migrate

    expected = {"order": "o-1", "euros": 0.5, "notes": [], "_once": ["pay"]}
    assert migrate({"order": "o-1", "dollars": 50, "_once": ["pay"]}, 1) == expected
    assert migrate({"order": "o-1", "cents": 50, "_once": ["pay"]}, 2) == expected
    assert migrate(expected, 3) == expected


def broken(data: dict[str, Any]) -> Any:
    return data["nothing"]


def unfit(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "euros": "many"}


def none(data: dict[str, Any]) -> Any:
    del data


SAMPLE = {"order": "o-1", "cents": 5}
WRONG: list[tuple[Any, dict[str, Any], int, str]] = [
    (in_euros, SAMPLE, 1, "no way leads from data of schema 1, as migrate= has functions from 2"),
    (
        in_euros,
        {"order": "o-1"},
        2,
        "the older data do not fit OldRefund: cents: this field is mis",
    ),
    (broken, SAMPLE, 2, "KeyError: 'nothing'"),
    (unfit, SAMPLE, 2, "what migrate= makes of schema 2 is invalid: euros: "),
    (none, SAMPLE, 2, "migrate= returned NoneType, and data are a dict or a model"),
]


@pytest.mark.parametrize(("function", "data", "schema", "words"), WRONG)
def test_older_data_that_cannot_be_made_newer_are_refused_with_a_line(
    function: Any, data: dict[str, Any], schema: int, words: str
) -> None:
    migrate = refund_of(retired=RETIRED, schema=3, migrate=function).machine.migrate
    assert migrate

    with pytest.raises(PlacedError) as refusal:
        migrate(data, schema)

    assert words in str(refusal.value)
    assert f"({__file__}, line " in str(refusal.value)
