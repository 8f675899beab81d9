"""What an endpoint gets: the message of a delivery, and its form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from interlock import EffectWork, Event, Terminal
from interlock.system.errors import UnknownRecordError
from interlock.system.records import NewsFeed, Records
from interlock.system.tables import Record
from interlock.system.text import visible
from interlock.systems.webhooks.machines.delivery.payloads import DeliveryData, MessageKind

LOG_LINES_MAX = 100  # of an ended record, in which the event of its end is looked for


class NothingToTellError(Exception):
    """The message is not true any more. The sentence says why."""


@dataclass(frozen=True, slots=True)
class MessageBody:
    """A message as it is posted."""

    content: bytes
    content_type: str


def data_of(work: EffectWork[DeliveryData], answers_as: str | None) -> dict[str, Any]:
    """Return what a delivery tells of its record, as it is now. Raises NothingToTellError.

    Its cards have links that answer them as the person `answers_as`, if that is one.
    """
    records, delivery = work.records, work.record.data
    if delivery["kind"] == MessageKind.CARD_WITHDRAWN:
        return {"record_id": delivery["record"], "machine": delivery["machine"]}
    try:
        record = records.views.record(delivery["record"])
    except UnknownRecordError:
        raise NothingToTellError("its record was deleted") from None
    if delivery["kind"] == MessageKind.RECORD_ENDED:
        return _end(records, record)
    feed = NewsFeed(records)
    cards = feed.cards(record)
    if not any(card.proposal in delivery["proposals"] for card in cards):
        raise NothingToTellError("its card was answered, or asks something else by now")
    if delivery["kind"] == MessageKind.CARD_ESCALATED:
        now_ms = records.now_ms()
        cards = [one for one in cards if one.escalation and one.escalation.due_ms <= now_ms]
        if not cards:
            raise NothingToTellError("what its record asks now is not escalated")
    shown = feed.public_data(cards, answered_as=answers_as)
    return {"record_id": record.id, "machine": record.machine, "cards": shown}


def _end(records: Records, record: Record) -> dict[str, Any]:
    """Return the event with which a record ended, as events are exported, with what ended."""
    lines = records.views.backwards(record.id, LOG_LINES_MAX)
    event = next((line for line in lines if isinstance(line, Event)), None)
    stage = records.machine(record.machine).stage(record.state)
    if event is None or not isinstance(stage, Terminal):
        raise NothingToTellError("its record goes on")
    published = records.published(event, record.machine)
    named = {"title": visible(record.title), "is_success": stage.is_success}
    return {"record_id": record.id, "machine": record.machine, **named, "event": asdict(published)}


def body_of(work: EffectWork[DeliveryData], data: Mapping[str, Any], form: str) -> MessageBody:
    """Write a message in the form that its endpoint wants. A repeated one has the same id."""
    about = work.record.data
    kind, named = about["kind"], (work.record.id, about["record"], about["at_ms"])
    event = work.records.cloud_event(kind, *named, data)
    if form == "cloudevents":
        return MessageBody(json.dumps(event, default=str).encode(), "application/cloudevents+json")
    message = {"type": kind, "timestamp": event["time"], "data": data}
    return MessageBody(json.dumps(message, default=str).encode(), "application/json")
