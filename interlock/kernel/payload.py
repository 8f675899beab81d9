"""The base of the models of payloads, and the check of a payload against its model."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, ErrorDetails

from interlock.kernel.errors import InvalidPayloadError

# A name without spaces, as roles, queues, phases, stewards and machines have one.
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$")]


Model = TypeVar("Model", bound=BaseModel)


class Shape(BaseModel):
    """Base of the models of payloads. An unknown field is refused, and None is a field left out."""

    # Pydantic compiles a model when it first checks a payload: no process uses all of them.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Tally(Shape):
    """The payload of the end of a countdown: how many ended, by the state in which they did.

    `detail` says which ended without success, and why.
    """

    tally: dict[str, int]
    detail: str = ""


class ChildLost(Shape):
    """The payload that reports the loss of a child to its parent."""

    child: str  # its id
    state: str  # in which it ended
    detail: str = ""  # why


class RecordEnd(Shape):
    """The payload of the end of a record for which another one waits."""

    record: str  # its id
    state: str  # in which it ended, or what else became of it, such as `pruned`
    is_success: bool


class CardAnswer(Shape):
    """Base of the answers to cards: its schema refuses what the model refuses, and nothing more.

    `rules` are the keywords of the schema for what a model's validators check. `names_action`: its
    fields `capability`, `parameters` and `declared` are a call that shall be made.
    """

    model_config = ConfigDict(strict=True)
    rules: ClassVar[Mapping[str, Any]] = {}
    names_action: ClassVar[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _as_schemas_have_it(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        if absent := [name for name, value in fields.items() if value is None]:
            raise ValueError(f"{absent[0]} is null: leave the field out")
        return _whole(fields)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema without null, and with the rules."""
        schema = handler.resolve_ref_schema(handler(core))
        for name, field in schema.get("properties", {}).items():
            branches = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
            if len(branches) == 1:
                rest = {key: field[key] for key in field if key not in ("anyOf", "default")}
                schema["properties"][name] = branches[0] | rest
        schema.update(cls.rules)
        return schema


def _whole(value: Any) -> Any:
    """Return 3.0 as 3, wherever it is in the value: to a JSON schema both are an integer."""
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _whole(item) for name, item in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


def validated(model: type[BaseModel], subject: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Check a payload against its model and return it as JSON-able data.

    `subject` names the payload in the InvalidPayloadError that is raised where it does not fit.
    None is left out of a `Shape`; in every other model it is a value, and stays.
    """
    leaves_out = issubclass(model, Shape)
    try:
        return parsed(model, subject, payload).model_dump(mode="json", exclude_none=leaves_out)
    except ValueError as refusal:
        # What is wrong in a field of any type shows only now: a lone surrogate, too many levels.
        raise InvalidPayloadError(subject, [f"it cannot be kept as JSON: {refusal}"]) from None


def parsed(model: type[Model], subject: str, payload: Mapping[str, Any]) -> Model:
    """Return a payload as its model. Raises InvalidPayloadError, as `validated` does."""
    try:
        return model.model_validate(payload)
    except ValidationError as refusal:
        problems = [problem_of(error) for error in refusal.errors(include_url=False)]
        raise InvalidPayloadError(subject, problems) from None


def fields_of(subject: str, payload: object) -> dict[str, Any]:
    """Return the fields of a payload, which may be given as its model. Raises InvalidPayloadError.

    `subject` names the payload.
    """
    if isinstance(payload, BaseModel):
        return payload.model_dump(mode="json")
    if payload is not None and not isinstance(payload, Mapping):
        raise InvalidPayloadError(subject, [f"it is {type(payload).__name__}, not an object"])
    return dict(payload or {})


def problem_of(error: ErrorDetails, field: str | None = None) -> str:
    """Return the wrong field, what it should be and, where that helps, its value.

    `error` is one of `ValidationError.errors()`; its field is called by its path, such as
    `steps.0.name`, or as `field` says.
    """
    field = ".".join(map(str, error["loc"])) if field is None else field
    if error["type"] == "missing":
        return f"{field}: this field is missing, add it"
    message = error["msg"].removeprefix("Value error, ")
    message = f"{field}: {message}" if field else message
    return f"{message}, not {reprlib.repr(error['input'])}" if "should be" in message else message
