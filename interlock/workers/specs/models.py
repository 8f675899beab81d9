"""Reads a part of a file into a pydantic model; each fault is refused at its place in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, get_args

from pydantic import (
    BaseModel,
    RootModel,
    Tag,
    ValidationError,
    WrapValidator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined

from interlock.workers.specs.json_line import shown
from interlock.workers.specs.node import Node
from interlock.workers.specs.problems import Location, Problems

# How an entry of a list or mapping is called, such as "step 'build'"; '' for its place there.
Items: TypeAlias = Mapping[Any, Callable[[Node, Any], str]]
_Model = TypeVar("_Model", bound=BaseModel)
_ADVICE = {
    "string_type": "it is not text; put it in quotation marks",
    "string_too_short": "it is empty; write a text",
    "string_too_long": "it has {length} characters, at most {max_length} are allowed",
    "string_pattern_mismatch": (
        "it is not a name; use up to 64 letters, digits and ._~-, a letter or digit first"
    ),
    "string_unicode": "it has a lone surrogate, which is no text",
    "bool_type": "write true or false",
    "bool_parsing": "write true or false",
    "int_type": "write a whole number",
    "int_parsing": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "float_parsing": "write a number",
    "finite_number": "write a number",
    "greater_than_equal": "write {ge} or more",
    "less_than_equal": "write {le} or less",
    "list_type": "write a list",
    "tuple_type": "write a list",
    "dict_type": "write lines of the form key: value",
    "model_type": "write lines of the form key: value",
    "too_short": "these are {length}, at least {min_length} must be there",
    "too_long": "these are {length}, at most {max_length} are allowed",
}


@dataclass(frozen=True, slots=True)
class Required:
    """Marks a field that a person has to write, with what to write."""

    advice: str


def read_model(
    model: type[_Model],
    node: Node,
    location: Location,
    context: Mapping[str, Any] | None = None,
    items: Items | None = None,
) -> _Model | None:
    """Return a part of a file as its model, or None where something of it is refused.

    The names in the file are the aliases of the fields. `context` is for the model's validators.
    `items` has for the names of lists and mappings how their entries are called. No value is
    repeated if the model hides its input in errors.
    """
    try:
        return model.model_validate(
            node.written(), by_alias=True, by_name=False, context={**(context or {})}
        )
    except ValidationError as refusal:
        _Faults(model, node, location, items or {}).refuse_all(refusal)
        return None


class _Faults:
    """Refuses what a model has against a part of a file, at its place, with what to write."""

    def __init__(
        self, model: type[BaseModel], node: Node, location: Location, items: Items
    ) -> None:
        self._model, self._node, self._location, self._items = model, node, location, items
        self._quoted = not model.model_config.get("hide_input_in_errors")

    def refuse_all(self, refusal: ValidationError) -> None:
        """Refuse every fault."""
        for fault in refusal.errors(include_url=False):
            self._refuse(fault)

    def _refuse(self, fault: ErrorDetails) -> None:
        kind, steps = fault["type"], [*fault["loc"]]
        node, _ = self._part(steps)
        if kind == "missing":
            self._refuse_absence(steps)
        elif kind in ("extra_forbidden", "invalid_key"):
            self._refuse_key(steps[:-1], fault["input"] if kind == "invalid_key" else steps[-1])
        elif kind == "string_unicode" and isinstance(node.value, dict):
            self._refuse_key(steps, fault["input"])
        elif steps[-1:] == ["[key]"]:
            node, location = self._part(steps[:-2])
            advice = _advice(fault, node, location.problems)
            key = fault["input"]
            location.refuse(node.child(key) or node, f"{shown(key)}: {advice}")
        elif node.value is None and steps and _required(self._fields(steps[:-1]), steps[-1]):
            self._refuse_absence(steps)
        elif kind != "too_short" or len(node.value) < fault["ctx"]["min_length"]:
            # A list can be too short only without those of its entries that are at fault.
            self._refuse_value(steps, fault)

    def _refuse_absence(self, steps: Sequence[Any]) -> None:
        """Refuse a mapping without a field, which is the last step; a null is no field."""
        node, location = self._part(steps[:-1])
        advice = _required(self._fields(steps[:-1]), steps[-1])
        place = node.child(steps[-1]) or node
        location.refuse(place, advice or f"it has no {steps[-1]}; write it")

    def _refuse_key(self, steps: Sequence[Any], key: Any) -> None:
        node, location = self._part(steps)
        location.refuse_key(node.child(key) or node, key, [*self._fields(steps)])

    def _refuse_value(self, steps: Sequence[Any], fault: ErrorDetails) -> None:
        node, location = self._part(steps)
        advice = _advice(fault, node, location.problems)
        # What a model as a whole has against its parts says which parts it means.
        is_whole = fault["type"] == "value_error" and isinstance(node.value, dict)
        if self._quoted and not (is_whole and self._fields(steps)):
            advice = f"{shown(node.plain())}: {advice}"
        location.refuse(node, advice)

    def _part(self, steps: Sequence[Any]) -> tuple[Node, Location]:
        """Return the innermost node on a path, and its location; a step of no node is left out.

        Such steps are the kinds of a union.
        """
        node, location, holder = self._node, self._location, None
        for step in steps:
            if (inner := node.child(step)) is not None:
                called = self._items[holder](inner, step) if holder in self._items else ""
                node, holder = inner, step
                location = Location(location.problems, called) if called else location.inside(step)
        return node, location

    def _fields(self, steps: Sequence[Any]) -> dict[str, FieldInfo]:
        """Return the fields that a mapping at this path can have, by their names in the file."""
        shapes: Sequence[Any] = (self._model,)
        for step in steps:
            fields = _fields(shapes)
            if step in fields:
                shapes = (fields[step].annotation, *fields[step].metadata)
            else:
                # An entry of a list or a mapping, or the kind of a union.
                tagged = [shape for shape in _shapes(shapes) if Tag(str(step)) in get_args(shape)]
                shapes = tagged or shapes
        return _fields(shapes)


def _fields(shapes: Sequence[Any]) -> dict[str, FieldInfo]:
    return {
        field.alias or name: field
        for model in _shapes(shapes)
        if isinstance(model, type) and issubclass(model, BaseModel)
        for name, field in model.model_fields.items()
    }


def _shapes(shapes: Sequence[Any]) -> Iterator[Any]:
    """Yield types and the types inside them; of another form in a file those of the form alone.

    Such a form is what pydantic calls the input type of a validator.
    """
    marks = [mark for mark in shapes if isinstance(mark, WrapValidator)]
    forms = [mark.json_schema_input_type for mark in marks]
    for shape in [form for form in forms if form is not PydanticUndefined] or shapes:
        if isinstance(shape, type) and issubclass(shape, RootModel):
            yield from _shapes([shape.model_fields["root"].annotation])
        else:
            yield shape
            yield from _shapes(get_args(shape))


def _required(fields: Mapping[str, FieldInfo], name: Any) -> str:
    """Return the advice for a mapping without this field; '' if it has none."""
    marks = fields[name].metadata if name in fields else []
    return next((mark.advice for mark in marks if isinstance(mark, Required)), "")


def _advice(fault: Any, node: Node, problems: Problems) -> str:
    """Return what to write instead of a value that a model refuses."""
    value, facts = fault["input"], dict(fault.get("ctx", {}))
    if fault["type"] == "string_type" and isinstance(value, list | dict | None):
        return "write a text"
    facts |= {"length": len(node.value)} if isinstance(node.value, str | list | dict) else {}
    if fault["type"] in ("dict_type", "model_type") and not node.line:
        return "write an object"
    advice = _ADVICE.get(fault["type"])
    if "expected" in facts:
        known = re.findall(r"'([^']*)'", facts["expected"])
        facts["expected"] = facts["expected"].replace("'", "")
        hint = problems.suggestion(value, known) if isinstance(value, str) else ""
        return f"write {facts['expected']}{hint}"
    if advice is None:
        return str(fault["msg"]).removeprefix("Value error, ")
    return advice.format_map(
        {name: f"{fact:g}" if isinstance(fact, float) else fact for name, fact in facts.items()}
    )
