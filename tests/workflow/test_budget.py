"""The budget of a record and its children: what fits is used, what does not ends as declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from interlock import Budget, Data, Work, Workflow
from interlock.testing import Kit

NewKit = Callable[..., Kit[Any]]


class Part(Data):
    used: int = 0


class Whole(Data):
    most: int
    parts: list[Part] = []
    skipped: int = 0


def test_children_use_what_the_budget_of_their_parent_has_and_no_more(kit: NewKit) -> None:
    whole = Workflow("whole", Whole, budget=Budget(tokens=lambda w: w.most))

    @whole.step
    def split(w: Whole) -> Literal["use"]:
        w.parts = [Part()] * 4
        return "use"

    @whole.each("parts", then="join", on_failure="skip")
    def use(part: Part, work: Work) -> None:
        work.reserve(tokens=100)
        work.spend(tokens=60)
        part.used = 60

    @whole.step
    def join(w: Whole, work: Work) -> Literal["done"]:
        w.parts = [part for part in work.results(use) if part]
        w.skipped = 4 - len(w.parts)
        return "done"

    whole.ends(done=True)
    worker = kit(whole)
    worker.submit(Whole(most=250))

    ended = worker.run()

    # 60 are spent by each: the fourth would need 100 where 70 are left.
    assert (len(ended.data["parts"]), ended.data["skipped"]) == (3, 1)
    assert ended.counters["tree.tokens"] == 180


def test_a_record_that_is_over_its_budget_goes_where_the_budget_says(kit: NewKit) -> None:
    talk = Workflow("talk", Part, budget=Budget(tokens=100, usd=0.5, over="spent"))

    @talk.step
    def speak(part: Part, work: Work) -> Literal["speak", "done"]:
        work.reserve(tokens=60)
        work.spend(tokens=60, usd=0.01)
        part.used += 60
        return "speak" if part.used < 1_000 else "done"

    talk.ends(done=True, spent=False)
    worker = kit(talk)
    worker.submit(Part())

    ended = worker.run()

    assert ended.state == "spent"
    assert ended.data["used"] == 60
    assert ended.counters["tree.tokens"] == 60


def test_a_slip_in_the_name_of_an_amount_is_refused_also_in_a_child(kit: NewKit) -> None:
    whole = Workflow("whole", Whole, budget=Budget(tokens=100))

    @whole.step(max_attempts=1)
    def split(w: Whole, work: Work) -> Literal["use"]:
        if work.attempt == 1 and w.most:
            work.reserve(token=500)
        w.parts = [Part()]
        return "use"

    @whole.each("parts", then="done", max_attempts=1)
    def use(part: Part, work: Work) -> None:
        work.spend(pages=1)  # which no budget limits
        work.spend(token=500)
        part.used = 500

    whole.ends(done=True)
    worker = kit(whole)
    slip = "token= is written nearly as tokens=, which the budget has"
    worker.submit(Whole(most=1), id="one")
    worker.submit(Whole(most=0), id="two")

    worker.run()

    refused = [line.partition(":")[0] for line in worker.lines if slip in line]
    assert refused == ["split", "use"]
    child = worker.client.dispatch.views.children("two")[0]
    assert worker.client.show(child).counters.get("token") is None
