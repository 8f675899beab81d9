"""The budget of a record and its children: what fits is used, what does not ends as declared."""

from __future__ import annotations

from typing import Literal

from interlock import Budget, Data, Work, Workflow
from tests.workflow.at_work import Start


class Part(Data):
    used: int = 0


class Whole(Data):
    most: int
    parts: list[Part] = []
    skipped: int = 0


def test_children_use_what_the_budget_of_their_parent_has_and_no_more(at_work: Start) -> None:
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
    worker = at_work(whole, whole.children.use)
    worker.client.submit(whole, Whole(most=250), id="one")

    ended = worker.reach("one", "done")

    # 60 are spent by each: the fourth would need 100 where 70 are left.
    assert (len(ended.data["parts"]), ended.data["skipped"]) == (3, 1)
    assert ended.counters["tree.tokens"] == 180


def test_a_record_that_is_over_its_budget_goes_where_the_budget_says(at_work: Start) -> None:
    talk = Workflow("talk", Part, budget=Budget(tokens=100, usd=0.5, over="spent"))

    @talk.step
    def speak(part: Part, work: Work) -> Literal["speak", "done"]:
        work.reserve(tokens=60)
        work.spend(tokens=60, usd=0.01)
        part.used += 60
        return "speak" if part.used < 1_000 else "done"

    talk.ends(done=True, spent=False)
    worker = at_work(talk)
    worker.client.submit(talk, Part(), id="one")

    ended = worker.reach("one", "spent")

    assert ended.data["used"] == 60
    assert ended.counters["tree.tokens"] == 60
