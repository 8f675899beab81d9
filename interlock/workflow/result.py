"""What a person says of a step that was done: the fields that the step would have set."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin

from pydantic import BaseModel, create_model, model_validator

from interlock.kernel.payload import CardAnswer
from interlock.workflow.assigned import SetBy, set_before
from interlock.workflow.parts import Declared, StepPart
from interlock.workflow.signature import fields_set

# Types of values that a person can write into the answer of a card.
PLAIN_TYPES = frozenset({str, int, float, bool})


class StepResult(CardAnswer):
    """The fields that a step would have set. `lacking` is said of an answer without the needed."""

    needed: ClassVar[frozenset[str]] = frozenset()
    lacking: ClassVar[str] = ""

    @model_validator(mode="after")
    def _says_what_is_set(self) -> Self:
        if self.needed and self.needed.isdisjoint(self.model_fields_set):
            raise ValueError(self.lacking)
        return self


def results_of(flow: Declared, step: StepPart) -> dict[str, type[BaseModel] | None]:
    """Return for each target the model of what a person says of the step; None if it sets nothing.

    What the step sets before each return of the target is needed: at least one field of it.
    """
    plain = {
        name: field.annotation
        for name, field in flow.data.model_fields.items()
        if _kinds(field.annotation) <= PLAIN_TYPES
    }
    known = fields_set(step.function) & plain.keys()
    found = set_before(step.function, step.targets, known)
    return {target: _model(step, plain, names) for target, names in found.items()}


def _model(step: StepPart, plain: Mapping[str, Any], found: SetBy) -> type[BaseModel] | None:
    fields: dict[str, Any] = {
        name: (kind | None, None) for name, kind in plain.items() if name in found.may
    }
    if not fields:
        return None
    model = create_model(f"Result_of_{step.name}", __base__=StepResult, **fields)
    if needed := [name for name in fields if name in found.must]:
        model.needed = found.must
        model.rules = (
            {"anyOf": [{"required": [name]} for name in needed]}
            if needed[1:]
            else {"required": needed}
        )
        one_of = "at least one of " if needed[1:] else ""
        model.lacking = f"say what {step.name} would have set: {one_of}{', '.join(needed)}"
    return model


def _kinds(annotation: Any) -> set[Any]:
    """Return the types that a field may have, beside None."""
    is_union = get_origin(annotation) in (Union, UnionType)
    return {*(get_args(annotation) if is_union else (annotation,))} - {type(None)}
