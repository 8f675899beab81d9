"""What an endpoint gets: the message of a delivery, and its form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from interlock import Event, Terminal
from interlock.system.errors import UnknownRecordError
from interlock.system.records import (
    AnswerLinks,
    Card,
    Dispatch,
    LifecycleEvents,
    card_of,
    cards_of_effects,
    cloud_event,
    escalation_of,
    iso_time,
    proposals_of,
)
from interlock.system.tables import Record
from interlock.system.text import visible_json, visible_line
from interlock.systems.webhooks.machines.delivery.payloads import MessageKind

if TYPE_CHECKING:  # imported where a card may name a capability
    from interlock.system.models import Registry

LOG_LINES_MAX = 100  # of an ended record, in which the event of its end is looked for


class NothingToTellError(Exception):
    """The message is not true any more. The sentence says why."""


@dataclass(frozen=True, slots=True)
class MessageBody:
    """A message as it is posted."""

    content: bytes
    content_type: str


def data_of(
    dispatch: Dispatch,
    delivery: Record,
    registry: Callable[[], Registry | None],
    links: AnswerLinks | None = None,
) -> dict[str, Any]:
    """Return what a delivery tells of its record, as it is now. Raises NothingToTellError.

    With `links` its cards have links that answer them.
    """
    record_id, kind = delivery.data["record"], delivery.data["kind"]
    if kind == MessageKind.CARD_WITHDRAWN:
        return {"record_id": record_id, "machine": delivery.data["machine"]}
    try:
        record = dispatch.views.record(record_id)
    except UnknownRecordError:
        raise NothingToTellError("its record was deleted") from None
    if kind == MessageKind.RECORD_ENDED:
        return _end(dispatch, record)
    machine = dispatch.lifecycle.machine(record.machine)
    if not set(delivery.data["proposals"]) & set(proposals_of(machine, record)):
        raise NothingToTellError("its card was answered, or asks something else by now")
    cards = _cards(dispatch, record, registry)
    if kind == MessageKind.CARD_ESCALATED:
        now_ms = dispatch.views.now_ms()
        cards = [one for one in cards if one.escalation and one.escalation.due_ms <= now_ms]
        if not cards:
            raise NothingToTellError("what its record asks now is not escalated")
    shown = [card.as_data() for card in cards]
    if links:
        shown = [links.add_to(each) for each in shown]
    return {"record_id": record.id, "machine": record.machine, "cards": shown}


def _cards(
    dispatch: Dispatch, record: Record, registry: Callable[[], Registry | None]
) -> list[Card]:
    machine = dispatch.lifecycle.machine(record.machine)
    failures = dispatch.views.last_failures([record])[record.id]
    of_state = card_of(machine, record, registry)
    found = [of_state] if of_state else []
    since_ms = dispatch.card_reads.since([record]).get(record.id)
    return [
        replace(card, escalation=escalation_of(dispatch.settings, card.kind, since_ms))
        for card in (*found, *cards_of_effects(machine, record, failures))
    ]


def _end(dispatch: Dispatch, record: Record) -> dict[str, Any]:
    """Return the event with which a record ended, as events are exported, with what ended."""
    lines = dispatch.views.backwards(record.id, LOG_LINES_MAX)
    event = next((line for line in lines if isinstance(line, Event)), None)
    stage = dispatch.lifecycle.machine(record.machine).stage(record.state)
    if event is None or not isinstance(stage, Terminal):
        raise NothingToTellError("its record goes on")
    published = LifecycleEvents(dispatch.machines).published(event, record.machine)
    named = {"title": visible_line(record.title), "is_success": stage.is_success}
    return {"record_id": record.id, "machine": record.machine, **named, "event": asdict(published)}


def body_of(delivery: Record, data: Mapping[str, Any], form: str, namespace: str) -> MessageBody:
    """Write a message in the form that its endpoint wants. A repeated one has the same id."""
    kind, at_ms = delivery.data["kind"], delivery.data["at_ms"]
    if form == "plain":
        message = {"type": kind, "timestamp": iso_time(at_ms), "data": data}
        return MessageBody(visible_json(message).encode(), "application/json")
    event = cloud_event(
        id=delivery.id,
        kind=kind,
        namespace=namespace,
        subject=delivery.data["record"],
        at_ms=at_ms,
        data=data,
    )
    return MessageBody(visible_json(event).encode(), "application/cloudevents+json")
