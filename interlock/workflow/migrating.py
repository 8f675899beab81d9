"""Makes data that an older version of a workflow has left those of the present one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from interlock.kernel.blame import PlacedError, blamed
from interlock.kernel.errors import InvalidPayloadError
from interlock.workflow.data import OWN, JsonData, as_json, checked, short, visible
from interlock.workflow.parts import Declared
from interlock.workflow.place import place_of
from interlock.workflow.signature import Function, model_taken_by


def migration_of(flow: Declared) -> Callable[[JsonData, int], JsonData] | None:
    """Return what makes data of an older schema those of the present one, if there is any.

    What the workflow itself remembers of a record stays. The function raises PlacedError with the
    user's line for a schema that no way leads from, and for what does not fit the model.
    """
    past = flow.past
    if not past.migrations:
        return None

    def migrate(data: JsonData, schema: int) -> JsonData:
        value: Any = visible(data)
        for number in range(schema, past.schema):
            if number not in past.migrations:
                known = ", ".join(map(str, past.migrations))
                raise PlacedError(
                    f"no way leads from data of schema {number}, as migrate= has functions from "
                    f"{known} alone ({flow.place})"
                )
            value = moved(past.migrations[number], value)
        last = place_of(past.migrations[past.schema - 1])
        try:
            fitting = checked(flow.data, f"what migrate= makes of schema {schema}", value)
        except InvalidPayloadError as refusal:
            raise PlacedError(f"{refusal} ({last})") from refusal
        return {**fitting, **{name: each for name, each in data.items() if name.startswith(OWN)}}

    return migrate


def moved(function: Function, data: JsonData) -> JsonData:
    """Return what a migration makes of data, as JSON. Raises PlacedError with its line."""
    place, model = place_of(function), model_taken_by(function)
    try:
        given: Any = model.model_validate(data) if model else dict(data)
    except ValueError as failure:
        name = model.__name__ if model else ""
        raise PlacedError(f"the older data do not fit {name}: {short(failure)} ({place})") from None
    try:
        found: object = function(given)
    except ValidationError as failure:
        raise PlacedError(f"{function.__name__}: {short(failure)} ({place})") from failure
    except Exception as failure:
        raise PlacedError(blamed(failure, otherwise=str(place))) from failure
    if isinstance(found, BaseModel):
        return as_json(found)
    if not isinstance(found, Mapping):
        kind = type(found).__name__
        raise PlacedError(f"migrate= returned {kind}, and data are a dict or a model ({place})")
    return found
