"""Creates a delivery for each endpoint that wants to know of a card or of the end of a record.

Cards are reported when they open, when they have waited so long that they are escalated, and when
they are withdrawn.

The id of a delivery follows from what happened, so a worker that is lost before it has noted the
news creates none twice.

What it can get wrong: a card that is answered before a sweep has seen it is reported to nobody, and
one whose record is paused when it would be escalated is not escalated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import Any

from interlock import Settings
from interlock.system.records import NewsFeed, Records, Sweep, act_on_each
from interlock.systems.webhooks.endpoints import (
    CARDS,
    ENDS,
    ESCALATIONS,
    Endpoint,
    open_endpoints,
)
from interlock.systems.webhooks.machines.delivery.names import State
from interlock.systems.webhooks.machines.delivery.payloads import Delivery, MessageKind
from interlock.systems.webhooks.machines.effects import WEBHOOK
from interlock.systems.webhooks.settings import WebhookSettings

MACHINE = "delivery"
Payload = Mapping[str, Any]


def is_needed(settings: Settings) -> bool:
    """Whether there may be an endpoint."""
    return settings.of(WebhookSettings).webhooks is not None


def due(records: Records) -> list[int]:
    """Return the partitions with news, or with cards that are escalated."""
    return _feed(records).due() if open_endpoints(records.settings) else []


def run(records: Records, partition: int) -> Counter[str]:
    """Create the deliveries of one partition's news, and note the news as reported."""
    feed, endpoints = _feed(records), open_endpoints(records.settings)
    news = feed.read(partition)
    kinds = (
        (CARDS, MessageKind.CARD_OPENED, news.opened),
        (ESCALATIONS, MessageKind.CARD_ESCALATED, news.escalated),
        (ENDS, MessageKind.RECORD_ENDED, news.ended),
    )
    made = [
        payload
        for interest, kind, items in kinds
        for item in items
        for payload in _payloads(
            endpoints,
            interest,
            {
                "kind": kind,
                "record": item.record_id,
                "at_ms": item.at_ms,
                "machine": item.machine,
                "proposals": list(item.proposals),
            },
        )
    ]
    withdrawn = [(item.record_id, item.at_ms) for item in news.withdrawn]
    made += _withdrawn(records, endpoints, withdrawn)
    by_component = records.named(WEBHOOK.name)
    acts: dict[str, Callable[[], str]] = {
        _id_of(payload): partial(_create, by_component, payload) for payload in made
    }
    act_on_each(acts)
    return feed.note(news)


def _feed(records: Records) -> NewsFeed:
    # A delivery has no delivery of its own.
    return NewsFeed(records, without=(MACHINE,))


def _payloads(endpoints: Iterable[Endpoint], interest: str, about: Payload) -> Iterator[Payload]:
    """Yield the payload of a delivery for each endpoint that wants to know of this kind of news."""
    fields = {name: value for name, value in about.items() if value != []}
    for endpoint in endpoints:
        if endpoint.wants(interest, about["machine"]):
            yield {**fields, "endpoint": endpoint.name}


def _withdrawn(
    records: Records, endpoints: Iterable[Endpoint], cards: Iterable[tuple[str, int]]
) -> Iterator[Payload]:
    """Only an endpoint that may have been notified of a card is notified that it was withdrawn."""
    payloads = (
        _payload(endpoint, MessageKind.CARD_OPENED, record_id, at_ms)
        for record_id, at_ms in cards
        for endpoint in endpoints
    )
    opened = {_id_of(payload): payload for payload in payloads}
    delivery: Delivery
    for delivery in records.views.records(opened, readable_by=records.machines).values():
        if delivery.state != State.DROPPED:
            withdrawn = {**opened[delivery.id], "kind": MessageKind.CARD_WITHDRAWN}
            yield {**withdrawn, "machine": delivery.data["machine"]}


def _payload(endpoint: Endpoint, kind: MessageKind, record_id: str, at_ms: int) -> dict[str, Any]:
    return {"endpoint": endpoint.name, "kind": kind, "record": record_id, "at_ms": at_ms}


def _id_of(payload: Payload) -> str:
    """Return the id of a delivery, which is the id of its message for the receiver."""
    parts = (str(payload[name]) for name in ("endpoint", "kind", "record", "at_ms"))
    return f"delivery-{sha256(' '.join(parts).encode()).hexdigest()[:32]}"


def _create(records: Records, payload: Payload) -> str:
    records.create(MACHINE, _id_of(payload), payload)
    return "created"


SWEEP = Sweep("deliveries", due, run, is_needed=is_needed)
