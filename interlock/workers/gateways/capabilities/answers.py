"""Answers of people that name a capability: their schema on a card, and their check."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from interlock.kernel.errors import InvalidPayloadError
from interlock.workers.gateways.capabilities.capability import problems_of
from interlock.workers.gateways.capabilities.registry import Registry

# The trigger of an answer that may leave out the capability: it is then the proposed one.
EDITED = "edited"


def answer_schema(
    registry: Registry, schema: Mapping[str, Any], trigger: str, action: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the schema of an answer with what `checked_answer` checks by the registry.

    Where the card asks for the values of one capability, `parameters` has that capability's schema.
    The tools of servers are checked when the answer comes: to know their schemas before, each
    server would have to be started.
    """
    asked, proposed = _asked(registry, action), action.get("capability")
    properties = dict(schema["properties"])
    if trigger != EDITED and asked is not None:
        properties["capability"] = {"const": asked}
        properties["parameters"] = _embedded(registry, asked)
        rules = [_rule(registry, asked, action)]
    else:
        properties["capability"] = {"type": "string", "enum": sorted(registry.names)}
        rules = [_rule(registry, name, action) for name in sorted(registry.local_names)]
        if trigger == EDITED:
            rules.append(_rule_without_name(registry, proposed if proposed in registry else None))
    return {**schema, "properties": properties, "allOf": rules}


def checked_answer(
    registry: Registry, answer: Mapping[str, Any], trigger: str, action: Mapping[str, Any]
) -> dict[str, Any]:
    """Check the capability and parameters of an answer, and add what the capability declares.

    `action` is the proposed one. Raises UnknownCapabilityError or InvalidPayloadError.
    """
    if "declared" in answer:
        raise InvalidPayloadError("the answer", ["declared: only the capability sets it"])
    name, proposed = answer.get("capability"), action.get("capability")
    if name is None and trigger == EDITED and "parameters" in answer:
        name = proposed or ""
    if not isinstance(name, str):
        return dict(answer)
    capability = registry[name]
    asked = _asked(registry, action)
    if trigger != EDITED and asked not in (None, name):
        problem = f"capability: this card asks for the values of {asked}; to choose another one,"
        raise InvalidPayloadError("the answer", [f"{problem} say its name as the text"])
    known = action.get("parameters", {}) if name == proposed else {}
    parameters = answer.get("parameters", known)
    if not isinstance(parameters, Mapping):
        raise InvalidPayloadError("the answer", ["parameters: give an object"])
    registry.check(name, parameters)
    return {**answer, "declared": capability.declared()}


def _asked(registry: Registry, action: Mapping[str, Any]) -> str | None:
    """Return the capability whose values a clarification asks for."""
    name = action.get("capability")
    return name if action.get("kind") == "clarification" and name in registry else None


def _rule(registry: Registry, name: str, action: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rule for an answer that names a capability."""
    named = {"required": ["capability"], "properties": {"capability": {"const": name}}}
    if name == action.get("capability") and (known := action.get("parameters", {})):
        needs = bool(problems_of(_embedded(registry, name), known))
    else:
        needs = _needs_parameters(registry, name)
    needed = ["parameters"] if needs else []
    return {"if": named, "then": {"required": needed, **_parameters(registry, name)}}


def _rule_without_name(registry: Registry, name: str | None) -> dict[str, Any]:
    """Return the rule for an edit that names no capability: it is about the proposed one."""
    if name is None:
        return {"dependentRequired": {"parameters": ["capability"]}}
    return {"if": {"not": {"required": ["capability"]}}, "then": _parameters(registry, name)}


def _parameters(registry: Registry, name: str) -> dict[str, Any]:
    return {"properties": {"parameters": _embedded(registry, name)}}


# A card has a rule for each capability, and a list has hundreds of cards.
@lru_cache(maxsize=1_000)
def _needs_parameters(registry: Registry, name: str) -> bool:
    """Return whether a capability cannot be called without parameters."""
    return bool(problems_of(_embedded(registry, name), {}))


@lru_cache(maxsize=1_000)
def _embedded(registry: Registry, name: str) -> dict[str, Any]:
    """Return the schema of a capability's parameters, as a part of another schema."""
    if name not in registry.local_names:
        return {"type": "object"}
    schema = dict(registry[name].parameters)
    # References inside it count from its own root, which an id makes it keep.
    return {"$id": f"urn:interlock:{name}", **schema} if "$ref" in json.dumps(schema) else schema
