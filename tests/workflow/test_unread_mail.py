"""Mail that nobody has read when a record ends: the log, an explanation and the record say so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from interlock import Budget, Data, Inbox, OverBudgetError, Work, Workflow, days, seconds
from interlock.kernel.event import Event
from interlock.testing import Kit
from interlock.workers.ops.description import summarize

NewKit = Callable[..., Kit[Any]]
SAYS = "mail has 2 items that no step has read"
SOON = timedelta(milliseconds=1)


class Letter(Data):
    text: str


class Desk(Data):
    due: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    mail: Inbox[str] = []


def with_calls(desk: Workflow[Desk], **ends: bool) -> Workflow[Desk]:
    @desk.on("tell")
    def tell(d: Desk, letter: Letter) -> None:
        d.mail.append(letter.text)

    desk.ends(**ends)
    return desk


def by_a_card(worker: Kit[Desk]) -> None:
    worker.answer("yes")


def by_a_call(worker: Kit[Desk]) -> None:
    worker.tell("arrived")


def by_a_cancel(worker: Kit[Desk]) -> None:
    worker.cancel()


def by_itself(worker: Kit[Desk]) -> None:
    worker.advance(days=1)


def asking() -> Workflow[Desk]:
    desk = Workflow("desk", Desk)
    desk.ask("shall", "Shall it end?", yes="over")
    return desk


def asking_for_a_moment() -> Workflow[Desk]:
    desk = Workflow("desk", Desk)
    desk.ask("shall", "Shall it end?", yes="over", timeout=SOON, on_timeout="over")
    return desk


def expiring() -> Workflow[Desk]:
    desk = Workflow("desk", Desk, expires=SOON)
    desk.ask("shall", "Shall it end?", yes="over")
    return desk


def waiting() -> Workflow[Desk]:
    desk = Workflow("desk", Desk)
    desk.wait("quiet", arrived="over", timeout=days(1), on_timeout="over")
    return desk


def waiting_for_a_time() -> Workflow[Desk]:
    desk = Workflow("desk", Desk)
    desk.wait("quiet", until=lambda d: d.due, then="over")
    return desk


def failing() -> Workflow[Desk]:
    desk = Workflow("desk", Desk)

    @desk.step(max_attempts=1, on_failure="over")
    def work_on(d: Desk) -> Literal["over"]:
        raise ValueError(d.due)

    return desk


def over_budget() -> Workflow[Desk]:
    desk = Workflow("desk", Desk, budget=Budget(tokens=1, over="over"))

    @desk.step
    def work_on(d: Desk, work: Work) -> Literal["over"]:
        del d
        work.reserve(tokens=2)
        raise AssertionError(OverBudgetError)

    return desk


def once() -> Workflow[Desk]:
    desk = Workflow("desk", Desk)

    @desk.step(once=True, timeout=seconds(60))
    def work_on(d: Desk) -> Literal["over"]:
        del d
        return "over"

    return desk


ENDS: dict[str, tuple[Callable[[], Workflow[Desk]], Callable[[Kit[Desk]], None], str]] = {
    "an answer": (asking, by_a_card, "over"),
    "a question that nobody answers": (asking_for_a_moment, by_itself, "over"),
    "an expiry": (expiring, by_itself, "expired"),
    "a cancel": (waiting, by_a_cancel, "cancelled"),
    "a call": (waiting, by_a_call, "over"),
    "a time of the data": (waiting_for_a_time, by_itself, "over"),
    "a step that is given up": (failing, by_itself, "over"),
    "a budget that is used up": (over_budget, by_itself, "over"),
    "a step that is done once": (once, by_itself, "over"),
}


@pytest.mark.parametrize("name", ENDS)
def test_each_end_with_unread_mail_says_so(name: str, kit: NewKit) -> None:
    make, leave, end = ENDS[name]
    worker = kit(with_calls(make(), over=True))
    worker.submit(Desk())
    for text in ("a", "b"):
        worker.tell("tell", text=text)

    leave(worker)

    last = next(line for line in reversed(worker.history) if isinstance(line, Event))
    assert (last.target, SAYS in last.because) == (end, True)
    assert worker.client.outlook(worker.record) == SAYS
    assert summarize(worker.client, worker.record)["outlook"] == SAYS


def test_an_explanation_says_which_mail_an_end_would_leave(kit: NewKit) -> None:
    worker = kit(with_calls(waiting(), over=True))
    worker.submit(Desk())
    explained = {one.trigger: one.sentence for one in worker.client.explain_all("one")}
    assert "mail" not in explained["arrived"]
    for text in ("a", "b"):
        worker.tell("tell", text=text)

    explained = {one.trigger: one.sentence for one in worker.client.explain_all("one")}

    assert explained["arrived"].endswith(f"from quiet to over; {SAYS}")


def test_an_end_without_mail_says_nothing(kit: NewKit) -> None:
    worker = kit(with_calls(waiting(), over=True))
    worker.submit(Desk())

    worker.tell("arrived")

    assert "mail" not in str(worker.history[-1])
    assert not worker.client.outlook(worker.record)
