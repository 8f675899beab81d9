"""The base of the parts of a plan, and the values in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from interlock.system.files import ValueKind

VARIABLES_MAX = 100
ITERATIONS_MAX = 10_000
# A list of JSON is a tuple here, and a text a member of an enumeration.
OF_JSON = Field(strict=False)
_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)
_SECONDS = re.compile(r"\d{1,9}(?:\.\d{1,3})?", re.ASCII)
_MODEL = re.compile(r"[^\s:]+:\S+")
_MS_DIGITS = 3


def is_name(text: Any) -> bool:
    """Return whether a text can be the name of a codon, a loop or a sentinel."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it is not text; put it in quotation marks")  # noqa: TRY004 - not a bug
    if "#" in value:
        raise ValueError("the sign # is for the iterations of loops; choose a name without it")
    if not is_name(value):
        raise ValueError("write up to 63 small letters, digits and -, a letter first")
    return value


def _setting(value: Any) -> Any:
    if isinstance(value, str) and "\0" in value:
        raise ValueError("no command and no setting can have a NUL character; take it out")
    return value


def _text(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise ValueError("it is empty; write a text")
    return _setting(value)


def _model(value: Any) -> str:
    if isinstance(value, str) and _MODEL.fullmatch(value):
        return value
    raise ValueError("write it as <provider>:<name>")


def _variable(value: Any) -> str:
    if isinstance(value, str) and _VARIABLE.fullmatch(value):
        return value
    raise ValueError("it cannot be a variable; write letters, digits and _")


def _seconds(value: Any) -> int:
    text = "" if isinstance(value, str) else str(value)
    if _SECONDS.fullmatch(text):
        return int(Decimal(text).scaleb(_MS_DIGITS))
    raise ValueError("write seconds like 5 or 0.5, with at most 3 decimals")


def _true(value: Any) -> bool:
    if value is not True:
        raise ValueError("write true, or take it out")
    return True


NAME = ValueKind(_name)
SETTING = ValueKind(_setting)
TEXT = ValueKind(_text)
MODEL = ValueKind(_model)
VARIABLE = ValueKind(_variable)
# Written in seconds, stored in milliseconds.
SECONDS = ValueKind(_seconds, lambda ms: f"{ms / 1_000:g}")
TRUE = ValueKind(_true)
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$"), NAME]
CommandText = Annotated[str, Field(min_length=1, max_length=8_000), TEXT]
Prompt = Annotated[str, Field(min_length=1, max_length=64_000), TEXT]
ModelName = Annotated[str, Field(max_length=200, pattern=r"^[^\s:]+:\S+$"), MODEL]
Variable = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"), VARIABLE]
Setting = Annotated[str, Field(max_length=8_000), SETTING]
Environment = Annotated[dict[Variable, Setting], Field(max_length=VARIABLES_MAX)]
CommandSeconds = Annotated[int, Field(ge=1, le=86_400)]
RunSeconds = Annotated[int, Field(ge=1, le=31_536_000)]
Iterations = Annotated[int, Field(ge=1, le=ITERATIONS_MAX)]


class PlanPart(BaseModel):
    """A part of a plan. It is immutable, and unknown fields are refused.

    In a file its fields have their aliases, and a null is a field that is absent; `context` has the
    folder `workspace` then. An imported record is validated by these models alone, so they also
    refuse the combinations of fields that `mismatch` describes.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        validate_by_name=True,
        validate_by_alias=False,
    )

    @classmethod
    def mismatch(cls, fields: Collection[str]) -> str:  # noqa: ARG003 - most parts take any fields
        """Return the problem of a part with exactly these fields, or an empty text."""
        return ""

    @model_validator(mode="wrap")
    @classmethod
    def _matches(cls, fields: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        if info.context is None or not isinstance(fields, dict):
            part = read(fields)
            # A field with its default value counts as absent, because it is stored like that.
            given = {
                name
                for name, field in cls.model_fields.items()
                if field.is_required() or getattr(part, name) != field.get_default()
            }
            if problem := cls.mismatch(given):
                raise ValueError(problem)
            return part
        known = {of.alias or name: name for name, of in cls.model_fields.items()}
        written = {k: value for k, value in fields.items() if value is not None or k not in known}
        problem = cls.mismatch({known[name] for name in written if name in known})
        return with_fault(problem, read, written)


def written_form(model: type[BaseModel], advice: str, words: Mapping[str, Any]) -> WrapValidator:
    """Return the mark of a field that a file has in another form than the plan: as another model.

    A word of `words` stands for the stored value; `advice` says what can be written. The model has
    a method `stored`, which returns the value.
    """

    def read(value: Any, stored: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        if info.context is None:
            return stored(value)
        if isinstance(value, str) and value in words:
            return words[value]
        if not isinstance(value, dict) or not value:
            raise ValueError(advice)
        found: Any = model.model_validate(value, by_alias=True, by_name=False, context=info.context)
        return found.stored()

    return WrapValidator(read, json_schema_input_type=model)


def with_fault(problem: str, read: Callable[[Any], Any], value: Any) -> Any:
    """Read a value; where it has this problem as a whole, refuse it with the faults of its parts.

    For the validators of models. Raises ValidationError.
    """
    if not problem:
        return read(value)
    faults: list[Any] = [
        {"type": "value_error", "loc": (), "input": value, "ctx": {"error": ValueError(problem)}}
    ]
    try:
        read(value)
    except ValidationError as refusal:
        faults += refusal.errors(include_url=False)
    raise ValidationError.from_exception_data("part", faults)
