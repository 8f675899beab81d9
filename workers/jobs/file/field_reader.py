"""A field of a graph's file: how it is read into fields of a payload, and written from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel

from interlock.workers.specs.problems import Location
from interlock.workers.specs.values import PLAIN, ValueKind, read_value
from interlock.workers.specs.yaml_document import Node

# Some fields of the payload of a job or graph. None removes the value of a default.
PartialPayload: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the file: the payload fields that it stands for, its reader and its writer.

    `write` returns None if another field of the file writes the same payload fields shorter.
    """

    names: tuple[str, ...]
    read: Callable[[Node, Location], PartialPayload]
    write: Callable[[PartialPayload], Any]


def read_fields(node: Node, fields: Mapping[str, Field], location: Location) -> PartialPayload:
    """Return the payload fields that a mapping of the file stands for; problems are refused.

    A null in the file removes the value of a default.
    """
    payload: PartialPayload = {}
    for key, inner in location.fields(node, fields).items():
        field = fields[key]
        if inner.value is None:
            payload |= dict.fromkeys(field.names)
        else:
            payload |= field.read(inner, location.inside(key))
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


def merged(*layers: PartialPayload) -> PartialPayload:
    """Return one payload of several, of which a later one wins; limits are merged one by one."""
    found: PartialPayload = {}
    for layer in layers:
        more = layer.get("limits")
        limits = None if more is None else {**(found.get("limits") or {}), **more}
        found |= layer
        if limits is not None:
            found["limits"] = limits
    return {name: value for name, value in found.items() if value is not None}


def payload_field(model: type[BaseModel], name: str, kind: ValueKind = PLAIN) -> Field:
    """Return a field that stands for one field of a payload, as the kernel's model defines it."""

    def read(node: Node, location: Location) -> PartialPayload:
        value = read_value(model, name, kind, node, location)
        return {} if value is None else {name: value}

    return Field((name,), read, lambda payload: kind.write(payload[name]))


def flat_fields(fields: Mapping[str, Field]) -> Field:
    """Return a mapping of the file whose fields are fields of the payload itself."""
    return Field(
        tuple(name for field in fields.values() for name in field.names),
        lambda node, location: read_fields(node, fields, location),
        lambda payload: write_fields(payload, fields),
    )


def nested_fields(name: str, fields: Mapping[str, Field]) -> Field:
    """Return a mapping of the file that is a mapping in the payload as well."""
    return Field(
        (name,),
        lambda node, location: {name: read_fields(node, fields, location)},
        lambda payload: write_fields(payload[name], fields),
    )
