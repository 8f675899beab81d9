"""Reads what the API answers: records, cards and lines of logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from interlock.kernel.effect import Kind
from interlock.kernel.event import Cause, Event, Note
from interlock.kernel.exported_event import LifecycleEvent
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.record import Entry, Record, RecordId, TimerEntry, Version
from interlock.kernel.store.card_reads import CardClaim
from interlock.workers.engine.card import Affordance, Card, CardDeadline, CardEscalation

Body = Mapping[str, Any]
T = TypeVar("T")


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


def card_of(body: Body) -> Card:
    """Return the card that a body describes."""
    affordances = tuple(known(Affordance, each) for each in body["affordances"])
    found = {**body, "affordances": affordances, "deciders": tuple(body["deciders"])}
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


def event_of(body: Body) -> LifecycleEvent:
    """Return the published event that a body describes."""
    why, abort = body["transition_reason"], body["abort_reason"]
    reasons = {
        "transition_reason": TransitionReason(why) if why else None,
        "abort_reason": AbortReason(abort) if abort else None,
    }
    return known(LifecycleEvent, {**body, **reasons})
