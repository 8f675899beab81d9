"""A part of a file as a model: each fault is named with its place, its value and what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, WrapValidator, model_validator

from interlock.workers.specs.document import Document
from interlock.workers.specs.models import (
    Required,
)
from interlock.workers.specs.problems import FileError
from tests.damage import DEEP


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Retry(Strict):
    attempts: Annotated[int, Field(ge=1, le=9)] = 3


def _tries(value: Any, read: Any) -> Any:
    if value == "once":
        return 1
    return Retry.model_validate(value).attempts if isinstance(value, dict) else read(value)


class Wheel(Strict):
    size: Annotated[int, Field(alias="width"), Required("write its size: `width: <n>`")]
    color: Literal["red", "green"] = "red"

    @model_validator(mode="after")
    def _is_pretty(self) -> Wheel:
        if (self.size, self.color) == (1, "green"):
            raise ValueError("a small wheel is red")
        return self


class Car(Strict):
    name: str
    wheels: Annotated[list[Wheel], Field(min_length=1, max_length=3)]
    prices: dict[Annotated[str, Field(pattern="^[a-z]+$")], str] = {}
    tries: Annotated[int, WrapValidator(_tries, json_schema_input_type=Retry)] = 2


TEXT = """\
name: fast
wheels: [{width: 1}, {width: 2, color: green}]
prices: {new: high}
tries: once
"""


def read(text: str) -> Any:
    try:
        return Document.parse(text, Path("car.yaml")).model(Car)
    except FileError as refusal:
        return [f"{one.line}:{one.column}: {one.text}" for one in refusal.problems]


def test_a_part_is_read_by_the_names_in_the_file() -> None:
    car = read(TEXT)

    assert [(wheel.size, wheel.color) for wheel in car.wheels] == [(1, "red"), (2, "green")]
    assert (car.name, car.prices, car.tries) == ("fast", {"new": "high"}, 1)
    assert read(TEXT.replace("once", "{attempts: 4}")).tries == 4
    assert Car.model_validate({"name": "x", "wheels": [{"width": 1}], "tries": 7}).tries == 7


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("fast", "7", "1:1: name: 7: it is not text; put it in quotation marks"),
        ("name: fast", "x: 1", "1:1: it has no name; write it"),
        ("{width: 1}", "{width: 1.5}", "2:11: wheels (entry 1).width: 1.5: write a whole number"),
        ("{width: 1}", "{}", "2:10: wheels (entry 1): write its size: `width: <n>`"),
        ("{width: 1}", "1", "2:10: wheels (entry 1): 1: write lines of the form key: value"),
        ("width: 2", "widht: 2", "2:23: wheels (entry 2): 'widht' is not a field here; did you"),
        ("{width: 2", "{width: 2, 3: 1", "2:33: wheels (entry 2): the key 3 is not text; known: "),
        ("green", "blue", "2:33: wheels (entry 2).color: 'blue': write red or green"),
        ("width: 2", "width: 1", "2:22: wheels (entry 2): a small wheel is red"),
        ("[{width: 1}, {width: 2, color: green}]", "[]", "2:1: wheels: []: these are 0, at least"),
        ("new: high", "New: high", "3:10: prices: 'New': it is not a name"),
        ("new: high", "new: 1", "3:10: prices.new: 1: it is not text"),
        ("once", "twice", "4:1: tries: 'twice': write a whole number"),
        ("once", "{attempts: 0}", "4:9: tries.attempts: 0: write 1 or more"),
        ("once", "{attempt: 1}", "4:9: tries: 'attempt' is not a field here; did you mean 'att"),
    ],
)
def test_a_fault_is_named_at_its_place(right: str, wrong: str, problem: str) -> None:
    found = read(TEXT.replace(right, wrong))

    assert any(one.startswith(problem) for one in found), found


def test_data_that_do_not_fit_are_refused_with_every_fault() -> None:
    assert Document.of({"name": "x", "wheels": [{"width": 1}]}).model(Car).wheels[0].size == 1

    with pytest.raises(FileError) as refused:
        Document.of({"wheels": [{"width": DEEP}, 1]}, "the reply").model(Car)

    first, second, third = str(refused.value).split("; the reply: ")
    assert first == "the reply: it has no name; write it"
    assert second.startswith("wheels (entry 1).width: [[")
    assert third == "wheels (entry 2): 1: write an object"


def test_no_value_is_shown_of_a_model_that_hides_them() -> None:
    class Secret(Strict):
        model_config = ConfigDict(hide_input_in_errors=True)
        secret: int

    with pytest.raises(FileError, match=r": secret: write a whole number$"):
        Document.parse("secret: private", Path("x.yaml")).model(Secret)
