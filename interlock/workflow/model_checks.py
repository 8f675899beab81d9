"""What the import refuses of a model of data: fields that the store would not give back."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, get_args, get_origin

from pydantic import BaseModel, PydanticUserError, SecretBytes, SecretStr, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.fields import FieldInfo

from interlock.kernel.store.codec import PAYLOAD_BYTES_MAX
from interlock.workflow.data import Data, Merge, lost_in_json, merge_of, short
from interlock.workflow.place import SourceLine
from interlock.workflow.sample import adapter_of, full_sample, sample


def check_model(place: SourceLine, model: object, example: str) -> None:
    """Refuse what is no model of data, or loses a value in JSON. Raises WorkflowError."""
    if not isinstance(model, type) or not issubclass(model, Data):
        raise place.error(
            f"{model!r} is no model of data: derive it from Data, as in `class {example}(Data)`"
        )
    if fault := next(_faults(model), ""):
        raise place.error(fault)
    for value in (sample(model), full_sample(model)):
        if value is not None and (size := len(value.model_dump_json())) > PAYLOAD_BYTES_MAX:
            most = f"takes at most {PAYLOAD_BYTES_MAX:,}"
            raise place.error(f"a {model.__name__} has {size:,} bytes at once; the store {most}")
        # It is None if a validator refuses what fits the types: the first submission shows it.
        if value is not None and (lost := next(lost_in_json(value), "")):
            cure = _unless_strict(value)
            raise place.error(f"{model.__name__} is not kept by JSON: {lost}{cure}")


def check_answer(place: SourceLine, name: str, model: type[BaseModel]) -> None:
    """Refuse the model of an answer that no JSON fits. Raises WorkflowError."""
    value = full_sample(model)
    if value is not None and (lost := next(lost_in_json(value), "")):
        cure = "write such a field as `day: Annotated[date, Field(strict=False)]`"
        raise place.error(f"nobody could give the answer of {name}: {lost}; {cure}")


def _unless_strict(value: BaseModel) -> str:
    """Return what to do if JSON gives the value back to a model that is not strict, or ''."""
    try:
        read = type(value).model_validate(value.model_dump(mode="json"), strict=False)
    except ValueError:
        return ""
    return (
        ""
        if read != value
        else "; leave strict out: JSON has numbers and texts alone, as a time is a text in it"
    )


def _faults(model: type[BaseModel]) -> Iterator[str]:
    name, extra = model.__name__, model.model_config.get("extra")
    if extra != "forbid":
        yield f"{name} has extra={extra!r}: fields without a name would be lost; leave that out"
    for field in model.model_computed_fields:
        yield f"{name}.{field} is computed: it would be stored, and refused when it is read again"
    for part in _parts(model, set()):
        for private in part.__private_attributes__:
            why = "is private, and would not be stored: make it a field without _"
            yield f"{part.__name__}.{private} {why}"
        for field, info in part.model_fields.items():
            if part is not model and merge_of(info) is not Merge.PLAIN:
                where = f"is inside of {name}: Log, Inbox and Sum stand in {name} itself"
                yield f"{part.__name__}.{field} {where}"
            yield from (f"{part.__name__}.{field} {why}" for why in _faults_of(field, info))
    try:
        model.model_json_schema(mode="serialization")
    except PydanticInvalidForJsonSchema as refusal:
        yield f"{name} has a type that JSON does not have: {str(refusal).splitlines()[0]}"


def _faults_of(name: str, field: FieldInfo) -> Iterator[str]:
    found = [*_types_in(field.annotation)]
    if {field.alias, field.validation_alias, field.serialization_alias} - {None, name}:
        yield "has an alias: the data are stored and read by the names of the fields"
    if any(kind in (set, frozenset) or get_origin(kind) in (set, frozenset) for kind in found):
        yield "is a set, which has another order in each process: use a list"
    if field.exclude:
        yield "is left out of what is stored: take exclude=True away"
    if any(isinstance(kind, Merge) for kind in found):
        yield "has Log, Inbox or Sum inside of its type: let it be the whole, as in `Log[str] = []`"
    if merge_of(field) is Merge.SUM and field.annotation not in (int, float, Decimal):
        yield "is a Sum of what is no number: write Sum[int], Sum[float] or Sum[Decimal]"
    if any(kind in (SecretStr, SecretBytes) for kind in found):
        cure = 'name it instead, as in `key: Secret = Secret("env:STRIPE_KEY")`'
        yield f"is a secret, of which JSON keeps stars alone: {cure}"
    yield from _faults_of_default(field)


def _faults_of_default(field: FieldInfo) -> Iterator[str]:
    if field.is_required():
        return
    try:
        default = field.get_default(call_default_factory=True)
    except Exception:  # noqa: BLE001 - it may take what was validated before, or raise anything
        return
    try:
        adapter_of(field).validate_python(default)
    except ValidationError as refusal:
        yield f"has a default that does not fit it: {short(refusal)}"
    except PydanticUserError:
        return  # its type cannot be checked without its model


def _parts(model: type[BaseModel], seen: set[type]) -> Iterator[type[BaseModel]]:
    """Yield a model, and the models in its fields."""
    if model in seen:
        return
    seen.add(model)
    yield model
    for field in model.model_fields.values():
        for kind in _types_in(field.annotation):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _parts(kind, seen)


def _types_in(kind: Any) -> Iterator[Any]:
    """Yield a type, and those between its brackets."""
    yield kind
    for inner in get_args(kind):
        yield from _types_in(inner)
