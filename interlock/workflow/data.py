"""The data of a workflow's records: the base of its models, and how a change becomes part of them.

A step works on a copy. What it changed travels as a `Change`, and is merged into the data that the
record has by then. How that is done is in the type of the field: `Log`, `Inbox`, `Sum`, or plain.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import Enum, auto
from hashlib import sha256
from typing import Annotated, Any, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from interlock.kernel.errors import InvalidPayloadError
from interlock.kernel.payload import CardAnswer, Shape, parsed, problem_of

T = TypeVar("T")
Number = TypeVar("Number", int, float, Decimal)
JsonData: TypeAlias = Mapping[str, Any]
Found: TypeAlias = dict[str, dict[str, Any]]  # the fields of a `Change`

# A field of the record that is none of the model: what the workflow itself remembers of it.
OWN = "_"


class Merge(Enum):
    """How a change of a field meets one that came meanwhile."""

    PLAIN = auto()  # one side at a time changes it
    LOG = auto()  # both sides append
    INBOX = auto()  # calls append, and a step takes from the front
    SUM = auto()  # both sides add


Log: TypeAlias = Annotated[list[T], Merge.LOG]
Inbox: TypeAlias = Annotated[list[T], Merge.INBOX]
Sum: TypeAlias = Annotated[Number, Merge.SUM]


class Data(BaseModel):
    """Base of the data of a workflow. An unknown field is refused, and so is a wrong value."""

    # Without validate_default a step would get another value than the one that is read again.
    model_config = ConfigDict(extra="forbid", validate_assignment=True, validate_default=True)


class Because(CardAnswer):
    """An answer that needs a reason."""

    reason: Annotated[str, Field(min_length=1)]


class MergeError(ValueError):
    """A step changed a field in a way that its type does not allow. The message names both."""


class Change(Shape):
    """What a step, a call or an answer changes in the data.

    `values` are new values by the path of the field (`address.city`), and `before` has a digest of
    each old one; `appended` are new items by field; `taken` is how many items left the front;
    `added` is what a number grew by; `seen` is how many items an inbox had when the step began.
    """

    values: dict[str, Any] | None = None
    before: dict[str, str] | None = None
    appended: dict[str, list[Any]] | None = None
    taken: dict[str, int] | None = None
    added: dict[str, float | int | str] | None = None  # a Decimal is a text in JSON
    seen: dict[str, int] | None = None


def merge_of(field: FieldInfo) -> Merge:
    """Return how changes of a field are merged."""
    return next((mark for mark in field.metadata if isinstance(mark, Merge)), Merge.PLAIN)


def fields_merged_by(model: type[BaseModel], merge: Merge) -> tuple[str, ...]:
    """Return the fields of a model whose changes are merged in this way."""
    return tuple(name for name, field in model.model_fields.items() if merge_of(field) is merge)


def as_json(value: BaseModel) -> dict[str, Any]:
    """Return data as the record keeps it. None stays None."""
    return value.model_dump(mode="json")


def visible(data: JsonData) -> dict[str, Any]:
    """Return the fields of the model in a record's data, without what the workflow remembers."""
    return {name: value for name, value in data.items() if not name.startswith(OWN)}


def checked(model: type[BaseModel], subject: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is submitted as JSON that the model reads back unchanged.

    Raises InvalidPayloadError: the value does not fit, or JSON gives back another one.
    """
    value = parsed(model, subject, payload)
    if lost := tuple(lost_in_json(value)):
        raise InvalidPayloadError(subject, lost)
    return as_json(value)


def lost_in_json(value: BaseModel) -> Iterator[str]:
    """Name each field that JSON does not give back as it was, with both values."""
    try:
        # As the store has it: a strict model would take from JSON what it refuses when it is read.
        again = type(value).model_validate(json.loads(value.model_dump_json()))
    except (ValueError, TypeError) as failure:
        named = [name for name in type(value).model_fields if not _is_json(value, name)]
        field = f"{named[0]}: " if named else ""
        yield f"{field}it cannot be kept as JSON and read again: {short(failure)}"
        return
    for name in type(value).model_fields:
        was, read = getattr(value, name), getattr(again, name)
        if was != read or type(was) is not type(read):
            yield (
                f"{name}: JSON gives {read!r} back for {was!r}; use a type that JSON keeps, and "
                "validators that do not change what they have changed before"
            )


def _is_json(value: BaseModel, field: str) -> bool:
    try:
        value.model_dump_json(include={field})
    except (ValueError, TypeError):
        return False
    return True


def short(failure: Exception) -> str:
    """Return a validation error as one line."""
    if not isinstance(failure, ValidationError):
        return " ".join(str(failure).split())
    errors = failure.errors(include_url=False)
    return "; ".join(problem_of(error) for error in errors)


def changes(model: type[BaseModel], before: JsonData, after: JsonData) -> dict[str, Any]:
    """Return the change from one state of the data to another. Raises MergeError."""
    found: Found = defaultdict(dict)
    for name, field in model.model_fields.items():
        merge = merge_of(field)
        # A record that was created before the model had the field has nothing there.
        old, new = before.get(name, _NOTHING[merge]), after[name]
        if old != new:
            _FOUND[merge](found, name, old, new)
    return dict(found)


def merged(data: JsonData, change: JsonData) -> dict[str, Any]:
    """Return the data with a change in it."""
    result = dict(data)
    for name, number in change.get("taken", {}).items():
        result[name] = result.get(name, [])[number:]
    for name, items in change.get("appended", {}).items():
        result[name] = [*result.get(name, []), *items]
    for name, number in change.get("added", {}).items():
        result[name] = _sum_of(result.get(name, 0), number)
    for path, value in change.get("values", {}).items():
        result = _with(result, path.split("."), value)
    return result


def overtaken(data: JsonData, change: JsonData) -> list[str]:
    """Return the plain fields that a change sets, and that have another value by now than before.

    A field that has got the same value by both sides is none.
    """
    return [
        path
        for path, old in change.get("before", {}).items()
        if (now := _at(data, path.split("."))) != change["values"][path] and digest(now) != old
    ]


def _plain(found: Found, path: str, old: Any, new: Any) -> None:
    if isinstance(old, dict) and isinstance(new, dict) and _are_fields(old, new):
        for name in new:
            if old[name] != new[name]:
                _plain(found, f"{path}.{name}", old[name], new[name])
        return
    found["values"][path], found["before"][path] = new, digest(old)


def _are_fields(old: JsonData, new: JsonData) -> bool:
    return old.keys() == new.keys() and all(name.isidentifier() for name in new)


def digest(value: Any) -> str:
    """Return a short digest of a JSON value."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _log(found: Found, name: str, old: Any, new: Any) -> None:
    if new[: len(old)] != old:
        raise MergeError(f"{name} is a Log: only append to it; its earlier items were changed")
    found["appended"][name] = new[len(old) :]


def _inbox(found: Found, name: str, old: Any, new: Any) -> None:
    """Find the longest end of the old items that the new ones begin with."""
    for number in range(len(old) + 1):
        kept = old[number:]
        if new[: len(kept)] == kept:
            break
    if number:
        found["taken"][name] = number
    if more := new[len(kept) :]:
        found["appended"][name] = more


def _sum(found: Found, name: str, old: Any, new: Any) -> None:
    decimal = isinstance(new, str)
    found["added"][name] = str(Decimal(new) - Decimal(old)) if decimal else new - old


def _sum_of(old: Any, more: Any) -> Any:
    return str(Decimal(old) + Decimal(more)) if isinstance(more, str) else old + more


_NOTHING: Mapping[Merge, Any] = {
    Merge.PLAIN: None,
    Merge.LOG: [],
    Merge.INBOX: [],
    Merge.SUM: 0,
}
_FOUND = {Merge.PLAIN: _plain, Merge.LOG: _log, Merge.INBOX: _inbox, Merge.SUM: _sum}


def _at(data: Any, path: list[str]) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def _with(data: JsonData, path: list[str], value: Any) -> dict[str, Any]:
    first, *rest = path
    return {**data, first: _with(data.get(first) or {}, rest, value) if rest else value}


def item_type(model: type[BaseModel], field: str) -> Any:
    """Return the type of the items of a list field, or None if it is no list."""
    found = get_args(model.model_fields[field].annotation)
    return found[0] if found else None
