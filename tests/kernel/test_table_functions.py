"""A function of a table that raises is named, with the line of its file, and decides nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from interlock.kernel.blame import blamed
from interlock.kernel.errors import TableFunctionError
from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import Transition
from interlock.kernel.traits import Bookkeeping
from tests.kernel.store.tables import LIFE, ROWS, STAGES, S, T

NOTHING: dict[str, str] = {}


def fails(*_: Any) -> Any:
    return NOTHING["customer"]


class Fussy(BaseModel):
    value: str = ""

    @field_validator("value")
    @classmethod
    def is_good(cls, value: str) -> str:
        fails()
        return value


LINE = fails.__code__.co_firstlineno + 1
RECORD: Record = Record(RecordId("r"), "life", "working", Version(1), {})


def rowed(**changes: Any) -> Machine:
    row = (S.WORKING, T.DONE)
    rows = [replace(r, **changes) if (r.source, r.trigger) == row else r for r in ROWS]
    unguarded = [Transition(S.WORKING, T.DONE, S.ASKING)] if "guard" in changes else []
    return replace(LIFE, transitions=(*rows, *unguarded))


def asking(**changes: Any) -> Machine:
    stages = [replace(s, **changes) if s.state is S.ASKING else s for s in STAGES]
    return replace(LIFE, stages=tuple(stages))


def timed() -> Machine:
    (stage,) = (s for s in STAGES if s.state is S.ASKING)
    expiry, *rest = stage.timers
    return asking(timers=(replace(expiry, delay=fails), *rest))


def done(machine: Machine) -> Any:
    return machine.decide(RECORD, "done", machine.admit("done", {"value": "x"}))


def created(machine: Machine) -> Any:
    first = replace(RECORD, state="idle", data=machine.first_data({}))
    return machine.decide_creation(first)


CASES: dict[str, tuple[Callable[[], Machine], Callable[[Machine], Any]]] = {
    "the guard of working/done": (lambda: rowed(guard=fails), done),
    "the update of working/done": (lambda: rowed(update=fails), done),
    "the explanation of working/done": (lambda: rowed(explain=fails), done),
    "the model of done": (lambda: replace(LIFE, payloads={**LIFE.payloads, T.DONE: Fussy}), done),
    "the title": (lambda: replace(LIFE, title=fails), done),
    "the timer expiry of asking": (timed, done),
    "a function of asking": (lambda: asking(asks=fails), done),
    "initial_data": (lambda: replace(LIFE, initial_data=fails), created),
}


@pytest.mark.parametrize("function", CASES)
def test_a_function_that_raises_is_named_with_its_line(function: str) -> None:
    make, act = CASES[function]

    with pytest.raises(TableFunctionError) as refusal:
        act(make())

    wanted = f"life: {function} raised KeyError: 'customer' ({__file__}, line {LINE})"
    assert str(refusal.value) == wanted


def test_a_title_that_raises_creates_nothing() -> None:
    with pytest.raises(TableFunctionError, match="life: the title raised KeyError"):
        created(replace(LIFE, title=fails))


def test_a_state_that_cannot_be_chosen_is_named() -> None:
    with pytest.raises(TableFunctionError, match="life: initial_state raised KeyError"):
        replace(LIFE, initial_state=fails).initial_stage({})


@pytest.mark.parametrize("found", [None, [], "text"])
def test_an_update_that_returns_no_data_is_named(found: Any) -> None:
    with pytest.raises(TableFunctionError) as refusal:
        done(rowed(update=lambda _: found))

    assert "life: the update of working/done raised TypeError: it returned" in str(refusal.value)


def test_a_refusal_that_raises_is_named() -> None:
    rows = tuple(replace(r, guard=lambda _: False, refusal=fails) for r in ROWS if r.guard)
    machine = replace(LIFE, transitions=tuple(rows[0] if r.trigger == T.RELY else r for r in ROWS))

    with pytest.raises(TableFunctionError, match="life: the refusal of working/rely raised"):
        machine.decide(RECORD, "rely", {})


def test_an_error_in_a_library_is_blamed_on_the_line_that_called_it() -> None:
    with pytest.raises(json.JSONDecodeError) as failure:
        json.loads("{")

    line = failure.traceback[0].lineno + 1
    assert blamed(failure.value).endswith(f"({__file__}, line {line})")


@pytest.mark.parametrize("amount", [0.5, float("inf"), 2**53 + 1, "7", True])
@pytest.mark.parametrize("function", ["bounds", "counters"])
def test_amounts_that_a_script_cannot_count_are_named(function: str, amount: Any) -> None:
    functions: dict[str, Any] = {function: lambda _: {"pages": amount}}
    machine = replace(LIFE, bookkeeping=Bookkeeping(**functions))

    with pytest.raises(TableFunctionError) as refusal:
        getattr(machine, function)({})

    assert f"life: {function} raised TypeError: it returned {{'pages': {amount!r}}}" in str(
        refusal.value
    )
