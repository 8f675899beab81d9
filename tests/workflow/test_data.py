"""Data: None is a value everywhere, sums are exact, a call is decided once, what does not fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import wraps
from itertools import count
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from interlock import Data, Log, Sum, Work, Workflow, days
from interlock.kernel.errors import GuardRefusedError
from interlock.workers.engine.work import EffectWork, Outcome
from tests.workflow.at_work import AtWork, Start


class Word(Data):
    text: str | None = "said"
    note: str | None


class Person(Data):
    name: str | None = "ann"
    note: str | None = "new"


class Team(Data):
    lead: str | None = "bob"
    people: list[Person] = []
    said: list[str | None] = []


class Meeting(Team):
    name: str | None = "ann"
    note: str | None = "new"


def test_none_stays_none_in_a_submission_a_call_a_wait_and_a_child(at_work: Start) -> None:
    flow = Workflow("team", Meeting, start="meet")
    flow.wait("meet", begin=("greet", Person), timeout=days(1), on_timeout="done")

    @flow.each("people", then="end")
    def greet(p: Person) -> None:
        assert p.name is None

    @flow.step
    def end(t: Meeting, work: Work) -> Literal["done"]:
        t.said += [person.name if person else "lost" for person in work.results(greet)]
        return "done"

    @flow.on("say")
    def say(t: Meeting, word: Word) -> None:
        t.said += [word.text, word.note]

    flow.ends(done=True)
    worker = at_work(flow, flow.children.greet)
    worker.client.submit(flow, Meeting(lead=None, people=[Person(name=None)]), id="one")

    worker.client.fire("one", "say", {"text": None, "note": None})
    worker.client.fire("one", "begin", {"name": None, "note": None})

    ended = worker.reach("one", "done").data
    assert (ended["lead"], ended["name"], ended["note"]) == (None, None, None)
    assert ended["said"] == [None, None, None]


class Account(Data):
    total: Sum[Decimal] = Decimal("0.10")
    lines: Annotated[Log[str], Field(max_length=2)] = []
    at: int = 0


class Amount(Data):
    euros: Decimal


def during(worker: AtWork, call: Callable[[], Any]) -> str:
    """Perform the step that is due, and make a call while it is at work."""
    entry, record = worker.entries("one")[0], worker.client.show("one")
    handler = worker.flows[record.machine].handlers[entry.name]

    def called(work: EffectWork) -> Outcome:
        outcome = handler(work)
        call()
        assert isinstance(outcome, Outcome)
        return outcome

    return worker.perform("one", called)


def accounts(ticks: Iterator[int], **options: Any) -> Workflow[Account]:
    account = Workflow("account", Account)

    @account.step(**options)
    def book(a: Account) -> Literal["done"]:
        a.total += Decimal("0.20")
        a.lines.append("booked")
        return "done"

    @account.on("pay")
    def pay(a: Account, amount: Amount) -> None:
        a.total += amount.euros
        a.at = next(ticks)

    @account.on("write")
    def write(a: Account, amount: Amount) -> None:
        a.lines += [str(amount.euros)] * 2

    account.ends(done=True)
    return account


def test_a_sum_of_decimals_is_exact_and_both_sides_add(at_work: Start) -> None:
    flow = accounts(count())
    worker = at_work(flow)
    worker.client.submit(flow, Account(), id="one")

    during(worker, lambda: worker.client.fire("one", "pay", {"euros": "0.30"}))

    record = worker.client.show("one")
    assert (record.state, flow.load(record.data).total) == ("done", Decimal("0.60"))


def test_the_function_of_a_call_is_called_once(at_work: Start) -> None:
    ticks = count(1)
    flow = accounts(ticks)
    worker = at_work(flow)
    worker.client.submit(flow, Account(), id="one")

    worker.client.fire("one", "pay", {"euros": "1"})

    assert worker.client.show("one").data["at"] == 1
    assert next(ticks) == 2


def test_what_a_step_that_is_done_once_has_set_and_does_not_fit_asks_a_person(
    at_work: Start,
) -> None:
    flow = accounts(count(), once=True)
    worker = at_work(flow)
    worker.client.submit(flow, Account(), id="one")

    during(worker, lambda: worker.client.fire("one", "write", {"euros": "1"}))

    card = worker.client.card("one")
    assert card
    assert "what it has set does not fit: lines: List should have at most 2 items" in card.question
    ended = worker.answer("one", "done")
    assert (ended.state, ended.data["lines"]) == ("done", ["1", "1"])
    assert not [name for name in ended.data if name.startswith("_")]


def with_own_loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make an async function one that is not."""

    @wraps(function)
    def run(*arguments: Any) -> Any:
        return asyncio.run(function(*arguments))

    return run


def passed_on(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass a call on, as decorators do that know nothing of async functions."""

    @wraps(function)
    def run(*arguments: Any) -> Any:
        return function(*arguments)

    return run


@pytest.mark.parametrize("decorator", [with_own_loop, passed_on])
def test_an_async_function_works_inside_of_any_decorator(
    decorator: Callable[..., Any], at_work: Start
) -> None:
    flow = Workflow("team", Team)
    cleaned: list[str | None] = []

    @flow.step
    @decorator
    async def meet(t: Team) -> Literal["greet"]:
        await asyncio.sleep(0)
        t.people = [Person(), Person()]
        return "greet"

    @flow.each("people", then="done", on_failure="skip")
    @decorator
    async def greet(p: Person) -> None:
        await asyncio.sleep(0)
        p.note = "met"

    @flow.at_end("done")
    @decorator
    async def clean(t: Team) -> None:
        await asyncio.sleep(0)
        cleaned.append(t.lead)

    flow.ends(done=True)
    worker = at_work(flow, flow.children.greet)
    worker.client.submit(flow, Team(), id="one")
    worker.reach("one", "done")
    worker.work("one")

    children = worker.client.dispatch.views.children("one")
    assert [worker.client.show(child).data["note"] for child in children] == ["met"] * 2
    assert cleaned == ["bob"]


def test_what_a_cleanup_changes_is_not_kept_and_the_log_says_so(at_work: Start) -> None:
    flow = Workflow("team", Team)
    flow.ask("shall", "Shall it end?", yes="done")

    @flow.at_end("done")
    def clean(t: Team) -> None:
        t.said.append("bye")

    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Team(), id="one")
    worker.answer("one", "yes")

    assert worker.work("one").data["said"] == []
    line = clean.__code__.co_firstlineno
    lost = f"what clean has changed is not kept: the data of an end do not change ({__file__}, line"
    assert f"{lost} {line})" in str(worker.client.history("one"))


def test_a_card_without_an_answer_says_so(at_work: Start) -> None:
    flow = Workflow("team", Team)
    flow.ask("shall", "Shall it end?", yes="done", offered={"yes": lambda t: t.lead != "bob"})
    flow.ends(done=True)
    worker = at_work(flow)
    worker.client.submit(flow, Team(), id="one")

    card = worker.client.card("one")

    assert card
    assert card.question == "Shall it end? None of its answers is offered now."
    with pytest.raises(GuardRefusedError, match="yes is not offered now"):
        worker.answer("one", "yes")
