"""Reads what the API answers: records, cards and lines of logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from pydantic import TypeAdapter

from interlock.kernel.effect import Kind
from interlock.kernel.errors import KernelError
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.exported_event import LifecycleEvent
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.record import Entry, Record, RecordId, TimerEntry, Version
from interlock.kernel.store.card_reads import CardClaim
from interlock.kernel.store.counts import RecordCounts
from interlock.kernel.store.listings import ListedRecord, Page
from interlock.kernel.store.people import AccessToken
from interlock.kernel.store.rejected import RejectedMessage
from interlock.workers.engine.bulk import BulkItem, BulkPage
from interlock.workers.engine.card import (
    Affordance,
    Card,
    CardDeadline,
    CardEscalation,
    CardPage,
    Suggestion,
)
from interlock.workers.engine.submission import Submitted
from interlock.workers.remote.problems import error_of

Body = Mapping[str, Any]
T = TypeVar("T")
_LIST, _OBJECT = TypeAdapter(list[Any]), TypeAdapter(dict[str, Any])


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record, and what its machine says of its state: it is final, or it asks a person."""

    record: Record
    ended: bool
    asks_person: bool


def known(shape: type[T], body: Body) -> T:
    """Return a value of a shape. Fields that a later version has added are left out."""
    names = {field.name for field in fields(shape)}  # type: ignore[arg-type]
    return shape(**{name: value for name, value in body.items() if name in names})


def record_of(body: Body) -> Record:
    """Return the record that a body describes."""
    entries = (known(Entry, {**each, "kind": Kind(each["kind"])}) for each in body["effects"])
    return Record(
        id=RecordId(body["id"]),
        machine=body["machine"],
        state=body["state"],
        version=Version(body["version"]),
        data=body["data"],
        entered=Version(body["entered"]),
        schema=body["schema_version"],
        title=body["title"],
        since_ms=body["since_ms"],
        created_ms=body["created_ms"],
        priority=body["priority"],
        paused=body["paused"],
        counted=body["counted"],
        entries=tuple(entries),
        timers=tuple(known(TimerEntry, each) for each in body["timers"]),
        counters=body["counters"],
    )


def shown_of(body: Body) -> ShownRecord:
    """Return the record that a body describes, with whether it has ended or asks a person."""
    return ShownRecord(record_of(body), body["ended"], body["asks_person"])


def made_token_of(body: Body) -> tuple[str, AccessToken]:
    """Return the text of a new access token, and what is kept of it."""
    return str(body["token"]), known(AccessToken, body["about"])


def each_of(read: Callable[[Any], T]) -> Callable[[Any], list[T]]:
    """Return a function that reads a list whose items `read` reads."""
    return lambda bodies: [read(body) for body in _LIST.validate_python(bodies)]


def fields_of(body: Any) -> dict[str, Any]:
    """Return the fields of a body that is an object of any kind."""
    return _OBJECT.validate_python(body)


def page_of(body: Body) -> Page:
    """Return the page of a list that a body describes."""
    return Page(tuple(known(ListedRecord, row) for row in body["records"]), body["next"])


def submitted_of(number: int, body: Body) -> list[Submitted]:
    """Return what became of each of so many records of a batch."""
    items = body["items"]
    if len(items) != number:
        raise ValueError(f"{len(items)} answers for {number} records")
    return [Submitted(item["id"], item["answer"] == "known", _error_of(item)) for item in items]


def bulk_page_of(body: Body) -> BulkPage:
    """Return what a verb did to the records of a page of a list."""
    items = [
        BulkItem(item["id"], item["answer"], item["why_not"], _error_of(item))
        for item in body["items"]
    ]
    return BulkPage(items, body["next"])


def _error_of(item: Body) -> KernelError | None:
    return error_of(item["problem"]) if item.get("problem") else None


def rejected_page_of(body: Body) -> tuple[list[RejectedMessage], str]:
    """Return the rejected messages of a page, and the cursor of the page after it."""
    return [known(RejectedMessage, each) for each in body["messages"]], str(body["next"])


def counts_of(body: Body) -> RecordCounts:
    """Return the counts of records that a body describes."""
    machines = {name: dict(states) for name, states in body["machines"].items()}
    return RecordCounts(machines, body["more"])


def card_page_of(body: Body) -> CardPage:
    """Return the page of open cards that a body describes."""
    return CardPage(tuple(map(card_of, body["cards"])), body["next"])


def card_of(body: Body) -> Card:
    """Return the card that a body describes."""
    affordances = tuple(known(Affordance, each) for each in body["affordances"])
    found = {**body, "affordances": affordances, "deciders": tuple(body["deciders"])}
    found["tags"] = tuple(body.get("tags", ()))
    found["suggestions"] = tuple(known(Suggestion, each) for each in body.get("suggestions", ()))
    if deadline := body.get("deadline"):
        found["deadline"] = known(CardDeadline, deadline)
    if claim := body.get("claim"):
        found["claim"] = known(CardClaim, claim)
    if escalation := body.get("escalation"):
        found["escalation"] = known(CardEscalation, escalation)
    return known(Card, found)


def line_of(body: Body) -> Event | Note:
    """Return the line of a log that a body describes."""
    if body["line"] == "note":
        return known(Note, body)
    cause = body["cause"]
    codes = tuple(cause["codes"])
    return known(Event, {**body, "cause": Cause(cause["actor"], cause["reason"], codes)})


def lines_of(body: Body) -> tuple[list[Event | Note], str]:
    """Return the lines of a log that a body describes, and the position of those after them."""
    return [line_of(line) for line in body["lines"]], str(body["next"])


def event_of(body: Body) -> LifecycleEvent:
    """Return the published event that a body describes."""
    why, abort = body["transition_reason"], body["abort_reason"]
    reasons = {
        "transition_reason": TransitionReason(why) if why else None,
        "abort_reason": AbortReason(abort) if abort else None,
    }
    return known(LifecycleEvent, {**body, **reasons})
