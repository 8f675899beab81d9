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
from itertools import chain
from typing import Any

from interlock import Settings
from interlock.system.records import NewsFeed, NewsItem, Records, Sweep, act_on_each
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
    made = chain(
        _told(endpoints, CARDS, MessageKind.CARD_OPENED, news.opened),
        _told(endpoints, ESCALATIONS, MessageKind.CARD_ESCALATED, news.escalated),
        _withdrawn(records, endpoints, news.withdrawn),
        _told(endpoints, ENDS, MessageKind.RECORD_ENDED, news.ended),
    )
    by_component = records.named(WEBHOOK.name)
    acts: dict[str, Callable[[], str]] = {
        _id_of(payload): partial(_create, by_component, payload) for payload in made
    }
    act_on_each(acts)
    return feed.note(news)


def _feed(records: Records) -> NewsFeed:
    # A delivery has no delivery of its own.
    return NewsFeed(records, without=(MACHINE,))


def _told(
    endpoints: Iterable[Endpoint], interest: str, kind: MessageKind, items: Iterable[NewsItem]
) -> Iterator[Payload]:
    """Yield the payload of a delivery for each endpoint that wants to know of this kind of news."""
    for item in items:
        asked = {"proposals": list(item.proposals)} if item.proposals else {}
        for endpoint in endpoints:
            if endpoint.wants(interest, item.machine):
                yield {**_payload(endpoint, kind, item), "machine": item.machine, **asked}


def _withdrawn(
    records: Records, endpoints: Iterable[Endpoint], items: Iterable[NewsItem]
) -> Iterator[Payload]:
    """Only an endpoint that may have been notified of a card is notified that it was withdrawn."""
    payloads = (
        _payload(endpoint, MessageKind.CARD_OPENED, item)
        for item in items
        for endpoint in endpoints
    )
    opened = {_id_of(payload): payload for payload in payloads}
    delivery: Delivery
    for delivery in records.views.records(opened, readable_by=records.machines).values():
        if delivery.state != State.DROPPED:
            withdrawn = {**opened[delivery.id], "kind": MessageKind.CARD_WITHDRAWN}
            yield {**withdrawn, "machine": delivery.data["machine"]}


def _payload(endpoint: Endpoint, kind: MessageKind, item: NewsItem) -> dict[str, Any]:
    return {
        "endpoint": endpoint.name,
        "kind": kind,
        "record": item.record_id,
        "at_ms": item.at_ms,
    }


def _id_of(payload: Payload) -> str:
    """Return the id of a delivery, which is the id of its message for the receiver."""
    parts = (str(payload[name]) for name in ("endpoint", "kind", "record", "at_ms"))
    return f"delivery-{sha256(' '.join(parts).encode()).hexdigest()[:32]}"


def _create(records: Records, payload: Payload) -> str:
    records.create(MACHINE, _id_of(payload), payload)
    return "created"


SWEEP = Sweep("deliveries", due, run, is_needed=is_needed)
