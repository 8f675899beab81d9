"""A value of a model as its types allow it, to try questions and conditions with at import."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel

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
}


def sample(model: type[M]) -> M | None:
    """Return a value of a model, or None if its validators refuse what its types allow."""
    try:
        needed = {name: each for name, each in model.model_fields.items() if each.is_required()}
        return model(**{name: _value(each.annotation) for name, each in needed.items()})
    except Exception:  # noqa: BLE001 - a validator of the user may raise anything
        return None


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
