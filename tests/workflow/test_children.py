"""Children: one for each item of a list, worked on at the same time, and joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from interlock import Data, Work, Workflow, days
from interlock.kernel.event import Event
from interlock.testing import Kit
from interlock.workers.ops import page
from interlock.workers.ops.description import describe
from interlock.workers.terminal.printed_page import PagePrinter
from tests.waiting import until
from tests.workflow.at_work import AtWork, Start

NewKit = Callable[..., Kit[Any]]


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


def submitted(kit: NewKit, on_failure: str, text: str) -> Kit[Document]:
    found: Kit[Document] = kit(documents(on_failure))
    found.submit(Document(text=text))
    return found


def children(worker: Kit[Any]) -> list[str]:
    return list(worker.client.dispatch.views.children("one"))


def states(worker: Kit[Any]) -> list[str]:
    return [worker.client.show(one).state for one in children(worker)]


def test_each_item_is_worked_on_and_the_results_are_in_the_order_of_the_list(kit: NewKit) -> None:
    worker = submitted(kit, "skip", "the quick bad fox")
    worker.lose_message("summarise")  # so the first item is worked on last

    assert worker.run().state == "done"

    assert worker.data.summary == "THE QUICK FOX"
    assert worker.data.skipped == 1
    [bad] = [one for one in children(worker) if worker.client.show(one).data["text"] == "bad"]
    given_up = "given up after 1 attempt; the last one: ModelError: the model refuses"
    lost = f"{bad} ended as failed: {given_up} ({__file__}, line "
    shown = describe(worker.client, "one")["family"]
    assert shown.startswith(f"4 children: 3 done, 1 failed; {lost}")
    joined = event_into(worker, "join")
    assert joined.payload["tally"] == {"done": 3, "failed": 1}
    assert joined.because.startswith(f"all children of summarise have ended: {lost}")


def event_into(worker: Kit[Any], state: str) -> Event:
    """Return the event that brought the parent into a state."""
    lines = worker.client.history("one")
    return next(line for line in lines if isinstance(line, Event) and line.target == state)


def test_a_parent_of_children_that_all_succeed_says_so(kit: NewKit) -> None:
    worker = submitted(kit, "skip", "quick fox")

    worker.run()

    assert event_into(worker, "join").because == "all children of summarise have ended"
    summarised = worker.client.get(worker.flow.children.summarise, children(worker)[0])
    assert summarised == Chunk(text="quick", summary="QUICK")
    assert describe(worker.client, "one")["family"] == "2 children: 2 done"


def test_children_that_failed_for_one_reason_are_named_together(kit: NewKit) -> None:
    worker = submitted(kit, "skip", "bad bad bad")

    worker.run()

    first, *_ = children(worker)
    said = f"all children of summarise have ended: {first} and 2 more ended as failed: "
    assert event_into(worker, "join").because.startswith(said)


def test_a_child_that_failed_for_good_asks_a_person_unless_something_else_is_said(
    kit: NewKit, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = submitted(kit, "ask", "bad fox")

    assert worker.run().state == "summarise"

    described = describe(worker.client, "one")
    worker.id, _ = children(worker)
    assert "ModelError" in worker.card.question
    ends = f"let it try again, or end the record by `interlock cancel {worker.id}`?"
    assert worker.card.question.endswith(ends)
    assert described["family"].endswith(f"; {worker.id} asks a person")
    PagePrinter().print(page.record(described))
    assert capsys.readouterr().out.endswith("\none itself asks nobody anything\n")
    assert worker.cancel().state == "cancelled"


def test_the_first_child_that_failed_may_end_the_others(kit: NewKit) -> None:
    worker = submitted(kit, "failed", "fox bad")
    worker.crash("summarise", before="call")  # fox is not done when bad is given up

    assert worker.run().state == "failed"

    fox, bad = children(worker)
    assert states(worker) == ["cancelled", "failed"]
    because = event_into(worker, "failed").because
    assert because.startswith(f"a child of summarise has failed for good: {bad} ended as failed: ")
    assert "ModelError: the model refuses" in because
    assert "it was cancelled: its parent one is failed" in reasons(worker, fox)


def test_a_child_that_failed_waits_for_a_worker_that_knows_the_table_of_its_parent(
    at_work: Start,
) -> None:
    flow = documents("failed")
    worker = at_work(flow, flow.children.summarise)
    worker.client.submit(flow, Document(text="good bad"), id="one")
    worker.work("one")
    bad = worker.client.dispatch.views.children("one")[1]
    worker.work(bad)
    until(lambda: swept(worker, bad) == "failed", what="its only attempt is used up")
    dispatch = worker.client.dispatch
    key = dispatch.keys.record("one")
    dispatch.client.hset(key, "schema", 2)
    assert worker.perform(bad).startswith("retry: waits (owed)")
    dispatch.client.hset(key, "schema", 1)

    until(lambda: worker.perform(bad) == "settled", what="its end is reported again")

    assert worker.client.show("one").state == "failed"


def swept(worker: AtWork, record_id: str) -> str:
    worker.sweep(record_id)
    return worker.client.show(record_id).state


def reasons(worker: Kit[Any], record_id: str) -> list[str]:
    """Return why a record moved, each time."""
    lines = worker.client.history(record_id)
    return [line.because for line in lines if isinstance(line, Event)]


def test_a_cancelled_parent_cancels_its_children(kit: NewKit) -> None:
    worker = submitted(kit, "skip", "quick fox")

    def cancel_all(chunk: Chunk) -> None:
        del chunk
        worker.cancel("no more")
        worker.run()

    with worker.replaced(summarise=cancel_all):
        worker.run()

    assert worker.state == "cancelled"
    assert states(worker) == ["cancelled"] * 2


def test_a_child_that_may_have_been_done_is_closed_after_its_card_was_answered(
    kit: NewKit,
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
    worker = kit(flow)
    worker.submit(Document(text="o-1"))
    worker.run()
    assert states(worker) == ["pay_unclear"]

    worker.cancel("no more")
    worker.run()

    assert "answer its card first" in worker.lines[-1]
    [worker.id] = children(worker)
    assert worker.answer("cancelled").state == "cancelled"
    worker.id = "one"
    assert not worker.run().entries, "nothing is left to close"


def test_children_may_be_of_another_workflow(kit: NewKit) -> None:
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
    worker = kit(page)
    worker.submit(Document(text="abc nothing"))

    worker.run()

    assert worker.data.summary == "cba -"


@pytest.mark.parametrize("field", ["text", "nothing"])
def test_a_field_that_lists_no_items_is_refused_with_its_line(field: str) -> None:
    document = Workflow("document", Document)

    with pytest.raises(ValueError, match=rf"{field}.*test_children.py, line \d+"):

        @document.each(field, then="done")
        def summarise(chunk: Chunk) -> None:
            del chunk
