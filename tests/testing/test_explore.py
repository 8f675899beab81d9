"""Explorations: what is wrong with a workflow is found, with the walk that shows it again."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from refund import Refund

from interlock import Data, Work, Workflow
from interlock.testing import FoundError, KitError, explore
from interlock.testing.findings import Report, WalkFinding
from interlock.testing.store import KitStore


class Order(Data):
    cents: int = 100
    city: str | None = None
    note: str = ""


def found_in(store: KitStore, flow: Workflow[Any], *data: Data, **options: Any) -> Report:
    """Return what an exploration finds that must find something."""
    with pytest.raises(FoundError) as failure:
        explore(flow, list(data), store=store, **options)
    return failure.value.report


def shown_again(
    store: KitStore, flow: Workflow[Any], finding: WalkFinding, *data: Data
) -> WalkFinding:
    """Return what the walk of a finding finds."""
    report = found_in(store, flow, *data, replay=finding.replay)
    assert report.walks == 1
    (again,) = [one for one in report.findings if one.kind == finding.kind]
    return again


# --- planted faults: one of each kind ----------------------------------------------------------

paid_again = Workflow("explored_paid_again", Order, start="pay")


@paid_again.step(once=True)
def pay(o: Order) -> Literal["receipt"]:
    o.note = "paid"
    return "receipt"


@paid_again.step(on_failure="pay")
def receipt(_: Order) -> Literal["done"]:
    return "done"


paid_again.ends(done=True)


def test_a_failure_that_leads_back_to_a_step_of_once_is_found(interlock_store: KitStore) -> None:
    report = found_in(interlock_store, paid_again, Order())

    (finding,) = report.findings
    assert (finding.kind, finding.what) == ("called twice", "pay")
    assert "receipt failed, which led back to it" in finding.sentence
    assert finding.replay == "pay:receipt receipt:fail pay:receipt"
    assert finding.replay in str(report)
    assert shown_again(interlock_store, paid_again, finding, Order()).sentence == finding.sentence


def test_a_step_that_raises_until_it_fails_is_one_word_of_a_walk(
    interlock_store: KitStore,
) -> None:
    looked = Workflow("explored_looked", Order, start="look")
    looked.step(name="look")(looking)
    looked.step(name="pay", once=True)(paying)
    looked.step(name="receipt", on_failure="look")(receipt)
    looked.ends(done=True)

    (finding,) = found_in(interlock_store, looked, Order(), seed=7).findings

    assert finding.replay == "look:pay pay:receipt receipt:fail look:pay pay:receipt"
    assert shown_again(interlock_store, looked, finding, Order()).sentence == finding.sentence


def looking(_: Order) -> Literal["pay"]:
    return "pay"


def paying(_: Order) -> Literal["receipt"]:
    return "receipt"


told = Workflow("explored_told", Order, start="tell")


@told.step
def tell(o: Order) -> Literal["done"]:
    o.note = "told"
    return "done"


told.ends(done=True)


def test_a_step_that_the_test_names_may_not_be_tried_again(interlock_store: KitStore) -> None:
    assert not explore(told, Order(), store=interlock_store).findings

    report = found_in(interlock_store, told, Order(), once=["tell"])

    (finding,) = report.findings
    assert "tell was called twice" in finding.sentence
    assert "write once=True, or give work.key to the other side" in finding.sentence


def asking(name: str, text: str, **options: Any) -> Workflow[Order]:
    """Return a workflow with one question after a step that may set the city."""
    flow = Workflow(name, Order)

    @flow.step
    def look(o: Order) -> Literal["approval"]:
        if o.cents > 100:
            o.city = "Ulm"
        return "approval"

    flow.ask("approval", text, approve="done", reject="failed", **options)
    flow.ends(done=True, failed=False)
    return flow


DEAD_END = {"approve": lambda o: o.cents < 100, "reject": lambda o: o.cents > 100}
dead_end = asking("explored_dead_end", "Pay {cents}?", offered=DEAD_END)
unreadable = asking("explored_unreadable", "Send to {city.title}?")
one_sided = asking("explored_one_sided", "Pay {cents}?", offered={"reject": lambda o: o.cents < 0})


def test_a_question_without_an_answer_strands_a_record(interlock_store: KitStore) -> None:
    report = found_in(interlock_store, dead_end, Order(cents=100))

    stranded = next(one for one in report.findings if one.kind == "stranded")
    assert stranded.what == "approval"
    assert "its card offers no choice, and no time ends it" in stranded.sentence
    again = shown_again(interlock_store, dead_end, stranded, Order(cents=100))
    assert again.sentence == stranded.sentence


def test_a_card_that_nobody_can_read_is_found(interlock_store: KitStore) -> None:
    report = found_in(interlock_store, unreadable, Order(cents=100))

    (finding,) = report.findings
    assert (finding.kind, finding.what) == ("unseen", "approval")
    assert "who cannot read its card" in finding.sentence
    assert "look:approval.least" in finding.replay
    assert shown_again(interlock_store, unreadable, finding, Order()).sentence == finding.sentence


def test_a_choice_that_is_never_offered_is_found(interlock_store: KitStore) -> None:
    report = found_in(interlock_store, one_sided, Order())

    (finding,) = report.findings
    assert (finding.kind, finding.what) == ("never reached", "failed")
    assert "the end failed was never reached; to it leads approval by reject" in finding.sentence
    again = shown_again(interlock_store, one_sided, finding, Order())
    assert "approval did not lead to failed by reject" in again.sentence
    assert "offered" in again.sentence


# --- how it is explored ------------------------------------------------------------------------

checked = Workflow("explored_checked", Order)


@checked.step
def check(o: Order) -> Literal["send", "failed"]:
    return "send" if o.cents < 100 else "failed"


@checked.step(once=True)
def send(o: Order) -> Literal["done"]:
    raise ConnectionError(o.note)


checked.ends(done=True, failed=False)


def fake_send(o: Order) -> str:
    o.note = "sent"
    return "done"


def test_functions_of_steps_run_if_they_are_to_be_real(interlock_store: KitStore) -> None:
    options: Any = {"real": True, "fakes": {"send": fake_send}, "store": interlock_store}

    with pytest.raises(FoundError) as failure:
        explore(checked, Order(cents=5), **options)

    (finding,) = failure.value.report.findings
    assert finding.sentence == "the end failed was never reached; to it leads check by to_failed"
    assert finding.replay == "check:run ?explored_checked/check/to_failed/failed"
    assert explore(checked, [Order(cents=5), Order(cents=100)], **options).is_whole


def test_an_exploration_ends_with_its_walks(interlock_store: KitStore) -> None:
    report = explore(paid_again, Order(), walks=3, store=interlock_store)

    assert (report.walks, report.is_whole) == (3, False)
    assert "there is more to try" in str(report)


def test_one_seed_walks_the_same_walks(interlock_store: KitStore) -> None:
    found = [
        [
            str(one)
            for one in found_in(interlock_store, told, Order(), seed=7, once=["tell"]).findings
        ]
        for _ in range(2)
    ]

    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"replay": "look:nowhere"}, "there is no look:nowhere now; there is look:approval"),
        ({"replay": "data-3 look:approval"}, "begins with data 3: give the data of that time"),
        ({"once": ["pay"]}, "there is no step 'pay'; there is look"),
        ({"fakes": {"pay": print}}, "there is no step 'pay'; there is look"),
    ],
)
def test_what_cannot_be_explored_is_told(
    interlock_store: KitStore, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(KitError, match=said):
        explore(one_sided, Order(), store=interlock_store, **options)


def test_data_of_another_workflow_are_refused(interlock_store: KitStore) -> None:
    wrong: Any = Refund(order="o-1", cents=5)

    with pytest.raises(KitError, match="explored_told begins with Order, and not with Refund"):
        explore(told, wrong, store=interlock_store)


counting = Workflow("explored_counting", Order, start="count")


@counting.step
def count(o: Order) -> Literal["count", "done"]:
    o.cents += 1
    return "done" if o.cents == 3 else "count"


counting.ends(done=True)


def test_functions_are_let_run_until_their_data_lead_on(interlock_store: KitStore) -> None:
    report = explore(counting, Order(cents=0), real=True, store=interlock_store)

    assert report.rows == (2, 2)


def test_steps_are_named_as_the_kit_names_them(interlock_store: KitStore) -> None:
    fakes = {"explored_checked.send": fake_send}

    assert explore(checked, Order(cents=5), fakes=fakes, walks=2, store=interlock_store).walks == 2


async def tell_world() -> str:
    return "told"


awaiting = Workflow("explored_awaiting", Order, start="call")


@awaiting.step
async def call(o: Order, work: Work) -> Literal["done"]:
    o.note = await work.once_async("world", tell_world)
    return "done"


awaiting.ends(done=True)


def test_a_worker_is_lost_within_what_an_async_step_does_once(interlock_store: KitStore) -> None:
    lost = "call:run!crash-in-once call:run call_unclear:again call:run done:stop"

    report = explore(awaiting, Order(), real=True, replay=lost, store=interlock_store)

    assert (report.walks, report.rows) == (1, (2, 4))
