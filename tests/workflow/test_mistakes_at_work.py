"""Mistakes that only a run shows: they end on the record's card, with file and line."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime
from typing import Any, Literal, cast

import pytest

from interlock import Data, Log, Work, Workflow, days
from interlock.kernel.errors import TableFunctionError
from interlock.workers.engine import effect_ends
from interlock.workers.engine.card import Card
from tests.waiting import until
from tests.workflow.at_work import AtWork, Start

Done = Literal["done"]
UNIX = datetime(1970, 1, 1, tzinfo=UTC)


class Part(Data):
    grams: int = 1


class Refund(Data):
    order: str = "o-1"
    cents: int = 50
    rate: float | None = 1.5
    part: Part = Part()
    lines: Log[str] = ["made"]
    loose: Any = None
    raw: bytes = b""


def raises(r: Any) -> Done:
    raise KeyError(r.order)  # here: KeyError: 'o-1'


def raises_inside_of_the_library(r: Any) -> Done:
    datetime.fromisoformat(r.order)  # here: ValueError: Invalid isoformat string: 'o-1'
    return "done"


def sets_a_wrong_value(r: Any) -> Done:
    r.cents = "many"  # here: ValidationError: cents: Input should be a valid integer
    return "done"


def sets_a_field_that_is_none(r: Any) -> Done:
    r.paymnt = "p"  # here: ValidationError: paymnt: Object has no attribute 'paymnt'
    return "done"


def exits(r: Any) -> Done:
    raise SystemExit(r.cents)  # here: SystemExit: 50


def calls_itself_for_ever(r: Any) -> Done:
    return calls_itself_for_ever(r)  # here: RecursionError: maximum recursion depth exceeded


def is_cancelled_by_its_own_code(r: Any) -> Done:
    raise asyncio.CancelledError(r.order)  # here: CancelledError: o-1


async def is_async_and_raises(r: Any) -> Done:
    await asyncio.sleep(0)
    raise LookupError(r.order)  # here: LookupError: o-1


def gives_two_calls_one_name(r: Any, work: Work) -> Done:
    for word in ("a", "b"):
        r.order = work.saved("word", str.upper, word)  # here: ValueError: two calls
    return "done"


def gives_a_call_no_name(r: Any, work: Work) -> Done:
    r.order = cast("Any", work.saved)(str.upper, "a")  # here: TypeError: <method 'upper' of 'str'
    return "done"


class GreenTimeout(BaseException):
    """What some libraries raise, and is no Exception."""


def raises_what_is_no_exception(r: Any) -> Done:
    raise GreenTimeout(r.order)  # here: GreenTimeout: o-1


async def is_async_and_exits(r: Any) -> Done:
    await asyncio.sleep(0)
    raise SystemExit(r.cents)  # here: SystemExit: 50


RAISE = (
    gives_two_calls_one_name,
    gives_a_call_no_name,
    raises_what_is_no_exception,
    is_async_and_exits,
    raises,
    raises_inside_of_the_library,
    sets_a_wrong_value,
    sets_a_field_that_is_none,
    exits,
    calls_itself_for_ever,
    is_cancelled_by_its_own_code,
    is_async_and_raises,
)


def keeps_its_data(r: Any) -> Done:
    assert r
    return "done"


def returns_nothing(r: Any) -> Done:
    return cast("Done", r.loose)


def returns_no_state(r: Any) -> Done:
    return cast("Done", r.order)


def returns_a_coroutine(r: Any) -> Done:
    return cast("Done", is_async_and_raises(r))


def sets_a_wrong_value_in_a_part(r: Any) -> Done:
    r.part.__dict__["grams"] = "x"
    return "done"


def leaves_an_object(r: Any) -> Done:
    r.loose = object()
    return "done"


def leaves_what_is_not_utf8(r: Any) -> Done:
    r.raw = b"\xff"
    return "done"


def leaves_no_number(r: Any) -> Done:
    r.rate = float("nan")
    return "done"


def leaves_a_tuple(r: Any) -> Done:
    r.loose = (1, 2)
    return "done"


def shortens_a_log(r: Any) -> Done:
    r.lines.clear()
    return "done"


def saves_an_object(r: Any, work: Work) -> Done:
    work.saved("it", lambda: r)  # here
    return "done"


def leaves_too_much(r: Any) -> Done:
    r.order = "o" * 500_000
    return "done"


UNUSABLE = {
    returns_nothing: "pay returned None; its return type names done",
    returns_no_state: "pay returned 'o-1'; its return type names done",
    returns_a_coroutine: "pay returned a coroutine: write it with async def",
    sets_a_wrong_value_in_a_part: "part.grams: Input should be a valid integer",
    leaves_an_object: "Unable to serialize unknown type: <class 'object'>",
    leaves_what_is_not_utf8: "invalid utf-8",
    leaves_no_number: "rate: JSON gives None back for nan",
    leaves_a_tuple: "loose: JSON gives [1, 2] back for (1, 2)",
    shortens_a_log: "lines is a Log: only append to it",
    leaves_too_much: "what pay has set is invalid: it has 500",
    saves_an_object: "the result it is invalid: it is not JSON: Object of type Refund",
}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what has failed be tried again at once."""
    monkeypatch.setattr(effect_ends, "retry_delay_ms", lambda *_: 0)


def place_in(function: Any, mark: str = "# here") -> str:
    """Return file and line of a function, or of the mark in it."""
    lines, first = inspect.getsourcelines(function)
    return f"({__file__}, line {first + next(n for n, one in enumerate(lines) if mark in one)})"


def paying(at_work: Start, function: Any) -> AtWork:
    """Return a worker with a refund whose step is this function."""
    refund = Workflow("refund", Refund)
    refund.step(name="pay", max_attempts=2)(function)
    refund.ends(done=True)
    worker = at_work(refund)
    worker.client.submit(refund, Refund(), id="one")
    return worker


def card_of(worker: AtWork) -> Card:
    """Return the card of the record, as soon as it has one."""

    def found() -> list[Card]:
        worker.sweep("one")
        return worker.client.cards_of("one")

    return until(found, what="the record has a card")[0]


@pytest.mark.parametrize("function", RAISE)
def test_a_step_that_raises_is_tried_again_and_its_card_has_the_line(
    function: Any, at_work: Start
) -> None:
    worker = paying(at_work, function)

    lines = [worker.perform("one") for _ in range(2)]

    assert [line.partition(":")[0] for line in lines] == ["retry", "failure"]
    said = inspect.getsource(function).partition("# here: ")[2].partition("\n")[0]
    question = card_of(worker).question
    assert question.startswith("Given up: pay (after 2 attempts): ")
    assert said in question
    assert place_in(function) in question


@pytest.mark.parametrize("function", UNUSABLE)
def test_a_result_that_cannot_be_used_is_not_worked_out_again(
    function: Any, at_work: Start
) -> None:
    worker = paying(at_work, function)

    line = worker.perform("one")

    assert line.startswith("failure"), line
    question = card_of(worker).question
    assert question.startswith("Given up: pay (after 1 attempt): ")
    assert UNUSABLE[function] in question
    mark = "# here" if "# here" in inspect.getsource(function) else "def "
    assert place_in(function, mark) in question
    assert worker.client.show("one").data["order"] == "o-1"


# --- functions of the data that fail for the data that a record has by then --------------------


def has_no_rate(r: Any) -> Literal["next"]:
    r.rate = None
    return "next"


def going_on(at_work: Start, refund: Workflow[Refund]) -> AtWork:
    """Return a worker with a refund, whose state `next` the test has declared."""
    refund.step(name="pay", max_attempts=1)(has_no_rate)
    refund.ends(done=True)
    worker = at_work(refund)
    worker.client.submit(refund, Refund(), id="one")
    return worker


def line_before() -> str:
    """Return file and line of the call before this one."""
    frame = inspect.stack()[1]
    return f"({__file__}, line {frame.lineno - 1})"


def test_a_title_that_cannot_be_made_names_its_workflow(at_work: Start) -> None:
    refund = Workflow("refund", Refund, title="{rate:.2f}")
    place = line_before()
    refund.ask("next", "Pay?", yes="done")
    worker = going_on(at_work, refund)

    worker.perform("one")

    question = card_of(worker).question
    assert "the title raised TypeError: unsupported format string" in question
    assert place in question


def test_a_time_that_cannot_be_worked_out_names_its_line(at_work: Start) -> None:
    def due(r: Refund) -> datetime:
        return UNIX + days(1) * cast("float", r.rate)  # here

    refund = Workflow("refund", Refund)
    refund.wait("next", until=due, then="done")
    worker = going_on(at_work, refund)

    worker.perform("one")

    question = card_of(worker).question
    assert "the timer until of next raised TypeError" in question
    assert place_in(due) in question
    assert worker.client.show("one").state == "pay"


def test_a_question_that_cannot_be_made_names_its_line_on_a_card_with_its_choices(
    at_work: Start,
) -> None:
    refund = Workflow("refund", Refund)
    refund.ask("next", "Pay {rate:.2f}?", yes="done")
    place = line_before()
    worker = going_on(at_work, refund)
    worker.perform("one")

    card = card_of(worker)

    assert "TypeError: unsupported format string" in card.question
    assert place in card.question
    assert [each.name for each in card.affordances] == ["yes"]
    assert worker.answer("one", "yes").state == "done"


def test_a_condition_that_raises_names_its_line_on_the_card(at_work: Start) -> None:
    def is_small(r: Refund) -> bool:
        return cast("float", r.rate) < 1  # here

    refund = Workflow("refund", Refund)
    refund.ask("next", "Pay?", yes="done", no="done", offered={"yes": is_small})
    worker = going_on(at_work, refund)
    worker.perform("one")

    card = card_of(worker)

    assert card.question.startswith("Pay?")
    assert "raised TypeError: '<' not supported" in card.question
    assert place_in(is_small) in card.question
    assert [each.name for each in card.affordances] == ["yes", "no"]
    assert worker.answer("one", "yes").state == "done"


def test_a_call_that_raises_changes_nothing_and_names_its_line(at_work: Start) -> None:
    refund = Workflow("refund", Refund)
    refund.ask("next", "Pay?", yes="done")

    @refund.on("tell")
    def tell(r: Refund, part: Part) -> None:
        r.cents = 7
        raise LookupError(part.grams)  # here

    worker = going_on(at_work, refund)

    with pytest.raises(TableFunctionError, match="refund: the guard of pay/tell raised") as refusal:
        worker.client.fire("one", "tell", {"grams": 3})

    assert f"LookupError: 3 {place_in(tell)}" in str(refusal.value)
    assert worker.client.show("one").data["cents"] == 50


def test_a_cleanup_that_raises_ends_on_a_card_with_its_line(at_work: Start) -> None:
    refund = Workflow("refund", Refund)

    refund.step(name="pay")(keeps_its_data)

    @refund.at_end("done")
    def clean(r: Refund) -> None:
        raise OSError(r.order)  # here

    refund.ends(done=True)
    worker = at_work(refund)
    worker.client.submit(refund, Refund(), id="one")
    for _ in range(4):
        worker.perform("one")

    question = card_of(worker).question
    assert question.startswith("Given up: after_done (after 3 attempts): OSError: o-1")
    assert question.endswith("then let it try again?"), "what has ended is not cancelled"
    assert place_in(clean) in question
