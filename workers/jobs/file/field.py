"""A field of a graph's file: how it is read into parts of a birth, and written from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel

from interlock.workers.specs.problems import Place
from interlock.workers.specs.values import PLAIN, Kind, read_value
from interlock.workers.specs.yaml_document import Node

# Parts of a birth by their names there. None: nothing, also where a default says otherwise.
Parts: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field: the parts of a birth that it is about, how they are read and how they are written.

    `write` returns None where another field with the same parts says it better.
    """

    born: tuple[str, ...]
    read: Callable[[Node, Place], Parts]
    write: Callable[[Parts], Any]


def read_fields(node: Node, fields: Mapping[str, Field], place: Place) -> Parts:
    """Return the parts that the fields of a mapping are born as; the place is told what is wrong.

    A null takes away what a default says.
    """
    parts: Parts = {}
    for word, inner in place.fields(node, fields).items():
        field = fields[word]
        if inner.value is None:
            parts |= dict.fromkeys(field.born)
        else:
            parts |= field.read(inner, place.inside(word))
    return parts


def write_fields(parts: Parts, fields: Mapping[str, Field]) -> Parts:
    """Return the fields that parts are read from, in the order of the fields."""
    found: Parts = {}
    for word, field in fields.items():
        mine = {born: parts[born] for born in field.born if born in parts}
        if any(value is not None for value in mine.values()):
            value = field.write(mine)
            found |= {} if value is None else {word: value}
        elif mine:
            found[word] = None
    return found


def merged(*layers: Parts) -> Parts:
    """Return parts where later layers count more; limits are merged one by one."""
    found: Parts = {}
    for layer in layers:
        more = layer.get("limits")
        limits = None if more is None else {**(found.get("limits") or {}), **more}
        found |= layer
        if limits is not None:
            found["limits"] = limits
    return {born: value for born, value in found.items() if value is not None}


def one(model: type[BaseModel], born: str, kind: Kind = PLAIN) -> Field:
    """Return a field that is one part of a birth, as the kernel's model has it."""

    def read(node: Node, place: Place) -> Parts:
        value = read_value(model, born, kind, node, place)
        return {} if value is None else {born: value}

    return Field((born,), read, lambda parts: kind.write(parts[born]))


def apart(fields: Mapping[str, Field]) -> Field:
    """Return a field whose own fields are parts of the birth themselves."""
    return Field(
        tuple(part for field in fields.values() for part in field.born),
        lambda node, place: read_fields(node, fields, place),
        lambda parts: write_fields(parts, fields),
    )


def together(born: str, fields: Mapping[str, Field]) -> Field:
    """Return a field whose own fields are one part of the birth."""
    return Field(
        (born,),
        lambda node, place: {born: read_fields(node, fields, place)},
        lambda parts: write_fields(parts[born], fields),
    )
