"""A value of a model as its types allow it, to try questions and conditions with at import."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from interlock.workflow.secret import Secret

M = TypeVar("M", bound=BaseModel)

_PLAIN: dict[Any, Any] = {
    str: "text",
    int: 1,
    float: 1.5,
    bool: True,
    bytes: b"bytes",
    Decimal: Decimal("1.5"),
    datetime: datetime(2026, 3, 10, 9, 30, tzinfo=UTC),
    date: date(2026, 3, 10),
    time: time(9, 30),
    timedelta: timedelta(minutes=90),
    UUID: UUID(int=1),
    Any: "text",
    Secret: Secret("env:EXAMPLE"),
}
# Tried in this order for a type that is none of the above, or that has bounds.
_OTHERS: tuple[Any, ...] = (
    *(1, 0, -1, 2, 10, 100, 1000, 18, 0.5, "a", "A", "text@example.com", "https://example.com"),
    *("2026-03-10", "127.0.0.1", "DE", "EUR", "a" * 8, "a" * 16, "0" * 10, ["text"], [1], {}, None),
)


def sample(model: type[M]) -> M | None:
    """Return a value of a model with its defaults, or None if its validators refuse every one."""
    return _made(model, {name for name, each in model.model_fields.items() if each.is_required()})


def full_sample(model: type[M]) -> M | None:
    """Return a value of a model in which no field has its default, or None as `sample` does."""
    return _made(model, set(model.model_fields))


def adapter_of(field: FieldInfo) -> TypeAdapter[Any]:
    """Return what checks a value of one field by its type. Raises PydanticUserError."""
    kind: Any = field.annotation
    return TypeAdapter(Annotated[kind, *field.metadata] if field.metadata else kind)


def _made(model: type[M], names: set[str]) -> M | None:
    try:
        return model(**{name: _of_field(model.model_fields[name]) for name in names})
    except Exception:  # noqa: BLE001 - a validator of the user may raise anything
        return None


def _of_field(field: FieldInfo) -> Any:
    """Return the first value that the field takes."""
    adapter = adapter_of(field)
    for value in (*_fitting(field.annotation), *_OTHERS):
        try:
            adapter.validate_python(value)
        except Exception:  # noqa: BLE001, S112 - as above
            continue
        return value
    raise ValueError("no value fits")


def _fitting(kind: Any) -> Iterator[Any]:
    try:
        yield _value(kind)
    except TypeError:
        return


def _value(kind: Any) -> Any:  # noqa: PLR0911 - a line for each kind of type
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Annotated, Union, UnionType):
        return _value(parts[0])
    if origin is Literal:
        return parts[0]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return sample(kind)
    if isinstance(origin, type) and issubclass(origin, dict):
        return {_value(parts[0]): _value(parts[1])}
    if isinstance(origin, type) and issubclass(origin, list | set | frozenset):
        return origin([_value(parts[0])])
    if origin is tuple:
        return tuple(_value(part) for part in parts if part is not Ellipsis)
    return kind() if isinstance(kind, type) else None
