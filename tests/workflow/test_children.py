"""Children: one for each item of a list, worked on at the same time, and joined."""

from __future__ import annotations

from typing import Literal

import pytest

from interlock import Data, Work, Workflow, days
from interlock.kernel.event import Event
from interlock.workers.engine.card import Card
from interlock.workers.ops import screen
from interlock.workers.ops.description import describe
from tests.waiting import until
from tests.workflow.at_work import AtWork, Start


class Chunk(Data):
    text: str
    summary: str = ""


class Document(Data):
    text: str
    chunks: list[Chunk] = []
    summary: str = ""
    skipped: int = 0


class ModelError(RuntimeError):
    """The model refuses."""


def documents(on_failure: str = "skip") -> Workflow[Document]:
    document = Workflow("document", Document, expires=days(1))

    @document.step
    def split(d: Document) -> Literal["summarise", "failed"]:
        d.chunks = [Chunk(text=part) for part in d.text.split()]
        return "summarise" if d.chunks else "failed"

    @document.each("chunks", then="join", on_failure=on_failure, max_attempts=1)
    def summarise(chunk: Chunk) -> None:
        if chunk.text == "bad":
            raise ModelError("the model refuses")
        chunk.summary = chunk.text.upper()

    @document.step
    def join(d: Document, work: Work) -> Literal["done"]:
        chunks = work.results(summarise)
        d.skipped = chunks.count(None)
        d.summary = " ".join(chunk.summary for chunk in chunks if chunk)
        return "done"

    document.ends(done=True, failed=False)
    return document


def started(at_work: Start, on_failure: str, text: str) -> AtWork:
    flow = documents(on_failure)
    worker = at_work(flow, flow.children.summarise)
    worker.client.submit(flow, Document(text=text), id="one")
    worker.perform("one")  # split
    worker.perform("one")  # spawn
    return worker


def children(worker: AtWork) -> list[str]:
    return list(worker.client.dispatch.views.children("one"))


def test_each_item_is_worked_on_and_the_results_are_in_the_order_of_the_list(
    at_work: Start,
) -> None:
    worker = started(at_work, "skip", "the quick bad fox")
    assert worker.client.show("one").state == "summarise"

    for child in reversed(children(worker)):
        worker.work(child)

    def all_ended() -> bool:
        worker.sweep("one")
        return "summarise" not in describe(worker.client, "one")["family"]

    until(all_ended, what="that which failed is given up")
    shown = describe(worker.client, "one")["family"]
    ended = worker.reach("one", "done")

    assert ended.data["summary"] == "THE QUICK FOX"
    assert ended.data["skipped"] == 1
    [bad] = [one for one in children(worker) if worker.client.show(one).data["text"] == "bad"]
    given_up = "given up after 1 attempt; the last one: ModelError: the model refuses"
    lost = f"{bad} ended as failed: {given_up} ({__file__}, line "
    assert shown.startswith(f"4 children: 3 done, 1 failed; {lost}")
    joined = event_into(worker, "join")
    assert joined.payload["tally"] == {"done": 3, "failed": 1}
    assert joined.because.startswith(f"all children of summarise have ended: {lost}")


def event_into(worker: AtWork, state: str) -> Event:
    """Return the event that brought the parent into a state."""
    lines = worker.client.history("one")
    return next(line for line in lines if isinstance(line, Event) and line.target == state)


def test_a_parent_of_children_that_all_succeed_says_so(at_work: Start) -> None:
    worker = started(at_work, "skip", "quick fox")

    worker.reach("one", "done")

    assert event_into(worker, "join").because == "all children of summarise have ended"
    summarised = worker.client.get(worker.flows["document_summarise"], children(worker)[0])
    assert summarised == Chunk(text="quick", summary="QUICK")
    assert describe(worker.client, "one")["family"] == "2 children: 2 done"


def test_children_that_failed_for_one_reason_are_named_together(at_work: Start) -> None:
    worker = started(at_work, "skip", "bad bad bad")

    worker.reach("one", "done")

    first, *_ = children(worker)
    said = f"all children of summarise have ended: {first} and 2 more ended as failed: "
    assert event_into(worker, "join").because.startswith(said)


def test_a_child_that_failed_for_good_asks_a_person_unless_something_else_is_said(
    at_work: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = started(at_work, "ask", "bad fox")

    [bad] = [one for one in children(worker) if worker.client.show(one).data["text"] == "bad"]

    def asked() -> list[Card]:
        worker.work(bad)
        worker.sweep(bad)
        return worker.client.cards_of(bad)

    [card] = until(asked, what="a person is asked")
    assert "ModelError" in card.question
    ends = f"let it try again, or end the record by `interlock cancel {bad}`?"
    assert card.question.endswith(ends)
    assert worker.client.show("one").state == "summarise"
    described = describe(worker.client, "one")
    assert described["family"].endswith(f"; {bad} asks a person")
    screen.record(described)
    assert capsys.readouterr().out.endswith("\none itself asks nobody anything\n")
    worker.client.cancel(bad)
    assert worker.client.show(bad).state == "cancelled"


def test_the_first_child_that_failed_may_end_the_others(at_work: Start) -> None:
    worker = started(at_work, "failed", "bad fox")
    bad, fox = sorted(children(worker), key=lambda one: worker.client.show(one).data["text"])

    worker.reach(bad, "failed")
    until(
        lambda: worker.work(bad) and worker.work("one").state == "failed",
        what="the loss is told",
    )
    worker.work("one")

    assert worker.client.show(fox).state == "cancelled"
    because = event_into(worker, "failed").because
    assert because.startswith(f"a child of summarise has failed for good: {bad} ended as failed: ")
    assert "ModelError: the model refuses" in because
    assert "it was cancelled: its parent one is failed" in reasons(worker, fox)


def reasons(worker: AtWork, record_id: str) -> list[str]:
    """Return why a record moved, each time."""
    lines = worker.client.history(record_id)
    return [line.because for line in lines if isinstance(line, Event)]


def test_a_cancelled_parent_cancels_its_children(at_work: Start) -> None:
    worker = started(at_work, "skip", "quick fox")

    worker.client.cancel("one", reason="no more")
    worker.work("one")

    assert worker.client.show("one").state == "cancelled"
    assert [worker.client.show(one).state for one in children(worker)] == ["cancelled"] * 2


def test_a_child_that_may_have_been_done_is_closed_after_its_card_was_answered(
    at_work: Start,
) -> None:
    flow = Workflow("document", Document, start="split")

    @flow.step
    def split(d: Document) -> Literal["pay"]:
        d.chunks = [Chunk(text=d.text)]
        return "pay"

    @flow.each("chunks", then="done", once=True)
    def pay(chunk: Chunk) -> None:
        raise TimeoutError(chunk.text)

    flow.ends(done=True)
    worker = at_work(flow, flow.children.pay)
    worker.client.submit(flow, Document(text="o-1"), id="one")
    worker.work("one")
    [child] = children(worker)
    assert worker.work(child).state == "pay_unclear"

    worker.client.cancel("one", reason="no more")

    assert "answer its card first" in worker.perform("one")
    assert worker.client.show(child).state == "pay_unclear"
    worker.answer(child, "cancelled")
    worker.reach(child, "cancelled")
    until(lambda: not worker.work("one").entries, what="nothing is left to close")


def test_children_may_be_of_another_workflow(at_work: Start) -> None:
    sentence = Workflow("sentence", Chunk)

    @sentence.step
    def work_on(chunk: Chunk) -> Literal["done", "empty"]:
        chunk.summary = chunk.text[::-1]
        return "done" if chunk.text != "nothing" else "empty"

    sentence.ends(done=True, empty=False)
    page = Workflow("page", Document)

    @page.step
    def split(d: Document) -> Literal["sentences"]:
        d.chunks = [Chunk(text=part) for part in d.text.split()]
        return "sentences"

    page.each("chunks", then="join", name="sentences", workflow=sentence)

    @page.step
    def join(d: Document, work: Work) -> Literal["done"]:
        d.summary = " ".join(one.summary if one else "-" for one in work.results(sentence))
        return "done"

    page.ends(done=True)
    worker = at_work(page, sentence)
    worker.client.submit(page, Document(text="abc nothing"), id="one")
    worker.work("one")
    for child in children(worker):
        worker.work(child)
    worker.work("one")

    assert worker.work("one").data["summary"] == "cba -"


@pytest.mark.parametrize("field", ["text", "nothing"])
def test_a_field_that_lists_no_items_is_refused_with_its_line(field: str) -> None:
    document = Workflow("document", Document)

    with pytest.raises(ValueError, match=rf"{field}.*test_children.py, line \d+"):

        @document.each(field, then="done")
        def summarise(chunk: Chunk) -> None:
            del chunk
