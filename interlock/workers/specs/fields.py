"""Declares the fields of a mapping in a file: how each is read into a payload, and written.

A system declares its fields as a table of the name in the file and a `Field`. The models of the
kernel and of the systems define which values are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from interlock.kernel.errors import InvalidIdError, InvalidPayloadError
from interlock.kernel.record import record_id
from interlock.kernel.store.codec import PAYLOAD_BYTES_MAX, encode
from interlock.workers.specs.json_line import shown
from interlock.workers.specs.problems import Location
from interlock.workers.specs.values import ValueKind, kind_of, read_value
from interlock.workers.specs.yaml_document import Node

# Some fields of a payload. None removes the value of a default.
PartialPayload: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a file: the payload fields that it stands for, its reader and its writer.

    `read` refuses an invalid value at the location and leaves it out. `write` returns None if
    another field of the file writes the same payload fields shorter. `required` is the advice for a
    mapping without the field; it is '' if the field is optional.
    """

    names: tuple[str, ...]
    read: Callable[[Node, Location], PartialPayload]
    write: Callable[[PartialPayload], Any]
    required: str = ""


def single_field(
    name: str,
    read: Callable[[Node, Location], Any],
    write: Callable[[Any], Any] = lambda value: value,
    required: str = "",
) -> Field:
    """Return a field that stands for one field of a payload.

    `read` returns None for a value that it has refused.
    """

    def read_field(node: Node, location: Location) -> PartialPayload:
        value = read(node, location)
        return {} if value is None else {name: value}

    return Field((name,), read_field, lambda payload: write(payload[name]), required)


def payload_field(
    model: type[BaseModel], name: str, kind: ValueKind | None = None, required: str = ""
) -> Field:
    """Return a field that stands for one field of a payload, as the payload's model defines it."""
    chosen = kind or kind_of(model, name)

    def read(node: Node, location: Location) -> Any:
        return read_value(model, name, chosen, node, location)

    return single_field(name, read, chosen.write, required)


def flat_fields(fields: Mapping[str, Field]) -> Field:
    """Return a mapping of the file whose fields are fields of the payload itself."""
    return Field(
        tuple(name for field in fields.values() for name in field.names),
        lambda node, location: read_fields(node, fields, location),
        lambda payload: write_fields(payload, fields),
    )


def nested_fields(name: str, fields: Mapping[str, Field]) -> Field:
    """Return a mapping of the file that is a mapping in the payload as well."""
    return single_field(
        name,
        lambda node, location: read_fields(node, fields, location),
        lambda payload: write_fields(payload, fields),
    )


def read_fields(
    node: Node,
    fields: Mapping[str, Field],
    location: Location,
    known: Collection[str] | None = None,
) -> PartialPayload:
    """Return the payload fields that a mapping of the file stands for; problems are refused.

    A null in the file removes the value of a default. `known` are all fields of the mapping if the
    caller reads some of them itself.
    """
    payload: PartialPayload = {}
    written = location.fields(node, known or fields)
    for key, inner in written.items():
        if key not in fields:
            continue
        if inner.value is None:
            payload |= dict.fromkeys(fields[key].names)
        else:
            payload |= fields[key].read(inner, location.inside(key))
    for key, field in fields.items():
        inner = written.get(key, Node(node.line, None))
        if field.required and inner.value is None and isinstance(node.value, dict):
            location.refuse(inner.line, field.required)
    return payload


def write_fields(payload: PartialPayload, fields: Mapping[str, Field]) -> dict[str, Any]:
    """Return the mapping of the file from which `read_fields` reads this payload."""
    found: dict[str, Any] = {}
    for key, field in fields.items():
        part = {name: payload[name] for name in field.names if name in payload}
        if any(value is not None for value in part.values()):
            value = field.write(part)
            found |= {} if value is None else {key: value}
        elif part:
            found[key] = None
    return found


def checked_payload(
    check: Callable[[PartialPayload], PartialPayload],
    payload: PartialPayload,
    line: int,
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
            location.inside(*error["loc"]).refuse(line, advice)
        return {}
    return checked if check_size(checked, line, location) else {}


def check_size(
    payload: PartialPayload, line: int, location: Location, bytes_max: int = PAYLOAD_BYTES_MAX
) -> bool:
    """Return whether a payload can be stored; refuse it if it is too large or too deep."""
    try:
        encode(payload, "it", bytes_max)
    except InvalidPayloadError as refusal:
        location.refuse(line, "; ".join(refusal.problems))
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
    location.refuse(node.line, problem)
    return ""


def problem_of_id(text: str) -> str:
    """Return why a text cannot be an id, or ''."""
    try:
        record_id(text)
    except InvalidIdError as error:
        return str(error)
    return ""
