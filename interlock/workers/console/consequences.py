"""Says what an answer would do: the call with its values as they are used, and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.kernel.amounts import MICRO, dollars
from interlock.kernel.machine import Machine
from interlock.kernel.question import action_line
from interlock.kernel.record import Record, ancestors
from interlock.kernel.scales import Level
from interlock.kernel.table import Terminal
from interlock.workers.client import Client
from interlock.workers.console.forms import resolved
from interlock.workers.console.record_look import budgets_of
from interlock.workers.engine.answer_schema import action_of
from interlock.workers.engine.card import Affordance, Card
from interlock.workers.gateways.capabilities.cost import CostEstimate
from interlock.workers.systems import words_of
from interlock.workers.terminal.cards import CONSENT
from interlock.workers.terminal.page import StateName
from interlock.workers.text import is_said

WORDS_LENGTH_MIN = 3  # a shorter value is in many texts by chance


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a call. `is_default`: its value is the one that the capability has for all.

    `is_from_words`: its value is in what a person wrote about the call, and not in the request.
    """

    name: str
    value: Any
    is_default: bool
    is_from_words: bool


@dataclass(frozen=True, slots=True)
class Consequences:
    """The call that a card is about.

    `cost` is a sentence about the cost of the call and what is left of the budget, '' if not known.
    """

    capability: str
    about: str
    parameters: tuple[Parameter, ...]
    cost: str


def consequences(client: Client, record: Record, card: Card) -> Consequences | None:
    """Return the call that a card is about, None if it is about none."""
    if not card.proposed:
        return None
    action = action_of(record.data)
    if card.proposed.get("payload") != action or not action.get("capability"):
        return None
    name, values = str(action["capability"]), action.get("parameters") or {}
    registry = client.dispatch.registry_or_none()
    known = registry[name] if registry and name in registry.local_names else None
    estimate = known.cost_of(values) if known and card.kind == CONSENT else None
    return Consequences(
        capability=name,
        about=known.description if known else "",
        parameters=tuple(_parameters(known.parameters if known else {}, values, record)),
        cost=_cost(client, record, estimate) if estimate else "",
    )


def final_of_call(
    client: Client, offer: Affordance, card: Card | None, given: Mapping[str, Any]
) -> str:
    """Say what cannot be undone of an answer that has a call made at once; '' if there is none.

    A call that an answer only changes is shown before it is made.
    """
    name = given.get("capability")
    if card is None or not name or offer.name == "edit":
        return ""
    registry = client.dispatch.registry_or_none()
    is_known = registry is not None and name in registry.local_names
    if registry and is_known and registry[name].irreversibility is not Level.HIGH:
        return ""
    return f"This cannot be undone: {action_line(given)}."


def _cost(client: Client, record: Record, estimate: CostEstimate) -> str:
    """Say what a call would cost, and what is left of the budgets that it is under."""
    views = client.dispatch.views
    above = views.records(ancestors(record.id), readable_by=client.machines)
    family = [record, *above.values()]
    budgets = [
        (use.limits["spent"] - use.used["spent"], use.limits["spent"])
        for use in budgets_of({one.id: one.counters for one in family})
        if "spent" in use.limits
    ]
    amount = estimate.dollars
    if amount is None:
        problem = estimate.problem
        return f"What it would cost is not known, because {problem}." if problem else ""
    said = f"It would cost about {dollars(amount * MICRO)}"
    if not budgets:
        return f"{said}."
    left, limit = min(budgets)
    only = "only " if amount * MICRO > left else ""
    of = f"{dollars(max(left, 0))} of {dollars(limit)}"
    return f"{said}; {only}{of} of the budget are left."


def leads_to(machine: Machine, record: Record, trigger: str) -> str:
    """Say where a trigger leads from here, and whether that ends the record."""
    targets = dict.fromkeys(str(row.target) for row in machine.rows(record.state, trigger))
    return " or ".join(_arrival(machine, target) for target in targets)


def _arrival(machine: Machine, target: str) -> str:
    words = StateName(machine.name, target).words
    return f"{words}, which ends it" if isinstance(machine.stage(target), Terminal) else words


def _parameters(
    schema: Mapping[str, Any], values: Mapping[str, Any], record: Record
) -> Iterator[Parameter]:
    described = schema.get("properties") or {}
    words = words_of(record.machine, record.data)
    for name in dict.fromkeys((*described, *values)):
        part = resolved(described.get(name), schema.get("$defs", {}))
        value = values.get(name, part.get("default"))
        is_from_words = (
            isinstance(value, str)
            and len(value) >= WORDS_LENGTH_MIN
            and is_said(value, words.said)
            and not is_said(value, [words.request])
        )
        is_default = value == part.get("default")
        yield Parameter(name, value, is_default=is_default, is_from_words=is_from_words)
