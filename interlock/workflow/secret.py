"""A secret that data name and do not hold: a step reads its value where it is at work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import core_schema

from interlock.workers.redaction import hide_from_now_on

SCHEME, OURS = "env:", "INTERLOCK_"
_NAME = re.compile(rf"{SCHEME}([A-Za-z_][A-Za-z0-9_]*)")
# The text itself is not repeated: it may be the secret.
_WRITE = (
    "a secret is named, never stored: write env:STRIPE_KEY, with the name of a variable of the "
    "worker; nothing but env: is known"
)


class SecretError(ValueError):
    """A secret is not named as one, or may not be read here, or is not there."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a step may read: the variable that its definition names, and those of the worker."""

    field: str
    default: str  # the variable that the field of the data has as its default, or ''
    allowed: Sequence[str]  # names of the worker's setting, of which `*` ends some
    worker: str


class Secret:
    """The name of a secret, `env:STRIPE_KEY`: a variable of the worker that runs the step.

    That is all that records, cards, logs and exports ever have of it. A step reads `value()`.
    """

    __slots__ = ("_grant", "name")

    def __init__(self, name: str) -> None:
        found = _NAME.fullmatch(name) if isinstance(name, str) else None
        if found is None:
            raise SecretError(_WRITE)
        if found[1].startswith(OURS):
            raise SecretError(f"{found[1]} is a setting of Interlock, which no step reads")
        self.name = name
        self._grant: Grant | None = None

    @property
    def variable(self) -> str:
        """The name of the variable."""
        return self.name.removeprefix(SCHEME)

    def value(self) -> str:
        """Return the secret from the environment of the worker. Only a step can read it.

        Raises SecretError: the worker has no such variable, or the data may not name it.
        """
        grant, variable = self._grant, self.variable
        if grant is None:
            raise SecretError(f"{variable} is read by a step alone, from the data that it gets")
        if variable != grant.default and not any(
            fnmatchcase(variable, each) for each in grant.allowed
        ):
            raise SecretError(
                f"the data name {variable} in {grant.field}, which is not the default there: the "
                f"worker {grant.worker} reads it only if INTERLOCK_SECRETS names it"
            )
        found = os.environ.get(variable)
        if not found:
            raise SecretError(
                f"{variable}, which {grant.field} names, is not set in the environment of the "
                f"worker {grant.worker}: set it where that is started"
            )
        hide_from_now_on(found)
        return found

    def grant(self, grant: Grant) -> None:
        """Let a step read it. What runs the step calls this."""
        self._grant = grant

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Take a name, give a name back. An error does not repeat what was given."""
        del source, handler
        text = core_schema.str_schema(pattern=f"^{_NAME.pattern}$")
        named = core_schema.plain_serializer_function_ser_schema(str, return_schema=text)
        return core_schema.chain_schema([_READ, _MADE], serialization=named)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        """Describe a name, for forms and the pages of the API."""
        del core, handler
        return {"type": "string", "pattern": f"^{_NAME.pattern}$"}


class _Hidden:
    """What was given for a secret, which an error does not show."""

    def __init__(self, given: object) -> None:
        self.given = given

    def __repr__(self) -> str:
        return "<hidden>"


def _made(hidden: _Hidden) -> Secret:
    given = hidden.given
    name = given.name if isinstance(given, Secret) else given
    if not isinstance(name, str):
        raise SecretError(_WRITE)
    return Secret(name)


_READ = core_schema.no_info_plain_validator_function(_Hidden)
_MADE = core_schema.no_info_plain_validator_function(_made)


def grant_secrets(data: BaseModel, allowed: Sequence[str], worker: str) -> None:
    """Let the secrets in the data of a step be read, as far as they may be."""
    for field, default, secret in _secrets_in(data, ""):
        secret.grant(Grant(field, default, allowed, worker))


def _secrets_in(value: object, path: str, default: str = "") -> Iterator[tuple[str, str, Secret]]:
    if isinstance(value, Secret):
        yield path, default, value
    elif isinstance(value, BaseModel) and has_secrets(type(value)):
        for name, field in type(value).model_fields.items():
            given = field.default
            named = str(given).removeprefix(SCHEME) if isinstance(given, Secret | str) else ""
            yield from _secrets_in(getattr(value, name), f"{path}.{name}".lstrip("."), named)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _secrets_in(each, path)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _secrets_in(each, path)


@cache
def has_secrets(model: type[BaseModel]) -> bool:
    """Whether a model has secrets, also inside of others."""
    return any(_may_hold(field.annotation, {model}) for field in model.model_fields.values())


def _may_hold(kind: Any, seen: set[Any]) -> bool:
    """Whether a value of a type may hold a secret."""
    if kind is Secret or kind is Any:
        return True
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in seen:
        seen.add(kind)
        return any(_may_hold(field.annotation, seen) for field in kind.model_fields.values())
    return any(_may_hold(inner, seen) for inner in get_args(kind))
