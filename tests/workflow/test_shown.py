"""What commands and pages show of a workflow's records, in the workflow's own words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import pytest

from interlock import CardAnswer, Data, Workflow
from interlock.kernel.errors import CallError
from interlock.kernel.event import Event
from interlock.kernel.store.metrics import metrics_of
from interlock.workers.console.flow import FlowWatch, lags_of
from interlock.workers.ops.description import describe
from interlock.workers.ops.doctor import problems_of_cards
from interlock.workers.ops.verify import verify_all
from tests.waiting import until
from tests.workflow.at_work import AtWork, Start


class Item(Data):
    name: str


class Parcel(Data):
    title: str
    due: datetime = datetime(2031, 5, 6, 7, 8, tzinfo=UTC)
    items: list[Item] = []


def parcels() -> Workflow[Parcel]:
    parcel = Workflow("parcel", Parcel)

    @parcel.step
    def pack(p: Parcel) -> Literal["weigh", "sent"]:
        return "weigh" if p.items else "sent"

    @parcel.each("items", then="sent", title="{name} to weigh")
    def weigh(i: Item) -> None:
        i.name = "weighed"

    parcel.wait("sent", arrived="asked", gone="done", until=lambda p: p.due, then="done")
    parcel.ask("asked", "Is {title} whole?", yes="done", done="done")
    parcel.ends(done=True)
    return parcel


@pytest.fixture
def worker(at_work: Start) -> AtWork:
    flow = parcels()
    return at_work(flow, flow.children.weigh)


def test_a_record_is_called_as_the_title_in_its_data(worker: AtWork) -> None:
    worker.client.submit(worker.flows["parcel"], Parcel(title="A book"), id="p")

    [row] = worker.client.list(text="book")

    assert (row.id, row.title) == ("p", "A book")


def test_a_wait_says_for_what_and_until_when(worker: AtWork) -> None:
    worker.client.submit(worker.flows["parcel"], Parcel(title="A book"), id="p")

    assert describe(worker.client, "p")["outlook"] == ""
    worker.work("p")

    until = "until 2031-05-06 07:08:00 UTC, when done follows"
    said = describe(worker.client, "p")["outlook"]
    assert said == f"It waits for the call arrived or gone, or {until}."


def test_a_child_has_the_title_of_its_family_and_its_place_in_it(worker: AtWork) -> None:
    items = [Item(name="book"), Item(name="pen")]
    worker.client.submit(worker.flows["parcel"], Parcel(title="A box", items=items), id="p")
    worker.perform("p")
    worker.perform("p")

    rows = worker.client.list(parent="p")

    assert [row.title for row in rows] == ["book to weigh", "pen to weigh"]
    assert [describe(worker.client, row.id)["place"] for row in rows] == [
        "number 1 of 2",
        "number 2 of 2",
    ]
    assert describe(worker.client, "p")["place"] == ""


class Named(CardAnswer):
    title: str


def test_a_choice_is_explained_and_told_by_its_own_name(at_work: Start) -> None:
    flow = Workflow("twice", Parcel)
    # Its answers differ, so its triggers are first_yes and second_yes.
    flow.ask("first", "Is it {title}?", yes=("second", Named))
    flow.ask("second", "Is it still?", yes="done")
    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Parcel(title="A book"), id="t")

    explained = worker.client.explain("t", "yes", {"title": "A pen"})
    worker.answer("t", "yes", title="A pen")

    assert explained.sentence == "yes would take t from first to second"
    event = worker.client.history("t")[-1]
    assert isinstance(event, Event)
    assert (event.trigger, event.because) == ("first_yes", "the answer was yes")


def test_a_queue_has_the_waits_of_its_effects_but_not_of_names_that_others_have() -> None:
    first, second = parcels(), Workflow("letter", Parcel)

    @second.step
    def pack(p: Parcel) -> Literal["done"]:
        del p
        return "done"

    second.ends(done=True)
    counted = metrics_of({})
    for name in ("pack", "after_done", "weigh"):
        counted.lag[name].buckets[0] = 3
    machines = [first.machine, first.children.weigh.machine, second.machine]

    found = lags_of(machines, counted)

    assert {queue: sum(lag.buckets) for queue, lag in found.items()} == {"parcel_weigh": 3}


def test_what_was_given_up_is_named_by_doctor_and_its_retry_is_explained(at_work: Start) -> None:
    flow = Workflow("fails", Parcel)

    @flow.step(max_attempts=1)
    def go(p: Parcel) -> Literal["done"]:
        raise ValueError(p.title)

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Parcel(title="A book"), id="f")
    worker.work("f")
    assert verify_all(worker.client.dispatch, ["f"])["faults"] == []

    def asked() -> bool:
        worker.sweep("f")
        return bool(worker.client.cards_of("f"))

    until(asked, what="it is given up")

    (problem,) = problems_of_cards(worker.client.dispatch)
    assert problem.startswith(
        "fails.go of f failed too often and is tried no more: `interlock show"
    )
    explained = worker.client.explain("f", "retry")
    assert (explained.target, explained.sentence) == ("go", "retry would let go of f try again")
    assert verify_all(worker.client.dispatch, ["f"])["faults"] == []
    assert working_of(worker, "fails") == 0, "a person is asked about it"
    worker.client.retry("f")
    assert working_of(worker, "fails") == 1
    assert list(problems_of_cards(worker.client.dispatch)) == []
    with pytest.raises(CallError, match="'retry' is no answer to f in go"):
        worker.client.explain("f", "retry")


def working_of(worker: AtWork, machine: str) -> int:
    """Return how many records of a machine the start page of the console says to be at work."""
    seen = FlowWatch(worker.client.dispatch).look()
    return next(row.working for row in seen.machines if row.name == machine)
