"""Rows by hand in a workflow, and the names of its parts for them and for callers."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import pytest

from interlock import (
    PERSON,
    PRODUCER,
    Ask,
    Data,
    Inbox,
    Shape,
    Work,
    Workflow,
    WorkflowError,
    by,
    move,
    reenter,
    stay,
)
from interlock.kernel.errors import (
    CallError,
    GuardRefusedError,
    InvalidPayloadError,
    TableFunctionError,
)
from interlock.workflow.changing import ONCE
from tests.workflow.at_work import AtWork, Start


class Extra(StrEnum):
    WAIVE = "waive"
    RAISE = "raise_to"
    AGAIN = "look_again"
    NOTE = "note_down"
    BREAK = "break_it"


class Amount(Shape):
    cents: int


class Item(Data):
    name: str


class Claim(Data):
    cents: int
    note: str = ""
    mail: Inbox[str] = []
    items: list[Item] = []


def small(ask: Ask) -> bool:
    return bool(ask.data["cents"] <= 20_00)


def raised(ask: Ask) -> dict[str, Any]:
    assert not any(name.startswith("_") for name in ask.data)
    return {**ask.data, "cents": ask.payload["cents"]}


def claims() -> Workflow[Claim]:
    claim = Workflow("own_claim", Claim, start="approval")
    claim.ask("approval", "Pay {cents}?", approve="pay", reject="failed", list="work_on")

    @claim.each("items", then="pay", on_failure="skip")
    def work_on(item: Item) -> None:
        item.name = item.name.upper()

    @claim.step
    def pay(_: Claim, work: Work) -> Literal["done"]:
        work.once("pay", lambda: None)
        return "done"

    claim.rows(
        claim.at("approval"),
        move(
            Extra.WAIVE,
            claim.at("done"),
            by(PRODUCER),
            guard=small,
            refusal="only up to 20 EUR",
        ),
        move(claim.trigger("approve"), claim.at("done"), by(PERSON), guard=small),
        reenter(Extra.RAISE, by(PERSON, PRODUCER), update=raised),
        stay(Extra.NOTE, by(PRODUCER), update=lambda ask: {**ask.data, "note": "seen"}),
        stay(Extra.BREAK, by(PRODUCER), update=lambda _: None),  # type: ignore[arg-type,return-value]
        move(Extra.AGAIN, claim.at("work_on"), by(PRODUCER)),
        payloads={Extra.RAISE: Amount},
    )
    claim.rows("work_on", move(Extra.AGAIN, claim.at("approval"), by(PRODUCER)))
    claim.rows("pay", move(Extra.AGAIN, claim.at("approval"), by(PRODUCER)))
    claim.rows("pay_unclear", move(Extra.AGAIN, claim.at("approval"), by(PRODUCER)))
    claim.ends(done=True, failed=False)
    return claim


@pytest.fixture
def worker(at_work: Start) -> AtWork:
    claim = claims()
    return at_work(claim, claim.children.work_on)


def submit(worker: AtWork, **payload: Any) -> None:
    worker.client.submit({"cents": 10_00, **payload}, machine="own_claim", id="c-1")


def fire(worker: AtWork, trigger: str, **payload: Any) -> str:
    return worker.client.fire("c-1", trigger, payload).state


def test_a_row_by_hand_moves_a_record_where_its_guard_agrees(worker: AtWork) -> None:
    submit(worker)

    assert fire(worker, Extra.WAIVE) == "done"


def test_its_refusal_is_what_the_caller_reads(worker: AtWork) -> None:
    submit(worker, cents=50_00)

    with pytest.raises(GuardRefusedError, match="only up to 20 EUR"):
        fire(worker, Extra.WAIVE)


@pytest.mark.parametrize(("cents", "state"), [(10_00, "done"), (50_00, "pay")])
def test_it_goes_before_the_own_rows_of_its_trigger(worker: AtWork, cents: int, state: str) -> None:
    submit(worker, cents=cents)

    assert worker.answer("c-1", "approve").state == state


def test_what_it_sets_is_checked_as_every_other_change(worker: AtWork) -> None:
    submit(worker)
    fire(worker, Extra.RAISE, cents=70_00)
    card = worker.client.card("c-1")
    assert card
    assert card.question == "Pay 7000?"

    with pytest.raises(InvalidPayloadError, match="cents"):
        fire(worker, Extra.RAISE, cents="many")
    with pytest.raises(
        TableFunctionError, match=r"update= returned NoneType.*test_by_hand.py, line"
    ):
        fire(worker, Extra.BREAK)
    assert worker.client.show("c-1").data["cents"] == 70_00


def test_data_that_do_not_fit_their_model_are_refused(at_work: Start) -> None:
    claim = Workflow("own_claim", Claim)
    claim.ask("approval", "Pay {cents}?", approve="done")
    wrong = stay(Extra.NOTE, by(PRODUCER), update=lambda ask: {**ask.data, "note": 7})
    claim.rows("approval", wrong)
    claim.ends(done=True)
    worker = at_work(claim)
    submit(worker)

    with pytest.raises(InvalidPayloadError, match="what the row sets"):
        fire(worker, Extra.NOTE)


def test_a_row_into_and_out_of_a_family_creates_and_closes_its_children(worker: AtWork) -> None:
    submit(worker, items=[{"name": "a"}, {"name": "b"}])
    fire(worker, Extra.AGAIN)
    worker.work("c-1")
    children = worker.client.dispatch.views.children("c-1")
    assert len(children) == 2
    fire(worker, Extra.AGAIN)
    worker.work("c-1")

    assert {worker.client.show(child).state for child in children} == {"cancelled"}


def test_no_row_leaves_a_step_in_which_something_has_begun_once(worker: AtWork) -> None:
    submit(worker, cents=50_00)
    worker.answer("c-1", "approve")
    assert fire(worker, Extra.AGAIN) == "approval", "nothing has begun"
    worker.answer("c-1", "approve")
    entry = worker.entries("c-1")[0]
    handler = worker.flows["own_claim"].handlers[entry.name]

    def in_the_middle(work: Any) -> Any:
        outcome = handler(work)
        assert ONCE in worker.client.show("c-1").data
        with pytest.raises(CallError, match="pay may be done once and may have begun"):
            fire(worker, Extra.AGAIN)
        return outcome

    worker.perform("c-1", in_the_middle)
    assert worker.client.show("c-1").state == "done"


def test_parts_are_named_for_callers(worker: AtWork) -> None:
    claim = worker.flows["own_claim"]
    assert isinstance(claim, Workflow)
    submit(worker)

    assert fire(worker, claim.trigger("waive")) == claim.at("done")
    assert [one.id for one in worker.client.list(state=claim.at("done"))] == ["c-1"]


def test_a_name_that_there_is_not_is_refused_also_after_the_end() -> None:
    claim = claims()

    with pytest.raises(
        WorkflowError, match=r"'aproval' is no state of own_claim: .*approval.*line"
    ):
        claim.at("aproval")
    with pytest.raises(WorkflowError, match=r"'waves' is no trigger of own_claim: .*waive.*line"):
        claim.trigger("waves")
