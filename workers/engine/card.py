"""Makes a card: the question to a person about a record, with its possible answers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from interlock.kernel.machine import Machine
from interlock.kernel.record import Record
from interlock.kernel.table import Waiting
from interlock.workers.gateways.capabilities.answers import answer_schema
from interlock.workers.gateways.capabilities.registry import Registry

BODY_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Affordance:
    """One possible answer: its name, the trigger that it fires, and the schema of its payload."""

    name: str
    trigger: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Card:
    """The card that a surface shows. A decision must name its `proposal`."""

    record_id: str
    machine: str
    state: str
    kind: str
    proposal: str
    title: str
    question: str
    proposed: Mapping[str, Any]
    failure: Mapping[str, Any] | None
    since_ms: int
    affordances: tuple[Affordance, ...]

    def as_data(self) -> dict[str, Any]:
        """Return the card as JSON-able data."""
        return asdict(self)


def card_of(
    machine: Machine, record: Record, registry: Callable[[], Registry | None]
) -> Card | None:
    """Return the card of a record that waits for a person, else None.

    `registry` is called if an answer may name a capability. With its capabilities the schema of
    the answer describes their parameters.
    """
    stage = machine.stage(record.state)
    if not (isinstance(stage, Waiting) and stage.asks(record.data)):
        return None
    data = record.data
    proposed = (data.get("proposals") or {}).get(stage.shows) or {}
    return Card(
        record_id=record.id,
        machine=machine.name,
        state=record.state,
        kind=stage.card,
        proposal=record.proposal,
        title=title_of(record),
        question=stage.question(data)[:BODY_MAX],
        proposed={} if proposed.get("cleared") else proposed,
        failure=data.get("failure"),
        since_ms=record.since_ms,
        affordances=tuple(
            Affordance(name, trigger, schema_of(machine, stage, trigger, data, registry))
            for name, trigger in stage.affordances
        ),
    )


def quarantine_of(machine: Machine, record: Record) -> Card | None:
    """Return the card of a record with an effect that was given up, else None."""
    stuck = [entry for entry in record.entries if entry.state == "quarantined"]
    if not stuck:
        return None
    names = ", ".join(f"{entry.name} (after {entry.attempts} attempts)" for entry in stuck)
    return Card(
        record_id=record.id,
        machine=machine.name,
        state=record.state,
        kind="quarantine",
        proposal=record.proposal,
        title=title_of(record),
        question=f"Given up: {names}. Repair the cause, then let it try again?",
        proposed={},
        failure=None,
        since_ms=record.since_ms,
        affordances=(Affordance("retry", "retry", {"type": "object"}),),
    )


def title_of(record: Record) -> str:
    """Return the title of a card: the record's title, its description's first line, or its id."""
    data = record.data
    title = (data.get("inciting") or data).get("title") or data.get("description") or ""
    return str(title).strip().partition("\n")[0] or record.id


def schema_of(
    machine: Machine,
    stage: Waiting,
    trigger: str,
    data: Mapping[str, Any],
    registry: Callable[[], Registry | None],
) -> Mapping[str, Any]:
    """Return the JSON schema of an answer: it accepts what the client accepts."""
    model = stage.answers.get(trigger) or machine.payloads.get(trigger)
    if model is None:
        return {"type": "object", "additionalProperties": False}
    schema = model.model_json_schema()
    if "capability" not in schema.get("properties", {}) or (known := registry()) is None:
        return schema
    return answer_schema(known, schema, trigger, action_of(data))


def no_registry() -> None:
    """Answer `card_of` where only the question of a card is used."""


def action_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the action that a record proposes, or nothing."""
    return ((data.get("proposals") or {}).get("action") or {}).get("payload") or {}
