"""Makes the JSON schemas of the answers to a card. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from interlock.kernel.machine import Machine
from interlock.kernel.payload import CardAnswer
from interlock.kernel.question import inner
from interlock.kernel.table import Waiting
from interlock.workers.engine.card_parts import CardParts

if TYPE_CHECKING:  # imported where a card may name a capability
    from interlock.workers.gateways.capabilities.registry import Registry

# The fields of an answer that are about a capability.
ACTION_FIELDS = frozenset({"capability", "parameters", "declared"})
NO_FIELDS: Mapping[str, Any] = {"type": "object", "additionalProperties": False}


def answer_schema_of(
    parts: CardParts, stage: Waiting, trigger: str, registry: Callable[[], Registry | None]
) -> Mapping[str, Any]:
    """Return the JSON schema of an answer: it accepts what the client accepts."""
    model = stage.answers.get(trigger) or parts.machine.payloads.get(trigger)
    if model is None:
        return NO_FIELDS
    data = parts.record.data
    schema = deepcopy(_schema_without_name(model))
    fields = schema["properties"]
    values = parts.made(f"the values of {trigger}", {}, _values_of, stage, trigger, data, fields)
    for name, each in values.items():
        fields[name]["enum"] = each
    is_action = "capability" in fields and names_action(parts.machine, trigger)
    if not is_action or (known := registry()) is None:
        return schema
    from interlock.workers.gateways.capabilities.answers import answer_schema  # noqa: PLC0415

    return answer_schema(known, schema, trigger, action_of(data))


def _values_of(
    stage: Waiting, trigger: str, data: Mapping[str, Any], fields: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return the only values that fields of an answer may have. Raises KeyError for no field."""
    values = stage.field_values(trigger, data)
    return {name: list(each) for name, each in values.items() if fields[name] is not None}


@cache  # generating it takes longer than all else of a card
def _schema_without_name(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of an answer without the name of who answers, which the client sets."""
    schema = model.model_json_schema()
    fields = schema.setdefault("properties", {})
    fields.pop("by", None)
    if "by" in (required := schema.get("required", [])):
        required.remove("by")
    return schema


def names_action(machine: Machine, trigger: str) -> bool:
    """Whether the payload of a trigger may name a capability that is to be called."""
    model = machine.payloads.get(trigger)
    return model is not None and issubclass(model, CardAnswer) and model.names_action


def action_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the action that a record proposes, or nothing."""
    return inner(data, "proposals", "action", "payload")
