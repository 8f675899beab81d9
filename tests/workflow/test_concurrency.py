"""How many records may be in a step at one time: of a workflow, and of the items of a list."""

from __future__ import annotations

from typing import Literal

from interlock import Data, Work, Workflow
from interlock.workers.engine.slot_waits import busy_slots
from tests.workflow.at_work import AtWork, Start


class Call(Data):
    tenant: str | None
    seen: str = ""


class Batch(Data):
    calls: list[Call] = []


def test_who_is_one_too_many_waits_and_goes_on_afterwards(at_work: Start) -> None:
    worker: list[AtWork] = []
    said: list[str] = []
    flow = Workflow("provider_call", Call)

    @flow.step(concurrency=1, key=lambda one: one.tenant or "nobody")
    def ask(one: Call, work: Work) -> Literal["done"]:
        if work.id == "one":
            said.append(worker[0].perform("two"))
            said.append(worker[0].client.outlook(worker[0].client.show("two")))
            said.append(worker[0].perform("other"))
        one.seen = work.id
        return "done"

    flow.ends(done=True)
    worker.append(at_work(flow))
    client = worker[0].client
    for name, tenant in (("one", None), ("two", None), ("other", "acme")):
        client.submit(flow, Call(tenant=tenant), id=name)

    assert worker[0].perform("one").endswith("-> done")
    waits = "1 of 1 for nobody are at work, and 1 wait"
    assert said[:2] == [f"retry: not claimed: slot ({waits})", f"ask waits: {waits}"]
    assert said[2].endswith("-> done")
    assert worker[0].perform("two").endswith("-> done")
    assert client.result(flow, "two", timeout_s=5).seen == "two"
    assert busy_slots(client.dispatch) == []


def test_the_items_of_a_list_are_counted_by_a_key_of_theirs(at_work: Start) -> None:
    flow = Workflow("call_batch", Batch)

    @flow.step
    def split(batch: Batch) -> Literal["ask"]:
        batch.calls = [Call(tenant="acme"), Call(tenant="a b")]
        return "ask"

    @flow.each("calls", then="done", concurrency=2, key=lambda call: call.tenant)
    def ask(call: Call) -> None:
        call.seen = "yes"

    flow.ends(done=True)
    worker = at_work(flow, flow.children.ask)
    worker.client.submit(flow, Batch(), id="one")
    worker.perform("one")
    worker.perform("one")

    children = worker.client.dispatch.views.children("one")
    slots = {entry.slots for child in children for entry in worker.client.show(child).entries}
    assert slots == {"call_batch_ask.ask:acme", "call_batch_ask.ask:a%20b"}
    worker.reach("one", "done")


def test_a_key_that_fails_for_the_data_of_a_record_is_named_and_the_step_is_not_repeated(
    at_work: Start,
) -> None:
    calls: list[str] = []
    flow = Workflow("keyed", Call)

    @flow.step
    def begin(one: Call, work: Work) -> Literal["ask"]:
        calls.append(work.id)
        one.tenant = None
        return "ask"

    @flow.step(concurrency=1, key=lambda one: (one.tenant or "")[0])
    def ask(one: Call) -> Literal["done"]:
        one.seen = "yes"
        return "done"

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Call(tenant="acme"), id="one")

    line = worker.perform("one")
    assert "keyed: slot_key of ask raised IndexError: string index out of range" in line
    assert f"({__file__}, line " in line
    worker.perform("one")
    assert calls == ["one"], "its outcome is kept"
