"""What a decision says of an end that leaves something undone, and where None is a value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from interlock.kernel.machine import Machine
from interlock.kernel.payload import Shape, validated
from interlock.kernel.record import Record, RecordId, Version
from interlock.kernel.table import Terminal
from tests.kernel.store.tables import LIFE, STAGES

WORKING = Record(RecordId("r"), "life", "working", Version(1), {"left": 2})


def says_what_is_left(data: Any) -> str:
    return f"{data['left']} are left" if data["left"] else ""


@pytest.fixture
def life() -> Machine:
    stages = (
        replace(one, outlook=says_what_is_left) if isinstance(one, Terminal) else one
        for one in STAGES
    )
    return replace(LIFE, stages=tuple(stages))


@pytest.mark.parametrize("left", [2, 0])
def test_the_log_and_an_explanation_say_what_an_end_leaves(life: Machine, left: int) -> None:
    record = replace(WORKING, data={"left": left})
    suffix = "; 2 are left" if left else ""

    decision = life.decide(record, "cancel", {})
    explained = life.explain(record, "cancel", {})

    assert decision.says == ("cancel took it from working to failed; 2 are left" if left else "")
    assert explained.sentence == f"cancel would take r from working to failed{suffix}"


def test_a_sentence_of_the_table_goes_before_what_an_end_leaves(life: Machine) -> None:
    says = replace(life, says={"cancel": "nobody wants it"})

    assert says.decide(WORKING, "cancel", {}).says == "nobody wants it; 2 are left"


def test_a_state_that_is_no_end_says_nothing_of_it(life: Machine) -> None:
    assert life.decide(WORKING, "done", {}).says == ""
    assert "left" not in life.explain(WORKING, "done", {}).sentence


class Kept(BaseModel):
    value: int | None = 5


class LeftOut(Shape):
    value: int | None = 5


@pytest.mark.parametrize("model", [Kept, LeftOut])
def test_none_is_a_value_in_a_model_that_is_no_shape(model: type[BaseModel]) -> None:
    kept = {"value": None} if model is Kept else {}

    assert validated(model, "it", {"value": None}) == kept
    assert validated(model, "it", {}) == {"value": 5}
