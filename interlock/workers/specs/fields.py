"""Declares the fields of a file as those of a payload, with the names and units that people write.

The models of the kernel and of the systems define which values are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic import Field as FieldOf

from interlock.kernel.errors import InvalidIdError, InvalidPayloadError
from interlock.kernel.record import record_id
from interlock.kernel.store.codec import PAYLOAD_BYTES_MAX, encode
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.models import Items, Required, read_model
from interlock.workers.specs.node import Node
from interlock.workers.specs.problems import Location
from interlock.workers.specs.values import PLAIN, ValueKind

# Some fields of a payload. None removes the value of a default.
PartialPayload: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a file: the field of the payload that it stands for, and the kind of its value.

    `form` is the type of the value in the file, where it is not that of the payload. `required` is
    the advice for a mapping without the field; it is '' if the field may be left out.
    """

    name: str
    kind: ValueKind = PLAIN
    form: Any = None
    required: str = ""


class _FilePart(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def file_model(
    payload: type[BaseModel], fields: Mapping[str, Field], *, apart: Collection[str] = ()
) -> type[BaseModel]:
    """Return the model of a mapping of a file: the fields of a payload by their names in the file.

    Each that is not required may be left out or null. Those of `apart` the caller reads itself.
    """
    found: dict[str, Any] = {key: (Any, FieldOf(default=None, exclude=True)) for key in apart}
    for key, field in fields.items():
        info = payload.model_fields.get(field.name)
        shape: Any = field.form or _shape(info.annotation if info else Any)
        marks = [] if field.form or info is None else [*info.metadata]
        marks += [] if field.kind is PLAIN else [field.kind]
        marks += [Required(field.required)] if field.required else []
        shape = Annotated[(shape, *marks)] if marks else shape
        found[field.name] = (
            (shape, FieldOf(alias=key))
            if field.required
            else (shape | None, FieldOf(default=None, alias=key))
        )
    return create_model(payload.__name__, __base__=_FilePart, **found)


def _shape(shape: Any) -> Any:
    """Return the type in a file of a type of a payload: nothing is converted, but for choices."""
    if isinstance(shape, type) and issubclass(shape, StrEnum):
        return Annotated[shape, FieldOf(strict=False)]
    if isinstance(shape, type) and issubclass(shape, BaseModel):
        return type(shape.__name__, (shape,), {"model_config": _FilePart.model_config})
    return shape


def read_fields(
    model: type[BaseModel], node: Node, location: Location, items: Items | None = None
) -> PartialPayload | None:
    """Return the payload fields that a mapping of the file stands for, or None if it is refused."""
    found = read_model(model, node, location, items=items)
    return None if found is None else found.model_dump(exclude_unset=True)


def checked_payload(
    check: Callable[[PartialPayload], PartialPayload],
    payload: PartialPayload,
    node: Node,
    location: Location,
) -> PartialPayload:
    """Return a payload as `check` returns it; refuse one that is invalid as a whole or too large.

    `check` raises pydantic's ValidationError.
    """
    try:
        checked = check(payload)
    except ValidationError as refusal:
        for error in refusal.errors(include_url=False):
            advice = error["msg"].removeprefix("Value error, ")
            location.inside(*error["loc"]).refuse(node, advice)
        return {}
    return checked if check_size(checked, node, location) else {}


def check_size(
    payload: PartialPayload, node: Node, location: Location, bytes_max: int = PAYLOAD_BYTES_MAX
) -> bool:
    """Return whether a payload can be stored; refuse it if it is too large or too deep."""
    try:
        encode(payload, "it", bytes_max)
    except InvalidPayloadError as refusal:
        location.refuse(node, "; ".join(refusal.problems))
        return False
    return True


def read_name(node: Node, location: Location, parent: str = "") -> str:
    """Return a name that can be an id, or the last part of an id below `parent`; '' if refused."""
    value = node.value
    if not isinstance(value, str):
        problem = f"{shown(node.plain())}: it is not text; put it in quotation marks"
    elif "/" in value:
        problem = f"{shown(value)}: a name has no slash; remove it"
    else:
        problem = problem_of_id(f"{parent}/{value}" if parent else value)
        if not problem:
            return value
    location.refuse(node, problem)
    return ""


def read_dependencies(
    node: Node, location: Location, read_entry: Callable[[Node], str]
) -> dict[str, Node]:
    """Return the names that a list has, each with its entry; a repeated name is refused.

    `read_entry` returns '' for an entry that it has refused.
    """
    found: dict[str, Node] = {}
    for entry in location.entries(node):
        name = read_entry(entry)
        if name in found:
            problem = f"{shown(entry.value)} is there twice, first in line {found[name].line}"
            location.refuse(entry, f"{problem}; remove one")
        elif name:
            found[name] = entry
    return found


def problem_of_id(text: str) -> str:
    """Return why a text cannot be an id, or ''."""
    try:
        record_id(text)
    except InvalidIdError as error:
        return str(error)
    return ""
