"""Makes a card: the question to a person about a record, with its possible answers. Pure.

What people read of it is visible: no text from outside can move a cursor or reverse letters there.
What an answer may repeat, such as parameters, is as it was proposed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from interlock.kernel.machine import Machine
from interlock.kernel.record import Record
from interlock.kernel.table import Waiting
from interlock.workers.engine.answer_commands import decide_command, example_answer
from interlock.workers.text import visible_data, visible_line

if TYPE_CHECKING:  # imported where a card may name a capability
    from interlock.workers.gateways.capabilities.registry import Registry

BODY_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Affordance:
    """One possible answer: its name, the trigger that it fires, and the schema of its payload.

    `command` is the command line that gives it, with an example of what it needs.
    """

    name: str
    trigger: str
    schema: Mapping[str, Any]
    command: str


@dataclass(frozen=True, slots=True)
class Card:
    """The card that a surface shows. A decision must name its `proposal`.

    `inspect` is a command line that shows what is decided about, or ''. Only `deciders` may answer;
    where it is empty, everybody may.
    """

    record_id: str
    machine: str
    state: str
    kind: str
    proposal: str
    title: str
    question: str
    inspect: str
    deciders: tuple[str, ...]
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
    offered = [
        (name, trigger, schema_of(machine, stage, trigger, data, registry))
        for name, trigger in stage.affordances
    ]
    return _card(
        machine,
        record,
        stage.card,
        record.proposal,
        visible_line(stage.question(data))[:BODY_MAX],
        offered,
        inspect=visible_line(stage.inspect(data)),
        proposed=None if proposed.get("cleared") else proposed,
        failure=visible_data(data.get("failure")),
    )


def quarantine_of(machine: Machine, record: Record) -> Card | None:
    """Return the card of a record with an effect that was given up, else None."""
    stuck = [entry for entry in record.entries if entry.state == "quarantined"]
    if not stuck:
        return None
    names = ", ".join(f"{entry.name} (after {entry.attempts} attempts)" for entry in stuck)
    question = f"Given up: {names}. Repair the cause, then let it try again?"
    offered = [("retry", "retry", {"type": "object"})]
    return _card(machine, record, "quarantine", record.retry_proposal, question, offered)


def _card(
    machine: Machine,
    record: Record,
    kind: str,
    proposal: str,
    question: str,
    offered: Sequence[tuple[str, str, Mapping[str, Any]]],
    *,
    inspect: str = "",
    proposed: Mapping[str, Any] | None = None,
    failure: Mapping[str, Any] | None = None,
) -> Card:
    """Return the card of a record. `offered` are choices with their triggers and schemas."""
    deciders = tuple(record.data.get("stewards") or ())

    def affordance(name: str, trigger: str, schema: Mapping[str, Any]) -> Affordance:
        answer = example_answer(name, schema, proposed or {})
        command = decide_command(record.id, name, proposal, answer, deciders)
        return Affordance(name, trigger, schema, command)

    return Card(
        record_id=record.id,
        machine=machine.name,
        state=record.state,
        kind=kind,
        proposal=proposal,
        title=title_of(record),
        question=question,
        inspect=inspect,
        deciders=deciders,
        proposed=proposed or {},
        failure=failure,
        since_ms=record.since_ms,
        affordances=tuple(affordance(*choice) for choice in offered),
    )


def title_of(record: Record) -> str:
    """Return the title of a card: the record's title, its description's first line, or its id."""
    data = record.data
    title = (data.get("inciting") or data).get("title") or data.get("description") or ""
    return visible_line(str(title).strip().partition("\n")[0]) or record.id


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
    from interlock.workers.gateways.capabilities.answers import answer_schema  # noqa: PLC0415

    return answer_schema(known, schema, trigger, action_of(data))


def no_registry() -> None:
    """Answer `card_of` where only the question of a card is used."""


def action_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the action that a record proposes, or nothing."""
    return ((data.get("proposals") or {}).get("action") or {}).get("payload") or {}
