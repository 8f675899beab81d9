"""How the values of settings are read from variables and written, by the types of their fields."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

Seconds = Annotated[float, Field(gt=0, le=100 * 365 * 86_400)]


class VariableModel(BaseModel):
    """A model whose fields are read from the texts of variables.

    A tuple is written `a,b`, a mapping `name=value,name=value`, and a mapping to pairs
    `name=one/two,...`. The first of the `examples` of a field says how it is written.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    HIDDEN_FILES: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def hidden_files(cls) -> set[str]:
        """Return the settings that name files which the commands of agents must not see."""
        named = (vars(part).get("HIDDEN_FILES", ()) for part in cls.__mro__)
        return {name for names in named for name in names}

    @field_validator("*", mode="before")
    @classmethod
    def _read(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        if not isinstance(value, str) or get_origin(field.annotation) not in (tuple, dict):
            return value
        if get_origin(field.annotation) is tuple:
            return names_in(value)
        kind = get_args(field.annotation)[1]
        written = (field.examples or ["name=value"])[0]
        found = _pairs(value, written, by_slash=get_origin(kind) is tuple)
        is_number = (get_args(kind)[0] if get_origin(kind) is Annotated else kind) is int
        if is_number and not all(re.fullmatch("-?[0-9]+", each) for each in found.values()):
            raise ValueError(f"write {written} with whole numbers, several separated by commas")
        return found


def names_in(value: object) -> object:
    """Read `name,name`."""
    if not isinstance(value, str):
        return value
    return [name for name in map(str.strip, value.split(",")) if name]


def _pairs(value: str, written: str, *, by_slash: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in value.split(","):
        # The names of models may have a = in them.
        parts = row.rpartition("=") if by_slash else row.partition("=")
        name, meant = parts[0].strip(), parts[2].strip()
        first, _, second = meant.partition("/")
        if not (name and meant) or (by_slash and not (first and second)):
            raise ValueError(f"write {written}, several separated by commas")
        found[name] = (first, second) if by_slash else meant
    return found


def as_variable(value: object) -> str:
    """Return a setting in the form of its environment variable."""
    match value:
        case dict():
            return ",".join(f"{key}={_joined(item, '/')}" for key, item in value.items())
        case _:
            return _joined(value, ",")


def _joined(value: object, separator: str) -> str:
    return separator.join(map(str, value)) if isinstance(value, tuple) else str(value)


def without_login(text: str) -> str:
    """Return a text in which no address has its user and password."""
    return re.sub(r"(?<=://)[^@/]*@", "...@", text)


def shown_value(value: object) -> str:
    """Return a value for an error message, without a password."""
    return without_login(repr(value))
