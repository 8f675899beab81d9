"""Creates a delivery for each endpoint that wants to know of a card or of the end of a record.

Cards are reported when they open, when they have waited so long that they are escalated, and when
they are withdrawn.

The indexes of the store know every card and every end, whatever has caused it. The id of a delivery
follows from what happened, so a worker that is lost before it has noted it creates none twice.

What it can get wrong: a card that is answered before a sweep has seen it is reported to nobody, and
one whose record is paused when it would be escalated is not escalated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import Any

from interlock import Settings, Terminal
from interlock.system.records import (
    Dispatch,
    News,
    OverdueWaits,
    Records,
    Sweep,
    act_on_each,
    kinds_of,
    limit_ms,
    proposals_of,
    row_for,
)
from interlock.system.tables import LISTED, PARTITIONS, Cause, Record
from interlock.systems.webhooks.endpoints import (
    CARDS,
    ENDS,
    ESCALATIONS,
    Endpoint,
    open_endpoints,
)
from interlock.systems.webhooks.machines.delivery.names import State
from interlock.systems.webhooks.machines.delivery.payloads import MessageKind
from interlock.systems.webhooks.machines.effects import WEBHOOK

MACHINE = "delivery"
Payload = Mapping[str, Any]


def is_needed(settings: Settings) -> bool:
    """Whether there may be an endpoint."""
    return settings.webhooks is not None


def due(records: Records) -> list[int]:
    """Return the partitions with news, or with cards that are escalated."""
    dispatch = records.dispatch
    if not open_endpoints(dispatch.settings):
        return []
    with_news = {news.partition for news in _read(dispatch, range(PARTITIONS)) if news}
    overdue = {found.partition for found in _overdue(dispatch, range(PARTITIONS))}
    return sorted(with_news | overdue)


def run(records: Records, partition: int) -> Counter[str]:
    """Create the deliveries of one partition's news, and note the news as reported."""
    dispatch = records.dispatch
    (found,) = _read(dispatch, [partition])
    asking = _asking(dispatch, found)
    # One that asks nothing now may be paused: it stays news until it asks again or waits no more.
    news = replace(found, opened=tuple(each for each in found.opened if each[0] in asking))
    endpoints, overdue = open_endpoints(dispatch.settings), _overdue(dispatch, [partition])
    made = chain(
        _opened(asking, endpoints, news),
        *(_escalated(dispatch, endpoints, each) for each in overdue),
        _withdrawn(dispatch, endpoints, news),
        _ended(endpoints, news),
    )
    wanted = {_id_of(payload): payload for payload in made}
    acts: dict[str, Callable[[], str]] = {
        new_id: partial(_create, dispatch, new_id, payload) for new_id, payload in wanted.items()
    }
    act_on_each(acts)
    dispatch.news.note(news)
    for each in overdue:
        dispatch.overdue.note(each)
    escalated = sum(len(each.waits) for each in overdue)
    return Counter(
        reported=len(news.opened) + escalated + len(news.withdrawn) + len(news.ended),
        busy=len(found.opened) - len(news.opened),
    )


def _read(dispatch: Dispatch, partitions: range | list[int]) -> list[News]:
    ends = [
        (machine.name, str(stage.state))
        for machine in dispatch.machines.values()
        for stage in machine.stages
        # A delivery has no delivery of its own.
        if isinstance(stage, Terminal) and machine.name != MACHINE and machine.name in LISTED
    ]
    return dispatch.news.read(partitions, ends, limit=dispatch.settings.sweep_batch)


def _overdue(dispatch: Dispatch, partitions: range | list[int]) -> list[OverdueWaits]:
    settings = dispatch.settings
    if not settings.escalations:
        return []
    now_ms = dispatch.views.now_ms()
    before_ms = {row: now_ms - limit_ms(settings, row) for row in settings.escalations}
    return dispatch.overdue.read(partitions, before_ms, limit=settings.sweep_batch)


def _asking(dispatch: Dispatch, news: News) -> dict[str, tuple[str, list[str]]]:
    """Return the machine and the questions of each record with a new card that asks something."""
    # A damaged one stays news, as one that asks nothing does.
    return {
        record.id: (record.machine, proposals)
        for record, proposals in _questions(dispatch, (one for one, _ in news.opened))
    }


def _questions(dispatch: Dispatch, record_ids: Iterable[str]) -> Iterator[tuple[Record, list[str]]]:
    """Yield the records that ask people something, each with its questions. Canaries ask nobody."""
    machines = {name: one for name, one in dispatch.machines.items() if name in LISTED}
    for record in dispatch.views.records(record_ids, readable_by=machines).values():
        if proposals := proposals_of(machines[record.machine], record):
            yield record, proposals


def _opened(
    asking: Mapping[str, tuple[str, list[str]]], endpoints: tuple[Endpoint, ...], news: News
) -> Iterator[dict[str, Any]]:
    for record, at_ms in news.opened:
        machine, proposals = asking[record]
        for endpoint in endpoints:
            if endpoint.wants(CARDS, machine):
                yield {
                    "endpoint": endpoint.name,
                    "kind": MessageKind.CARD_OPENED,
                    "record": record,
                    "machine": machine,
                    "at_ms": at_ms,
                    "proposals": proposals,
                }


def _escalated(
    dispatch: Dispatch, endpoints: tuple[Endpoint, ...], overdue: OverdueWaits
) -> Iterator[dict[str, Any]]:
    """Only the cards of the kinds that follow this row of the setting are escalated by it."""
    settings, since_ms = dispatch.settings, dict(overdue.waits)
    for record, proposals in _questions(dispatch, since_ms):
        kinds = kinds_of(dispatch.machines[record.machine], record)
        if overdue.limit not in [row_for(settings, kind) for kind in kinds]:
            continue
        for endpoint in endpoints:
            if endpoint.wants(ESCALATIONS, record.machine):
                yield {
                    "endpoint": endpoint.name,
                    "kind": MessageKind.CARD_ESCALATED,
                    "record": record.id,
                    "machine": record.machine,
                    "at_ms": since_ms[record.id] + limit_ms(settings, overdue.limit),
                    "proposals": proposals,
                }


def _withdrawn(
    dispatch: Dispatch, endpoints: tuple[Endpoint, ...], news: News
) -> Iterator[dict[str, Any]]:
    """Only an endpoint that may have been notified of a card is notified that it was withdrawn."""
    fields = [
        {
            "endpoint": endpoint.name,
            "kind": MessageKind.CARD_OPENED,
            "record": record,
            "at_ms": at_ms,
        }
        for record, at_ms in news.withdrawn
        for endpoint in endpoints
    ]
    ids = [_id_of(each) for each in fields]
    opened = dispatch.views.records(ids, readable_by=dispatch.machines)
    for each in fields:
        delivery = opened.get(_id_of(each))
        if delivery and delivery.state != State.DROPPED:
            yield {**each, "kind": MessageKind.CARD_WITHDRAWN, "machine": delivery.data["machine"]}


def _ended(endpoints: tuple[Endpoint, ...], news: News) -> Iterator[dict[str, Any]]:
    for row in news.ended:
        fields = {"record": row.id, "machine": row.machine, "at_ms": row.since_ms}
        for endpoint in endpoints:
            if endpoint.wants(ENDS, row.machine):
                yield {"endpoint": endpoint.name, "kind": MessageKind.RECORD_ENDED, **fields}


def _id_of(payload: Payload) -> str:
    """Return the id of a delivery, which is the id of its message for the receiver."""
    parts = (str(payload[name]) for name in ("endpoint", "kind", "record", "at_ms"))
    return f"delivery-{sha256(' '.join(parts).encode()).hexdigest()[:32]}"


def _create(dispatch: Dispatch, new_id: str, payload: Payload) -> str:
    dispatch.lifecycle.create(MACHINE, new_id, payload, Cause(WEBHOOK.name))
    return "created"


SWEEP = Sweep("deliveries", due, run, is_needed=is_needed)
