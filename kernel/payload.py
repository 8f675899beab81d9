"""The base of the models of payloads, and the check of a payload against its model."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from interlock.kernel.errors import InvalidPayloadError

# A name without spaces, as roles, queues, phases and stewards have one.
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$")]


class Shape(BaseModel):
    """Base of the models of payloads. An unknown field is refused."""

    # Pydantic compiles a model when it first checks a payload: no process uses all of them.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def validated(model: type[BaseModel], subject: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Check a payload against its model and return it as JSON-able data.

    `subject` names the payload in the InvalidPayloadError that is raised where it does not fit.
    """
    try:
        return model.model_validate(payload).model_dump(mode="json", exclude_none=True)
    except ValidationError as refusal:
        problems = [_problem(error) for error in refusal.errors(include_url=False)]
        raise InvalidPayloadError(subject, problems) from None


def _problem(error: ErrorDetails) -> str:
    """Return the wrong field, what it should be and, where that helps, its value."""
    field = ".".join(str(part) for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    message = f"{field}: {message}" if field else message
    return f"{message}, not {reprlib.repr(error['input'])}" if "should be" in message else message
