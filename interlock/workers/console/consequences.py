"""Says what an answer would do: the call with its values as they are used, its risk, its cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from interlock.kernel.machine import Machine
from interlock.kernel.record import Record, ancestors
from interlock.kernel.scales import Level
from interlock.kernel.table import Active, Terminal
from interlock.workers.client import Client
from interlock.workers.console.forms import resolved, type_words
from interlock.workers.console.record_look import budgets_of
from interlock.workers.engine.card import Card, action_of
from interlock.workers.gateways.capabilities.cost import CostEstimate
from interlock.workers.terminal.cards import CONSENT
from interlock.workers.text import dollars

MICRO = 1_000_000  # budgets are in millionths of a dollar
UNDO: Mapping[Level, str] = {
    Level.HIGH: "It cannot be undone.",
    Level.MEDIUM: "It is hard to undo.",
    Level.LOW: "It can be undone.",
}
REGRET: Mapping[Level, str] = {
    Level.HIGH: "A mistake would be much regretted.",
    Level.MEDIUM: "A mistake may be regretted.",
    Level.LOW: "",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a call. `is_given`: it has a value, and not only the capability's default."""

    name: str
    value: Any
    is_given: bool
    kind: str
    about: str


@dataclass(frozen=True, slots=True)
class Consequences:
    """The call that a card is about. `is_ahead`: it is made if the card is agreed to.

    `warning` is about what cannot be undone, `risks` are further sentences, `cost` is a sentence
    about the cost of the call and about what is left of the budget.
    """

    is_ahead: bool
    capability: str
    about: str
    parameters: tuple[Parameter, ...]
    warning: str
    risks: tuple[str, ...]
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
    declared = record.data["proposals"]["action"].get("declared") or {}
    undo = _worst("irreversibility", action, declared)
    regret = _worst("regret_potential", action, declared)
    is_ahead = card.kind == CONSENT
    sentences = [UNDO[undo] if undo is not Level.HIGH else "", REGRET[regret]]
    if action.get("risk_amplifier") or declared.get("risk_amplifier"):
        sentences.append("It can make the damage of other mistakes larger.")
    if not declared.get("idempotent"):
        sentences.append("If its worker is lost, it is not called again: a person is asked.")
    return Consequences(
        is_ahead=is_ahead,
        capability=name,
        about=known.description if known else "",
        parameters=tuple(_parameters(known.parameters if known else {}, values)),
        warning=UNDO[undo] if is_ahead and undo is Level.HIGH else "",
        risks=tuple(filter(None, sentences)) if is_ahead else (),
        cost=_cost(client, record, known.cost_of(values) if known else None) if is_ahead else "",
    )


def _cost(client: Client, record: Record, estimate: CostEstimate | None) -> str:
    """Say what a call would cost, and what is left of the budgets that it is under."""
    views = client.dispatch.views
    above = views.records(ancestors(record.id), readable_by=client.machines)
    family = [record, *above.values()]
    budgets = [
        (use.limits["spent"] - use.used["spent"], use.limits["spent"])
        for use in budgets_of({one.id: one.counters for one in family})
        if "spent" in use.limits
    ]
    amount = estimate.dollars if estimate else None
    said = "What it would cost is not known"
    if estimate and estimate.problem:
        said = f"{said}, because {estimate.problem}"
    if amount is not None:
        said = f"It would cost about {dollars(amount * MICRO)}"
    if not budgets:
        return f"{said}."
    left, limit = min(budgets)
    only = "only " if amount is not None and amount * MICRO > left else ""
    of = f"{dollars(max(left, 0))} of {dollars(limit)}"
    return f"{said}; {only}{of} of the budget are left."


def leads_to(machine: Machine, record: Record, trigger: str) -> str:
    """Say where a trigger leads from here, and what begins or ends there."""
    targets = dict.fromkeys(str(row.target) for row in machine.rows(record.state, trigger))
    return " or ".join(_arrival(machine, record, target) for target in targets)


def _arrival(machine: Machine, record: Record, target: str) -> str:
    stage, name = machine.stage(target), target.replace("_", " ")
    effect = stage.effect_for(record.data) if isinstance(stage, Active) else None
    if isinstance(stage, Terminal):
        return f"{name}, which ends it"
    return f"{name}, which starts {effect.name.replace('_', ' ')}" if effect else name


def _worst(name: str, action: Mapping[str, Any], declared: Mapping[str, Any]) -> Level:
    """Return the higher level of a risk: of the action, or of what its capability declares."""
    levels = [Level(each[name]) for each in (action, declared) if name in each]
    return max(levels, default=Level.HIGH)


def _parameters(schema: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Parameter]:
    described = schema.get("properties") or {}
    for name in dict.fromkeys((*described, *values)):
        part = resolved(described.get(name), schema.get("$defs", {}))
        value = values.get(name, part.get("default"))
        about = str(part.get("description", ""))
        yield Parameter(name, value, name in values, type_words(part), about)
