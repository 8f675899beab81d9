"""The published form of an event: the actor that it names, and the reason of each row."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.kernel.event import Cause, Event
from interlock.kernel.exported_event import CONTRADICTING, LifecycleEvent, LifecycleEvents
from interlock.kernel.machines import MACHINES
from interlock.kernel.reason import AbortReason, TransitionReason
from interlock.kernel.record import RecordId, Version
from tests.any_text import any_text

PUBLISHED = (
    "timestamp",
    "entity_type",
    "entity_id",
    "from_status",
    "to_status",
    "actor",
    "reason",
    "transition_reason",
    "abort_reason",
)
CODING = ("task", "agent", "turn")
EVENTS = LifecycleEvents(MACHINES)
Payload = Mapping[str, Any]


def golden(name: str) -> Any:
    return json.loads((Path(__file__).parents[1] / f"golden/{name}.json").read_text("utf-8"))


# The reason of each row, by the component that fired it, and by a person or producer.
REASONS: Mapping[tuple[str, str, str], tuple[str | None, str | None]] = {
    (machine, trigger, target): (by_component, by_hand)
    for machine, trigger, target, by_component, by_hand in golden("row_reasons")
}
COMPONENTS = {effect for machine in MACHINES.values() for effect in machine.effects}
COMPONENTS |= {"orphans", "stalls", "move"}


def source_of(machine: str, trigger: str, target: str, actor: str) -> str:
    """Return the source of the row that this actor fires, or '' where there is no such row."""
    actors = {actor} if actor in COMPONENTS else {"person", "producer"}
    for row in MACHINES[machine].transitions if machine in MACHINES else ():
        closes = actor == "cascade" and row.trigger == MACHINES[machine].close_trigger
        cell = (str(row.trigger), str(row.target))
        if cell == (trigger, target) and (closes or actors & set(row.by)):
            return str(row.source)
    return ""


def event(
    trigger: str,
    target: str,
    payload: Payload | None = None,
    *,
    source: str = "",
    actor: str = "agent",
    reason: str = "",
    says: str = "",
) -> Event:
    return Event(
        record_id=RecordId("b/one"),
        version=Version(7),
        trigger=trigger,
        source=source,
        target=target,
        payload=payload or {},
        cause=Cause(actor, reason),
        says=says,
        at_ms=1_767_225_600_250,
    )


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield every row of the coding machines with each of those who fire it."""
    for name in CODING:
        for row in MACHINES[name].transitions:
            for actor in row.by:
                yield name, str(row.source), str(row.trigger), str(row.target), actor


def test_it_has_the_published_fields_then_ours() -> None:
    assert tuple(one.name for one in fields(LifecycleEvent)) == (*PUBLISHED, "version", "trigger")


def test_an_event_has_the_published_form() -> None:
    failed = event(
        "failed",
        "failed",
        {"reason": "too long", "why": "prompt_too_long", "abort": None},
        source="in_progress",
        reason="as its agent said",
        says="this try did not succeed",
    )

    assert EVENTS.published(failed, "task") == LifecycleEvent(
        timestamp=1_767_225_600.25,
        entity_type="task",
        entity_id="b/one",
        from_status="in_progress",
        to_status="failed",
        actor="agent",
        reason="this try did not succeed: too long; as its agent said",
        transition_reason=TransitionReason.PROMPT_TOO_LONG,
        abort_reason=None,
        version=7,
        trigger="failed",
    )


def test_every_row_of_the_coding_machines_has_its_reason_and_no_reason_is_left_over() -> None:
    known = {
        (name, str(row.trigger), str(row.target))
        for name in CODING
        for row in MACHINES[name].transitions
    }

    assert set(REASONS) == known
    assert all(
        row.reason is row.reason_by_hand is None
        for name in set(MACHINES) - set(CODING)
        for row in MACHINES[name].transitions
    )


def test_the_actors_of_all_rows_are_in_the_closed_list() -> None:
    by = {actor for one in MACHINES.values() for row in one.transitions for actor in row.by}

    assert by | COMPONENTS <= EVENTS.actors
    assert by - COMPONENTS == {"person", "producer"}
    assert EVENTS.actors - COMPONENTS == {"person", "producer", "cli", "intake", "demo", "mcp"}


def test_without_a_reason_in_the_payload_the_reason_is_that_of_the_row() -> None:
    found_rows = list(rows())
    assert found_rows
    for row in found_rows:
        machine, source, trigger, target, actor = row
        found = EVENTS.published(event(trigger, target, source=source, actor=actor), machine)

        by_component, by_hand = REASONS[machine, trigger, target]
        assert found.transition_reason == (by_component if actor in COMPONENTS else by_hand), row
        assert (found.abort_reason, found.actor) == (None, actor), row
        if target in CONTRADICTING:
            assert not (found.transition_reason and found.transition_reason.ends_well), row


@pytest.mark.parametrize(
    ("machine", "trigger", "target", "actor", "payload", "reason", "abort"),
    [tuple(case) for case in golden("lifecycle_events")],
)
def test_the_reasons_of_what_happens(
    machine: str,
    trigger: str,
    target: str,
    actor: str,
    payload: Payload,
    reason: str | None,
    abort: str | None,
) -> None:
    source = source_of(machine, trigger, target, actor)
    found = EVENTS.published(event(trigger, target, payload, source=source, actor=actor), machine)

    assert (found.transition_reason, found.abort_reason) == (reason, abort)


def test_every_published_reason_can_come_out() -> None:
    happened = [("task", event("failed", "failed", {"why": why})) for why in TransitionReason]
    happened += [("agent", event("ended", "dead", {"abort": abort})) for abort in AbortReason]
    happened += [
        (machine, event(trigger, target, source=source, actor=actor))
        for machine, source, trigger, target, actor in rows()
    ]
    found = [EVENTS.published(one, machine) for machine, one in happened]

    published = golden("reasons")
    reasons = {one.transition_reason for one in found} - {None}
    aborts = {one.abort_reason for one in found} - {None}
    ours = [reason for one in published["ours"].values() for reason in one]
    assert sorted(map(str, reasons)) == sorted([*published["transition_reasons"], *ours])
    assert sorted(map(str, aborts)) == sorted(published["abort_reasons"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("stalls", "stalls"),
        ("person", "person"),
        ("producer", "producer"),
        ("", "person"),
        ("ann", "person:ann"),
        ("Stalls", "person:Stalls"),
        ("person:ann", "person:ann"),
        ("mail adapter 7", "person:mail adapter 7"),
    ],
)
def test_an_actor_is_of_the_closed_list_or_a_person(name: str, expected: str) -> None:
    assert EVENTS.actor(name) == expected


@pytest.mark.parametrize(
    ("payload", "cause", "words"),
    [
        ({}, "", ""),
        ({"reason": ""}, "", ""),
        ({}, "deadline is due", ": deadline is due"),
        ({"reason": "ordered twice"}, "ordered twice", ": ordered twice"),
        ({"reason": "it took too long"}, "deadline is due", ": it took too long; deadline is due"),
        ({"detail": "lost"}, "", ": lost"),
        ({"detail": "lost", "reason": "its agent was lost"}, "", ": its agent was lost"),
        ({"summary": "mended"}, "", ": mended"),
        ({"feedback": "use tabs"}, "", ": use tabs"),
        ({"reasons": ["too slow", 7, "too dear"]}, "", ": too slow; too dear"),
        ({"reason": {"no": "text"}}, "", ""),
    ],
)
def test_the_reason_is_what_the_row_says_and_every_word_of_the_caller(
    payload: Payload, cause: str, words: str
) -> None:
    failed = event("failed", "failed", payload, reason=cause, says="it failed")

    assert EVENTS.published(failed, "task").reason == f"it failed{words}"


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("", "open", "it was created: because"),
        ("open", "open", "checked was fired, and it stays open: because"),
        ("open", "paid", "checked took it from open to paid: because"),
    ],
)
def test_where_no_row_says_why_the_reason_names_trigger_and_states(
    source: str, target: str, reason: str
) -> None:
    found = event("checked", target, source=source, reason="because")

    assert EVENTS.published(found, "invoice").reason == reason


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text(), inner, max_size=3),
    max_leaves=8,
)
reasons = st.sampled_from([*map(str, TransitionReason), *map(str, AbortReason)])
payloads = st.dictionaries(
    st.sampled_from(["why", "abort", "reason", "detail", "summary", "code"]) | any_text(max_size=5),
    reasons | json_values,
    max_size=6,
)
words = any_text(max_size=12)
known = st.sampled_from(sorted(REASONS))
cells = known | st.tuples(words, words, words)
actors = st.sampled_from(sorted(EVENTS.actors)) | words


@given(cell=cells, source=words, actor=actors, reason=words, payload=payloads)
def test_any_event_can_be_published(
    cell: tuple[str, str, str], source: str, actor: str, reason: str, payload: Payload
) -> None:
    machine, trigger, target = cell

    found = EVENTS.published(
        event(trigger, target, payload, source=source, actor=actor, reason=reason), machine
    )

    assert (found.entity_type, found.from_status, found.to_status) == (machine, source, target)
    assert found.actor in EVENTS.actors or found.actor.startswith("person:")
    assert found.transition_reason is None or found.transition_reason in set(TransitionReason)
    assert found.abort_reason is None or found.abort_reason in set(AbortReason)
    said = found.transition_reason
    assert not (said and said.ends_well and target in CONTRADICTING)
    json.dumps([found.reason, found.transition_reason, found.abort_reason])
