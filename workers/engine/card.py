"""Makes a card: the question to a person about a record, with its possible answers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from interlock.kernel.machine import Machine
from interlock.kernel.record import Record
from interlock.kernel.table import Waiting

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


def card_of(machine: Machine, record: Record) -> Card | None:
    """Return the card of a record that waits for a person, else None."""
    stage = machine.stage(record.state)
    if not (isinstance(stage, Waiting) and stage.asks(record.data)):
        return None
    data = record.data
    phase = next((p for p in ("intent", "context", "action") if f"_{p}_" in record.state), "action")
    proposed = (data.get("proposals") or {}).get(phase) or {}
    return Card(
        record_id=record.id,
        machine=machine.name,
        state=record.state,
        kind=stage.card,
        proposal=record.proposal,
        title=title_of(record),
        question=question(stage.card, phase, proposed, data)[:BODY_MAX],
        proposed={} if proposed.get("cleared") else proposed,
        failure=data.get("failure"),
        since_ms=record.since_ms,
        affordances=tuple(
            Affordance(name, trigger, schema_of(machine, trigger))
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


def schema_of(machine: Machine, trigger: str) -> Mapping[str, Any]:
    """Return the JSON schema of a trigger's payload."""
    model = machine.payloads.get(trigger)
    return model.model_json_schema() if model else {"type": "object", "additionalProperties": False}


def question(  # noqa: C901, PLR0911, PLR0912 - one sentence per kind of card
    kind: str, phase: str, proposed: Mapping[str, Any], data: Mapping[str, Any]
) -> str:
    """Return the question in one or two sentences."""
    payload = proposed.get("payload") or {}
    failure = closed((data.get("failure") or {}).get("detail", ""))
    match kind:
        case "confirmation" if phase == "intent":
            return f"Is this what is wanted: {payload.get('intent', 'nothing was understood')}?"
        case "confirmation":
            return f"Do these belong to it: {', '.join(payload.get('item_ids', [])) or 'no items'}?"
        case "clarification":
            return payload.get("blocked_on") or f"{failure} What is the {phase}?".lstrip()
        case "consent" if proposed.get("cleared"):
            return "The proposed action was taken back. Edit in another, redirect, or reject."
        case "consent":
            return f"May this be done: {action_line(payload)}?"
        case "review":
            return f"It was done: {action_line(payload)}. Is it right?"
        case "redirect":
            return f"It failed: {failure or 'no reason was given.'} What now?"
        case _ if kind in JOB_CARDS:
            return JOB_CARDS[kind](data)
        case "plan":
            return f"It is planned in {data['plan']}{waits_for(data)}. Shall it be worked on?"
        case "approval":
            return f"Its work was verified. Shall it be merged into {data['target']}?"
        case "dead_letter":
            return f"It failed and has no retries left: {reason_of(data)} Try it again?"
        case "block":
            return f"It waits for this: {closed(data['blocked_on']['on'])} Is it settled?"
        case "cleanup_failure":
            return f"Tidying up the source failed: {failure} Try again, or accept it?"
        case _:
            return "Shall work on this begin?"


def pending_job(data: Mapping[str, Any]) -> str:
    """Return the question about a waiting job: it has lost dependencies, or is run by hand."""
    lost = ", ".join(f"{job} is {state}" for job, state in sorted(data["lost"].items()))
    question = f"It waits for jobs that did not succeed: {lost}. Run it without them?"
    return question if lost else "Shall it be run now?"


def intervention(data: Mapping[str, Any]) -> str:
    """Return the question to a steward about a job that cannot go on."""
    return f"It cannot go on: {reason_of(data)} Repair the cause and resubmit it, or terminate it?"


def sign_off(data: Mapping[str, Any]) -> str:
    """Return the question about finished work, with its reviewer's summary."""
    review = data.get("review_result") or {}
    summary = closed(data.get("summary", "")) or "It is done."
    opinion = f" The reviewer: {closed(review['summary'])}" if review.get("summary") else ""
    return f"{summary}{opinion} Approve it?"


JOB_CARDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "draft": lambda _: "It is a draft. Shall it be activated?",
    "pending": pending_job,
    "suspended": lambda _: "It is suspended. Shall it be resumed?",
    "paused": lambda _: "It is paused. Shall it go on?",
    "review_required": lambda _: "Its work is done. Shall it be reviewed now?",
    "intervention": intervention,
    "sign_off": sign_off,
    "limit": lambda data: f"{closed((data.get('failure') or {}).get('detail', ''))} Raise it?",
}


def waits_for(data: Mapping[str, Any]) -> str:
    """Return the tasks that come before a task as a part of a sentence, or nothing."""
    return f", after {', '.join(data['depends_on'])}" if data["depends_on"] else ""


def reason_of(data: Mapping[str, Any]) -> str:
    """Return the reason of a failure as a sentence."""
    failure = data.get("failure") or {}
    return closed(failure.get("reason") or failure.get("detail") or "no reason was given")


def closed(text: str) -> str:
    """Return a text with a full stop at its end, or an empty text."""
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."


def action_line(payload: Mapping[str, Any]) -> str:
    """Return an action as one line."""
    parameters = payload.get("parameters") or {}
    shown = ", ".join(f"{name}={str(value)[:120]!r}" for name, value in sorted(parameters.items()))
    return f"{payload.get('capability') or payload.get('summary') or payload.get('kind')}({shown})"
